//! A lock that was left on the server connection of a real PgBouncer, and one of a replication connection.

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use serde_json::Value;

use super::scene::{SOON, Scene, findings_of, for_another_session, rows, sql_of};
use crate::support::pgbouncer::Pooler;
use crate::support::psql;
use crate::support::session::{single, wait_until};

const GONE: &str = "nothing done: session gone";
const FREED: &str = "nothing done: lock freed";
const OTHER: &str = "nothing done: pid belongs to another session";
const WORKING: &str = "nothing done: working for somebody now, run it again";
const TERMINATED: &str = "terminated";

/// A PgBouncer with a transaction pool `tx` of so many connections to the scene's database.
fn pooler(scene: &Scene<'_>, size: u32) -> Option<Pooler> {
    let line = format!("dbname={} pool_mode=transaction pool_size={size}", scene.database());
    // Neither limit may close a connection in the middle of a scene.
    Pooler::start(scene.cluster(), &[("tx", &line)], &["server_idle_timeout = 3600", "server_lifetime = 3600"])
}

/// A client of that pool.
fn client(pooler: &Pooler, application_name: &str) -> Client {
    let dsn = format!("{} application_name={application_name}", pooler.dsn_of("app", "tx"));
    Client::connect(&dsn, NoTls).unwrap()
}

/// Which backend serves this client now.
fn backend(client: &mut Client) -> i32 {
    single(client, "SELECT pg_backend_pid()").unwrap().parse().unwrap()
}

/// Leaves a session lock on a server connection and returns its backend, once that has rested for long enough.
#[track_caller]
fn leak(scene: &Scene<'_>, culprit: &mut Client, key: i64) -> i32 {
    let take = format!("SELECT pg_backend_pid() FROM (SELECT pg_advisory_lock({key})) l");
    let pid = single(culprit, &take).unwrap().parse().unwrap();
    scene.until_pid_rests(pid, "idle");
    pid
}

/// The finding of this rule about this backend.
fn about(printed: &str, rule: &str, pid: i32) -> Option<Value> {
    let is_it = |finding: &Value| finding["rule"] == rule && finding["pids"] == Value::from(vec![pid]);
    findings_of(printed).into_iter().find(is_it)
}

/// Looks, as `oncall`, until this is printed: on a busy machine PgBouncer may not have answered in time.
#[track_caller]
fn printed<T>(scene: &Scene<'_>, arguments: &[&str], wanted: impl Fn(&str) -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        let ran = scene.ran("oncall", arguments);
        if let Some(found) = wanted(&ran.stdout) {
            return found;
        }
        assert!(began.elapsed() < SOON, "{arguments:?}: {ran:?}");
    }
}

