//! `probe` through real poolers and straight to the server: the right verdict each time, and never a lock left, however
//! it ends.

use std::path::Path;
use std::process::Stdio;
use std::thread::scope;
use std::time::Duration;

use pglockwatch::app::demo::Cluster;
use postgres::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::line::DeadLine;
use crate::support::pgbouncer::Pooler;
use crate::support::pgpool::Pgpool;
use crate::support::server;
use crate::support::session::{single, superuser, wait_until};

/// Longer than any probe may take here.
const AT_MOST: Duration = Duration::from_secs(120);
const SAFE: &str = "safe";
const STAY_BEHIND: &str = "unsafe: locks stay behind";
const DROPPED: &str = "unsafe: locks are dropped";
const INCONCLUSIVE: &str = "inconclusive";

/// A server with an ordinary role, whose locks and sessions nobody but itself and superusers may judge.
fn cluster() -> Cluster {
    let cluster = server::start(&server::any(), &[]);
    superuser(&cluster).batch_execute("CREATE ROLE app LOGIN; CREATE ROLE other LOGIN CONNECTION LIMIT 1").unwrap();
    cluster
}

fn direct(cluster: &Cluster, user: &str) -> String {
    format!("host={} port={} user={user} dbname=postgres", cluster.host(), cluster.port())
}

fn probe(home: &Path, dsn: &str, more: &[&str]) -> Ran {
    let mut command = pglockwatch(home);
    command.args(["probe", "--dsn", dsn, "--format", "json"]).args(more);
    run(command, AT_MOST)
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// The rows of `pg_locks` with this report's key.
fn left(client: &mut Client, report: &Value) -> String {
    let (classid, objid) = (&report["locks"]["classid"], &report["locks"]["objid"]);
    assert!(classid.is_i64() && objid.is_i64(), "{report}");
    single(client, &format!("SELECT count(*) FROM pg_locks WHERE classid = {classid} AND objid = {objid}")).unwrap()
}

fn outcome<'a>(report: &'a Value, name: &str) -> &'a str {
    let mut experiments = report["experiments"].as_array().unwrap().iter();
    let found = experiments.find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}: {report}"));
    found["outcome"].as_str().unwrap()
}

/// Probes, and looks into `pg_locks` directly behind it.
fn assert_verdict(cluster: &Cluster, dsn: &str, more: &[&str], verdict: &str, pooler: &str) -> Value {
    let home = tempfile::tempdir().unwrap();
    let mut client = superuser(cluster);
    let ran = probe(home.path(), dsn, more);
    let report = report(&ran);
    assert_eq!(left(&mut client, &report), "0", "{report}");
    assert_eq!(report["verdict"], verdict, "{dsn}: {report:#}");
    let code = match verdict {
        SAFE => 0,
        INCONCLUSIVE => 3,
        _ => 1,
    };
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let expected = if pooler.is_empty() { Value::Null } else { Value::from(pooler) };
    assert_eq!(report["pooler"]["name"], expected, "{dsn}: {report:#}");
    assert_eq!(report["schema"], 1);
    assert!(!report["reasons"].as_array().unwrap().is_empty() && !report["advice"].as_array().unwrap().is_empty());
    assert_eq!(report["locks"]["leftovers"], Value::Array(Vec::new()), "{report}");
    report
}

#[test]
fn safe_on_a_server_is_not_safe_between_servers() {
    let standby = server::start_with(&server::any(), &[], |folder| {
        std::fs::write(folder.data().join("standby.signal"), "").unwrap();
    });
    let advice = |report: &Value| report["advice"].to_string();
    let told = advice(&assert_verdict(&standby, &direct(&standby, "postgres"), &[], SAFE, ""));
    assert!(told.contains("This server is a standby") && !told.contains("names several servers"), "{told}");
    let cluster = cluster();
    let (host, port) = (cluster.host(), cluster.port());
    let several = format!("host={host},{host} port={port},1 user=app dbname=postgres");
    let told = advice(&assert_verdict(&cluster, &several, &[], SAFE, ""));
    assert!(told.contains("names several servers") && !told.contains("This server is a standby"), "{told}");
    let primary = format!("{several} target_session_attrs=read-write");
    let told = advice(&assert_verdict(&cluster, &primary, &[], SAFE, ""));
    assert!(!told.contains("names several servers"), "{told}");
}

