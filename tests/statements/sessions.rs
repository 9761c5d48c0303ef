//! Statements that end a session which rests with a lock.

use std::collections::BTreeSet;

use postgres::Client;

use super::scene::{SOON, Scene, for_another_session, rows, sql_of};
use crate::support::session::Session;

const GONE: &str = "nothing done: session gone";
const FREED: &str = "nothing done: lock freed";
const OTHER: &str = "nothing done: pid belongs to another session";
const WORKING: &str = "nothing done: working for somebody now, run it again";
const MOVED_ON: &str = "nothing done: working for somebody now or at rest anew, run pglockwatch again";
const TERMINATED: &str = "terminated";

/// An idle session with this key, as an application leaves it.
#[track_caller]
fn idle_holder(scene: &Scene<'_>, key: i64) -> Session {
    let holder = scene.played("app", "worker", &[&format!("SELECT pg_advisory_lock({key})")]);
    scene.until_rests(&holder, "idle");
    holder
}

/// A signal would have been sent before the statement answered: whoever still runs statements got none.
#[track_caller]
fn is_untouched(session: &Session) {
    session.run("SELECT 1", SOON).unwrap();
}

/// A person whose open transaction has frozen its view of the sessions.
fn frozen(scene: &Scene<'_>) -> Client {
    let mut person = scene.client("oncall");
    person.batch_execute("BEGIN; SELECT count(*) FROM pg_stat_activity").unwrap();
    person
}

pub fn an_idle_holder_is_ended_and_nobody_else(scene: &Scene<'_>) {
    let bystander = idle_holder(scene, 702);
    let holder = scene.played("app", "worker", &["SELECT pg_advisory_lock(701)", "SELECT pg_advisory_lock(-703)"]);
    scene.until_rests(&holder, "idle");
    let waiter = scene.waiting("app", "migrator", "SELECT pg_advisory_lock(-703)");
    let finding = scene.finding("idle-holder", &[&holder], &[]);
    assert_eq!(finding["advice"]["action"], "terminate");
    let statement = sql_of(&finding);
    // The statement for on-call's eyes is the same.
    let runbook = scene.look("postgres", &["runbook", "--pid", &holder.pid.to_string()]);
    for line in statement.lines() {
        assert!(runbook.lines().any(|printed| printed.trim() == line.trim()), "no {line:?} in\n{runbook}");
    }

    scene.says("oncall", &for_another_session(&statement), OTHER);
    is_untouched(&holder);
    let before = scene.sessions();
    scene.says("oncall", &statement, TERMINATED);
    scene.until_gone(&holder);
    let expected: BTreeSet<i32> = before.into_iter().filter(|&pid| pid != holder.pid).collect();
    assert_eq!(scene.sessions(), expected, "not exactly that session is gone");
    scene.is_free(701);
    scene.until_has(&waiter, -703);
    scene.until_has(&bystander, 702);
    assert!(holder.run("SELECT 1", SOON).is_err());
    scene.says("oncall", &statement, GONE);
    for session in [&bystander, &waiter] {
        is_untouched(session);
    }
    assert!(waiter.errors().is_empty(), "{:?}", waiter.errors());
}

pub fn an_idle_holder_that_works_again_keeps_its_work(scene: &Scene<'_>) {
    let holder = idle_holder(scene, 711);
    let statement = scene.statement("idle-holder", &[&holder]);

    // A borrower's open write.
    holder.run("BEGIN; INSERT INTO notes VALUES ('a')", SOON).unwrap();
    scene.says("postgres", &statement, WORKING);
    holder.run("COMMIT", SOON).unwrap();

    // A write that began after the person's last look.
    let mut person = frozen(scene);
    holder.run("BEGIN; INSERT INTO notes VALUES ('b')", SOON).unwrap();
    assert_eq!(rows(&mut person, &statement).unwrap(), [WORKING]);
    holder.run("COMMIT", SOON).unwrap();

    // A statement at work.
    let mut gate = scene.client("postgres");
    gate.batch_execute("BEGIN; LOCK TABLE notes").unwrap();
    holder.begin("INSERT INTO notes VALUES ('c')", false);
    scene.until_waits(&holder);
    scene.says("postgres", &statement, WORKING);
    gate.batch_execute("ROLLBACK").unwrap();
    scene.until_rests(&holder, "idle");

    // A transaction that has only begun, and one that has failed.
    holder.run("BEGIN", SOON).unwrap();
    scene.says("postgres", &statement, WORKING);
    assert!(holder.run("SELECT 1/0", SOON).is_err());
    scene.says("postgres", &statement, WORKING);
    holder.run("ROLLBACK", SOON).unwrap();

    assert!(holder.errors().is_empty(), "{:?}", holder.errors());
    assert_eq!(scene.notes(), "a b c");
    scene.until_has(&holder, 711);
    scene.says("postgres", &statement, TERMINATED);
    scene.until_gone(&holder);
    scene.is_free(711);
    assert_eq!(scene.notes(), "a b c");
}

