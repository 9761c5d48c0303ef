//! What is advised in each situation, on worlds made by hand.

use std::sync::Arc;
use std::time::Duration;

use crate::analysis::report::{Action, Finding, TargetReport};
use crate::analysis::{Grouping, Thresholds};
use crate::keys::KeyBook;
use crate::model::testing::{World, at, key};
use crate::model::{BackendState, LockMode};
use crate::monitor::Monitor;

fn monitor() -> Monitor {
    let thresholds =
        Thresholds { idle: Duration::from_secs(60), wait: Duration::from_secs(10), ..Thresholds::default() };
    Monitor::new("primary".to_owned(), thresholds, Arc::new(KeyBook::default()), Grouping::default(), false)
}

fn look(world: &mut World) -> TargetReport {
    monitor().observe(world.poll())
}

fn found<'a>(report: &'a TargetReport, rule: &str) -> &'a Finding {
    let rules: Vec<&str> = report.findings.iter().map(|finding| finding.rule).collect();
    report.findings.iter().find(|finding| finding.rule == rule).unwrap_or_else(|| panic!("no {rule} in {rules:?}"))
}

fn all_text(finding: &Finding) -> String {
    let advice = &finding.advice;
    let texts = advice.steps.iter().chain(&advice.caveats).chain(&advice.sql).map(String::as_str);
    texts.chain(advice.prevent.iter().map(AsRef::as_ref)).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_idle_holder_is_ended_only_as_it_was_seen() {
    let mut world = World::new();
    world.connect(4711, "report-worker").hold(4711, key(612_001)).hold(4711, key(612_002));
    world.connect(4712, "api").to(30.0).wait(4712, key(612_001)).to(120.0);
    let report = look(&mut world);
    let finding = found(&report, "idle-holder");
    assert_eq!(finding.advice.action, Action::Terminate);
    let sql = finding.advice.sql.as_deref().unwrap();
    for guard in [
        "pid = 4711",
        "database = 16384",
        "classid = 0 AND objid = 612001 AND objsubid = 1 AND mode = 'ExclusiveLock'",
        "timestamptz '2027-01-15 10:30:04.711000+00'",
        "s.state IS DISTINCT FROM 'idle' OR h.vxid NOT LIKE '%/0'",
    ] {
        assert!(sql.contains(guard), "{guard} is not in\n{sql}");
    }
    assert!(sql.lines().all(|line| line.len() <= 110), "{sql}");
    let text = all_text(finding);
    assert!(text.contains("also holds 612002"), "{text}");
    assert!(text.contains("Pid 4712 (api) gets the lock next."), "{text}");
    assert!(text.contains("pglockwatch check --key 612001"), "{text}");
    assert!(!text.contains("pg_cancel_backend"), "{text}");
}

#[test]
fn an_open_transaction_is_guarded_by_its_start_and_its_writes_are_told() {
    let mut world = World::new();
    world.connect(7, "api").to(1.0).begin(7, "UPDATE t SET x = 1").hold(7, key(5));
    let backend = world.backend(7);
    backend.state = Some(BackendState::IdleInTransaction);
    backend.has_written = true;
    world.to(100.0);
    let report = look(&mut world);
    let finding = found(&report, "idle-in-transaction-holder");
    let sql = finding.advice.sql.as_deref().unwrap();
    assert!(sql.contains(&format!("s.xact_start IS DISTINCT FROM {}", super::statement::timestamp(at(1.0)))), "{sql}");
    assert!(all_text(finding).contains("has written: all of it rolls back"), "{}", all_text(finding));
}

#[test]
fn rollback_comes_first_unless_the_lock_is_surely_session_scope() {
    let aborted = |local_zero: bool| {
        let mut world = World::new();
        world.connect(7, "api").hold(7, key(5));
        if !local_zero {
            world.begin(7, "SELECT 1/0");
        }
        let backend = world.backend(7);
        backend.state = Some(BackendState::IdleInTransactionAborted);
        backend.xact_start = None;
        world.to(100.0);
        let report = look(&mut world);
        let finding = found(&report, "aborted-transaction-holder");
        assert_eq!(finding.advice.action, Action::Terminate);
        assert!(finding.advice.sql.as_deref().unwrap().contains("s.state_change IS DISTINCT FROM"));
        all_text(finding)
    };
    assert!(aborted(true).contains("ROLLBACK will not free it"));
    assert!(aborted(false).contains("send its own ROLLBACK first"));
}

#[test]
fn a_prepared_transaction_gets_steps_and_never_a_pid() {
    let mut world = World::new();
    world.prepare(3, "order '77'\n\u{1b}[2J", key(4242)).connect(9, "api").to(5.0).wait(9, key(4242)).to(200.0);
    let report = look(&mut world);
    let finding = found(&report, "prepared-transaction-holder");
    assert_eq!(finding.advice.action, Action::FinishPrepared);
    assert_eq!(finding.advice.sql, None);
    let text = all_text(finding);
    let gid = "E'order ''77''\\n\\U0000001B[2J'";
    assert!(
        text.contains(&format!("WHERE gid = {gid} AND transaction = '703'\n  AND prepared = timestamptz '")),
        "{text}"
    );
    assert!(text.contains("+00' \\gexec\n"), "{text}");
    assert!(text.contains(&format!("\nROLLBACK PREPARED {gid};")), "{text}");
    assert!(!text.contains("pg_terminate_backend") && !text.contains("pg_cancel_backend"), "{text}");
}

#[test]
fn a_working_root_is_looked_at_and_never_ended() {
    let mut world = World::new();
    world.connect(1, "migrator").hold(1, key(3)).begin(1, "ALTER TABLE t ADD COLUMN c int");
    world.connect(2, "api").to(1.0).wait(2, key(3)).to(40.0);
    let report = look(&mut world);
    let finding = found(&report, "blocked-waiters");
    assert_eq!((finding.advice.action, &finding.advice.sql), (Action::Investigate, &None));
    let text = all_text(finding);
    assert!(text.contains("has been running a statement for 40s"), "{text}");
    assert!(!text.contains("pg_terminate_backend"), "{text}");
}

#[test]
fn a_carried_lock_is_investigated_with_the_statement_at_hand() {
    let mut world = World::new();
    world.connect(1, "api").hold(1, key(3)).connect(2, "migrator").wait(2, key(3));
    let mut monitor = monitor();
    let mut report = monitor.observe(world.poll());
    for second in 1..90 {
        world.to(f64::from(second) - 0.5).run(1, "SELECT 'a request'");
        if second % 3 == 2 {
            world.begin(1, "UPDATE t SET x = 2");
        }
        report = monitor.observe(world.to(f64::from(second)).poll());
        world.end(1);
    }
    let finding = found(&report, "carried-lock");
    assert_eq!(finding.advice.action, Action::Investigate);
    let sql = finding.advice.sql.as_deref().unwrap();
    assert!(sql.contains("s.state IS DISTINCT FROM 'idle' OR h.vxid NOT LIKE '%/0'"), "{sql}");
    assert!(finding.advice.caveats[0].contains("A job that keeps its lock"), "{:?}", finding.advice.caveats);
    assert!(all_text(finding).contains("run it again"));
}

#[test]
fn a_hidden_deadlock_is_broken_at_the_waiter() {
    let mut world = World::new();
    world.connect(1, "migrator").hold(1, key(7));
    world.connect(2, "migrator").connect(3, "migrator").to(1.0).wait(2, key(7)).hold_table(2, "t");
    world.to(2.0).wait_table(3, "t").to(100.0);
    let report = look(&mut world);
    let finding = found(&report, "hidden-deadlock");
    assert_eq!(finding.advice.action, Action::CancelWaiter);
    let sql = finding.advice.sql.as_deref().unwrap();
    assert!(sql.contains("NOT granted AND pid = 2 AND") && sql.contains("pg_cancel_backend(s.pid)"), "{sql}");
    assert!(!all_text(finding).contains("pg_terminate_backend"), "{}", all_text(finding));
}

#[test]
fn a_starved_pool_is_one_statement_with_a_row_for_each_holder() {
    let mut world = World::new();
    for pid in 1..=4 {
        world.connect(pid, "backend");
    }
    world.hold(1, key(1)).hold(2, key(2)).hold_in(3, key(3), LockMode::Share).to(5.0).wait(4, key(1)).to(200.0);
    let report = look(&mut world);
    let finding = found(&report, "pool-starved");
    assert_eq!(finding.advice.action, Action::Terminate);
    let sql = finding.advice.sql.as_deref().unwrap();
    for pid in 1..=3 {
        assert!(sql.contains(&format!("\n  ({pid}, timestamptz '")), "{pid} is not in\n{sql}");
    }
    assert!(!sql.contains("\n  (4, "), "who waits is not ended:\n{sql}");
    assert!(sql.lines().all(|line| line.len() <= 110), "{sql}");
}

#[test]
fn a_grant_helps_only_against_missing_rights() {
    let hide = |sees_all: bool| {
        let mut world = World::new();
        world.snapshot.server.sees_all_sessions = sees_all;
        world.snapshot.server.role = "Mon \"x\"".to_owned();
        world.connect(1, "api").hold(1, key(1));
        let backend = world.backend(1);
        if sees_all {
            backend.state = Some(BackendState::Disabled);
        } else {
            (backend.state, backend.backend_start, backend.state_change) = (None, None, None);
        }
        world.to(100.0);
        let report = look(&mut world);
        found(&report, "hidden-sessions").clone()
    };
    let blind = hide(false);
    assert_eq!(blind.advice.sql.as_deref(), Some("GRANT pg_monitor TO \"Mon \"\"x\"\"\";"));
    let untracked = hide(true);
    assert_eq!((untracked.advice.action, &untracked.advice.sql), (Action::Investigate, &None));
    let text = all_text(&untracked);
    assert!(text.contains("track_activities is off in pid 1") && !text.contains("GRANT pg_monitor"), "{text}");
}

#[test]
fn a_backend_that_is_lent_to_us_is_to_be_seen_from_elsewhere() {
    let mut world = World::new();
    world.connect(1, "").hold(1, key(1));
    let backend = world.backend(1);
    (backend.lent_to_us, backend.state, backend.state_change) = (true, None, None);
    let report = look(world.to(100.0));
    let text = all_text(found(&report, "hidden-sessions"));
    assert!(text.contains("how long pid 1 has rested") && text.contains("past the pooler"), "{text}");
    assert!(!text.contains("track_activities") && !text.contains("GRANT"), "{text}");
    assert!(!text.contains("pglockwatch check"), "through the pooler it would see the same again: {text}");
}

#[test]
fn on_a_standby_the_grant_is_for_the_primary() {
    let mut world = World::new();
    (world.snapshot.server.sees_all_sessions, world.snapshot.server.in_recovery) = (false, true);
    world.connect(1, "api").hold(1, key(1));
    let backend = world.backend(1);
    (backend.state, backend.backend_start, backend.state_change) = (None, None, None);
    let report = look(world.to(100.0));
    let detail = found(&report, "hidden-sessions").detail.join("\n");
    assert!(detail.contains("Run as a superuser on the primary:  GRANT pg_monitor TO mon;"), "{detail}");
}

#[test]
fn our_own_lack_of_rights_is_said() {
    let mut world = World::new();
    world.snapshot.server.can_signal = false;
    world.connect(1, "api").hold(1, key(1)).to(100.0);
    let report = look(&mut world);
    let text = all_text(found(&report, "idle-holder"));
    assert!(text.contains("Our own role mon may not run it: it lacks pg_signal_backend."), "{text}");
    assert!(text.contains("pg_read_all_stats (in pg_monitor) and pg_signal_backend together"), "{text}");
}

#[test]
fn companions_at_work_are_named_before_a_holder_is_ended() {
    let mut world = World::new();
    world.connect(1, "api").hold(1, key(1)).connect(2, "api").to(100.0).begin(2, "SELECT pg_sleep(60)");
    let report = look(&mut world);
    let text = all_text(found(&report, "idle-holder"));
    assert!(text.contains("Pid 2 of the same application is at work"), "{text}");
}

#[test]
fn nothing_that_is_advised_names_an_unlock_call() {
    let mut world = World::new();
    for pid in 1..=6 {
        world.connect(pid, "api");
    }
    world.hold(1, key(1)).hold_in(1, key(1), LockMode::Share).to(3.0).wait(2, key(1));
    world.begin(3, "BEGIN").hold(3, key(2)).prepare(1, "g", key(9)).to(500.0);
    world.backend(3).state = Some(BackendState::IdleInTransaction);
    for finding in &look(&mut world).findings {
        assert!(!all_text(finding).contains("pg_advisory_unlock("), "{}", all_text(finding));
        assert!(!finding.advice.prevent.is_empty(), "{} says nothing of prevention", finding.rule);
    }
}

#[test]
fn prevention_is_that_of_the_driver_where_it_says_its_name() {
    let prevention = |application: &str, query: &str| {
        let mut world = World::new();
        world.connect(4711, application).hold(4711, key(612_001)).to(120.0);
        world.backend(4711).query = Some(query.into());
        let report = look(&mut world);
        found(&report, "idle-holder").advice.prevent.join("\n")
    };
    let tagged = "SELECT 1 /*db_driver='psycopg2%3A2.9.9',framework='django%3A5.1'*/";
    for (application, query, word) in [
        ("PostgreSQL JDBC Driver", "SELECT 1", "HikariCP"),
        ("shop", tagged, "psycopg, SQLAlchemy"),
        ("shop", "SELECT 1 /*db_driver='database%2Fsql'*/", "pgxpool's Acquire"),
    ] {
        let text = prevention(application, query);
        assert_eq!(text.matches(word).count(), 1, "{text}");
    }
    // A word in the statement itself is no driver.
    assert!(!prevention("shop", "SELECT 'psycopg' FROM jdbc").contains("HikariCP"));
}
