//! A real PgBouncer before a real server: session locks that are left on its server connections, what is said about
//! them, and what frees them. And a PgBouncer that stops, restarts, or forbids.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use pglockwatch::pg::{ConnInfo, ProcessEnvironment, Session};
use postgres::Client;
use rustix::process::Signal;
use serde_json::Value;

use crate::exporter::harness::Exporter;
use crate::support::command::{Ran, pglockwatch, run};
use crate::support::pgbouncer::Pooler;
use crate::support::server;
use crate::support::session::{single, superuser, wait_until};

/// A loaded machine gets there.
const SOON: Duration = Duration::from_secs(60);
const POOLS: &[(&str, &str)] = &[
    ("tx", "pool_mode=transaction pool_size=1"),
    ("st", "pool_mode=statement pool_size=1"),
    ("se", "pool_mode=session pool_size=2"),
];

struct World {
    home: tempfile::TempDir,
    pooler: Pooler,
    cluster: Cluster,
}

impl World {
    fn new() -> Option<Self> {
        let cluster = server::start(&server::any(), &[]);
        let pooler = Pooler::start(&cluster, POOLS, &[])?;
        Some(Self { home: tempfile::tempdir().unwrap(), pooler, cluster })
    }

    fn dsn(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.cluster.host(), self.cluster.port())
    }

    fn check(&self, arguments: &[&str]) -> Ran {
        check(self.home.path(), &[&["--dsn", &self.dsn(), "--format", "json"], arguments].concat())
    }

    /// What one look says, with the admin's console.
    fn report(&self, arguments: &[&str]) -> Value {
        json(&self.check(&[&["--pgbouncer", &self.pooler.admin_dsn()], arguments].concat()))
    }

    /// Leaves a session lock on a pool's server connection, and returns its backend. The session has rested: in the very
    /// moment a lock's scope cannot be seen.
    fn leak(&self, pool: &str, key: i32) -> String {
        let mut client = self.pooler.client(pool, "culprit");
        let pid = single(&mut client, &format!("SELECT pg_backend_pid() FROM (SELECT pg_advisory_lock({key})) l"));
        sleep(Duration::from_millis(100));
        pid.unwrap()
    }

    fn holds(&self, key: i32) -> bool {
        let sql = format!("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = {key})::text");
        single(&mut superuser(&self.cluster), &sql).unwrap() == "true"
    }

    fn is_freed(&self, key: i32) -> bool {
        let sql = format!("NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = {key})");
        wait_until(&mut superuser(&self.cluster), &sql, SOON)
    }
}

fn check(home: &Path, arguments: &[&str]) -> Ran {
    let mut command = pglockwatch(home);
    command.arg("check").args(arguments);
    run(command, Duration::from_secs(120))
}

fn json(ran: &Ran) -> Value {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert!(report["targets"][0]["error"].is_null(), "{report}");
    report
}

fn findings(report: &Value) -> Vec<(String, Value)> {
    let all = report["targets"][0]["findings"].as_array().unwrap();
    all.iter().map(|finding| (finding["rule"].as_str().unwrap().to_owned(), finding.clone())).collect()
}

fn rules(report: &Value) -> Vec<String> {
    findings(report).into_iter().map(|(rule, _)| rule).collect()
}

/// The finding of this rule; it is the only one.
fn only(report: &Value, rule: &str) -> Value {
    assert_eq!(rules(report), [rule], "{report:#}");
    findings(report).remove(0).1
}

