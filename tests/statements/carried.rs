//! A lock that was leaked on a busy pooled connection.

use std::thread;

use serde_json::Value;

use super::scene::{SOON, Scene, finding_in, sql_of};
use crate::support::session::Session;

const WORKING: &str = "nothing done: working for somebody now, run it again";

/// How long the program watches, from what is enough on an idle machine: where a poll costs much, the interval is longer
/// and fewer of them fit in.
const OBSERVATIONS: [&str; 4] = ["2500ms", "6s", "14s", "28s"];

/// The finding about a session that has requests all the time while the program looks: it never rests for as long as
/// the threshold.
#[track_caller]
fn observed(scene: &Scene<'_>, pooled: &Session) -> Value {
    let mut seen = Vec::new();
    for observe in OBSERVATIONS {
        seen = thread::scope(|scope| {
            let look = ["--idle-threshold", "1s", "--observe", observe, "--interval", "100ms"];
            let looking = scope.spawn(move || scene.check("postgres", &look));
            while !looking.is_finished() {
                pooled.run("SELECT pg_sleep(0.03) /* a request */", SOON).unwrap();
            }
            looking.join().unwrap()
        });
        if let Some(found) = finding_in(&seen, "carried-lock", &[pooled]) {
            return found;
        }
    }
    panic!("no carried-lock about {}: {seen:#?}", pooled.pid)
}

pub fn a_busy_leak_is_freed_at_a_moment_of_rest(scene: &Scene<'_>) {
    let pooled = scene.played("app", "api", &["SELECT pg_advisory_lock(971)"]);
    let waiter = scene.waiting("app", "migrator", "SELECT pg_advisory_lock(971)");
    let found = observed(scene, &pooled);
    assert_eq!(found["advice"]["action"], "investigate");
    let statement = sql_of(&found);
    let before = scene.sessions();

    // In use: inside a borrower's transaction, and in the middle of a statement.
    pooled.run("BEGIN; INSERT INTO notes VALUES ('a')", SOON).unwrap();
    scene.says("oncall", &statement, WORKING);
    pooled.run("COMMIT", SOON).unwrap();
    let mut gate = scene.client("postgres");
    gate.batch_execute("BEGIN; LOCK TABLE notes").unwrap();
    pooled.begin("INSERT INTO notes VALUES ('b')", false);
    scene.until(&format!("SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND pid = {}", pooled.pid));
    scene.says("oncall", &statement, WORKING);
    gate.batch_execute("ROLLBACK").unwrap();
    scene.until(&format!("SELECT state = 'idle' FROM pg_stat_activity WHERE pid = {}", pooled.pid));

    // Between two requests, however short the rest.
    pooled.run("INSERT INTO notes VALUES ('c')", SOON).unwrap();
    scene.says("oncall", &statement, "terminated");
    scene.until_gone(&pooled);
    scene.until_has(&waiter, 971);
    assert_eq!(scene.notes(), "a b c");
    assert!(pooled.errors().is_empty() && waiter.errors().is_empty());
    let expected = before.into_iter().filter(|&pid| pid != pooled.pid).collect();
    assert_eq!(scene.sessions(), expected, "not exactly that session is gone");
    scene.says("oncall", &statement, "nothing done: session gone");
}
