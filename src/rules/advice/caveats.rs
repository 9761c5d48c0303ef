//! What to know before acting: what else goes, who is hit, who comes next, who may do it.
//!
//! Pure text from facts.

use super::facts::{Facts, labelled};
use super::statement::{Holding, Queued, Rest, Source};
use super::words;
use crate::analysis::HolderRef;
use crate::keys::key;
use crate::model::{Backend, Pid};
use crate::quote;
use crate::rules::words::duration;

/// Before sessions are ended.
pub fn of_ending(facts: &Facts<'_>, holdings: &[Holding]) -> Vec<String> {
    let mut caveats = Vec::new();
    let observed = facts.context.observed;
    if let [holding] = holdings
        && let Some(backend) = observed.backend(holding.pid)
    {
        caveats.extend(companions(facts, holding.pid));
        caveats.extend(what_goes(facts, holding));
        caveats.push(what_is_lost(facts, holding, backend));
        caveats.push(what_the_client_sees(backend));
        caveats.push(who_is_next(facts, holding));
        caveats.push(old_holder(facts));
    } else {
        caveats.extend(several(facts, holdings));
    }
    if facts.source() == Source::Functions {
        // pg_terminate_backend() looks up whether the session's role is a superuser: a lock on a shared catalogue.
        caveats.push(
            "The server needs a free place in the lock table to end another role's session: if the statement answers \
             'out of shared memory', it has done nothing; run it again, over the same connection, until it gets one."
                .to_owned(),
        );
    }
    caveats.extend(who_may(facts, &holdings.iter().map(|holding| holding.pid).collect::<Vec<_>>()));
    caveats
}

/// What becomes of a lock that goes with its connection, and who may end that.
pub fn of_a_lost_lock(facts: &Facts<'_>, holding: Option<&Holding>) -> Vec<String> {
    let Some(holding) = holding else { return vec![old_holder(facts)] };
    let mut caveats: Vec<String> = what_goes(facts, holding).into_iter().collect();
    caveats.extend([who_is_next(facts, holding), old_holder(facts)]);
    caveats.extend(who_may(facts, &[holding.pid]));
    caveats
}

/// Before somebody concludes from a look that a session may be ended.
pub fn of_looking(facts: &Facts<'_>) -> Vec<String> {
    match facts.draft.rule {
        "carried-lock" => vec![
            "A job that keeps its lock over several statements looks the same: if it is one, declare it with kind, \
             max_hold or long_lived in the dictionary."
                .to_owned(),
        ],
        "idle-holder" | "idle-in-transaction-holder" => {
            let mut caveats: Vec<String> = facts.draft.pids.iter().filter_map(|&pid| companions(facts, pid)).collect();
            caveats.push("Ending the holder while that work runs lets a second one start on the same data.".to_owned());
            caveats
        }
        "blocked-waiters" => {
            let mut caveats: Vec<String> = facts
                .backends()
                .filter(|backend| backend.has_written)
                .take(5)
                .map(|backend| {
                    format!("The transaction of pid {} has written: ending it would roll that back.", backend.pid)
                })
                .collect();
            caveats.extend(hidden_roots(facts));
            caveats
        }
        "lock-table-pressure" => vec![
            "The nominal size is not the limit: the table grows into spare shared memory until that is used up; then \
             statements fail with 53200 (out of shared memory)."
                .to_owned(),
        ],
        "lock-table-full" => vec![
            "While the table is full, statements of all clients that need a new lock fail, not only advisory ones."
                .to_owned(),
        ],
        _ => Vec::new(),
    }
}

fn hidden_roots(facts: &Facts<'_>) -> Option<String> {
    let hidden: Vec<Pid> = facts.backends().filter(|backend| backend.is_hidden()).map(|backend| backend.pid).collect();
    (!hidden.is_empty()).then(|| format!("What {} does is not visible to us.", words::pids(&hidden)))
}

/// Before waiters are cancelled.
pub fn of_cancelling(facts: &Facts<'_>, queued: &[Queued]) -> Vec<String> {
    let backends: Vec<&Backend> = queued.iter().filter_map(|one| facts.context.observed.backend(one.pid)).collect();
    let mut applications: Vec<String> = backends.iter().map(|backend| words::application(backend)).collect();
    applications.sort();
    applications.dedup();
    let mut caveats = Vec::new();
    if !applications.is_empty() {
        caveats.push(format!(
            "{} gets the error 57014 (canceling statement due to user request) for the waiting statement; a \
             transaction around it fails as a whole.",
            capital(&words::list(&applications))
        ));
    }
    let written: Vec<Pid> = backends.iter().filter(|backend| backend.has_written).map(|backend| backend.pid).collect();
    if !written.is_empty() {
        caveats.push(format!("What the transaction of {} has written rolls back.", words::pids(&written)));
    }
    caveats.push(
        "If its application tries again at once, it waits again and the circle closes again: stop the retries first."
            .to_owned(),
    );
    caveats.extend(who_may(facts, &queued.iter().map(|one| one.pid).collect::<Vec<_>>()));
    caveats
}

/// What a GRANT, or its lack, means.
pub fn of_hidden(facts: &Facts<'_>) -> Vec<String> {
    let mut caveats = vec![
        "Until then a leak held by these sessions is not seen: no finding does not mean that all is well.".to_owned(),
    ];
    if !facts.context.observed.snapshot.server.sees_all_sessions {
        caveats.push(
            "pg_monitor only reads: statistics, settings and other sessions' queries. It cannot end a session."
                .to_owned(),
        );
    }
    caveats
}