#[test]
fn each_kind_of_pool_has_its_verdict() {
    let cluster = cluster();
    let pools = [
        ("session", "pool_mode=session"),
        ("session1", "pool_mode=session pool_size=1"),
        ("transaction", "pool_mode=transaction"),
        ("transaction1", "pool_mode=transaction pool_size=1"),
        ("statement", "pool_mode=statement"),
    ];
    let Some(usual) = Pooler::start(&cluster, &pools, &[]) else { return };
    let Some(always) = Pooler::start(&cluster, &pools, &["server_reset_query_always=1"]) else { return };
    let Some(never) = Pooler::start(&cluster, &pools, &["server_reset_query=", "server_round_robin=1"]) else { return };
    let pgpool = Pgpool::start(&cluster, &[]);
    let cluster = &cluster;
    let assert = |dsn: String, verdict: &'static str, pooler: &'static str| {
        move || assert_verdict(cluster, &dsn, &[], verdict, pooler)
    };
    let bouncer = |pooler: &Pooler, pool: &str, verdict| assert(pooler.dsn_of("app", pool), verdict, "pgbouncer");
    scope(|scope| {
        let direct = scope.spawn(assert(direct(cluster, "app"), SAFE, ""));
        let session = scope.spawn(bouncer(&usual, "session", SAFE));
        let transaction = scope.spawn(bouncer(&usual, "transaction", STAY_BEHIND));
        let one = scope.spawn(bouncer(&usual, "transaction1", STAY_BEHIND));
        let statement = scope.spawn(bouncer(&usual, "statement", STAY_BEHIND));
        let dropped = scope.spawn(bouncer(&always, "transaction", DROPPED));
        scope.spawn(bouncer(&always, "session", SAFE));
        let unreset = scope.spawn(bouncer(&never, "session", STAY_BEHIND));
        scope.spawn(bouncer(&never, "transaction", STAY_BEHIND));
        let pgpool = pgpool.as_ref().map(|pgpool| scope.spawn(assert(pgpool.dsn_of("app"), SAFE, "pgpool")));

        let direct = direct.join().unwrap();
        assert_eq!((&direct["pooler"]["present"], outcome(&direct, "pooler")), (&Value::Bool(false), "no"));
        for report in [direct, session.join().unwrap()].into_iter().chain(pgpool.map(|pgpool| pgpool.join().unwrap())) {
            let all = report["experiments"].as_array().unwrap();
            assert!(all.iter().all(|one| one["outcome"] == "yes" || one["name"] == "pooler"), "{report:#}");
        }
        let transaction = transaction.join().unwrap();
        for (name, expected) in [
            ("one-backend-busy", "no"),
            ("transaction-lock", "yes"),
            ("lock-timeout", "yes"),
            ("lock-survives", "not tried"),
            ("lock-goes-with-client", "not tried"),
        ] {
            assert_eq!(outcome(&transaction, name), expected, "{name}: {transaction:#}");
        }
        assert_eq!(outcome(&one.join().unwrap(), "one-backend-busy"), "no");
        let statement = statement.join().unwrap();
        assert!(statement["pooler"]["evidence"].as_str().unwrap().contains("pool_mode=statement"), "{statement:#}");
        assert_eq!(outcome(&statement, "transaction-lock"), "not tried");
        assert_eq!(outcome(&dropped.join().unwrap(), "untouched-at-rest"), "no");
        let unreset = unreset.join().unwrap();
        assert_eq!(outcome(&unreset, "cleared-on-leave"), "no");
        assert_eq!(outcome(&unreset, "lock-survives"), "not tried");
    });
    // All of them together.
    assert_eq!(
        single(&mut superuser(cluster), "SELECT count(*) FROM pg_locks WHERE classid = 1885826167").unwrap(),
        "0"
    );
}

#[test]
fn without_a_second_connection_nothing_is_claimed() {
    let cluster = cluster();
    // A role that has one connection.
    let refused = assert_verdict(&cluster, &direct(&cluster, "other"), &[], INCONCLUSIVE, "");
    assert!(refused["reasons"][0].as_str().unwrap().contains("too many connections"), "{refused:#}");
    assert_eq!(outcome(&refused, "transaction-lock"), "not tried");
    // One that has two, which is enough.
    superuser(&cluster).batch_execute("ALTER ROLE other CONNECTION LIMIT 2").unwrap();
    assert_verdict(&cluster, &direct(&cluster, "other"), &[], SAFE, "");
    // A pool of one backend, in which the second client waits.
    let pools = [("session1", "pool_mode=session pool_size=1")];
    let Some(pooler) = Pooler::start(&cluster, &pools, &[]) else { return };
    let more = ["--timeout", "3s"];
    let report = assert_verdict(&cluster, &pooler.dsn_of("app", "session1"), &more, INCONCLUSIVE, "pgbouncer");
    assert!(report["reasons"][1].as_str().unwrap().contains("was served 5 times meanwhile"), "{report:#}");
}

