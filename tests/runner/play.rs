//! Plays a case on a server: sets it up, lets its sessions take their steps, runs pglockwatch, and cleans up.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use pglockwatch::app::demo::Cluster;

use super::format::{Case, Step};
use super::{advice, expect, shape};
use crate::support::command::{Ran, pglockwatch, run};
use crate::support::session::{Identity, Session, Turn, single, superuser, superuser_of, text, wait_until};

/// How long a step may take that the case waits for.
const STEP: Duration = Duration::from_secs(30);
/// How long a run of pglockwatch may take beyond what it observes. The real limit has a test of its own.
const RUN: Duration = Duration::from_secs(30);

/// Objects that initdb made have smaller oids.
const FIRST_OWN_OID: u32 = 16384;

/// What a case found wrong, with the program's output where it helps.
pub struct Failure {
    pub complaints: Vec<String>,
    pub output: String,
}

impl From<String> for Failure {
    fn from(complaint: String) -> Self {
        Self { complaints: vec![complaint], output: String::new() }
    }
}

/// The pids of the case's sessions, by name.
pub type Pids = BTreeMap<String, i32>;

/// Plays the case. The second value says whether the server is as it was before, or what failed in cleaning it.
pub fn play(case: &Case, cluster: &Cluster) -> (Result<(), Failure>, Result<bool, String>) {
    let mut stage = Stage { case, cluster, sessions: BTreeMap::new(), pids: Pids::new() };
    let result = stage.perform();
    let cleaned = stage.clean_up();
    (result, cleaned)
}

struct Stage<'a> {
    case: &'a Case,
    cluster: &'a Cluster,
    sessions: BTreeMap<String, Session>,
    pids: Pids,
}

