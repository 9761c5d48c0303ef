//! What to do, in order: whom to ask, what to look at, what to run, how to verify.
//!
//! Pure text from facts. One sentence or two per step; what is to be typed stands on lines of its own
//! below it and, as SQL, only reads.

use super::facts::Facts;
use super::look::look_at;
use super::statement::{Holding, Queued, Rest};
use super::{VERIFY, words};
use crate::analysis::{HoldScope, HolderRef};
use crate::model::{BackendState, Pid};
use crate::quote;
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
        "pooler-session-lock" => super::pooler::verify(facts),
        // One look cannot see a leak on a busy connection.
        "carried-lock" => {
            let observe = facts.context.thresholds.idle.as_secs() * 5 / 4 + 1;
            facts.key_text().map(|key| format!("{VERIFY}{} --observe {observe}s", words::check_key(&key)))
        }
        _ => facts.key_text().map(|key| format!("{VERIFY}{}", words::check_key(&key))),
    }
}

/// What to make sure of before a session is ended.
pub fn before_ending(facts: &Facts<'_>, holdings: &[Holding]) -> Vec<String> {
    let [holding] = holdings else {
        return vec![
            "Check that the application is not working: every session of this pool rests with a lock or waits for one."
                .to_owned(),
            look_at(facts, "Look at them", &holdings.iter().map(|holding| holding.pid).collect::<Vec<_>>()),
        ];
    };
    let mut steps = Vec::new();
    let Some(backend) = facts.context.observed.backend(holding.pid) else { return steps };
    let app = words::application(backend);
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
                steps.push(look_at(facts, "Make sure that no companion works under this lock", &companions));
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
    let proved =
        facts.guard_hold(holding.pid).is_some_and(|hold| hold.past.scope == HoldScope::Session || hold.past.local_zero);
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
    let backends = || {
        facts.context.observed.holders().filter_map(|holder| match holder {
            HolderRef::Session(pid) => facts.context.observed.backend(pid),
            HolderRef::Prepared(_) => None,
        })
    };
    let disabled: Vec<Pid> =
        backends().filter(|backend| backend.state == Some(BackendState::Disabled)).map(|backend| backend.pid).collect();
    let lent = backends().find(|backend| backend.lent_to_us);
    let mut steps = Vec::new();
    if let Some(lent) = lent {
        steps.push(format!(
            "Look at the server itself: give pglockwatch a DSN that leads past the pooler. It then sees how long pid {} \
             has rested with the lock, and has the statement that ends it.",
            lent.pid
        ));
    }
    if !server.sees_all_sessions {
        let place = if server.in_recovery { " on the primary (a standby takes it over)" } else { "" };
        steps.push(format!(
            "Run the statement as a superuser{place}: role {} then sees the sessions of all roles. The next poll \
             sees it, no new connection is needed.",
            quote::identifier(&server.role)
        ));
    }
    if !disabled.is_empty() || (server.sees_all_sessions && lent.is_none()) {
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
    // The command to verify has the DSN of this look: through the pooler it would see the same again.
    if lent.is_none() {
        steps.push(format!("{VERIFY}pglockwatch check"));
    }
    steps
}
