//! `carried-lock`: a lock that a busy session carries from statement to statement, as one that was leaked on a pooled
//! connection.

use std::collections::HashSet;

use super::idle_holder::rested;
use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{Hold, HoldScope, HolderRef};
use crate::model::{BackendState, Pid};

/// So many polls in a row count as evidence where there is no proof.
const UNPROVED_POLLS: u64 = 50;

/// See the module.
#[derive(Debug)]
pub struct CarriedLock;

impl Rule for CarriedLock {
    fn name(&self) -> &'static str {
        "carried-lock"
    }

    fn judge(&self, context: &Context<'_>, before: &[Draft]) -> Vec<Draft> {
        // A session gets one state rule, by its state.
        let judged: HashSet<&Subject> = before.iter().map(|draft| &draft.subject).collect();
        let rest = context.observed.holders().filter(|&holder| !judged.contains(&Subject::Holder(holder)));
        rest.filter_map(|holder| match holder {
            HolderRef::Session(pid) => self.judge_session(context, pid),
            HolderRef::Prepared(_) => None,
        })
        .collect()
    }
}

impl CarriedLock {
    fn judge_session(&self, context: &Context<'_>, pid: Pid) -> Option<Draft> {
        let holder = HolderRef::Session(pid);
        let backend = context.backend(pid)?;
        let rests = backend.state == Some(BackendState::Idle)
            && context.observed.state_for(backend).is_some_and(|lasted| lasted >= context.thresholds.idle);
        if rests || context.observed.waiting.contains_key(&pid) {
            return None;
        }
        let candidates: Vec<&Hold> =
            context.judged_holds(holder).into_iter().filter(|hold| !Context::is_work(hold)).collect();
        let proved = |hold: &&Hold| is_proved(context, hold);
        let holds: Vec<&Hold> =
            candidates.iter().copied().filter(|hold| proved(hold) || is_likely(context, hold)).collect();
        if holds.is_empty() {
            return None;
        }
        let mut draft = rested(context, self.name(), pid, &holds);
        draft.action = Action::Investigate;
        draft.proved = holds.iter().any(proved);
        if !draft.proved {
            draft.severity = Severity::Warning;
        }
        let quiet = holds.iter().map(|hold| hold.past.quiet).max_by_key(|quiet| quiet.lasted).unwrap_or_default();
        let how_long = if draft.proved {
            format!("for at least {}", words::duration(draft.held.unwrap_or_default().at_least))
        } else {
            format!("in each poll of the last {}", words::duration(quiet.lasted))
        };
        draft.summary = format!(
            "{} carries {} from statement to statement {how_long}; {}.",
            words::session_label(context, pid),
            words::keys_label(context, &draft.pids, &draft.keys),
            words::waiters(context, &draft.waiters),
        );
        draft.detail = words::evidence(context, &draft, &holds);
        draft.detail.push(if draft.proved {
            "The session has run other statements since it took the lock, and the lock was never free in between: a \
             leak on a pooled connection looks like this."
                .to_owned()
        } else {
            format!(
                "Not proved: the lock was there in each of the last {} polls, and no statement of the session in them \
                 called an advisory lock function.",
                quiet.polls
            )
        });
        Some(draft)
    }
}

/// Unbroken for t while other statements ended. A transaction that works statement by statement under its own lock is
/// no leak: only a lock that outlives transactions counts.
fn is_proved(context: &Context<'_>, hold: &Hold) -> bool {
    hold.past.unbroken >= context.thresholds.idle
        && hold.past.ended_other_statement
        && hold.past.scope == HoldScope::Session
}

fn is_likely(context: &Context<'_>, hold: &Hold) -> bool {
    hold.past.quiet.lasted >= context.thresholds.idle
        && hold.past.quiet.polls >= UNPROVED_POLLS
        && hold.past.quiet.session_scope
        && hold.past.scope != HoldScope::Transaction
}
