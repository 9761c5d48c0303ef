//! A database for one situation: its sessions, the program's look at it, and the person who pastes what it printed.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::{Binaries, Cluster};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::session::{Identity, Session, superuser, superuser_of, text, wait_until};
use crate::support::{psql, say, server};

/// For anything that must happen, on a machine that is busy with the other tests.
pub const SOON: Duration = Duration::from_secs(90);
/// The program's --timeout in these tests, and how long it may take in all.
const TIMEOUT: &str = "60s";
const LOOK: Duration = Duration::from_secs(180);
/// The program's thresholds in these tests.
const THRESHOLD: &str = "100ms";
/// So long a session must have rested or waited by the server's clock before the program looks.
const SETTLED: &str = "250 milliseconds";
/// Whatever a person's psql may be set to must not change what a literal means.
const UNLIKE_THE_DEFAULTS: &str = "-c DateStyle=German,DMY -c TimeZone=Asia/Kathmandu -c IntervalStyle=sql_standard -c standard_conforming_strings=off";

/// A server with the roles that the scenes are played by.
pub struct World {
    cluster: Cluster,
    psql: bool,
}

impl World {
    /// `app` works; `blind` has no rights, `seer` sees, `signaller` may signal but does not see, `oncall` does both.
    pub fn new(binaries: &Binaries, settings: &[&str]) -> Self {
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let cluster = server::start(binaries, &settings);
        superuser(&cluster)
            .batch_execute(
                "CREATE ROLE app LOGIN; CREATE ROLE blind LOGIN; CREATE ROLE seer LOGIN; CREATE ROLE signaller LOGIN;
                 CREATE ROLE oncall LOGIN; GRANT pg_monitor TO seer, oncall; GRANT pg_signal_backend TO signaller, oncall;
                 CREATE ROLE replicator LOGIN REPLICATION",
            )
            .unwrap();
        let psql = psql::is_here();
        if !psql {
            say("Sessions of the test's own run the statements instead.");
        }
        Self { cluster, psql }
    }
}

/// See the module.
pub struct Scene<'a> {
    world: &'a World,
    database: String,
    home: TempDir,
    watcher: Mutex<Client>,
}

impl<'a> Scene<'a> {
    /// A new database with a table `notes` that everybody may write to.
    pub fn new(world: &'a World, name: &str) -> Self {
        let database = name.replace([' ', '\''], "_");
        superuser(&world.cluster).batch_execute(&format!("CREATE DATABASE {database} TEMPLATE template0")).unwrap();
        let mut watcher = superuser_of(&world.cluster, &database);
        watcher.batch_execute("CREATE TABLE notes(what text); GRANT ALL ON notes TO PUBLIC").unwrap();
        Self { world, database, home: tempfile::tempdir().unwrap(), watcher: Mutex::new(watcher) }
    }

    /// The server.
    pub fn cluster(&self) -> &Cluster {
        &self.world.cluster
    }