#[test]
fn what_cannot_be_seen_is_not_claimed() {
    let cluster = cluster();
    superuser(&cluster).batch_execute("ALTER ROLE app SET track_activities = off").unwrap();
    // The end of a backend is seen all the same.
    assert_verdict(&cluster, &direct(&cluster, "app"), &[], SAFE, "");
    let Some(pooler) = Pooler::start(&cluster, &[("session", "pool_mode=session")], &[]) else { return };
    let dsn = pooler.dsn_of("app", "session");
    let report = assert_verdict(&cluster, &dsn, &["--timeout", "3s"], INCONCLUSIVE, "pgbouncer");
    assert!(report["reasons"][0].as_str().unwrap().contains("track_activities"), "{report:#}");
    assert_eq!(outcome(&report, "lock-survives"), "not tried");
}

/// As with so_reuseport, or behind a load balancer: each client meets another process, so that none is seen to share.
#[test]
fn a_transaction_pool_in_parts_is_not_taken_for_safe() {
    let cluster = cluster();
    let start = || Pooler::start(&cluster, &[("transaction", "pool_mode=transaction")], &[]);
    let poolers: Vec<Pooler> = (0..4).map_while(|_| start()).collect();
    let port_of = |pooler: &Pooler| {
        let dsn = pooler.dsn_of("app", "transaction");
        dsn.split(' ').find_map(|word| word.strip_prefix("port=")?.parse().ok()).unwrap()
    };
    let ports: Vec<u16> = poolers.iter().map(port_of).collect();
    if ports.is_empty() {
        return;
    }
    let proxy = DeadLine::start(&ports, "nothing that a probe says");
    let dsn = format!("host=127.0.0.1 port={} user=app dbname=transaction", proxy.port);
    let report = assert_verdict(&cluster, &dsn, &[], STAY_BEHIND, "pgbouncer");
    assert_eq!(outcome(&report, "one-backend-busy"), "yes", "the parts met: {report:#}");
    assert_eq!((outcome(&report, "cleared-on-leave"), outcome(&report, "lock-survives")), ("no", "not tried"));
}

/// A probe whose line goes dead when it takes a session lock for the first time.
struct Cut {
    cluster: Cluster,
    proxy: DeadLine,
    child: std::process::Child,
    _home: tempfile::TempDir,
}