pub fn a_leak_behind_a_transaction_pool_is_freed_and_no_client_harmed(scene: &Scene<'_>) {
    let Some(pooler) = pooler(scene, 2) else { return };
    // The bystander's open transaction keeps one server connection, so that the leak is left on the other one.
    let mut bystander = client(&pooler, "bystander");
    bystander.batch_execute("BEGIN; INSERT INTO notes VALUES ('a')").unwrap();
    let mut culprit = client(&pooler, "culprit");
    let leaked = leak(scene, &mut culprit, 1001);
    assert_ne!(backend(&mut bystander), leaked);
    let stats = pooler.stats_dsn();
    let check = ["check", "--format", "json", "--pgbouncer", &stats];
    let found = printed(scene, &check, |json| about(json, "pooler-session-lock", leaked));
    assert_eq!(found["advice"]["action"], "reconnect-pooler");

    // As the runbook prints it, by who may only look and by who may act.
    let runbook = ["runbook", "--key", "1001", "--pgbouncer", &stats];
    let typed = printed(scene, &runbook, |text| {
        text.lines().map(str::trim).find(|line| line.starts_with("RECONNECT ")).map(str::to_owned)
    });
    if scene.has_psql() {
        let refused = psql::typed(&["-d", &stats], "", &typed).unwrap_err();
        assert!(refused.contains("admin access needed"), "{refused}");
        assert_eq!(psql::typed(&["-d", &pooler.admin_dsn()], "", &typed), Ok(vec!["RECONNECT".to_owned()]));
    } else {
        pooler.console().simple_query(&typed).unwrap();
    }
    scene.is_free(1001);
    scene.until(&format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = {leaked}"));
    // Whoever was in a transaction ends it, whoever was not goes on.
    bystander.batch_execute("INSERT INTO notes VALUES ('b'); COMMIT").unwrap();
    assert_ne!(backend(&mut culprit), leaked);
    assert_eq!(scene.notes(), "a b");

    // The statement beside it, for who has no admin access.
    bystander.batch_execute("BEGIN; INSERT INTO notes VALUES ('c')").unwrap();
    let leaked = leak(scene, &mut culprit, 1002);
    let statement = sql_of(&printed(scene, &check, |json| about(json, "pooler-session-lock", leaked)));
    let before = scene.sessions();
    scene.says("oncall", &for_another_session(&statement), OTHER);
    scene.says("oncall", &statement, TERMINATED);
    scene.is_free(1002);
    until_dropped(&pooler, leaked);
    bystander.batch_execute("COMMIT").unwrap();
    assert_ne!(backend(&mut culprit), leaked);
    assert_eq!(scene.notes(), "a b c");
    assert!(before.contains(&leaked) && !scene.sessions().contains(&leaked));
    scene.says("oncall", &statement, GONE);
}

pub fn a_pooled_connection_is_ended_only_while_no_client_has_it(scene: &Scene<'_>) {
    let Some(pooler) = pooler(scene, 1) else { return };
    let mut culprit = client(&pooler, "culprit");
    let pid = leak(scene, &mut culprit, 1011);
    // Nobody has told the program of PgBouncer.
    let check = ["check", "--format", "json"];
    let statement = sql_of(&printed(scene, &check, |json| about(json, "idle-holder", pid)));

    // A client is linked: it rests in its transaction, which has written, and works in it.
    let mut borrower = client(&pooler, "borrower");
    borrower.batch_execute("BEGIN; INSERT INTO notes VALUES ('a')").unwrap();
    assert_eq!(backend(&mut borrower), pid);
    scene.says("oncall", &statement, WORKING);
    let mut gate = scene.client("postgres");
    gate.batch_execute("SELECT pg_advisory_lock(1012)").unwrap();
    thread::scope(|scope| {
        let work = scope.spawn(|| borrower.batch_execute("SELECT pg_advisory_xact_lock(1012)"));
        scene.until(&format!("SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = {pid}"));
        scene.says("oncall", &statement, WORKING);
        gate.batch_execute("SELECT pg_advisory_unlock(1012)").unwrap();
        work.join().unwrap().unwrap();
    });
    borrower.batch_execute("COMMIT").unwrap();
    assert_eq!(scene.notes(), "a");
    scene.until(&format!("SELECT state = 'idle' FROM pg_stat_activity WHERE pid = {pid}"));

    // Nobody has it. Both clients stay connected, and get another one.
    scene.says("oncall", &statement, TERMINATED);
    scene.is_free(1011);
    until_dropped(&pooler, pid);
    for client in [&mut culprit, &mut borrower] {
        assert_ne!(backend(client), pid);
    }
    scene.says("oncall", &statement, GONE);
}

/// Waits until PgBouncer has seen that its connection is gone: a client that comes in that moment may get an error.
#[track_caller]
fn until_dropped(pooler: &Pooler, pid: i32) {
    let began = Instant::now();
    let listed = || {
        let mut console = pooler.console();
        rows(&mut console, "SHOW SERVERS").unwrap().iter().any(|row| row.split('|').any(|cell| cell == pid.to_string()))
    };
    while listed() {
        assert!(began.elapsed() < SOON, "PgBouncer keeps the connection to {pid}");
        sleep(Duration::from_millis(10));
    }
}

pub fn a_replication_connection_is_ended_only_at_rest(scene: &Scene<'_>) {
    let walsender = scene.walsender("replicator", "standby");
    walsender.run("SELECT pg_advisory_lock(1021)", SOON).unwrap();
    scene.until_rests(&walsender, "idle");
    let bystander = scene.played("app", "worker", &["SELECT pg_advisory_lock(1022)"]);
    let statement = scene.statement("idle-holder", &[&walsender]);
    scene.says("oncall", &for_another_session(&statement), OTHER);
    scene.says("seer", &statement, "nothing done: not allowed to you");
    walsender.run("SELECT pg_advisory_unlock(1021)", SOON).unwrap();
    scene.says("oncall", &statement, FREED);
    walsender.run("SELECT pg_advisory_lock(1021)", SOON).unwrap();

    // It streams to a standby now: a session at work, though no statement of SQL runs.
    let mut watcher = scene.client("postgres");
    let from = single(&mut watcher, "SELECT pg_current_wal_flush_lsn()").unwrap();
    walsender.begin(&format!("START_REPLICATION {from}"), true);
    let streams = format!("SELECT state = 'streaming' FROM pg_stat_replication WHERE pid = {}", walsender.pid);
    assert!(wait_until(&mut watcher, &streams, SOON), "it does not stream");
    scene.says("oncall", &statement, WORKING);
    assert!(wait_until(&mut watcher, &streams, SOON), "it streams no more");
    // A server that shuts down would wait for a standby that never answers.
    rows(&mut watcher, &format!("SELECT pg_terminate_backend({})", walsender.pid)).unwrap();
    scene.until_gone(&walsender);
    scene.says("oncall", &statement, GONE);

    let walsender = scene.walsender("replicator", "standby");
    walsender.run("SELECT pg_advisory_lock(1021)", SOON).unwrap();
    scene.until_rests(&walsender, "idle");
    let statement = scene.statement("idle-holder", &[&walsender]);
    let before = scene.sessions();
    scene.says("oncall", &statement, TERMINATED);
    scene.until_gone(&walsender);
    scene.is_free(1021);
    scene.until_has(&bystander, 1022);
    assert_eq!(scene.sessions(), before, "a client's session is gone");
}
