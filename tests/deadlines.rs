//! `check` ends within what it may observe, its `--timeout` and half a second, whatever happens: one table of days on
//! which something hangs, at every stage at which it can.
//!
//! A machine with much else to do is not our lateness: what is late is measured once more, and against what a look at a
//! server that is well takes just then.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pglockwatch::app::demo::Cluster;
use postgres::Client;
use serde_json::Value;

use crate::connect::certificates::{Contents, certify};
use crate::connect::in_parallel;
use crate::connect::world::give_to_owner;
use crate::exporter::life::signal_all;
use crate::support::command::{Ran, pglockwatch, run};
use crate::support::pgbouncer::Pooler;
use crate::support::proxy::{Proxy, Weather};
use crate::support::session::superuser;
use crate::support::{full, server};

const TIMEOUT: Duration = Duration::from_secs(1);
/// What `check` promises beyond its timeout.
const LATENESS: Duration = Duration::from_millis(500);
/// Nothing here is that slow: then it hangs.
const AT_MOST: Duration = Duration::from_secs(120);
const TRIES: u32 = 4;

/// Something that hangs.
struct Day {
    name: String,
    /// The arguments of `check`.
    args: Vec<String>,
    observe: Duration,
    /// What each target comes to: nothing, or one of these kinds of failure.
    outcomes: Vec<&'static [&'static str]>,
}

impl Day {
    fn new(name: impl Into<String>, dsn: impl Into<String>, outcome: &'static [&'static str]) -> Self {
        Self {
            name: name.into(),
            args: vec!["--dsn".to_owned(), dsn.into()],
            observe: Duration::ZERO,
            outcomes: vec![outcome],
        }
    }

    fn with(mut self, more: &[&str]) -> Self {
        self.args.extend(more.iter().map(|arg| (*arg).to_owned()));
        self
    }

    fn and(mut self, dsn: &str, outcome: &'static [&'static str]) -> Self {
        self.outcomes.push(outcome);
        self.with(&["--dsn", dsn])
    }

    fn observing(mut self, observe: Duration) -> Self {
        self.observe = observe;
        let text = format!("{}ms", observe.as_millis());
        self.with(&["--observe", &text, "--interval", "100ms"])
    }

    /// What is wrong with how it went, if anything is.
    fn live_through(&self, home: &Path, well: &str) -> Option<String> {
        let allowed = self.observe + TIMEOUT + LATENESS;
        let mut late = Vec::new();
        for tries in 1..=TRIES {
            let ran = check(home, &self.args);
            if let Some(wrong) = self.wrong(&ran) {
                // A loaded machine may need the whole timeout for what hangs nowhere. What hangs does so each time.
                if tries < TRIES && ran.stdout.contains("\"kind\": \"timeout\"") {
                    continue;
                }
                return Some(format!("{}: {wrong}: {ran:?}", self.name));
            }
            // Where nothing hangs a look takes that long now, and only because of the machine.
            if ran.took <= allowed || ran.took <= allowed + check(home, &dsn(well)).took {
                return None;
            }
            late.push(ran.took);
        }
        Some(format!("{}: it may take {allowed:?} and took {late:?}", self.name))
    }

    fn wrong(&self, ran: &Ran) -> Option<String> {
        if ran.stderr.contains("panicked") || ran.stderr.contains("hunter") {
            return Some("what it says".to_owned());
        }
        let fails = |outcome: &[&str]| !outcome.is_empty();
        let failures = self.outcomes.iter().filter(|outcome| fails(outcome)).count();
        if ran.stderr.lines().filter(|line| line.starts_with("pglockwatch: ")).count() != failures {
            return Some("not one sentence for each".to_owned());
        }
        let expected = if failures > 0 { 3 } else { 0 };
        if ran.code != Some(expected) {
            return Some(format!("not exit code {expected}"));
        }
        let Ok(report) = serde_json::from_str::<Value>(&ran.stdout) else { return Some("not JSON".to_owned()) };
        for (place, outcome) in self.outcomes.iter().enumerate() {
            let kind = report["targets"][place]["error"]["kind"].as_str();
            if kind.map_or(fails(outcome), |kind| !outcome.contains(&kind)) {
                return Some(format!("{kind:?} is not one of {outcome:?}"));
            }
        }
        None
    }
}

const WELL: &[&str] = &[];
const LATE: &[&str] = &["timeout"];

