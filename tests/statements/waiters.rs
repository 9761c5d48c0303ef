//! Statements that cancel a waiter.

use super::scene::{SOON, Scene, for_another_session, sql_of};

const CANCELLED: &str = "cancelled: its statement fails, its session stays";
const NOT_WAITING: &str = "nothing done: no longer waiting for this lock";

pub fn the_waiter_of_a_hidden_deadlock_is_cancelled(scene: &Scene<'_>) {
    let holder = scene.played("app", "migrator", &["SELECT pg_advisory_lock(901)"]);
    scene.paste("postgres", "ALTER TABLE notes OWNER TO app; GRANT CREATE ON SCHEMA public TO app");
    let waiter = scene.waiting("app", "migrator", "SELECT pg_advisory_lock(901)");
    let builder = scene.waiting("app", "migrator", "CREATE INDEX CONCURRENTLY built ON notes(what)");
    scene.until_rests(&holder, "idle");
    let finding = scene.finding("hidden-deadlock", &[&holder, &waiter, &builder], &[]);
    assert_eq!(finding["advice"]["action"], "cancel-waiter");
    let statement = sql_of(&finding);
    assert!(!statement.contains("pg_terminate_backend"), "{statement}");

    scene.says("blind", &statement, "nothing done: not visible to you");
    scene.says("signaller", &statement, "nothing done: not visible to you");
    scene.says("seer", &statement, "nothing done: not allowed to you");
    scene.says("postgres", &for_another_session(&statement), "nothing done: pid belongs to another session");
    scene.until_waits(&waiter);
    assert!(waiter.errors().is_empty(), "{:?}", waiter.errors());
    let before = scene.sessions();
    scene.says("oncall", &statement, CANCELLED);
    scene.until_cancelled(&waiter);
    scene.until("SELECT indisvalid FROM pg_index WHERE indexrelid = 'built'::regclass");
    assert!(builder.errors().is_empty(), "{:?}", builder.errors());
    scene.until_has(&holder, 901);
    assert_eq!(scene.sessions(), before, "a session is gone");

    // Idle, at other work, waiting for another lock, holding the lock: never cancelled again.
    scene.says("oncall", &statement, NOT_WAITING);
    let mut gate = scene.client("postgres");
    gate.batch_execute("SELECT pg_advisory_lock(902)").unwrap();
    waiter.begin("SELECT pg_advisory_lock(902)", false);
    scene.until_waits(&waiter);
    scene.says("oncall", &statement, NOT_WAITING);
    gate.batch_execute("SELECT pg_advisory_unlock(902)").unwrap();
    holder.run("SELECT pg_advisory_unlock(901)", SOON).unwrap();
    waiter.run("SELECT pg_advisory_lock(901)", SOON).unwrap();
    scene.says("oncall", &statement, NOT_WAITING);
    waiter.run("SELECT 1", SOON).unwrap();
    assert_eq!(waiter.errors().len(), 1, "{:?}", waiter.errors());
}

pub fn one_session_of_a_cycle_is_cancelled(scene: &Scene<'_>) {
    let patient = |key: u32| {
        let lock = format!("SELECT pg_advisory_lock({key})");
        // Only a superuser may tell the server not to break the cycle by itself.
        scene.played("postgres", "worker", &["SET deadlock_timeout = '1h'", &lock])
    };
    let first = patient(911);
    let second = patient(912);
    let bystander = patient(913);
    first.begin("SELECT pg_advisory_lock(912)", false);
    scene.until_waits(&first);
    second.begin("SELECT pg_advisory_lock(911)", false);
    scene.until_waits(&second);
    bystander.begin("SELECT pg_advisory_lock(911)", false);
    scene.until_waits(&bystander);
    let finding = scene.finding("lock-cycle", &[&first, &second], &[]);
    assert_eq!(finding["advice"]["action"], "cancel-waiter");
    let statement = sql_of(&finding);
    scene.says("oncall", &statement, "nothing done: only a superuser");
    assert!(first.errors().is_empty() && second.errors().is_empty());
    let before = scene.sessions();
    scene.says("postgres", &statement, CANCELLED);
    // The youngest wait is the one that closed the circle.
    scene.until_cancelled(&second);
    scene.until_waits(&first);
    scene.until_waits(&bystander);
    scene.until_has(&second, 912);
    scene.says("postgres", &statement, NOT_WAITING);
    second.run("SELECT pg_advisory_unlock(912)", SOON).unwrap();
    scene.until_has(&first, 912);
    assert!(first.errors().is_empty() && bystander.errors().is_empty());
    assert_eq!(scene.sessions(), before, "a session is gone");
    first.run("SELECT pg_advisory_unlock(911)", SOON).unwrap();
    scene.until_has(&bystander, 911);
}
