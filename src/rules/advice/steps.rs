//! What to do, in order: whom to ask, what to look at, what to run, how to verify.
//!
//! Pure text from facts. One sentence or two per step; what is to be typed stands on lines of its own
//! below it and, as SQL, only reads.

use super::facts::Facts;
use super::statement::{Holding, Queued, Rest};
use super::{VERIFY, words};
use crate::analysis::{HoldScope, HolderRef};
use crate::keys::key;
use crate::model::{Backend, BackendState, LockObject, Pid};
use crate::quote;
use crate::rules::Subject;
use crate::rules::words::duration;

/// Whom to ask first.
pub fn contacts(facts: &Facts<'_>) -> Vec<String> {
    let mut steps = Vec::new();
    for contact in facts.contacts() {
        let who = match (&contact.contact, &contact.team, &contact.owner) {
            (Some(contact), _, _) => Some(words::one_line(contact)),
            (None, Some(team), _) => Some(format!("team {}", words::one_line(team))),
            (None, None, Some(owner)) => Some(words::one_line(owner)),
            (None, None, None) => None,
        };
        let known: Vec<String> = [
            contact.owner.as_ref().map(|owner| format!("owner {}", words::one_line(owner))),
            contact.team.as_ref().map(|team| format!("team {}", words::one_line(team))),
        ]
        .into_iter()
        .flatten()
        .filter(|text| who.as_ref() != Some(text))
        .collect();
        let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
        if let Some(who) = who {
            steps.push(format!("Ask {who} about {}{known}.", words::name(&contact.name)));
        }
        if let Some(runbook) = contact.runbook {
            steps.push(format!("Read the runbook of {}:\n{}", words::name(&contact.name), words::one_line(&runbook)));
        }
    }
    steps
}

/// How to see whether it helped.
pub fn verify(facts: &Facts<'_>) -> Option<String> {
    match facts.draft.rule {
        "hidden-sessions" | "lock-table-pressure" | "lock-table-full" | "standby-lock" | "pool-starved" => {
            Some(format!("{VERIFY}pglockwatch check"))
        }
        "key-collision" => Some(format!("{VERIFY}pglockwatch keys lint")),
        _ => facts.key_text().map(|key| format!("{VERIFY}{}", words::check_key(&key))),
    }
}

/// What to make sure of before a session is ended.
pub fn before_ending(facts: &Facts<'_>, holdings: &[Holding]) -> Vec<String> {
    let [holding] = holdings else {
        return vec![
            "Check that the application is not working: every session of this pool rests with a lock or waits for one."
                .to_owned(),
            look_at("Look at them", &holdings.iter().map(|holding| holding.pid).collect::<Vec<_>>()),
        ];
    };
    let mut steps = Vec::new();
    let Some(backend) = facts.context.observed.backend(holding.pid) else { return steps };
    let app = application(backend);
    if facts.is_leader() {
        steps.push(format!(
            "Stop or fence {app} first: it leads by this lock and may go on leading without noticing that it has lost it."
        ));
    }
    match holding.rest {
        Rest::Idle => {
            let companions = facts.companions(holding.pid);
            if companions.is_empty() {
                let idle = facts.context.observed.state_for(backend).map(duration);
                let idle = idle.map_or_else(String::new, |idle| format!(": its session has been idle for {idle}"));
                steps.push(format!(
                    "Check that {app} is not doing, outside the database, the work that this lock protects{idle}."
                ));
            } else {
                steps.push(look_at("Make sure that no companion works under this lock", &companions));
            }
        }
        Rest::InTransaction(_) => steps.push(format!(
            "Let {app} end its own transaction first, if it can: COMMIT or ROLLBACK frees a transaction lock and costs \
             no connection."
        )),
        Rest::Aborted(_) => steps.push(aborted(facts, holding, &app)),
    }
    if facts.draft.rule == "key-hoard" {
        steps.push(format!(
            "Find the code that takes a key per item and never lets go: pid {} holds {} keys.",
            holding.pid,
            facts.draft.keys.len()
        ));
    }
    steps
}

fn aborted(facts: &Facts<'_>, holding: &Holding, app: &str) -> String {
    let proved = facts.guard_hold(holding.pid).is_some_and(|hold| hold.scope == HoldScope::Session || hold.local_zero);
    if proved {
        "ROLLBACK will not free it: the lock is session scope and outlives the failed transaction. The session has to \
         unlock it or to end."
            .to_owned()
    } else {
        format!(
            "Let {app} send its own ROLLBACK first: if the error came behind a savepoint, the lock belongs to the \
             failed transaction and ROLLBACK frees it. End the session only if it cannot."
        )
    }
}

/// To run the statement that ends sessions.
pub fn run_terminate(facts: &Facts<'_>, holdings: &[Holding], left_out: usize) -> String {
    match holdings {
        [holding] if facts.is_carried(holding.pid) => format!(
            "If no job does, run the statement. It ends pid {} only between two transactions; while the session is in \
             use it says 'working for somebody now': run it again (in psql: \\watch 1, and Ctrl-C once it says \
             'terminated').",
            holding.pid
        ),
        [holding] => format!(
            "Run the statement. It ends pid {} only if nothing has changed, and its one row says what it did.",
            holding.pid
        ),
        several => {
            let more = if left_out == 0 {
                String::new()
            } else {
                format!(" {left_out} more sessions are left: run pglockwatch again after it.")
            };
            format!(
                "Run the statement. It judges each of the {} sessions by itself and shows a row for each: to free only \
                 some, delete the other rows of VALUES.{more}",
                several.len()
            )
        }
    }
}