pub fn a_freed_lock_ends_nobody(scene: &Scene<'_>) {
    let holder = scene.played("app", "worker", &["SELECT pg_advisory_lock(-1, -2147483648)"]);
    scene.until_rests(&holder, "idle");
    let statement = scene.statement("idle-holder", &[&holder]);
    // The same two numbers as a bigint, and the same key in another mode, are other locks.
    let same_numbers = format!("SELECT pg_advisory_lock({})", (0xFFFF_FFFF_8000_0000_u64).cast_signed());
    for sql in ["SELECT pg_advisory_unlock(-1, -2147483648)", &same_numbers] {
        holder.run(sql, SOON).unwrap();
        scene.says("postgres", &statement, FREED);
    }
    let heir = scene.played("app", "worker", &["SELECT pg_advisory_lock_shared(-1, -2147483648)"]);
    holder.run("SELECT pg_advisory_lock_shared(-1, -2147483648)", SOON).unwrap();
    scene.says("postgres", &statement, FREED);
    is_untouched(&heir);
    is_untouched(&holder);
    scene.until_rests(&heir, "idle");
    let of_heir = scene.statement("idle-holder", &[&heir]);
    scene.says("postgres", &of_heir, TERMINATED);
    scene.until_gone(&heir);
    is_untouched(&holder);
}

pub fn a_lock_in_two_modes_is_one_row(scene: &Scene<'_>) {
    let both = ["SELECT pg_advisory_lock(721)", "SELECT pg_advisory_lock_shared(721)", "SELECT pg_advisory_lock(721)"];
    let holder = scene.played("app", "worker", &both);
    scene.until_rests(&holder, "idle");
    let statement = scene.statement("idle-holder", &[&holder]);
    scene.says("postgres", &statement, TERMINATED);
    scene.until_gone(&holder);
    scene.is_free(721);
}

pub fn a_hoard_is_freed_by_one_row(scene: &Scene<'_>) {
    let hoard = ["SELECT count(pg_advisory_lock(730, key)) FROM generate_series(1, 150) key"];
    let holder = scene.played("app", "worker", &hoard);
    scene.until_rests(&holder, "idle");
    let statement = scene.statement("key-hoard", &[&holder]);
    holder.run("BEGIN; INSERT INTO notes VALUES ('kept')", SOON).unwrap();
    scene.says("postgres", &statement, WORKING);
    holder.run("COMMIT", SOON).unwrap();
    scene.says("postgres", &statement, TERMINATED);
    scene.until_gone(&holder);
    scene.until("SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND classid = 730");
    assert_eq!(scene.notes(), "kept");
}

