//! Verdicts from plain observations: one of each kind of pooler, and every way in which an experiment can fail.

use std::time::Duration;

use super::*;
use crate::app::probe::observed::{Alone, Backend, Busy, Counted, LeftBehind, SessionLock, TransactionLock, Trouble};
use crate::model::Time;

fn backend(pid: i32) -> Backend {
    Backend { pid, started: Time::from_timestamp_micros(1_000_000).unwrap(), database: 5 }
}

/// A DSN straight to PostgreSQL.
fn direct() -> Observed {
    let mut seen = Observed::new("db:5432".to_owned(), 7);
    seen.alone = Some(Alone { statements: 10, backends: vec![backend(1)] });
    seen.busy =
        Some(Busy { others: 3, statements: 18, backends: vec![backend(1)], in_transactions: true, ..Busy::default() });
    seen.startup_option = Some(StartupOption::Passed);
    seen.at_rest = vec![AtRest::Untouched; 3];
    seen.leaving = Some(Leaving::Ended);
    seen.transaction_lock = Some(TransactionLock { held: true, left: false });
    seen.wait = Some(Wait::TimedOut);
    seen.session_lock = Some(SessionLock { transactions: 2, kept: true, same_backend: true, unlocked: true });
    seen.counted = Some(Counted { after_one: true, after_two: false, third: false });
    seen.left_behind = Some(LeftBehind { freed: true, inherited: false });
    seen.cleanup = Cleanup::Clean;
    seen
}

#[test]
fn safe_is_said_of_one_server() {
    let words = |several_servers, standby| all_words(&judge(Observed { several_servers, standby, ..direct() }));
    assert!(!words(false, false).contains("server"), "{}", words(false, false));
    let several = words(true, false);
    assert!(several.contains("only db:5432 was tried") && !several.contains("standby"), "{several}");
    assert!(words(false, true).contains("This server is a standby"), "{}", words(false, true));
}

/// The same before any session lock.
fn without_session_locks(mut seen: Observed) -> Observed {
    (seen.session_lock, seen.counted, seen.left_behind) = (None, None, None);
    seen
}

fn session_pool() -> Observed {
    let mut seen = direct();
    seen.startup_option = Some(StartupOption::Refused("unsupported startup parameter: options".to_owned()));
    seen.leaving = Some(Leaving::Reset("DISCARD ALL".to_owned()));
    seen
}

fn transaction_pool() -> Observed {
    let mut seen = without_session_locks(session_pool());
    seen.leaving = None;
    seen.busy = Some(Busy { others: 3, shared: Some(backend(1)), ..Busy::default() });
    seen
}

fn outcome(report: &Report, name: &str) -> Outcome {
    report.experiments.iter().find(|one| one.name == name).unwrap().outcome
}

fn all_words(report: &Report) -> String {
    [report.reasons.join(" "), report.advice.join(" "), report.cleanup.clone()].join(" ")
}

#[test]
fn direct_and_session_pools_are_safe() {
    let report = judge(direct());
    assert_eq!((report.verdict, report.pooler), (Verdict::Safe, PoolerKind::None));
    assert!(report.experiments.iter().all(|one| one.outcome == Outcome::Yes || one.name == "pooler"));
    let report = judge(session_pool());
    assert_eq!((report.verdict, report.pooler), (Verdict::Safe, PoolerKind::PgBouncer));
    assert!(all_words(&report).contains("server_reset_query=DISCARD ALL"), "{report:?}");
    let report = judge(Observed { pool_version: Some("4.3.5".to_owned()), ..session_pool() });
    assert_eq!((report.verdict, report.pooler), (Verdict::Safe, PoolerKind::Pgpool));
    assert!(all_words(&report).contains("reset_query_list"), "{report:?}");
}