impl Cut {
    fn start(at: &'static str, timeout: &str) -> Self {
        let cluster = cluster();
        let proxy = DeadLine::start(&[cluster.port()], at);
        let home = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pglockwatch"));
        let dsn = format!("host=127.0.0.1 port={} user=app dbname=postgres", proxy.port);
        command.args(["probe", "--dsn", &dsn, "--format", "json", "--timeout", timeout]);
        command.env_clear().env("HOME", home.path()).current_dir(home.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        proxy.dead.recv_timeout(AT_MOST).expect("it never came to that statement");
        Self { cluster, proxy, child, _home: home }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn end(self) -> (Cluster, DeadLine, Value) {
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (self.cluster, self.proxy, report)
    }
}

const HELD: &str = "EXISTS (SELECT FROM pg_locks WHERE classid = 1885826167 AND granted)";

#[test]
fn a_signal_while_the_lock_is_held_leaves_none() {
    for signal in [Signal::TERM, Signal::INT] {
        let cut = Cut::start("pg_try_advisory_lock(", "20s");
        let mut client = superuser(&cut.cluster);
        assert!(wait_until(&mut client, HELD, AT_MOST), "the server has not taken the lock");
        cut.signal(signal);
        // The answer to the statement comes after the signal.
        cut.proxy.revive();
        let (_cluster, _proxy, report) = cut.end();
        assert_eq!(left(&mut client, &report), "0", "{report:#}");
        assert_eq!(report["verdict"], INCONCLUSIVE);
        assert!(report["reasons"][0].as_str().unwrap().contains("stopped by a signal"), "{report:#}");
        assert!(report["locks"]["left"].as_str().unwrap().contains("None is left"), "{report:#}");
    }
}

#[test]
fn when_the_server_stops_answering_the_lock_that_may_be_left_is_named() {
    let cut = Cut::start("pg_try_advisory_lock(", "1s");
    let mut client = superuser(&cut.cluster);
    assert!(wait_until(&mut client, HELD, AT_MOST), "the server has not taken the lock");
    let pid = single(&mut client, "SELECT pid FROM pg_locks WHERE classid = 1885826167").unwrap();
    let (cluster, proxy, report) = cut.end();
    assert_eq!(report["verdict"], INCONCLUSIVE);
    let leftover = &report["locks"]["leftovers"][0];
    assert_eq!(leftover["pid"].to_string(), pid, "{report:#}");
    assert_eq!((&leftover["seen"], leftover["mode"].as_str()), (&Value::Bool(false), Some("ExclusiveLock")));
    // The server has not noticed that its client is gone: the statement frees the lock, and the next time does nothing.
    let sql = leftover["sql"].as_str().unwrap().trim_end_matches(';');
    assert!(single(&mut client, sql).unwrap().starts_with("terminated"), "{sql}");
    assert!(wait_until(&mut client, &format!("NOT {HELD}"), AT_MOST));
    assert!(single(&mut client, sql).unwrap().starts_with("nothing done"), "{sql}");
    drop((proxy, cluster));
}

#[test]
fn a_lock_in_a_transaction_goes_with_the_line() {
    let cut = Cut::start("pg_try_advisory_xact_lock(", "1s");
    let mut client = superuser(&cut.cluster);
    assert!(wait_until(&mut client, HELD, AT_MOST), "the server has not taken the lock");
    let (_cluster, proxy, report) = cut.end();
    assert_eq!(report["verdict"], INCONCLUSIVE);
    assert!(report["locks"]["left"].as_str().unwrap().contains("goes with its transaction"), "{report:#}");
    proxy.revive();
    assert!(wait_until(&mut client, &format!("NOT {HELD}"), AT_MOST));
}

#[test]
fn a_stopped_pooler_ends_it_in_time() {
    let cluster = cluster();
    let Some(pooler) = Pooler::start(&cluster, &[("session", "pool_mode=session")], &[]) else { return };
    pooler.signal(Signal::STOP);
    let home = tempfile::tempdir().unwrap();
    let ran = probe(home.path(), &pooler.dsn_of("app", "session"), &["--timeout", "1s"]);
    pooler.signal(Signal::CONT);
    assert_eq!((ran.code, report(&ran)["verdict"].as_str()), (Some(3), Some(INCONCLUSIVE)), "{ran:?}");
    assert!(ran.took < Duration::from_secs(20), "{ran:?}");
}

#[test]
fn who_cannot_connect_hears_why() {
    let home = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dsn = format!("host=127.0.0.1 port={port} user=app password=hunter2-Geheim");
    let ran = probe(home.path(), &dsn, &[]);
    assert_eq!((ran.code, report(&ran)["verdict"].as_str()), (Some(3), Some(INCONCLUSIVE)), "{ran:?}");
    assert!(ran.stdout.contains("connection refused") && !ran.stdout.contains("hunter2"), "{ran:?}");
    let mut text = pglockwatch(home.path());
    text.args(["probe", "--dsn", &dsn]);
    let ran = run(text, AT_MOST);
    assert!(ran.code == Some(3) && ran.stdout.starts_with("Inconclusive  "), "{ran:?}");

    let mut two = pglockwatch(home.path());
    two.args(["probe", "--dsn", "host=a", "--dsn", "host=b"]);
    let ran = run(two, AT_MOST);
    assert!(ran.code == Some(2) && ran.stderr.contains("one DSN"), "{ran:?}");
    let mut wrong = pglockwatch(home.path());
    wrong.args(["probe", "--format", "table"]);
    assert_eq!(run(wrong, AT_MOST).code, Some(2));

    let mut help = pglockwatch(home.path());
    help.args(["probe", "--help"]);
    let ran = run(help, AT_MOST);
    assert!(
        ran.stdout.contains("only command that takes advisory locks") && ran.stdout.contains("1885826167"),
        "{ran:?}"
    );
}