pub fn a_transaction_is_ended_while_it_is_the_same(scene: &Scene<'_>) {
    let begin = ["BEGIN", "INSERT INTO notes VALUES ('first')", "SELECT pg_advisory_xact_lock(741)"];
    let holder = scene.played("app", "worker", &begin);
    scene.until_rests(&holder, "idle in transaction");
    let first = scene.statement("idle-in-transaction-holder", &[&holder]);
    scene.says("postgres", &for_another_session(&first), OTHER);

    // It works again, in the same transaction.
    let mut gate = scene.client("postgres");
    gate.batch_execute("SELECT pg_advisory_lock(742)").unwrap();
    let mut person = frozen(scene);
    holder.begin("SELECT pg_advisory_xact_lock(742)", false);
    scene.until_waits(&holder);
    scene.says("postgres", &first, WORKING);
    assert_eq!(rows(&mut person, &first).unwrap(), [WORKING]);
    gate.batch_execute("SELECT pg_advisory_unlock(742)").unwrap();
    scene.until_has(&holder, 742);
    holder.run("COMMIT", SOON).unwrap();
    scene.says("postgres", &first, FREED);

    // The same key in the next transaction.
    for sql in ["BEGIN", "INSERT INTO notes VALUES ('second')", "SELECT pg_advisory_xact_lock(741)"] {
        holder.run(sql, SOON).unwrap();
    }
    scene.says("postgres", &first, MOVED_ON);
    scene.until_rests(&holder, "idle in transaction");
    let bystander = scene.played("app", "worker", &["BEGIN", "INSERT INTO notes VALUES ('bystander')"]);
    let second = scene.statement("idle-in-transaction-holder", &[&holder]);
    // A statement that has come and gone in it changes nothing.
    is_untouched(&holder);
    scene.says("oncall", &second, TERMINATED);
    scene.until_gone(&holder);
    scene.is_free(741);
    scene.says("oncall", &second, GONE);
    bystander.run("COMMIT", SOON).unwrap();
    assert_eq!(scene.notes(), "bystander first");
    assert!(holder.errors().is_empty(), "{:?}", holder.errors());
}

pub fn a_failed_transaction_is_ended_while_it_rests_as_it_did(scene: &Scene<'_>) {
    const FAILED: &str = "idle in transaction (aborted)";
    let holder = scene.played("app", "worker", &["BEGIN", "SELECT pg_advisory_lock(751)", "SELECT 1/0"]);
    scene.until_rests(&holder, FAILED);
    let first = scene.statement("aborted-transaction-holder", &[&holder]);
    scene.says("postgres", &for_another_session(&first), OTHER);
    // The server refuses the statement, but a client is there.
    assert!(holder.run("SELECT 1", SOON).is_err());
    scene.says("postgres", &first, MOVED_ON);
    holder.run("ROLLBACK", SOON).unwrap();
    scene.says("postgres", &first, MOVED_ON);
    scene.until_has(&holder, 751);
    holder.run("SELECT pg_advisory_unlock(751)", SOON).unwrap();
    scene.says("postgres", &first, FREED);

    for sql in ["BEGIN", "SELECT pg_advisory_lock(751)"] {
        holder.run(sql, SOON).unwrap();
    }
    assert!(holder.run("SELECT 1/0", SOON).is_err());
    scene.until_rests(&holder, FAILED);
    scene.says("postgres", &first, MOVED_ON);
    let second = scene.statement("aborted-transaction-holder", &[&holder]);
    scene.says("oncall", &second, TERMINATED);
    scene.until_gone(&holder);
    scene.is_free(751);
    scene.says("oncall", &second, GONE);
}

pub fn a_failed_transaction_that_rolls_back_is_left_alone(scene: &Scene<'_>) {
    let steps = ["BEGIN", "SELECT pg_advisory_xact_lock(752)", "SAVEPOINT s", "SELECT 1/0"];
    let holder = scene.played("app", "worker", &steps);
    let other =
        scene.played("app", "worker", &["BEGIN", "SELECT pg_advisory_xact_lock(753)", "SAVEPOINT s", "SELECT 1/0"]);
    for session in [&holder, &other] {
        scene.until_rests(session, "idle in transaction (aborted)");
    }
    let statement = scene.statement("aborted-transaction-holder", &[&holder]);
    let of_other = scene.statement("aborted-transaction-holder", &[&other]);
    holder.run("ROLLBACK", SOON).unwrap();
    scene.says("postgres", &statement, FREED);
    is_untouched(&holder);
    // Back behind the savepoint the transaction lives again, with its lock.
    other.run("ROLLBACK TO s; INSERT INTO notes VALUES ('after all')", SOON).unwrap();
    scene.says("postgres", &of_other, MOVED_ON);
    other.run("COMMIT", SOON).unwrap();
    assert_eq!(scene.notes(), "after all");
}

