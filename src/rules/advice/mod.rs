//! What to do about a finding: the wording, and the guarded statements.
//!
//! Pure: from what was observed to sentences and SQL. This module decides no finding and no severity; it may only
//! step back from a suggestion (a session that shows no rest to guard on is investigated, not ended). What it must
//! never do: suggest to cancel an idle session, give a prepared transaction a pid, or print the unlock functions with
//! a parenthesis, since running them from another session does nothing.
//!
//! A step is a sentence or two. What is to be typed, or the link to open, follows on lines of its own, so that a front
//! end can wrap the words and keep those lines as they are. No line break comes from a stranger's text.

mod caveats;
mod driver;
mod facts;
mod lease;
mod look;
mod pooler;
mod prepared;
mod prevent;
pub mod statement;
mod steps;
mod words;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::cmp::Reverse;

use super::{Context, Draft};
use crate::analysis::Hold;
pub use crate::analysis::report::VERIFY;
use crate::analysis::report::{Action, Advice};
use crate::model::BackendState;
use facts::Facts;
use statement::{Holding, Queued};

/// More sessions than this do not fit into one statement that a person can read.
const AT_ONCE: usize = 20;

/// The advice for a draft: steps, the guarded statement, caveats, how to verify and how to prevent it.
/// `own` are the holds of its keys by its own sessions or prepared transaction.
pub fn advise(context: &Context<'_>, draft: &Draft, own: &[&Hold]) -> Advice {
    let facts = Facts { context, draft, own, companions: OnceCell::new(), guard: OnceCell::new() };
    let mut advice = match draft.action {
        Action::Terminate if draft.pids.is_empty() && facts.prepared().is_some() => prepared::finish(&facts),
        Action::Terminate => terminate(&facts),
        Action::CancelWaiter => cancel(&facts),
        Action::FinishPrepared => prepared::finish(&facts),
        Action::ReconnectPooler => reconnect_pooler(&facts),
        Action::Grant => grant(&facts),
        Action::Investigate => investigate(&facts),
        Action::FixDictionary | Action::None => Advice {
            action: draft.action,
            steps: with_frame(&facts, look::look(&facts)),
            sql: None,
            caveats: Vec::new(),
            prevent: Vec::new(),
        },
    };
    advice.prevent = prevent::prevent(&facts);
    advice
}

fn terminate(facts: &Facts<'_>) -> Advice {
    let holdings = holdings(facts);
    let Some(first) = holdings.first() else { return investigate(facts) };
    let left_out = holdings.len().saturating_sub(AT_ONCE);
    let shown = holdings.get(..AT_ONCE).unwrap_or(&holdings);
    let sql = if shown.len() == 1 {
        statement::terminate(first, facts.source())
    } else {
        statement::terminate_each(shown, facts.source())
    };
    let mut middle = steps::before_ending(facts, shown);
    middle.push(steps::run_terminate(facts, shown, left_out));
    Advice {
        action: Action::Terminate,
        steps: with_frame(facts, middle),
        sql: Some(sql),
        caveats: caveats::of_ending(facts, shown),
        prevent: Vec::new(),
    }
}

fn reconnect_pooler(facts: &Facts<'_>) -> Advice {
    let Some(advice) = pooler::reconnect(facts) else { return terminate(facts) };
    Advice { steps: with_frame(facts, advice.steps), ..advice }
}

/// The draft's sessions that can be ended under guard, those at rest for longest first.
fn holdings(facts: &Facts<'_>) -> Vec<Holding> {
    let mut holdings: Vec<_> =
        facts.backends().filter_map(|backend| Some((backend.state_change, facts.holding(backend.pid)?))).collect();
    holdings.sort_by_key(|(state_change, holding)| (*state_change, holding.pid));
    holdings.into_iter().map(|(_, holding)| holding).collect()
}

fn cancel(facts: &Facts<'_>) -> Advice {
    // A session that is idle runs no statement to cancel; whoever waits is active.
    let mut queued: Vec<Queued> = facts
        .draft
        .cancel
        .iter()
        .filter_map(|&pid| {
            let backend = facts.context.observed.backend(pid)?;
            if backend.state.is_some_and(BackendState::is_idle) { None } else { facts.queued(pid) }
        })
        .collect();
    queued.truncate(AT_ONCE);
    let sql = match queued.as_slice() {
        [] => return investigate(facts),
        [one] => statement::cancel(one),
        several => statement::cancel_each(several),
    };
    Advice {
        action: Action::CancelWaiter,
        steps: with_frame(facts, steps::cancel(facts, &queued)),
        sql: Some(sql),
        caveats: caveats::of_cancelling(facts, &queued),
        prevent: Vec::new(),
    }
}

fn grant(facts: &Facts<'_>) -> Advice {
    let server = &facts.context.observed.snapshot.server;
    if let Some(sql) = lease::grant(facts) {
        let steps = lease::unread(facts);
        return Advice { action: Action::Grant, steps, sql: Some(sql), caveats: Vec::new(), prevent: Vec::new() };
    }
    // Who sees all sessions and still not these: the state is not tracked there, and no GRANT helps.
    let (action, sql) = if server.sees_all_sessions {
        (Action::Investigate, None)
    } else {
        (Action::Grant, Some(statement::grant_monitor(&server.role)))
    };
    Advice { action, steps: steps::hidden(facts), sql, caveats: caveats::of_hidden(facts), prevent: Vec::new() }
}

fn investigate(facts: &Facts<'_>) -> Advice {
    if facts.draft.rule == "lease-overdue" {
        let steps = lease::steps(facts);
        return Advice { action: Action::Investigate, steps, sql: None, caveats: Vec::new(), prevent: Vec::new() };
    }
    if facts.draft.rule == "hidden-sessions" {
        let steps = steps::hidden(facts);
        let caveats = caveats::of_hidden(facts);
        return Advice { action: Action::Investigate, steps, sql: None, caveats, prevent: Vec::new() };
    }
    if facts.draft.pids.is_empty() && facts.prepared().is_some() {
        return Advice { action: Action::Investigate, ..prepared::finish(facts) };
    }
    // The only rule whose suspicion is worth a statement while the session may be at work: the guard waits for rest.
    let mut carried = holdings(facts);
    carried.retain(|holding| facts.is_carried(holding.pid));
    let mut middle = look::look(facts);
    let mut caveats = caveats::of_looking(facts);
    let sql = carried.iter().min_by_key(|holding| waiting_for(facts, holding)).map(|holding| {
        let one = std::slice::from_ref(holding);
        middle.push(steps::run_terminate(facts, one, 0));
        caveats.extend(caveats::of_ending(facts, one));
        statement::terminate(holding, facts.source())
    });
    Advice { action: Action::Investigate, steps: with_frame(facts, middle), sql, caveats, prevent: Vec::new() }
}

fn waiting_for(facts: &Facts<'_>, holding: &Holding) -> Reverse<usize> {
    Reverse(facts.guard_hold(holding.pid).map_or(0, |hold| hold.waiters.len()))
}

/// Whom to ask first, then what to do, then how to verify.
fn with_frame(facts: &Facts<'_>, middle: Vec<String>) -> Vec<String> {
    let mut steps = steps::contacts(facts);
    steps.extend(middle);
    steps.extend(steps::verify(facts));
    steps
}
