//! What is said about what was seen: evidence, reasons, what is left. Pure.

mod advice;

use super::KEY_CLASS;
use super::observed::{AtRest, Backend, Busy, Cleanup, Leaving, Lock, Observed, StartupOption, Wait};
use super::verdict::{Experiment, Leftover, Outcome, PoolerKind, Verdict};
use crate::keys::key::from_pair;
use crate::model::{AdvisoryKey, LockMode};
use crate::rules::advice::statement::{self, Holding, Rest, Source};

pub(super) use advice::advice;

/// What no session lock was needed for.
const NOT_NEEDED: &str = "it could strand a lock, and is not needed";

/// So many experiments come before the first that takes a session lock.
const WITHOUT_SESSION_LOCK: usize = 7;

/// All experiments, in order.
pub(super) fn experiments(seen: &Observed, pooler: PoolerKind) -> Vec<Experiment> {
    let all = [
        ("one-backend-alone", "one backend for one client, alone", alone(seen), true),
        ("one-backend-busy", "still while other clients are busy", busy(seen), true),
        ("pooler", "a pooler in between", between(seen, pooler), false),
        ("untouched-at-rest", "left alone while its client rests", at_rest(seen), true),
        ("cleared-on-leave", "ends or is reset when its client leaves", leaving(seen), true),
        ("transaction-lock", "transaction lock ends with its transaction", transaction_lock(seen), true),
        ("lock-timeout", "lock_timeout ends a wait", wait(seen), true),
        ("lock-survives", "session lock survives transactions", survives(seen), true),
        ("unlock", "unlock reaches it and returns true", unlock(seen), true),
        ("counted", "locks are counted", counted(seen), true),
        ("lock-goes-with-client", "session lock goes with its client", left_behind(seen), true),
    ];
    all.into_iter()
        .enumerate()
        .map(|(place, (name, title, (outcome, evidence), must_hold))| Experiment {
            name,
            title,
            outcome,
            evidence,
            must_hold,
            takes_session_lock: place >= WITHOUT_SESSION_LOCK,
        })
        .collect()
}

type Told = (Outcome, String);

fn yes_if(holds: bool, evidence: String) -> Told {
    (if holds { Outcome::Yes } else { Outcome::No }, evidence)
}

/// An experiment that did not come about.
fn missing(seen: &Observed) -> Told {
    if seen.is_shared() || seen.is_reset() || matches!(seen.leaving, Some(Leaving::AsLeft(_))) {
        return (Outcome::NotTried, NOT_NEEDED.to_owned());
    }
    match &seen.trouble {
        Some(trouble) => (Outcome::Unknown, trouble.sentence()),
        None if seen.busy.as_ref().is_some_and(|busy| busy.others == 0) => {
            (Outcome::NotTried, "it needs a second connection".to_owned())
        }
        None => (Outcome::NotTried, "what was seen before does not make sure that the lock can be freed".to_owned()),
    }
}

fn pids(backends: &[Backend]) -> String {
    let shown: Vec<String> = backends.iter().take(4).map(|backend| backend.pid.to_string()).collect();
    let more = if backends.len() > 4 { ", ..." } else { "" };
    format!("pid{} {}{more}", if shown.len() == 1 { "" } else { "s" }, shown.join(", "))
}

fn alone(seen: &Observed) -> Told {
    let Some(alone) = &seen.alone else { return missing(seen) };
    yes_if(alone.backends.len() == 1, format!("{} for {} statements", pids(&alone.backends), alone.statements))
}