fn check(home: &Path, args: &[String]) -> Ran {
    let mut command = pglockwatch(home);
    command.args(["check", "--format", "json", "--timeout", "1s"]).args(args);
    run(command, AT_MOST)
}

fn dsn(dsn: &str) -> [String; 2] {
    ["--dsn".to_owned(), dsn.to_owned()]
}

/// Lives through all of them, some at a time.
fn live_through(home: &Path, well: &str, days: &[Day]) {
    let wrong: Vec<String> = in_parallel(days, |day| day.live_through(home, well)).into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A server with TLS, for users with passwords and without.
fn with_tls() -> Cluster {
    let settings = ["ssl=on", "ssl_cert_file=a.crt", "ssl_key_file=a.key"].map(str::to_owned);
    let cluster = server::start_with(&server::any(), &settings, |folder| {
        let lines = "host all app,slow 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
        std::fs::write(folder.data().join("pg_hba.conf"), lines).unwrap();
        certify(Contents::named("db.test"), None).write(&folder.data(), "a");
        give_to_owner(&folder.data(), &folder.data().join("a.key"));
    });
    // Whoever wants to log in as the second one is asked to hash its password for hours. CREATE ROLE itself would try
    // whether it is empty.
    let verifier =
        format!("SCRAM-SHA-256$2000000000:c2FsdHNhbHQ=${0}:{0}", "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY=");
    let sql = format!(
        "SET password_encryption = 'scram-sha-256'; CREATE ROLE app LOGIN PASSWORD 'hunter2'; \
         GRANT pg_monitor TO app; CREATE ROLE slow LOGIN; \
         UPDATE pg_authid SET rolpassword = '{verifier}' WHERE rolname = 'slow'"
    );
    superuser(&cluster).batch_execute(&sql).unwrap();
    cluster
}

/// A listener whose queue is full: packets that would open another connection are dropped.
fn black_hole() -> (u16, TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
        queue.push(stream);
        assert!(queue.len() < 10_000, "the queue does not fill");
    }
    (address.port(), listener, queue)
}

#[test]
fn check_is_never_late_whatever_hangs() {
    let home = tempfile::tempdir().unwrap();
    let cluster = with_tls();
    let well = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", cluster.port());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|address| (address.port(), silent)).unwrap();
    let dropped = black_hole();
    let stopped = server::start(&server::any(), &[]);
    signal_all(stopped.pid(), "STOP");
    let at = |port: u16| format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    let (silent_dsn, hole_dsn, stopped_dsn) = (at(silent.0), at(dropped.0), at(stopped.port()));
    let hosts = |ports: &[u16], more: &str| {
        let list = |each: &dyn Fn(&u16) -> String| ports.iter().map(each).collect::<Vec<_>>().join(",");
        format!(
            "host={} port={} user=postgres dbname=postgres {more}",
            list(&|_| "127.0.0.1".to_owned()),
            list(&|port: &u16| port.to_string())
        )
    };
    let hanging = [silent.0, dropped.0, stopped.port(), silent.0];
    let socket = format!("host={} port={} user=postgres dbname=postgres", stopped.folder().display(), stopped.port());
    let slow = format!("host=127.0.0.1 port={} user=slow password=hunter3 dbname=postgres", cluster.port());
    let mut days = vec![
        Day::new("a listener says nothing", &silent_dsn, LATE),
        Day::new("packets are dropped", &hole_dsn, LATE),
        Day::new("the server is stopped", &stopped_dsn, LATE),
        Day::new("the server is stopped, by its socket", socket, LATE),
        Day::new("several hosts hang", hosts(&hanging, ""), LATE),
        Day::new("several hosts hang, twice", hosts(&hanging, "target_session_attrs=prefer-standby"), LATE),
        Day::new("the server wants hours of hashing", slow, &["auth", "timeout"]),
        Day::new("nobody knows the host", "host=no-such-host.invalid user=postgres", &["connect", "timeout"]),
        Day::new("a console says nothing", &well, WELL)
            .with(&["--pgbouncer", &silent_dsn.replace("=postgres", "=pgbouncer")]),
        Day::new("some of many targets hang", &well, WELL)
            .and(&silent_dsn, LATE)
            .and(&hole_dsn, LATE)
            .and(&stopped_dsn, LATE),
    ];
    // Every stage: encryption, the handshake, authentication, the greeting, the poll.
    let mut proxies = Vec::new();
    for (weather, word) in [(Weather::Lost, "nothing more"), (Weather::Drip, "one byte a second")] {
        for (mode, stages) in
            [("disable", &[0, 1, 30, 110, 180, 500, 900, 3000][..]), ("require", &[0, 1, 60, 900, 1500, 2000, 3500])]
        {
            for bytes in stages {
                let proxy = Proxy::after(*bytes, cluster.port(), weather);
                let dsn = format!(
                    "host=127.0.0.1 port={} user=app password=hunter2 dbname=postgres sslmode={mode}",
                    proxy.port
                );
                days.push(Day::new(format!("{word} after {bytes} bytes, sslmode={mode}"), dsn, LATE));
                proxies.push(proxy);
            }
        }
        let proxy = Proxy::after(20_000, cluster.port(), weather);
        let day = Day::new(format!("{word} after some polls"), at(proxy.port), LATE);
        days.push(day.observing(Duration::from_secs(2)));
        proxies.push(proxy);
    }
    live_through(home.path(), &well, &days);
    signal_all(stopped.pid(), "CONT");
    drop((silent, dropped, proxies));
}