pub fn each_session_of_a_pool_is_judged_by_itself(scene: &Scene<'_>) {
    let outsider = idle_holder(scene, 769);
    let lock = |key: u32| format!("SELECT pg_advisory_lock({key})");
    let member = |number: u32, statements: &[&str]| scene.played("app", &format!("api-{number}"), statements);
    let idle = member(1, &[&lock(761)]);
    let in_transaction = member(2, &["BEGIN", "INSERT INTO notes VALUES ('lost')", &lock(762)]);
    let failed = member(3, &["BEGIN", &lock(763), "SELECT 1/0"]);
    let borrowed = member(4, &[&lock(764)]);
    let unlocking = member(5, &[&lock(765)]);
    let next_transaction = member(6, &["BEGIN", "SELECT pg_advisory_xact_lock(766)"]);
    let waiting = scene.waiting("app", "api-7", &lock(761));
    for session in [&idle, &borrowed, &unlocking] {
        scene.until_rests(session, "idle");
    }
    for session in [&in_transaction, &next_transaction] {
        scene.until_rests(session, "idle in transaction");
    }
    scene.until_rests(&failed, "idle in transaction (aborted)");
    let pool = [&idle, &in_transaction, &failed, &borrowed, &unlocking, &next_transaction, &waiting];
    let finding = scene.finding("pool-starved", &pool, &[]);
    assert_eq!(finding["advice"]["action"], "terminate");
    let statement = sql_of(&finding);
    let holders = &pool[..6];

    let judge = |rows: &[String], outcomes: [&str; 6]| {
        assert_eq!(rows.len(), 6, "{rows:?}");
        for (session, begins) in holders.iter().zip(outcomes) {
            let row = rows.iter().find_map(|row| row.strip_prefix(&format!("{}|", session.pid))).unwrap();
            assert!(row.starts_with(begins), "{row:?}, not {begins:?}: {rows:?}");
        }
    };
    judge(&scene.paste("blind", &statement), ["nothing done: not visible to you"; 6]);
    judge(&scene.paste("seer", &statement), ["nothing done: not allowed to you"; 6]);
    let mut person = frozen(scene);
    in_transaction.begin(&lock(769), false);
    scene.until_waits(&in_transaction);
    borrowed.run("BEGIN; INSERT INTO notes VALUES ('kept')", SOON).unwrap();
    unlocking.run("SELECT pg_advisory_unlock(765)", SOON).unwrap();
    next_transaction.run("COMMIT; BEGIN; SELECT pg_advisory_xact_lock(766)", SOON).unwrap();
    let before = scene.sessions();
    let answer = rows(&mut person, &statement).unwrap();
    judge(&answer, [TERMINATED, WORKING, TERMINATED, WORKING, FREED, MOVED_ON]);
    for session in [&idle, &failed] {
        scene.until_gone(session);
    }
    let expected: BTreeSet<i32> = before.into_iter().filter(|pid| ![idle.pid, failed.pid].contains(pid)).collect();
    assert_eq!(scene.sessions(), expected, "not exactly these sessions are gone");
    scene.until_has(&waiting, 761);
    outsider.run("SELECT pg_advisory_unlock(769)", SOON).unwrap();
    scene.until_has(&in_transaction, 769);
    scene.until_rests(&in_transaction, "idle in transaction");
    borrowed.run("COMMIT", SOON).unwrap();

    // Later: the transaction rests again, and it is the same.
    judge(&scene.paste("oncall", &statement), [GONE, TERMINATED, GONE, TERMINATED, FREED, MOVED_ON]);
    for session in [&in_transaction, &borrowed] {
        scene.until_gone(session);
    }
    assert_eq!(scene.notes(), "kept");
    for session in [&outsider, &unlocking, &next_transaction, &waiting] {
        is_untouched(session);
    }
    assert!(waiting.errors().is_empty(), "{:?}", waiting.errors());
}