fn busy(seen: &Observed) -> Told {
    let Some(busy) = &seen.busy else { return missing(seen) };
    if let Some(words) = &busy.begin_refused {
        return (Outcome::No, format!("BEGIN was refused: {words}"));
    }
    if let Some(backend) = busy.shared {
        return (Outcome::No, format!("pid {} served two connected clients", backend.pid));
    }
    if seen.is_shared() {
        return (Outcome::No, format!("{} for {} statements", pids(&busy.backends), busy.statements));
    }
    if busy.others == 0 {
        return (Outcome::Unknown, no_other(busy));
    }
    if !busy.in_transactions {
        return missing(seen);
    }
    let others = if busy.others == 1 { "1 other client".to_owned() } else { format!("{} other clients", busy.others) };
    (Outcome::Yes, format!("{} for {} statements; {others} had their own", pids(&busy.backends), busy.statements))
}

fn no_other(busy: &Busy) -> String {
    let why = busy.no_more.as_ref().map(|trouble| format!(": {}", trouble.sentence())).unwrap_or_default();
    format!("no second connection could be had{why}")
}

fn between(seen: &Observed, kind: PoolerKind) -> Told {
    let outcome = match kind {
        PoolerKind::None => Outcome::No,
        PoolerKind::Unknown => Outcome::Unknown,
        _ => Outcome::Yes,
    };
    (outcome, pooler(seen, kind))
}

/// Which pooler, and how that is known.
pub(super) fn pooler(seen: &Observed, kind: PoolerKind) -> String {
    match kind {
        PoolerKind::Pgpool => {
            format!(
                "pgpool-II {}, by its answer to SHOW pool_version",
                seen.pool_version.as_deref().unwrap_or_default()
            )
        }
        PoolerKind::PgBouncerStatement => {
            "looks like PgBouncer with pool_mode=statement, by how it refuses BEGIN".to_owned()
        }
        PoolerKind::PgBouncer => "looks like PgBouncer, by how it refuses a startup option".to_owned(),
        PoolerKind::Other if seen.startup_option == Some(StartupOption::Dropped) => {
            "one that keeps startup options to itself; PgBouncer with ignore_startup_parameters = options does"
                .to_owned()
        }
        PoolerKind::Other => "one that does not say which".to_owned(),
        PoolerKind::None => {
            "none seen: startup options reach the server, and the backend ends with its client".to_owned()
        }
        PoolerKind::Unknown => "nothing that was seen tells".to_owned(),
    }
}

fn at_rest(seen: &Observed) -> Told {
    let looks = seen.at_rest.len();
    let Some(first) = seen.at_rest.first() else {
        let single = seen.is_shared() && seen.trouble.is_none();
        let why = "nobody could look on: the clients had one backend between them, or no transactions";
        return if single { (Outcome::Unknown, why.to_owned()) } else { missing(seen) };
    };
    if seen.is_reset() {
        let reset = seen.at_rest.iter().find_map(|look| match look {
            AtRest::Reset(query) => Some(format!("{} was run behind the client's own statement", brief(query))),
            _ => None,
        });
        return (Outcome::No, reset.unwrap_or_else(|| "the backend ended while its client was connected".to_owned()));
    }
    if seen.at_rest.contains(&AtRest::Used) {
        return (Outcome::No, "another client's statement was run on the backend of a client that rested".to_owned());
    }
    if *first == AtRest::Blind {
        return (Outcome::Unknown, "statements are not to be seen: track_activities is off".to_owned());
    }
    (Outcome::Yes, format!("its own statement stayed the last in {looks} looks"))
}

/// A statement, short enough for a sentence.
fn brief(query: &str) -> String {
    let words: String = query.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = words.chars().take(60).collect();
    if cut.len() < words.len() { format!("{cut}...") } else { cut }
}

fn leaving(seen: &Observed) -> Told {
    match &seen.leaving {
        Some(Leaving::Ended) => (Outcome::Yes, "its backend ended".to_owned()),
        Some(Leaving::Reset(query)) => (Outcome::Yes, format!("its backend goes on, after {}", brief(query))),
        Some(Leaving::AsLeft(None)) => (Outcome::No, "its backend stays as it was left, without a reset".to_owned()),
        Some(Leaving::AsLeft(Some(query))) => {
            (Outcome::No, format!("its backend goes on, and what was run there frees no locks: {}", brief(query)))
        }
        Some(Leaving::Blind) => (
            Outcome::Unknown,
            "its backend goes on, and whether a reset was run is not to be seen: track_activities is off".to_owned(),
        ),
        None if seen.is_shared() || seen.is_reset() => {
            (Outcome::NotTried, "the client has no backend of its own".to_owned())
        }
        None => missing(seen),
    }
}

