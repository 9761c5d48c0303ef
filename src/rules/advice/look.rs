//! What to look at where nothing is to be run yet, or before it is.
//!
//! Pure text from facts. SQL in it only reads.

use std::fmt::Write as _;

use super::facts::Facts;
use super::statement::Source;
use super::words;
use crate::keys::key;
use crate::model::{Backend, BackendState, LockObject, Pid};
use crate::rules::Subject;
use crate::rules::words::duration;

/// What to look at, where nothing is to be run yet.
pub fn look(facts: &Facts<'_>) -> Vec<String> {
    let pids = &facts.draft.pids;
    match facts.draft.rule {
        "carried-lock" => {
            vec![look_at(facts, "Find out whether a job still works under the lock on this connection", pids)]
        }
        "blocked-waiters" => blocked(facts),
        "idle-holder" | "idle-in-transaction-holder" => companions_at_work(facts),
        "hidden-deadlock" | "lock-cycle" => vec![
            look_at(facts, "See who waits for whom", pids),
            "Cancel the statement of one of them from its own application; the others go on.".to_owned(),
        ],
        "pool-starved" => vec![look_at(facts, "Look at the sessions of the pool", pids)],
        "unexpected-holder" => unexpected(facts),
        "scope-violation" => vec![
            "Find the code that takes this key with a session-level function: the dictionary says that it is meant to \
             be a transaction lock."
                .to_owned(),
            "Change it to pg_advisory_xact_lock, or, if session scope is meant, correct scope in the dictionary."
                .to_owned(),
        ],
        "overlong-hold" => {
            let mut steps = Vec::new();
            if !pids.is_empty() {
                steps.push(look_at(facts, "Find out whether the holder still works", pids));
            }
            steps.push("If such a hold is normal, raise max_hold in the dictionary.".to_owned());
            steps
        }
        "holder-count" => holder_count(facts),
        "key-collision" => vec![
            "Find out which of the names is meant: pglockwatch keys list shows the entries.".to_owned(),
            "Give each purpose a key of its own in code and dictionary, or take one entry out.".to_owned(),
        ],
        "shared-key" => vec![
            "Find out whether both applications mean the same thing by this key.".to_owned(),
            "If they do, name both in applications of its dictionary entry; if not, give one of them another key."
                .to_owned(),
        ],
        "lock-table-pressure" | "lock-table-full" => lock_table(facts),
        "standby-lock" => vec![
            "Find out what takes advisory locks here: they are this server's own, and keep nobody out on the primary."
                .to_owned(),
        ],
        _ if pids.is_empty() => Vec::new(),
        _ => vec![look_at(facts, "Look at what it does", pids)],
    }
}

fn companions_at_work(facts: &Facts<'_>) -> Vec<String> {
    let Some(backend) = facts.only_backend() else { return vec![look_at(facts, "Look at it", &facts.draft.pids)] };
    let companions = facts.companions(backend.pid);
    let labels = facts.labels();
    let what = if labels.is_empty() { "the work under this lock".to_owned() } else { words::list(&labels) };
    if companions.is_empty() {
        return vec![look_at(facts, &format!("Find out whether {what} is still running"), &[backend.pid])];
    }
    vec![
        look_at(facts,
            &format!("Find out whether {what} is running on another connection of {}", words::application(backend)),
            &companions,
        ),
        "If it is, let it finish: the lock on the idle session is what keeps a second one out.".to_owned(),
        "If it is not, run pglockwatch runbook again: once these sessions rest, or the hold is over max_hold, it gives \
         the statement that ends the holder."
            .to_owned(),
    ]
}

fn blocked(facts: &Facts<'_>) -> Vec<String> {
    let mut steps: Vec<String> = facts.backends().take(5).map(|backend| root(facts, backend)).collect();
    steps.push(look_at(facts, "Look at it", &facts.draft.pids));
    steps.push(
        "Do not end it to make room: work under the lock would be cut off, and the next in the queue would start on \
         top of it."
            .to_owned(),
    );
    steps.push("If the waiters should not wait, stop them in their own application.".to_owned());
    steps
}

