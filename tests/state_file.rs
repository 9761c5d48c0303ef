//! `check --state-file` on a real server: looks as from cron, each a process of its own.

use std::path::Path;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use serde_json::Value;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::server;
use crate::support::session::{Session, Turn};

/// Longer than any of it takes on a machine with work to do.
const AT_MOST: Duration = Duration::from_secs(120);

fn look(home: &Path, cluster: &Cluster, more: &[&str]) -> Ran {
    let mut command = pglockwatch(home);
    let dsn = format!("host={} port={} user=postgres dbname=postgres", cluster.host(), cluster.port());
    let args = ["--format", "json", "--idle-threshold", "2s", "--wait-threshold", "1s", "--state-file", "check.state"];
    command.args(["check", "--dsn", &dsn]).args(args).args(more);
    let ran = run(command, AT_MOST);
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    ran
}

fn target(ran: &Ran) -> Value {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    report["targets"][0].clone()
}

fn finding(ran: &Ran, rule: &str) -> Option<Value> {
    target(ran)["findings"].as_array().unwrap().iter().find(|finding| finding["rule"] == rule).cloned()
}

fn turns(turns: &[(&str, u64)]) -> Vec<Turn> {
    let turn =
        |(sql, pause): &(&str, u64)| [Turn::Statement((*sql).to_owned()), Turn::Pause(Duration::from_millis(*pause))];
    turns.iter().flat_map(turn).collect()
}

#[test]
fn looks_from_cron_see_a_leak_on_a_busy_connection() {
    let home = tempfile::tempdir().unwrap();
    let cluster = server::start(&server::any(), &[]);
    let leak = Session::named(&cluster, "api");
    leak.run("SELECT pg_advisory_lock(8675309)", AT_MOST).unwrap();
    leak.repeat(turns(&[("SELECT 'some request'", 50)]), false);
    let worker = Session::named(&cluster, "worker");
    worker.repeat(turns(&[("SELECT pg_advisory_lock(31)", 300), ("SELECT pg_advisory_unlock(31)", 5)]), false);
    let waiter = Session::named(&cluster, "migrator");
    waiter.begin("SELECT pg_advisory_lock(8675309)", true);
    let began = Instant::now();
    let ran = loop {
        let ran = look(home.path(), &cluster, &[]);
        if finding(&ran, "carried-lock").is_some() {
            break ran;
        }
        assert!(began.elapsed() < AT_MOST, "never seen: {ran:?}");
    };
    let found = finding(&ran, "carried-lock").unwrap();
    assert_eq!(found["pids"], serde_json::json!([leak.pid]), "the worker is none: {found}");
    assert_eq!((ran.code, &found["severity"]), (Some(2), &Value::from("critical")), "{found}");
    let held = found["held_seconds"]["at_least"].as_f64().unwrap();
    assert!(held >= 2.0 && held <= began.elapsed().as_secs_f64() + 0.5, "{found}");
    assert!(target(&ran)["polls"].as_u64().unwrap() >= 2, "{}", ran.stdout);
    assert_eq!(ran.stderr, "", "nothing is wrong with the file");
    // Without the memory a look knows nothing of it.
    std::fs::remove_file(home.path().join("check.state")).unwrap();
    assert!(finding(&look(home.path(), &cluster, &[]), "carried-lock").is_none());
}

#[test]
fn fifty_looks_raise_what_is_not_proved_and_no_worker_loop() {
    let home = tempfile::tempdir().unwrap();
    let cluster = server::start(&server::any(), &[]);
    let leak = Session::named(&cluster, "api");
    leak.run("SELECT pg_advisory_lock(8675309)", AT_MOST).unwrap();
    leak.repeat(turns(&[("SELECT 'some request'", 20)]), false);
    let worker = Session::named(&cluster, "worker");
    worker.repeat(turns(&[("SELECT pg_advisory_lock(31)", 300), ("SELECT pg_advisory_unlock(31)", 5)]), false);
    let began = Instant::now();
    // It takes both: fifty polls, and the idle threshold. How many looks that is depends on how fast they are.
    let (ran, found) = loop {
        let ran = look(home.path(), &cluster, &[]);
        if let Some(found) = finding(&ran, "carried-lock") {
            break (ran, found);
        }
        assert!(began.elapsed() < AT_MOST, "never seen: {ran:?}");
    };
    assert!(target(&ran)["polls"].as_u64().unwrap() >= 50, "{}", ran.stdout);
    assert!(began.elapsed() >= Duration::from_secs(2), "{found}");
    assert_eq!(found["pids"], serde_json::json!([leak.pid]), "the worker is none: {found}");
    assert_eq!(found["severity"], "warning", "{found}");
    assert!(!found["since"].is_null(), "{found}");
}

#[test]
fn a_count_must_be_wrong_for_a_while_and_a_restart_begins_anew() {
    let home = tempfile::tempdir().unwrap();
    let cluster = server::start(&server::any(), &[]);
    let keys = "[[key]]\nname = \"leader\"\nkey = 7\nholders = 1\n";
    std::fs::write(home.path().join("keys.toml"), keys).unwrap();
    let keys = ["--keys", "keys.toml"];
    let first = look(home.path(), &cluster, &keys);
    assert!(finding(&first, "holder-count").is_none(), "at once only without a memory: {first:?}");
    let began = Instant::now();
    while finding(&look(home.path(), &cluster, &keys), "holder-count").is_none() {
        assert!(began.elapsed() < AT_MOST);
    }
    assert!(began.elapsed() > Duration::from_millis(1_500), "{:?}", began.elapsed());
    // Another server under the same name.
    let port = cluster.port();
    drop(cluster);
    let settings = [format!("port={port}")];
    let other = server::start(&server::any(), &settings);
    let mut command = pglockwatch(home.path());
    command.args(["check", "--format", "json", "--state-file", "check.state", "--keys", "keys.toml"]);
    command.args(["--dsn", &format!("host={} port={port} user=postgres dbname=postgres", other.host())]);
    let ran = run(command, AT_MOST);
    assert_eq!(target(&ran)["polls"], 1, "{ran:?}");
}

#[test]
fn a_bad_file_is_told_and_mended_and_a_bad_place_refused() {
    let home = tempfile::tempdir().unwrap();
    let cluster = server::start(&server::any(), &[]);
    let path = home.path().join("check.state");
    std::fs::write(&path, "password=hunter2").unwrap();
    let ran = look(home.path(), &cluster, &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.starts_with("pglockwatch: the state file check.state is not used: it is damaged"), "{ran:?}");
    assert!(!ran.stderr.contains("hunter2"));
    assert_eq!(look(home.path(), &cluster, &[]).stderr, "");
    let ran = look(home.path(), &cluster, &["--state-file", "/dev/null"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
    assert!(ran.stderr.contains("--state-file: /dev/null is not a regular file"), "{ran:?}");
}

#[test]
fn an_observation_takes_as_long_as_it_is_asked_to() {
    let home = tempfile::tempdir().unwrap();
    let cluster = server::start(&server::any(), &[]);
    look(home.path(), &cluster, &["--observe", "1s", "--interval", "200ms"]);
    let ran = look(home.path(), &cluster, &["--observe", "1s", "--interval", "200ms"]);
    assert!(ran.took >= Duration::from_millis(900), "{ran:?}");
    let polls = target(&ran)["polls"].as_u64().unwrap();
    assert!(polls >= 4, "{}", ran.stdout);
}