#[test]
fn a_transaction_pool_strands_locks_and_none_is_tried() {
    let report = judge(transaction_pool());
    assert_eq!((report.verdict, report.pooler), (Verdict::StayBehind, PoolerKind::PgBouncer));
    assert_eq!(outcome(&report, "one-backend-busy"), Outcome::No);
    for name in ["cleared-on-leave", "lock-survives", "unlock", "counted", "lock-goes-with-client"] {
        assert_eq!(outcome(&report, name), Outcome::NotTried, "{name}");
    }
    assert!(all_words(&report).contains("pg_advisory_xact_lock"), "{report:?}");
    assert!(!transaction_pool().keeps_backend());
}

#[test]
fn a_reset_behind_each_transaction_drops_locks() {
    let reset = AtRest::Reset("DISCARD ALL".to_owned());
    let report = judge(Observed { at_rest: vec![reset.clone(); 3], ..transaction_pool() });
    assert_eq!(report.verdict, Verdict::Dropped);
    // Once may have been another client of the pool, whose driver resets its connections.
    let once = vec![reset.clone(), AtRest::Untouched, AtRest::Untouched];
    assert_eq!(judge(Observed { at_rest: once, ..transaction_pool() }).verdict, Verdict::StayBehind);
    // A pool of which each process has its own part: nobody else was seen on the backend.
    let apart = Observed { at_rest: vec![reset; 3], ..without_session_locks(session_pool()) };
    assert!(!apart.keeps_backend());
    assert_eq!(judge(apart).verdict, Verdict::Dropped);
    let closed = Observed { at_rest: vec![AtRest::Ended; 3], ..without_session_locks(session_pool()) };
    assert_eq!(judge(closed).verdict, Verdict::Dropped);
}

#[test]
fn a_statement_pool_is_known_by_its_words() {
    let mut seen = transaction_pool();
    let words = "transaction blocks not allowed in statement pooling mode".to_owned();
    seen.busy = Some(Busy { others: 2, begin_refused: Some(words), ..Busy::default() });
    (seen.at_rest, seen.transaction_lock, seen.wait) = (Vec::new(), None, None);
    seen.cleanup = Cleanup::NothingTaken;
    let report = judge(seen);
    assert_eq!((report.verdict, report.pooler), (Verdict::StayBehind, PoolerKind::PgBouncerStatement));
    assert!(all_words(&report).contains("not even pg_advisory_xact_lock"), "{report:?}");
}

#[test]
fn a_session_pool_without_a_reset_hands_locks_on() {
    let mut seen = without_session_locks(session_pool());
    seen.leaving = Some(Leaving::AsLeft(None));
    assert!(!seen.keeps_backend());
    let report = judge(seen);
    assert_eq!(report.verdict, Verdict::StayBehind);
    assert!(all_words(&report).contains("server_reset_query = DISCARD ALL"), "{report:?}");
    assert_eq!(outcome(&report, "lock-goes-with-client"), Outcome::NotTried);
}

#[test]
fn no_session_lock_before_it_is_known_what_becomes_of_it() {
    assert!(direct().keeps_backend() && session_pool().keeps_backend());
    for seen in [
        Observed { leaving: None, ..direct() },
        Observed { leaving: Some(Leaving::Blind), ..direct() },
        Observed { leaving: Some(Leaving::AsLeft(Some("RESET ALL".to_owned()))), ..direct() },
        Observed { at_rest: Vec::new(), ..direct() },
        Observed { at_rest: vec![AtRest::Untouched, AtRest::Used], ..direct() },
        Observed { busy: None, ..direct() },
        Observed { busy: Some(Busy { others: 3, ..Busy::default() }), ..direct() },
        Observed { alone: Some(Alone { statements: 2, backends: vec![backend(1), backend(2)] }), ..direct() },
    ] {
        assert!(!seen.keeps_backend(), "{seen:?}");
    }
}