fn root(facts: &Facts<'_>, backend: &Backend) -> String {
    let observed = facts.context.observed;
    let session = facts.session(backend.pid);
    let state_for = observed.state_for(backend).map(duration);
    let since = state_for.as_ref().map_or_else(String::new, |age| format!(" for {age}"));
    if let Some(waiting) = observed.waiting.get(&backend.pid) {
        let object = match &waiting.object {
            LockObject::Advisory(key) => format!("advisory lock {}", key::text(key.numbers)),
            LockObject::Other { locktype, .. } => format!("a lock of type {locktype}"),
        };
        return format!(
            "{session} itself waits for {object} since {}: find out who holds that:\nSELECT pg_blocking_pids({});",
            duration(waiting.waited.duration),
            backend.pid
        );
    }
    match backend.state {
        Some(BackendState::Active | BackendState::Fastpath) => {
            format!("{session} has been running a statement{since}: let it finish unless it is stuck.")
        }
        Some(BackendState::Idle) => format!(
            "{session} has been idle{since}, not yet for {}: look again then; if it stays so, it is an idle-holder and \
             can be ended.",
            duration(facts.context.thresholds.idle)
        ),
        Some(state) => {
            format!("{session} has been {}{since}: its application has to COMMIT or ROLLBACK.", state.name())
        }
        None => format!("{session} does not show what it does."),
    }
}

fn unexpected(facts: &Facts<'_>) -> Vec<String> {
    let name = match &facts.draft.subject {
        Subject::HolderEntry(_, name) => words::name(name),
        _ => "this key".to_owned(),
    };
    let apps: Vec<String> = facts.backends().map(words::application).collect();
    let who = if apps.is_empty() { "its holder".to_owned() } else { words::list(&apps) };
    vec![
        format!("Find out why {who} takes the key of {name}: another purpose may compute the same number."),
        format!("If it may, add it to applications of {name} in the dictionary; if not, give it a key of its own."),
    ]
}

fn holder_count(facts: &Facts<'_>) -> Vec<String> {
    let Subject::Entry(name) = &facts.draft.subject else { return Vec::new() };
    let entries = facts.context.book.entries();
    let mismatch = facts
        .context
        .observed
        .count_mismatches
        .iter()
        .find(|mismatch| entries.get(mismatch.entry).is_some_and(|entry| entry.name == *name));
    let wanted = mismatch.and_then(|mismatch| entries.get(mismatch.entry)).and_then(|entry| entry.holders.as_ref());
    let held = mismatch.map_or(facts.draft.pids.len(), |mismatch| mismatch.holders.len());
    let name = words::name(name);
    let too_few = wanted.is_none_or(|wanted| u32::try_from(held).unwrap_or(u32::MAX) < *wanted.0.start());
    if too_few {
        vec![
            format!("Find out why nobody, or not everybody, holds {name}: is its process running, and connected here?"),
            format!("Start it again. If {name} need not be held, correct holders in the dictionary."),
        ]
    } else {
        vec![
            look_at(facts, "Find out who holds it too often", &facts.draft.pids),
            format!(
                "Stop the process that is too much. If {name} may be held so often, or in several databases, correct \
                 holders or databases in the dictionary."
            ),
        ]
    }
}

fn lock_table(facts: &Facts<'_>) -> Vec<String> {
    let mut steps = Vec::new();
    if facts.draft.rule == "lock-table-full" {
        steps.push("Keep every connection that you have: new logins may fail now.".to_owned());
    }
    steps.push(
        "See who holds most:\nSELECT pid, count(*) FROM pg_lock_status() WHERE locktype = 'advisory' AND granted GROUP \
         BY pid ORDER BY 2 DESC LIMIT 5;"
            .to_owned(),
    );
    steps.push(
        "Stop the work that takes them, at its application; its locks are free when its session or transaction ends."
            .to_owned(),
    );
    steps
}

/// The statement that shows what these sessions do.
pub fn look_at(facts: &Facts<'_>, why: &str, pids: &[Pid]) -> String {
    let sessions = match facts.source() {
        Source::Views => "pg_stat_activity",
        Source::Functions => "pg_stat_get_activity(NULL)",
    };
    let (first, others) = match pids {
        [] => return format!("{why}."),
        [first, others @ ..] => (first, others.get(..49).unwrap_or(others)),
    };
    let mut text = format!("{why}:\nSELECT pid, state, wait_event_type, query_start, query FROM {sessions} WHERE pid ");
    if others.is_empty() {
        let _ = write!(text, "= {first};");
        return text;
    }
    let _ = write!(text, "IN ({first}");
    for pid in others {
        let _ = write!(text, ", {pid}");
    }
    text.push_str(");");
    text
}