impl Stage<'_> {
    fn perform(&mut self) -> Result<(), Failure> {
        self.set_up()?;
        for (number, step) in self.case.step.iter().enumerate() {
            self.take(step).map_err(|error| format!("step {} on {}: {error}", number + 1, step.on))?;
        }
        sleep(self.case.run.settle.unwrap_or(Duration::from_millis(300)));
        let home = tempfile::tempdir().map_err(|error| error.to_string())?;
        let ran = self.look(home.path()).map_err(|error| error.to_string())?;
        self.judge(&ran)
    }

    fn set_up(&self) -> Result<(), String> {
        let mut client = superuser(self.cluster);
        for sql in &self.case.server.setup {
            client.batch_execute(sql).map_err(|error| format!("setup: {sql}: {}", text(&error)))?;
        }
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        sleep(step.after.unwrap_or_default());
        if step.disconnect {
            let session = self.sessions.remove(&step.on).ok_or("it is not connected")?;
            session.disconnect();
            return Ok(());
        }
        let session = self.session(&step.on)?;
        if let Some(turns) = &step.turns {
            let turns = turns.iter().map(|turn| parse_turn(turn)).collect::<Result<_, _>>()?;
            session.repeat(turns, step.error);
            return Ok(());
        }
        let sql = step.sql.as_deref().unwrap_or_default();
        if let Some(pause) = step.every {
            session.repeat(vec![Turn::Statement(sql.to_owned()), Turn::Pause(pause)], step.error);
        } else if step.blocks {
            session.begin(sql, step.error);
            // The next step counts on this one's place in a queue. A statement that is not seen waiting for
            // something has ended already, or computes.
            let waits = format!(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {} AND state = 'active' AND wait_event IS NOT NULL)",
                session.pid
            );
            wait_until(&mut superuser(self.cluster), &waits, Duration::from_millis(500));
        } else if let Err(error) = session.run(sql, STEP)
            && !step.error
        {
            return Err(format!("{sql}: {error}"));
        }
        Ok(())
    }

    /// The session of that name; it connects at its first step.
    fn session(&mut self, name: &str) -> Result<&Session, String> {
        if !self.sessions.contains_key(name) {
            let written = self.case.session.get(name).cloned().unwrap_or_default();
            let who = Identity {
                user: written.user.unwrap_or_else(|| "postgres".to_owned()),
                database: written.database.unwrap_or_else(|| "postgres".to_owned()),
                application_name: written.application_name.unwrap_or_else(|| name.to_owned()),
                replication: written.replication,
            };
            let session = Session::connect(self.cluster, &who).map_err(|error| format!("connecting: {error}"))?;
            self.pids.insert(name.to_owned(), session.pid);
            self.sessions.insert(name.to_owned(), session);
        }
        self.sessions.get(name).ok_or_else(|| "it is not connected".to_owned())
    }

    /// Runs pglockwatch as the case says.
    fn look(&self, home: &Path) -> std::io::Result<Ran> {
        let run_as = &self.case.run;
        let user = run_as.user.as_deref().unwrap_or("postgres").replace('\\', "\\\\").replace('\'', "\\'");
        let dsn = format!("host={} port={} user='{user}' dbname=postgres", self.cluster.host(), self.cluster.port());
        let mut command = pglockwatch(home);
        command.args(["check", "--format", "json", "--dsn", &dsn]);
        let mut duration = |option: &str, value: Option<Duration>, default: Option<Duration>| {
            if let Some(value) = value.or(default) {
                command.arg(option).arg(humantime::format_duration(value).to_string().replace(' ', ""));
            }
        };
        duration("--idle-threshold", run_as.idle_threshold, Some(Duration::from_secs(1)));
        duration("--wait-threshold", run_as.wait_threshold, Some(Duration::from_millis(500)));
        duration("--interval", run_as.interval, Some(Duration::from_millis(200)));
        duration("--observe", run_as.observe, None);
        if let Some(keys) = &run_as.keys {
            let path = home.join("keys.toml");
            std::fs::write(&path, keys)?;
            command.arg("--keys").arg(path);
        }
        command.args(&run_as.args);
        Ok(run(command, RUN + run_as.observe.unwrap_or_default()))
    }

    fn judge(&self, ran: &Ran) -> Result<(), Failure> {
        let failed = |complaints| Failure {
            complaints,
            output: format!(
                "{}{}",
                pretty(&ran.stdout),
                if ran.stderr.is_empty() { String::new() } else { format!("\nstderr: {}", ran.stderr) }
            ),
        };
        let mut complaints = Vec::new();
        for (name, session) in &self.sessions {
            complaints.extend(session.errors().into_iter().map(|error| format!("session {name}: {error}")));
        }
        let report: serde_json::Value = match serde_json::from_str(&ran.stdout) {
            Ok(report) => report,
            Err(error) => {
                complaints.push(format!("exit {:?}, and stdout is not one JSON object: {error}", ran.code));
                return Err(failed(complaints));
            }
        };
        complaints.extend(shape::complaints(&report, ran.code));
        complaints.extend(expect::complaints(self.case, &report, &ran.stdout, ran.code, &self.pids));
        complaints.extend(advice::complaints(self.case, self.cluster, &report));
        if complaints.is_empty() { Ok(()) } else { Err(failed(complaints)) }
    }

    /// Ends all sessions and prepared transactions, runs the teardown, and looks whether nothing is left.
    fn clean_up(&mut self) -> Result<bool, String> {
        self.sessions.values().for_each(Session::stop);
        let mut client = superuser(self.cluster);
        let others =
            "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type IN ('client backend', 'walsender')";
        single(&mut client, &format!("SELECT count(pg_terminate_backend(pid)) {others}"))?;
        if !wait_until(&mut client, &format!("SELECT NOT EXISTS (SELECT {others})"), STEP) {
            return Err("sessions are left".to_owned());
        }
        let prepared =
            client.query("SELECT gid, database FROM pg_prepared_xacts", &[]).map_err(|error| text(&error))?;
        for row in prepared {
            let (gid, database): (String, String) = (row.get(0), row.get(1));
            let sql = format!("ROLLBACK PREPARED {}", pglockwatch::quote::literal(&gid));
            superuser_of(self.cluster, &database).batch_execute(&sql).map_err(|error| text(&error))?;
        }
        for sql in &self.case.server.teardown {
            client.batch_execute(sql).map_err(|error| format!("teardown: {sql}: {}", text(&error)))?;
        }
        let made = ["pg_authid", "pg_database", "pg_class", "pg_proc"]
            .map(|catalog| format!("NOT EXISTS (SELECT FROM {catalog} WHERE oid >= {FIRST_OWN_OID})"));
        Ok(single(&mut client, &format!("SELECT ({})::text", made.join(" AND ")))? == "true")
    }
}

fn parse_turn(turn: &str) -> Result<Turn, String> {
    match turn.strip_prefix('@') {
        Some(pause) => humantime::parse_duration(pause).map(Turn::Pause).map_err(|error| format!("{turn}: {error}")),
        None => Ok(Turn::Statement(turn.to_owned())),
    }
}

fn pretty(stdout: &str) -> String {
    serde_json::from_str::<serde_json::Value>(stdout)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| stdout.to_owned())
}