#[test]
fn each_experiment_with_a_lock_can_fail() {
    let lock = |kept, same_backend, unlocked| Some(SessionLock { transactions: 2, kept, same_backend, unlocked });
    for (seen, verdict) in [
        (Observed { session_lock: lock(false, true, false), ..direct() }, Verdict::Dropped),
        (Observed { session_lock: lock(true, false, false), ..direct() }, Verdict::StayBehind),
        (Observed { wait: Some(Wait::Granted), ..direct() }, Verdict::Dropped),
        (
            Observed { counted: Some(Counted { after_one: false, after_two: false, third: false }), ..direct() },
            Verdict::Dropped,
        ),
        (
            Observed { left_behind: Some(LeftBehind { freed: false, inherited: false }), ..direct() },
            Verdict::StayBehind,
        ),
        (Observed { left_behind: Some(LeftBehind { freed: true, inherited: true }), ..direct() }, Verdict::StayBehind),
        (
            Observed { transaction_lock: Some(TransactionLock { held: true, left: true }), ..direct() },
            Verdict::StayBehind,
        ),
    ] {
        let report = judge(seen);
        assert_eq!(report.verdict, verdict, "{report:?}");
        assert!(report.experiments.iter().any(|one| one.outcome == Outcome::No && one.must_hold), "{report:?}");
    }
}

#[test]
fn a_lock_timeout_that_does_nothing_is_told() {
    let report = judge(Observed { wait: Some(Wait::Late), ..direct() });
    assert_eq!(report.verdict, Verdict::Safe);
    assert!(all_words(&report).contains("Do not rely on lock_timeout"), "{report:?}");
}

#[test]
fn what_was_not_seen_is_not_judged() {
    let silent = Trouble::Silent(Duration::from_secs(10));
    let report = judge(Observed { trouble: Some(silent), ..without_session_locks(direct()) });
    assert_eq!(report.verdict, Verdict::Inconclusive);
    assert_eq!(outcome(&report, "unlock"), Outcome::Unknown);

    let mut alone = Observed::new("db:5432".to_owned(), 7);
    alone.alone = Some(Alone { statements: 10, backends: vec![backend(1)] });
    let refused = Trouble::Refused { code: "53300".to_owned(), message: "too many".to_owned(), fatal: true };
    alone.busy =
        Some(Busy { no_more: Some(refused), served_before_another: 5, backends: vec![backend(1)], ..Busy::default() });
    let report = judge(alone);
    assert_eq!(report.verdict, Verdict::Inconclusive);
    assert!(all_words(&report).contains("too many") && all_words(&report).contains("No lock was taken"), "{report:?}");

    let blind = Observed { leaving: Some(Leaving::Blind), ..without_session_locks(direct()) };
    let report = judge(blind);
    assert_eq!(report.verdict, Verdict::Inconclusive);
    assert!(all_words(&report).contains("track_activities"), "{report:?}");

    // What was proved before the trouble stays proved.
    let report = judge(Observed { trouble: Some(Trouble::Stopped), ..transaction_pool() });
    assert_eq!(report.verdict, Verdict::StayBehind);
}

#[test]
fn a_lock_that_may_be_left_is_told_with_its_backend_and_a_guarded_statement() {
    let lock = Lock { backend: backend(4711), shared: false, of_transaction: false };
    for (cleanup, verdict) in
        [(Cleanup::Left(vec![lock]), Verdict::StayBehind), (Cleanup::Unknown(Some(lock)), Verdict::Inconclusive)]
    {
        let report = judge(Observed { cleanup, ..direct() });
        assert_eq!(report.verdict, verdict);
        assert!(report.cleanup.contains("(1885826167,7)") && report.cleanup.contains("4711"), "{}", report.cleanup);
        let sql = &report.leftovers[0].sql;
        for part in ["pg_terminate_backend", "pid = 4711", "classid = 1885826167", "1970-01-01 00:00:01.000000+00"] {
            assert!(sql.contains(part), "no {part} in {sql}");
        }
    }
    let report = judge(Observed { cleanup: Cleanup::Unknown(None), ..direct() });
    assert!(report.leftovers.is_empty() && report.verdict == Verdict::Inconclusive, "{report:?}");
}