fn companions(facts: &Facts<'_>, pid: Pid) -> Option<String> {
    let companions = facts.companions(pid);
    if companions.is_empty() {
        return None;
    }
    let verb = if companions.len() == 1 { "is" } else { "are" };
    Some(format!(
        "{} of the same application {verb} at work and may be doing what this lock protects.",
        capital(&words::pids(&companions))
    ))
}

/// What else the session holds, beside the lock that the statement guards on.
fn what_goes(facts: &Facts<'_>, holding: &Holding) -> Option<String> {
    let others = facts.other_keys(holding.pid, holding.key)?;
    Some(format!(
        "The statement guards on {} alone, but pid {} also holds {}: ending it frees all of them.",
        facts.guard_hold(holding.pid).map_or_else(|| key::text(holding.key.numbers), labelled),
        holding.pid,
        others
    ))
}

fn what_is_lost(facts: &Facts<'_>, holding: &Holding, backend: &Backend) -> String {
    match holding.rest {
        Rest::Idle => {
            "Nothing is rolled back: the statement ends the session only while it is in no transaction.".to_owned()
        }
        Rest::InTransaction(xact_start) => {
            let age = duration(crate::model::age(facts.context.observed.snapshot.sampled_at, xact_start));
            if backend.has_written {
                format!("Its transaction, open for {age}, has written: all of it rolls back.")
            } else {
                format!("Its transaction, open for {age}, has written nothing so far.")
            }
        }
        Rest::Aborted(_) => "Its transaction has failed already: what it wrote is lost in any case.".to_owned(),
    }
}

fn what_the_client_sees(backend: &Backend) -> String {
    if backend.is_client() {
        format!(
            "{} loses this connection: the next request on it fails once, unless its pool tests connections before it \
             lends them.",
            capital(&words::application(backend))
        )
    } else {
        format!(
            "This is no client's connection but a {}: whatever started it may start it again.",
            words::name(&backend.backend_type)
        )
    }
}

fn who_is_next(facts: &Facts<'_>, holding: &Holding) -> String {
    let Some((next, mode)) = facts.next(holding.key) else {
        return "Nobody waits for it: whoever asks next gets it.".to_owned();
    };
    let others = facts.other_holders(holding.key, mode, HolderRef::Session(holding.pid));
    let next = facts.session(next);
    if others.is_empty() {
        return format!("{} gets the lock next.", capital(&next));
    }
    let named: Vec<String> = others
        .iter()
        .take(words::NAMED)
        .map(|other| match other {
            HolderRef::Session(pid) => format!("pid {pid}"),
            HolderRef::Prepared(_) => "a prepared transaction".to_owned(),
        })
        .collect();
    format!(
        "{} is first in the queue, but {} {} the key too: it goes on waiting until those are gone as well.",
        capital(&next),
        words::list_of(&named, others.len()),
        if others.len() == 1 { "holds" } else { "hold" }
    )
}

fn old_holder(facts: &Facts<'_>) -> String {
    if facts.is_leader() {
        "The old leader may not notice that it lost the lock until it uses this connection again: unless it is stopped \
         or fenced, two may lead."
            .to_owned()
    } else {
        "The old holder may not notice that it lost the lock until it uses this connection again.".to_owned()
    }
}

fn several(facts: &Facts<'_>, holdings: &[Holding]) -> Vec<String> {
    let observed = facts.context.observed;
    let mut caveats = Vec::new();
    let extra: Vec<String> = holdings
        .iter()
        .filter_map(|holding| {
            let others = facts.other_keys(holding.pid, holding.key)?;
            Some(format!("pid {} ({others})", holding.pid))
        })
        .collect();
    if !extra.is_empty() {
        caveats.push(format!(
            "Some hold more than the lock that is guarded on, and all of it goes: {}.",
            words::list(&extra)
        ));
    }
    let written: Vec<Pid> = holdings
        .iter()
        .filter(|holding| matches!(holding.rest, Rest::InTransaction(_)))
        .filter(|holding| observed.backend(holding.pid).is_some_and(|backend| backend.has_written))
        .map(|holding| holding.pid)
        .collect();
    if !written.is_empty() {
        caveats.push(format!("Open transactions that have written roll back: {}.", words::pids(&written)));
    }
    caveats.push(
        "The application loses these connections: the next request on each fails once, unless the pool tests connections \
         before it lends them."
            .to_owned(),
    );
    caveats
        .push("The pool fills up again if the code stays as it is: find the statement that took the locks.".to_owned());
    caveats
}

/// Who may signal these sessions, and whether our own role may.
fn who_may(facts: &Facts<'_>, pids: &[Pid]) -> Vec<String> {
    let observed = facts.context.observed;
    let mut users: Vec<&str> =
        pids.iter().filter_map(|&pid| observed.backend(pid)).filter_map(|backend| backend.user.as_deref()).collect();
    users.sort_unstable();
    users.dedup();
    let same = match users.as_slice() {
        [user] => format!("role {} or a member of it, or ", quote::identifier(user)),
        _ => String::new(),
    };
    let mut caveats = vec![format!(
        "Who may run it: {same}a role with pg_read_all_stats (in pg_monitor) and pg_signal_backend together; for the \
         session of a superuser only a superuser."
    )];
    let server = &observed.snapshot.server;
    if !server.can_signal && users != [server.role.as_str()] {
        caveats.push(format!(
            "Our own role {} may not run it: it lacks pg_signal_backend.",
            quote::identifier(&server.role)
        ));
    }
    caveats
}

fn capital(text: &str) -> String {
    match text.strip_prefix("pid") {
        Some(rest) => format!("Pid{rest}"),
        None => text.to_owned(),
    }
}