#[test]
fn check_is_never_late_before_a_server_that_cannot() {
    let home = tempfile::tempdir().unwrap();
    let cluster = server::start(&server::any(), &full::SETTINGS.map(str::to_owned));
    let other = server::start(&server::any(), &[]);
    let well = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", other.port());
    let here = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", cluster.port());
    let mut client = superuser(&cluster);
    client.batch_execute("BEGIN; LOCK TABLE pg_authid").unwrap();
    live_through(home.path(), &well, &[Day::new("pg_authid is locked", &here, LATE)]);
    client.batch_execute("COMMIT").unwrap();
    full::fill(&cluster, || drop(client.batch_execute(full::TAKE_ALL).unwrap_err()));
    let kinds = &["connect", "lock_table_full"];
    live_through(home.path(), &well, &[Day::new("the lock table is full", &here, kinds)]);
    drop(client);

    let Some(pooler) = Pooler::start(&other, &[("tx", "pool_mode=transaction pool_size=1")], &[]) else { return };
    let pool = format!("{} sslmode=disable", pooler.dsn("tx"));
    let mut busy: Client = pooler.client("tx", "somebody");
    busy.batch_execute("BEGIN").unwrap();
    live_through(home.path(), &well, &[Day::new("the pool has no free connection", &pool, LATE)]);
    drop(busy);
    let mut console = pooler.console();
    console.simple_query("PAUSE tx").unwrap();
    live_through(home.path(), &well, &[Day::new("PgBouncer is paused", &pool, LATE)]);
}

/// A pipe that nobody writes to, as every file that can be named.
#[test]
fn check_waits_for_no_pipe() {
    let home = tempfile::tempdir().unwrap();
    let cluster = with_tls();
    let pipes = ["fifo", ".pg_service.conf"].map(|name| home.path().join(name));
    assert!(Command::new("mkfifo").args(["-m", "600"]).args(pipes).status().unwrap().success());
    certify(Contents::named("app"), None).write(home.path(), "client");
    let well = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", cluster.port());
    let days = [
        Day::new(
            "the password file is a pipe",
            format!("{} passfile=fifo", well.replace("=postgres dbname", "=app dbname")),
            &["auth"],
        ),
        Day::new("sslrootcert is a pipe", format!("{well} sslmode=verify-ca sslrootcert=fifo"), &["tls"]),
        Day::new("sslcert is a pipe", format!("{well} sslmode=require sslcert=fifo sslkey=fifo"), &["tls"]),
        Day::new("sslkey is a pipe", format!("{well} sslmode=require sslcert=client.crt sslkey=fifo"), &["tls"]),
        Day::new("sslcrl is a pipe", format!("{well} sslmode=verify-ca sslrootcert=client.crt sslcrl=fifo"), &["tls"]),
    ];
    live_through(home.path(), &well, &days);
    for args in [
        ["--keys", "fifo"],
        ["--config", "fifo"],
        ["--dsn-file", "fifo"],
        ["--state-file", "fifo"],
        ["--dsn", "service=x"],
    ] {
        let dsn = if args[0] == "--dsn" || args[0] == "--dsn-file" { Vec::new() } else { dsn(&well).to_vec() };
        let ran = check(home.path(), &[&args.map(str::to_owned)[..], &dsn].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{args:?}: {ran:?}");
        let named = ran.stderr.contains("fifo") || ran.stderr.contains(".pg_service.conf");
        assert!(named && ran.stderr.contains("not a regular file"), "{args:?}: {ran:?}");
    }
}
