//! `lock-cycle`: sessions wait for each other in a circle, by an advisory lock at least once.
//!
//! The server breaks most such cycles within `deadlock_timeout`; what lasts for w is one that it does not see.

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::Waiting;
use crate::analysis::report::{Action, Severity};
use crate::model::Pid;

/// See the module.
#[derive(Debug)]
pub struct LockCycle;

impl Rule for LockCycle {
    fn name(&self) -> &'static str {
        "lock-cycle"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let cycles = context.observed.cycles.iter().enumerate();
        cycles.filter_map(|(place, pids)| self.draft(context, place, pids)).collect()
    }

    fn absorbs(&self, mine: &Draft, other: &Draft) -> bool {
        other.rule == "blocked-waiters"
            && !other.pids.is_empty()
            && other.pids.iter().all(|pid| mine.pids.contains(pid))
    }
}

impl LockCycle {
    fn draft(&self, context: &Context<'_>, place: usize, pids: &[Pid]) -> Option<Draft> {
        let members: Vec<&Waiting> = pids.iter().filter_map(|pid| context.observed.waiting.get(pid)).collect();
        let advisory: Vec<&Waiting> = members.iter().copied().filter(|wait| wait.key().is_some()).collect();
        let youngest = advisory.iter().min_by_key(|wait| (wait.waited.duration, wait.pid))?;
        if members.len() < pids.len() || !pids.iter().all(|&pid| context.waited_long(pid)) {
            return None;
        }
        let mut draft =
            Draft::new(self.name(), Subject::Cycle(pids.to_vec()), Severity::Critical, Action::CancelWaiter)
                .with_keys(advisory.iter().filter_map(|wait| wait.key()))
                .with_waiters(context, context.observed.waiters_of_cycle(place));
        draft.pids = pids.to_vec();
        draft.cancel = vec![youngest.pid];
        let holds = context.holds_of_draft(&draft);
        draft.held = super::draft::longest_held(&holds);
        draft.summary = format!(
            "{} sessions wait for each other in a circle, for {}: none of them can go on.",
            pids.len(),
            words::keys_label(context, &draft.pids, &draft.keys),
        );
        draft.detail = members
            .iter()
            .map(|wait| {
                let blockers: Vec<String> =
                    wait.blocked_by.iter().map(|blocker| words::holder_label(context, *blocker)).collect();
                format!(
                    "{} has waited {} for {}, behind {}.",
                    words::session_label(context, wait.pid),
                    words::waited(wait.waited),
                    words::object(&wait.object),
                    blockers.join(", "),
                )
            })
            .collect();
        Some(draft)
    }
}