fn transaction_lock(seen: &Observed) -> Told {
    let begin_refused = seen.busy.as_ref().is_some_and(|busy| busy.begin_refused.is_some());
    let Some(lock) = seen.transaction_lock else {
        return if begin_refused {
            (Outcome::NotTried, "there are no transactions of several statements".to_owned())
        } else {
            missing(seen)
        };
    };
    let within = if lock.held { "held within" } else { "not held within" };
    let behind = if lock.left { "still held behind" } else { "gone behind" };
    yes_if(lock.held && !lock.left, format!("{within} it, {behind} COMMIT"))
}

fn wait(seen: &Observed) -> Told {
    match &seen.wait {
        Some(Wait::TimedOut) => (Outcome::Yes, "the wait ended with 55P03".to_owned()),
        Some(Wait::Late) => (Outcome::No, "the wait went on behind it".to_owned()),
        Some(Wait::Granted) => (Outcome::No, "another client got the lock that was held".to_owned()),
        Some(Wait::Other(words)) => (Outcome::Unknown, format!("the wait was refused: {words}")),
        None if seen.is_shared() => (Outcome::NotTried, "it needs two backends at once".to_owned()),
        None => missing(seen),
    }
}

fn survives(seen: &Observed) -> Told {
    let Some(lock) = seen.session_lock else { return missing(seen) };
    let there = if lock.kept { "still there" } else { "gone" };
    yes_if(lock.kept, format!("{there} behind {} transactions, one failed", lock.transactions))
}

fn unlock(seen: &Observed) -> Told {
    let Some(lock) = seen.session_lock else { return missing(seen) };
    let where_ = if lock.same_backend { "on the same backend" } else { "on another backend" };
    yes_if(lock.unlocked && lock.same_backend, format!("it returned {} {where_}", lock.unlocked))
}

fn counted(seen: &Observed) -> Told {
    let Some(counted) = seen.counted else { return missing(seen) };
    let held = |held: bool| if held { "held" } else { "free" };
    yes_if(
        counted.after_one && !counted.after_two && !counted.third,
        format!(
            "{} after one unlock, {} after two; the third returned {}",
            held(counted.after_one),
            held(counted.after_two),
            counted.third
        ),
    )
}

fn left_behind(seen: &Observed) -> Told {
    let Some(left) = seen.left_behind else { return missing(seen) };
    let evidence = match (left.freed, left.inherited) {
        (_, true) => "a fresh client held it",
        (true, false) => "it was gone, and a fresh client did not hold it",
        (false, false) => "it stayed in pg_locks",
    };
    yes_if(left.freed && !left.inherited, evidence.to_owned())
}

/// Why the verdict is what it is.
pub(super) fn reasons(seen: &Observed, verdict: Verdict) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut say = |reason: &str| reasons.push(reason.to_owned());
    match verdict {
        Verdict::Safe => say(
            "A client keeps its backend while others are busy, nobody touches its locks, and they go when it leaves.",
        ),
        Verdict::StayBehind if seen.is_shared() => {
            say("This DSN gives a session different backends. A session advisory lock taken here stays behind on the \
             server connection, and its unlock usually goes to another one.");
        }
        Verdict::StayBehind if matches!(seen.leaving, Some(Leaving::AsLeft(_))) => say(
            "A client keeps its backend as long as it is connected, but nothing resets the backend when the client \
             leaves: a lock that it did not free, as after a crash, goes to whoever gets the backend next.",
        ),
        Verdict::StayBehind => say("A session advisory lock taken here was still there when it should have been gone."),
        Verdict::Dropped if seen.is_reset() => say(
            "A reset is run behind each transaction, while the client is still connected. It frees a session advisory \
             lock, and the client believes that it still holds it.",
        ),
        Verdict::Dropped if seen.wait == Some(Wait::Granted) => {
            say("Two clients of this DSN got the same lock: it does not lead them to one database of one server.");
        }
        Verdict::Dropped => {
            say(
                "A session advisory lock taken here was gone while its client was still connected and had not freed it.",
            );
        }
        Verdict::Inconclusive => reasons.extend(why_not(seen)),
    }
    reasons
}