/// To cancel waiters.
pub fn cancel(facts: &Facts<'_>, queued: &[Queued]) -> Vec<String> {
    let sessions = words::list(&queued.iter().map(|one| facts.session(one.pid)).collect::<Vec<_>>());
    let one = queued.len() == 1;
    let run = format!(
        "Run the statement. It cancels the statement of {sessions} only if {} still {} for this lock{}",
        if one { "that" } else { "each" },
        if one { "waits" } else { "waits, judged one by one," },
        if facts.draft.rule == "hidden-deadlock" { "." } else { "; the others go on." }
    );
    if facts.draft.rule != "hidden-deadlock" {
        return vec![run];
    }
    vec![
        format!(
            "Leave the holder alone: it is the victim. Its application waits for a statement that waits for \
             {sessions}, which {} for the holder's lock. PostgreSQL cannot see this circle.",
            if one { "waits" } else { "wait" }
        ),
        run,
        "Start the cancelled work again once the holder has finished.".to_owned(),
    ]
}

/// What hides sessions, and what shows them.
pub fn hidden(facts: &Facts<'_>) -> Vec<String> {
    let server = &facts.context.observed.snapshot.server;
    let disabled: Vec<Pid> = facts
        .context
        .observed
        .holders()
        .filter_map(|holder| match holder {
            HolderRef::Session(pid) => facts.context.observed.backend(pid),
            HolderRef::Prepared(_) => None,
        })
        .filter(|backend| backend.state == Some(BackendState::Disabled))
        .map(|backend| backend.pid)
        .collect();
    let mut steps = Vec::new();
    if !server.sees_all_sessions {
        let place = if server.in_recovery { " on the primary (a standby takes it over)" } else { "" };
        steps.push(format!(
            "Run the statement as a superuser{place}: role {} then sees the sessions of all roles. The next poll \
             sees it, no new connection is needed.",
            quote::identifier(&server.role)
        ));
    }
    if !disabled.is_empty() || server.sees_all_sessions {
        let who = if disabled.is_empty() { "these sessions".to_owned() } else { words::pids(&disabled) };
        steps.push(format!(
            "track_activities is off in {who}: what they do is not tracked, and no GRANT shows it. See where that is \
             set:\nSELECT d.datname, r.rolname, s.setconfig FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid \
             = s.setdatabase LEFT JOIN pg_roles r ON r.oid = s.setrole WHERE s.setconfig::text LIKE \
             '%track_activities%';"
        ));
        steps.push(
            "Turn it on again as a superuser (ALTER ROLE or ALTER DATABASE ... RESET track_activities, or in \
             postgresql.conf); a setting of a role or a database counts for new connections."
                .to_owned(),
        );
    }
    steps.push(format!("{VERIFY}pglockwatch check"));
    steps
}

/// What to look at, where nothing is to be run yet.
pub fn look(facts: &Facts<'_>) -> Vec<String> {
    let pids = &facts.draft.pids;
    match facts.draft.rule {
        "carried-lock" => {
            vec![look_at("Find out whether a job still works under the lock on this connection", pids)]
        }
        "blocked-waiters" => blocked(facts),
        "idle-holder" | "idle-in-transaction-holder" => companions_at_work(facts),
        "hidden-deadlock" | "lock-cycle" => vec![
            look_at("See who waits for whom", pids),
            "Cancel the statement of one of them from its own application; the others go on.".to_owned(),
        ],
        "pool-starved" => vec![look_at("Look at the sessions of the pool", pids)],
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
                steps.push(look_at("Find out whether the holder still works", pids));
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
        _ => vec![look_at("Look at what it does", pids)],
    }
}

fn companions_at_work(facts: &Facts<'_>) -> Vec<String> {
    let Some(backend) = facts.only_backend() else { return vec![look_at("Look at it", &facts.draft.pids)] };
    let companions = facts.companions(backend.pid);
    let labels = facts.labels();
    let what = if labels.is_empty() { "the work under this lock".to_owned() } else { words::list(&labels) };
    if companions.is_empty() {
        return vec![look_at(&format!("Find out whether {what} is still running"), &[backend.pid])];
    }
    vec![
        look_at(
            &format!("Find out whether {what} is running on another connection of {}", application(backend)),
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
    steps.push(look_at("Look at it", &facts.draft.pids));
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
    let apps: Vec<String> = facts.backends().map(application).collect();
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
            look_at("Find out who holds it too often", &facts.draft.pids),
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

fn look_at(why: &str, pids: &[Pid]) -> String {
    let list: Vec<String> = pids.iter().take(50).map(ToString::to_string).collect();
    let which = match list.as_slice() {
        [one] => format!("pid = {one}"),
        several => format!("pid IN ({})", several.join(", ")),
    };
    if list.is_empty() {
        return format!("{why}.");
    }
    format!("{why}:\nSELECT pid, state, wait_event_type, query_start, query FROM pg_stat_activity WHERE {which};")
}

/// An application by name, or the session by pid where it gives none.
pub fn application(backend: &Backend) -> String {
    if backend.application.is_empty() {
        format!("the client of pid {}", backend.pid)
    } else {
        words::name(&backend.application)
    }
}