    /// Whether there is a psql to play the person.
    pub fn has_psql(&self) -> bool {
        self.world.psql
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// A session that a thread keeps.
    pub fn session(&self, user: &str, application_name: &str) -> Session {
        self.connected(user, application_name, false)
    }

    /// The same, as a replication connection that takes SQL.
    pub fn walsender(&self, user: &str, application_name: &str) -> Session {
        self.connected(user, application_name, true)
    }

    fn connected(&self, user: &str, application_name: &str, replication: bool) -> Session {
        let who = Identity {
            user: user.to_owned(),
            database: self.database.clone(),
            application_name: application_name.to_owned(),
            replication,
        };
        Session::connect(&self.world.cluster, &who).unwrap()
    }

    /// A session that has run these statements, one by one. The last one may be meant to fail.
    #[track_caller]
    pub fn played(&self, user: &str, application_name: &str, statements: &[&str]) -> Session {
        let session = self.session(user, application_name);
        for sql in statements {
            let result = session.run(sql, SOON);
            assert!(result.is_ok() || sql.ends_with("1/0"), "{sql}: {result:?}");
        }
        session
    }

    /// A session that waits, long enough to be reported, in this statement.
    #[track_caller]
    pub fn waiting(&self, user: &str, application_name: &str, statement: &str) -> Session {
        let session = self.session(user, application_name);
        session.begin(statement, false);
        self.until_waits(&session);
        session
    }

    /// A client of the test's own.
    pub fn client(&self, user: &str) -> Client {
        self.connect(user).unwrap()
    }

    /// The same, where it may fail.
    pub fn connect(&self, user: &str) -> Result<Client, String> {
        self.config(user).connect(NoTls).map_err(|error| text(&error))
    }

    fn config(&self, user: &str) -> Config {
        let mut config = self.world.cluster.config();
        config.user(user).dbname(&self.database).application_name("psql").options(UNLIKE_THE_DEFAULTS);
        config
    }

    /// Waits until this holds.
    #[track_caller]
    pub fn until(&self, condition: &str) {
        assert!(
            wait_until(&mut self.watcher.lock().unwrap(), condition, SOON),
            "it did not come to this: {condition}\n{}",
            self.describe()
        );
    }

    /// Waits until the session has been in this state for longer than the threshold.
    #[track_caller]
    pub fn until_rests(&self, session: &Session, state: &str) {
        self.until_pid_rests(session.pid, state);
    }

    /// The same for a session of somebody else, as a pooler's.
    #[track_caller]
    pub fn until_pid_rests(&self, pid: i32, state: &str) {
        self.until(&format!(
            "SELECT state = '{state}' AND clock_timestamp() - state_change > '{SETTLED}' FROM pg_stat_activity
             WHERE pid = {pid}"
        ));
    }

    /// Waits until the session has waited for a lock for longer than the threshold.
    #[track_caller]
    pub fn until_waits(&self, session: &Session) {
        // `waitstart` is there from PostgreSQL 14 on.
        self.until(&format!(
            "SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT granted AND pid = {}
             AND clock_timestamp() - coalesce((to_jsonb(l) ->> 'waitstart')::timestamptz, query_start) > '{SETTLED}'",
            session.pid
        ));
    }

    /// Waits until the session is gone.
    #[track_caller]
    pub fn until_gone(&self, session: &Session) {
        self.until(&format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = {}", session.pid));
        self.until(&format!("SELECT count(*) = 0 FROM pg_locks WHERE pid = {}", session.pid));
    }

    /// Waits until the session's only waiting statement has failed because it was cancelled.
    #[track_caller]
    pub fn until_cancelled(&self, session: &Session) {
        let began = Instant::now();
        while session.errors().is_empty() {
            assert!(began.elapsed() < SOON, "pid {} was not cancelled\n{}", session.pid, self.describe());
            sleep(Duration::from_millis(10));
        }
        let errors = session.errors();
        assert!(errors.len() == 1 && errors[0].ends_with("(57014)"), "{errors:?}");
    }

    /// Waits until the session has this advisory key.
    #[track_caller]
    pub fn until_has(&self, session: &Session, key: i64) {
        self.until(&format!(
            "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {}
             AND (classid::bigint << 32) | objid::bigint = {key}",
            session.pid
        ));
    }

    /// No session has or awaits this advisory key.
    #[track_caller]
    pub fn is_free(&self, key: i64) {
        self.until(&format!(
            "SELECT count(*) = 0 FROM pg_locks l JOIN pg_database d ON d.oid = l.database
             WHERE locktype = 'advisory' AND datname = current_database()
             AND (classid::bigint << 32) | objid::bigint = {key}"
        ));
    }

    /// The rows of `notes`, in order.
    pub fn notes(&self) -> String {
        let rows = rows(&mut self.watcher.lock().unwrap(), "SELECT what FROM notes ORDER BY what COLLATE \"C\"");
        rows.unwrap().join(" ")
    }

    /// The sessions of the scene, without the program, the person and the watcher.
    pub fn sessions(&self) -> BTreeSet<i32> {
        let sql =
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
                   AND application_name NOT IN ('pglockwatch', 'psql') AND pid <> pg_backend_pid()";
        let rows = rows(&mut self.watcher.lock().unwrap(), sql).unwrap();
        rows.iter().map(|pid| pid.parse().unwrap()).collect()
    }

    /// What the server looks like, for a failure.
    fn describe(&self) -> String {
        let mut client = superuser_of(&self.world.cluster, &self.database);
        let sessions = rows(
            &mut client,
            "SELECT pid, usename, application_name, state, wait_event_type, wait_event, left(query, 60)
             FROM pg_stat_activity WHERE datname = current_database()",
        );
        let locks = rows(
            &mut client,
            "SELECT pid, locktype, classid, objid, mode, granted, virtualtransaction FROM pg_locks
             WHERE locktype = 'advisory' OR NOT granted",
        );
        format!("in {}\n{}\n{}", self.database, sessions.unwrap().join("\n"), locks.unwrap().join("\n"))
    }

    /// What a command of the program prints when this role looks.
    pub fn look(&self, user: &str, arguments: &[&str]) -> String {
        let ran = self.ran(user, arguments);
        assert!(ran.stderr.is_empty() && !ran.stdout.is_empty(), "{arguments:?}: {ran:?}");
        ran.stdout
    }

    /// What became of a command of the program when this role looks.
    pub fn ran(&self, user: &str, arguments: &[&str]) -> Ran {
        let quoted = user.replace('\\', "\\\\").replace('\'', "\\'");
        let cluster = &self.world.cluster;
        let dsn = format!("host={} port={} user='{quoted}' dbname={}", cluster.host(), cluster.port(), self.database);
        let mut command = pglockwatch(self.home.path());
        command.args(["--dsn", &dsn, "--idle-threshold", THRESHOLD, "--wait-threshold", THRESHOLD]);
        command.args(["--timeout", TIMEOUT]).args(arguments);
        run(command, LOOK)
    }

    /// The findings of a check by this role.
    pub fn check(&self, user: &str, more: &[&str]) -> Vec<Value> {
        findings_of(&self.look(user, &[&["check", "--format", "json"], more].concat()))
    }

    /// The finding of this rule about these sessions (all of its `pids`), as a superuser sees it.
    #[track_caller]
    pub fn finding(&self, rule: &str, sessions: &[&Session], more: &[&str]) -> Value {
        finding(&self.check("postgres", more), rule, sessions)
    }

    /// The statement for the finding of this rule about these sessions.
    #[track_caller]
    pub fn statement(&self, rule: &str, sessions: &[&Session]) -> String {
        sql_of(&self.finding(rule, sessions, &[]))
    }

    /// Pastes the statement, as this role; the answer has one row, which begins so.
    #[track_caller]
    pub fn says(&self, user: &str, statement: &str, begins: &str) {
        let rows = self.paste(user, statement);
        let [row] = rows.as_slice() else { panic!("not one row: {rows:?}\n{statement}") };
        assert!(row.starts_with(begins), "{row:?}, not {begins:?}\n{}\n{statement}", self.describe());
    }

    /// Pastes SQL as this role; returns the rows, with | between columns, and what psql says of commands without rows.
    #[track_caller]
    pub fn paste(&self, user: &str, sql: &str) -> Vec<String> {
        if self.world.psql {
            return self.psql(user, sql);
        }
        rows(&mut self.client(user), sql).unwrap_or_else(|error| panic!("{error}\n{sql}"))
    }

    /// Types SQL, and backslash commands, into psql.
    #[track_caller]
    pub fn psql(&self, user: &str, sql: &str) -> Vec<String> {
        let cluster = &self.world.cluster;
        let (host, port) = (cluster.host(), cluster.port().to_string());
        let to = ["-U", user, "-d", &self.database, "-h", &host, "-p", &port];
        psql::typed(&to, UNLIKE_THE_DEFAULTS, sql).unwrap_or_else(|said| panic!("psql: {said}\n{sql}"))
    }
}

/// The findings in the JSON of a check.
#[track_caller]
pub fn findings_of(printed: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(printed).unwrap();
    let target = &report["targets"][0];
    assert!(target["error"].is_null(), "{target}");
    target["findings"].as_array().unwrap().clone()
}

/// The finding of this rule about these sessions, all of its `pids`.
#[track_caller]
pub fn finding(findings: &[Value], rule: &str, sessions: &[&Session]) -> Value {
    let pids: Vec<i32> = sessions.iter().map(|session| session.pid).collect();
    finding_in(findings, rule, sessions).unwrap_or_else(|| panic!("no {rule} about {pids:?}: {findings:#?}"))
}

/// The same, if it is there.
pub fn finding_in(findings: &[Value], rule: &str, sessions: &[&Session]) -> Option<Value> {
    let wanted: BTreeSet<i64> = sessions.iter().map(|session| session.pid.into()).collect();
    let about = |finding: &Value| -> BTreeSet<i64> {
        finding["pids"].as_array().unwrap().iter().filter_map(Value::as_i64).collect()
    };
    findings.iter().find(|finding| finding["rule"] == rule && about(finding) == wanted).cloned()
}

/// The statement in a finding's advice.
#[track_caller]
pub fn sql_of(finding: &Value) -> String {
    finding["advice"]["sql"].as_str().unwrap_or_else(|| panic!("no statement: {finding:#}")).to_owned()
}

/// The statement for a session that connected one microsecond off: its pid is another session's now.
#[track_caller]
pub fn for_another_session(statement: &str) -> String {
    let (before, since) = statement.split_once("s.backend_start IS DISTINCT FROM timestamptz '").unwrap();
    let (moment, after) = since.split_once("+00'").unwrap();
    let last = moment.chars().last().and_then(|digit| digit.to_digit(10)).unwrap();
    let moved = format!("{}{}", &moment[..moment.len() - 1], (last + 1) % 10);
    format!("{before}s.backend_start IS DISTINCT FROM timestamptz '{moved}+00'{after}")
}

/// Every row of a query, with | between columns.
pub fn rows(client: &mut Client, sql: &str) -> Result<Vec<String>, String> {
    let messages = client.simple_query(sql).map_err(|error| text(&error))?;
    let cells = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|place| row.get(place).unwrap_or_default()).collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    Ok(messages.into_iter().filter_map(cells).collect())
}