fn why_not(seen: &Observed) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(trouble) = &seen.trouble {
        reasons.push(format!("The experiments ended early: {}.", trouble.sentence()));
    }
    if let Some(busy) = seen.busy.as_ref().filter(|busy| busy.others == 0) {
        reasons.push(format!("Whether clients share backends cannot be said: {}.", no_other(busy)));
        if busy.served_before_another > 0 && busy.backends.len() == 1 {
            reasons.push(format!(
                "The first client was served {} times meanwhile, always by pid {}: it does not give its backend away.",
                busy.served_before_another, busy.backends[0].pid
            ));
        }
    }
    if seen.leaving == Some(Leaving::Blind) {
        reasons.push(
            "Whether the backend is reset when its client leaves is not to be seen, because track_activities is off; \
             without that a lock could be stranded."
                .to_owned(),
        );
    }
    if matches!(seen.cleanup, Cleanup::Unknown(_)) {
        reasons.push("Whether a lock of this probe is left could not be looked at.".to_owned());
    }
    if reasons.is_empty() {
        reasons.push("Not all experiments could be run.".to_owned());
    }
    reasons
}

/// The key as it is written everywhere.
pub(super) fn key(objid: i32) -> String {
    format!("({KEY_CLASS},{objid})")
}

/// Whether locks are left.
pub(super) fn cleanup(seen: &Observed) -> String {
    let key = key(seen.objid);
    match &seen.cleanup {
        Cleanup::NothingTaken => "No lock was taken.".to_owned(),
        Cleanup::Clean => {
            format!(
                "Locks were only asked for on {key}, a key of this probe's own. None is left: pg_locks was looked at."
            )
        }
        Cleanup::Left(locks) => {
            let holders: Vec<String> = locks.iter().map(|lock| lock.backend.pid.to_string()).collect();
            format!("A lock is left: {key}, held by the backend with pid {}.", holders.join(", "))
        }
        Cleanup::Unknown(None) => {
            format!("Each lock on {key} was seen to go; a last look into pg_locks was not possible.")
        }
        Cleanup::Unknown(Some(lock)) => format!(
            "Whether the lock on {key} is left could not be looked at. It was taken by the backend with pid {}, and \
             goes {}.",
            lock.backend.pid,
            if lock.of_transaction {
                "with its transaction, as soon as it is noticed that the client has gone"
            } else {
                "as soon as it is noticed that the client has gone"
            }
        ),
    }
}

/// The locks that are left, or may be, and how to free each.
pub(super) fn leftovers(seen: &Observed) -> Vec<Leftover> {
    let leftover = |lock: &Lock, is_seen: bool| {
        let holding = Holding {
            pid: lock.backend.pid,
            backend_start: lock.backend.started,
            key: AdvisoryKey { database: lock.backend.database, numbers: from_pair(KEY_CLASS, seen.objid) },
            mode: if lock.shared { LockMode::Share } else { LockMode::Exclusive },
            rest: Rest::Idle,
        };
        Leftover { lock: *lock, seen: is_seen, sql: statement::terminate(&holding, Source::Views) }
    };
    match &seen.cleanup {
        Cleanup::Left(locks) => locks.iter().map(|lock| leftover(lock, true)).collect(),
        Cleanup::Unknown(Some(lock)) => vec![leftover(lock, false)],
        _ => Vec::new(),
    }
}