fn texts(value: &Value) -> String {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The console command that the steps give.
fn reconnect(finding: &Value) -> String {
    let steps = texts(&finding["advice"]["steps"]);
    steps.lines().find(|line| line.starts_with("RECONNECT")).unwrap_or_else(|| panic!("{steps}")).to_owned()
}

#[test]
fn a_leak_through_each_kind_of_pool_is_judged_and_freed() {
    let Some(world) = World::new() else { return };
    // Through a transaction pool: at once, whoever borrows the connection afterwards.
    let pid = world.leak("tx", 4711);
    let mut borrower = world.pooler.client("tx", "innocent");
    assert_eq!(single(&mut borrower, "SELECT pg_backend_pid()").unwrap(), pid);
    sleep(Duration::from_millis(100));
    let report = world.report(&[]);
    let finding = only(&report, "pooler-session-lock");
    assert_eq!(finding["severity"], "warning");
    assert_eq!(finding["pids"][0].to_string(), pid);
    assert_eq!(finding["advice"]["action"], "reconnect-pooler");
    assert!(finding["advice"]["sql"].as_str().unwrap().contains("pg_terminate_backend"), "{finding:#}");
    let detail = texts(&finding["detail"]);
    assert!(detail.contains("transaction mode") && detail.contains("No client has the connection now"), "{detail}");
    assert!(detail.contains("(innocent) and query belong to the last borrower, not to whoever took"), "{detail}");
    let pooler = &report["targets"][0]["locks"][0]["holder"]["pooler"];
    let expected =
        serde_json::json!({"kind": "pgbouncer", "database": "tx", "pool_mode": "transaction", "linked": false});
    assert_eq!(*pooler, expected);
    // The table says it too, and whoever may only look sees as much.
    let stats = world.pooler.stats_dsn();
    let looked = json(&world.check(&["--pgbouncer", &stats]));
    assert_eq!(only(&looked, "pooler-session-lock")["id"], finding["id"]);
    // Nor does the runbook say that the last borrower's statement took it.
    let mut command = pglockwatch(world.home.path());
    command.args(["runbook", "--dsn", &world.dsn(), "--pgbouncer", &stats]);
    let runbook = run(command, SOON).stdout;
    assert!(runbook.contains("serves PgBouncer's transaction pool tx; no client has it now"), "{runbook}");
    assert!(runbook.contains("last statement, the last borrower's: SELECT pg_backend_pid()"), "{runbook}");
    // As it stands in the output: refused to who may only look, and freeing the lock for who may act.
    let command = reconnect(&finding);
    assert_eq!(command, "RECONNECT \"tx\";");
    let mut console = Client::connect(&stats, postgres::NoTls).unwrap();
    assert!(console.simple_query(&command).is_err());
    assert!(world.holds(4711));
    world.pooler.console().simple_query(&command).unwrap();
    assert!(world.is_freed(4711), "RECONNECT did not free it");
    // The client that was connected all the time noticed nothing.
    assert_ne!(single(&mut borrower, "SELECT pg_backend_pid()").unwrap(), pid);
    drop(borrower);

    // Through a statement pool a session lock is as lost.
    world.leak("st", 4712);
    let finding = only(&world.report(&[]), "pooler-session-lock");
    assert!(texts(&finding["detail"]).contains("statement mode"), "{finding:#}");
    world.pooler.console().simple_query(&reconnect(&finding)).unwrap();
    assert!(world.is_freed(4712));

    // In a session pool it is its client's: silent until the ordinary rule speaks.
    let mut owner = world.pooler.client("se", "owner");
    owner.batch_execute("SELECT pg_advisory_lock(4713)").unwrap();
    sleep(Duration::from_millis(1100));
    let report = world.report(&[]);
    assert!(rules(&report).is_empty(), "{report:#}");
    let pooler = &report["targets"][0]["locks"][0]["holder"]["pooler"];
    assert!(pooler["pool_mode"] == "session" && pooler["linked"] == true, "{report:#}");
    only(&world.report(&["--idle-threshold", "1s"]), "idle-holder");
    drop(owner);
    assert!(world.is_freed(4713), "PgBouncer resets the connection of a session pool");
}

#[test]
fn transaction_locks_are_silent_and_a_linked_connection_is_said_to_be_one() {
    let Some(world) = World::new() else { return };
    let mut client = world.pooler.client("tx", "worker");
    client.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(612001)").unwrap();
    sleep(Duration::from_millis(300));
    let report = world.report(&[]);
    assert!(rules(&report).is_empty(), "{report:#}");
    assert_eq!(report["targets"][0]["locks"][0]["holder"]["pooler"]["linked"], true);
    client.batch_execute("COMMIT").unwrap();

    // A leak, and then a borrower, who rests at first and works in a transaction of its own at the end.
    let pid = world.leak("tx", 612002);
    client.batch_execute("SELECT 1").unwrap();
    let observing = std::thread::scope(|scope| {
        let looking = scope.spawn(|| world.report(&["--observe", "4s", "--interval", "200ms"]));
        let ours = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pglockwatch')";
        assert!(wait_until(&mut superuser(&world.cluster), ours, SOON));
        sleep(Duration::from_millis(1500));
        client.batch_execute("BEGIN; SELECT 1").unwrap();
        looking.join().unwrap()
    });
    let detail = texts(&only(&observing, "pooler-session-lock")["detail"]);
    // PgBouncer 1.18 knows the application of its clients.
    assert!(detail.contains("A client has the connection now: worker from 127.0.0.1:"), "{detail}");
    // RECONNECT leaves the borrower alone, and the lock goes with its transaction's end.
    world.pooler.console().simple_query("RECONNECT \"tx\";").unwrap();
    assert_eq!(single(&mut client, "SELECT pg_backend_pid()").unwrap(), pid, "its transaction goes on");
    assert!(world.holds(612002));
    client.batch_execute("COMMIT").unwrap();
    assert!(world.is_freed(612002));
}

#[test]
fn the_statement_frees_it_where_nobody_is_admin() {
    let Some(world) = World::new() else { return };
    world.leak("tx", 99);
    let waiter = crate::support::session::Session::connect(
        &world.cluster,
        &crate::support::session::Identity {
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            application_name: "waiter".to_owned(),
            replication: false,
        },
    )
    .unwrap();
    waiter.begin("SELECT pg_advisory_lock(99)", true);
    let began = Instant::now();
    let finding = loop {
        let report = world.report(&["--wait-threshold", "1s"]);
        let found = findings(&report).into_iter().find(|(rule, _)| rule == "pooler-session-lock").unwrap().1;
        if found["severity"] == "critical" {
            break found;
        }
        assert!(began.elapsed() < SOON, "{report:#}");
    };
    assert_eq!(finding["waiters"][0].as_i64(), Some(i64::from(waiter.pid)));
    let sql = finding["advice"]["sql"].as_str().unwrap();
    let said = single(&mut superuser(&world.cluster), sql).unwrap();
    assert!(said.contains("terminated"), "{said}");
    // The waiter has it now.
    let got = format!("SELECT EXISTS (SELECT FROM pg_locks WHERE objid = 99 AND granted AND pid = {})", waiter.pid);
    assert!(wait_until(&mut superuser(&world.cluster), &got, SOON));
}

#[test]
fn we_work_through_pools_of_each_kind_and_say_so() {
    let Some(world) = World::new() else { return };
    for pool in ["tx", "st", "se"] {
        let mut holder = superuser(&world.cluster);
        holder.batch_execute("SELECT pg_advisory_lock(5)").unwrap();
        // A connection that was there before we came: who gets it knows that it is lent.
        drop(world.pooler.client(pool, "somebody").batch_execute("SELECT 1"));
        sleep(Duration::from_millis(2500));
        let dsn = world.pooler.dsn(pool);
        let ran = check(world.home.path(), &["--dsn", &dsn, "--format", "json"]);
        let report = json(&ran);
        assert_eq!(report["targets"][0]["locks"].as_array().unwrap().len(), 1, "{pool}: {report:#}");
        assert!(texts(&report["targets"][0]["notes"]).contains("through a pooler"), "{pool}: {report:#}");
        let observed = check(world.home.path(), &["--dsn", &dsn, "--format", "json", "--observe", "1s"]);
        assert!(json(&observed)["targets"][0]["polls"].as_u64().unwrap() > 1, "{pool}");
    }
    let direct = world.check(&[]);
    assert!(json(&direct)["targets"][0].get("notes").is_none(), "{direct:?}");
}

#[test]
fn a_lock_on_the_very_backend_that_we_are_lent_is_not_missed() {
    let Some(world) = World::new() else { return };
    for (pool, key) in [("tx", 71), ("st", 72)] {
        let pid = world.leak(pool, key);
        let ran = check(world.home.path(), &["--dsn", &world.pooler.dsn(pool), "--format", "json"]);
        // The pool has one backend: ours is the one with the lock.
        assert_eq!(ran.code, Some(3), "{pool}: {ran:?}");
        let report = json(&ran);
        let target = &report["targets"][0];
        let lock = target["locks"].as_array().unwrap().iter().find(|lock| lock["key"]["objid"] == key).unwrap();
        assert_eq!(lock["holder"]["pid"].to_string(), pid, "{pool}: {report:#}");
        // Our poll is not its work, nor our name its application's.
        assert!(lock["holder"]["state"].is_null() && lock["holder"]["query"].is_null(), "{pool}: {report:#}");
        assert!(texts(&target["notes"]).contains("through a pooler"), "{pool}: {report:#}");
        let (_, hidden) = findings(&report).into_iter().find(|(rule, _)| rule == "hidden-sessions").unwrap();
        assert!(hidden["detail"].to_string().contains(&format!("lent us pid {pid}")), "{pool}: {hidden:#}");
        let advice = hidden["advice"].to_string();
        assert!(advice.contains("past the pooler") && !advice.contains("track_activities"), "{pool}: {hidden:#}");
    }
    // Without locks on it our own backend is nobody's holder, and no session of a pool.
    let report = world.report(&["--idle-threshold", "1h"]);
    assert!(!rules(&report).contains(&"hidden-sessions".to_owned()), "{report:#}");
    let pids: Vec<&Value> =
        report["targets"][0]["locks"].as_array().unwrap().iter().map(|lock| &lock["holder"]["pid"]).collect();
    assert_eq!(pids.len(), 2, "{report:#}");
}

#[test]
fn a_console_that_is_away_or_wrong_is_one_sentence() {
    let Some(mut world) = World::new() else { return };
    world.leak("tx", 7);
    // No PgBouncer's console, though a PgBouncer: PostgreSQL itself.
    let wrong = format!("host=127.0.0.1 port={} user=postgres", world.cluster.port());
    let report = json(&world.check(&["--pgbouncer", &wrong]));
    assert!(texts(&report["targets"][0]["notes"]).contains("PgBouncer cannot be asked: "), "{report:#}");
    assert!(rules(&report).is_empty());
    // And the other way round: PgBouncer's console, or a database that it does not have, in place of a server.
    let ran = check(world.home.path(), &["--dsn", &world.pooler.admin_dsn()]);
    assert!(ran.code == Some(3) && ran.stderr.contains("This is PgBouncer's own console"), "{ran:?}");
    assert!(!ran.stderr.contains("SELECT"), "our statement is not the user's: {ran:?}");
    let ran = check(world.home.path(), &["--dsn", &world.pooler.dsn("nosuch")]);
    assert!(ran.code == Some(3) && ran.stderr.contains("Is the database one of PgBouncer's?"), "{ran:?}");
    // Options and other databases are refused before anything is tried.
    for (dsn, words) in [
        ("host=h dbname=app", "it must name PgBouncer's console"),
        ("host=h options=-cx", "takes no options"),
        ("host=h nosuch=1 password=hunter2", "nosuch"),
    ] {
        let ran = world.check(&["--pgbouncer", dsn]);
        assert!(ran.code == Some(3) && ran.stdout.is_empty(), "{ran:?}");
        assert!(ran.stderr.contains("--pgbouncer: ") && ran.stderr.contains(words), "{ran:?}");
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    }
    // Without it, and from nowhere: the target is looked at all the same.
    world.pooler.stop();
    let ran = world.check(&["--pgbouncer", &world.pooler.admin_dsn()]);
    let report = json(&ran);
    assert!(texts(&report["targets"][0]["notes"]).contains("connection refused"), "{report:#}");
    assert_eq!(report["targets"][0]["server"]["role"], "postgres");
}

#[test]
fn a_pgbouncer_that_stops_or_restarts_never_takes_the_target_down() {
    let Some(mut world) = World::new() else { return };
    let config = world.home.path().join("pglockwatch.toml");
    let text = format!(
        "interval = \"200ms\"\ntimeout = \"4s\"\n[[target]]\nname = \"t\"\ndsn = \"{}\"\n[[target.pgbouncer]]\ndsn = \"{}\"\n",
        world.dsn(),
        world.pooler.admin_dsn()
    );
    std::fs::write(&config, text).unwrap();
    world.leak("tx", 31);
    let mut exporter = Exporter::start(world.home.path(), &["--config", config.to_str().unwrap()]).ready();
    let series = "pglockwatch_findings{target=\"t\",rule=\"pooler-session-lock\",severity=\"warning\"}";
    let leaks = |count: f64| move |exporter: &Exporter| exporter.value(series) == Some(count);
    let is_up = |exporter: &Exporter| assert_eq!(exporter.value("pglockwatch_up{target=\"t\"}"), Some(1.0));
    let notes = |exporter: &Exporter| -> Value {
        let report: Value = serde_json::from_str(&exporter.get("/findings").body).unwrap();
        report["targets"][0]["notes"].clone()
    };
    exporter.wait(SOON, "the leak is seen", leaks(1.0));

    world.pooler.signal(Signal::STOP);
    exporter.wait(SOON, "nothing old is shown", leaks(0.0));
    is_up(&exporter);
    let note = texts(&notes(&exporter));
    assert!(note.contains("PgBouncer at 127.0.0.1:") && note.contains("has not answered for"), "{note}");
    world.pooler.signal(Signal::CONT);
    exporter.wait(SOON, "the leak is seen again", leaks(1.0));
    assert!(notes(&exporter).is_null());
    // A holder behind a pooler has no application of its own in the metrics.
    let pooled = "pglockwatch_idle_holder_max_seconds{target=\"t\",datname=\"postgres\",application_name=\"pooled\"";
    assert!(exporter.value(pooled).is_some(), "{}", exporter.metrics("").body);

    world.pooler.restart();
    exporter.wait(SOON, "the lock is gone", leaks(0.0));
    is_up(&exporter);
    // The lock went with the server connections of the old process; a new leak is seen over a new console.
    world.leak("tx", 32);
    exporter.wait(SOON, "the new leak is seen", leaks(1.0));
    is_up(&exporter);
}

#[test]
fn only_the_right_rows_are_joined() {
    let Some(world) = World::new() else { return };
    // Before it another PgBouncer, whose server is the first one; and one that reaches the server over its socket.
    let outer = format!("port={} dbname=tx pool_mode=transaction", world.pooler.port());
    let socket = format!("host={} pool_mode=transaction", world.cluster.folder().display());
    let pools = [("outer", outer.as_str()), ("socket", socket.as_str())];
    let front = Pooler::start(&world.cluster, &pools, &[]).unwrap();
    let mut client = front.client("outer", "culprit");
    client.batch_execute("SELECT pg_advisory_lock(55)").unwrap();
    sleep(Duration::from_millis(200));
    let asked = |consoles: &[&str]| {
        let arguments: Vec<&str> = consoles.iter().flat_map(|console| ["--pgbouncer", console]).collect();
        let report = json(&world.check(&arguments));
        report["targets"][0]["locks"][0]["holder"]["pooler"]["database"].as_str().map(str::to_owned)
    };
    let (near, far) = (world.pooler.admin_dsn(), front.admin_dsn());
    assert_eq!(asked(&[&far]), None, "its server is a PgBouncer, not this one");
    assert_eq!(asked(&[&near]).as_deref(), Some("tx"));
    assert_eq!(asked(&[&far, &near]).as_deref(), Some("tx"));
    world.pooler.console().simple_query("RECONNECT \"tx\";").unwrap();
    assert!(world.is_freed(55));

    let mut client = front.client("socket", "culprit");
    client.batch_execute("SELECT pg_advisory_lock(56)").unwrap();
    sleep(Duration::from_millis(200));
    assert_eq!(asked(&[&near, &far]).as_deref(), Some("socket"));
    // Where the command line has two targets it might be either's.
    let second = server::start(&server::any(), &[]);
    let other = format!("host={} port={} user=postgres dbname=postgres", second.host(), second.port());
    let report = json(&world.check(&["--dsn", &other, "--pgbouncer", &far]));
    assert!(report["targets"][0]["locks"][0]["holder"]["pooler"].is_null(), "{report:#}");
    // Over TCP the address tells.
    world.leak("tx", 57);
    let report = json(&world.check(&["--dsn", &other, "--pgbouncer", &near, "--key", "57"]));
    assert_eq!(report["targets"][0]["locks"][0]["holder"]["pooler"]["database"], "tx");
}

/// As after an upgrade that was taken back.
#[test]
fn polls_go_on_when_the_pooler_turns_to_an_older_server() {
    server::on_major(12, "a pooler that turns to an older server", |older| {
        let [newer, older] = [&server::any(), older].map(|binaries| server::start(binaries, &[]));
        let Some(pooler) = Pooler::start(&newer, POOLS, &[]) else { return };
        let settings = ConnInfo::parse(&pooler.dsn("tx")).unwrap().complete(&ProcessEnvironment).unwrap();
        let mut session = None;
        let mut poll = || {
            let connect = || Session::connect(&settings, &ProcessEnvironment, SOON).unwrap();
            let mut used = session.take().unwrap_or_else(connect);
            let snapshot = used.poll(Instant::now(), &[]);
            session = (!used.is_lost()).then_some(used);
            snapshot.map(|snapshot| snapshot.server.version_num)
        };
        poll().unwrap();
        pooler.serve(&older, POOLS, &[]);
        let deadline = Instant::now() + SOON;
        while poll().map_or(true, |version_num| version_num >= 130_000) {
            assert!(Instant::now() < deadline, "polls fail for good");
            sleep(Duration::from_millis(20));
        }
    });
}
