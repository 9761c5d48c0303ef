//! `standby-lock`: the server is in recovery and holds advisory locks. They exist on this server only: the same key on
//! the primary is another lock.

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::Hold;
use crate::analysis::report::{Action, Severity};

/// See the module.
#[derive(Debug)]
pub struct StandbyLock;

impl Rule for StandbyLock {
    fn name(&self) -> &'static str {
        "standby-lock"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        if !context.observed.snapshot.server.in_recovery {
            return Vec::new();
        }
        let holds: Vec<&Hold> = context.observed.holds.iter().filter(|hold| context.is_judged(hold)).collect();
        if holds.is_empty() {
            return Vec::new();
        }
        let mut draft = Draft::new(self.name(), Subject::Target, Severity::Info, Action::None).with_holds(&holds);
        for hold in &holds {
            draft = draft.with_holder(context, hold.holder);
        }
        draft.pids.sort_unstable();
        draft.pids.dedup();
        draft.summary =
            format!("{} held on a standby.", words::count(holds.len(), "advisory lock is", "advisory locks are"));
        draft.detail.push(
            "An advisory lock exists on one server only: it shuts nobody out on the primary, and a failover loses it."
                .to_owned(),
        );
        vec![draft]
    }
}
