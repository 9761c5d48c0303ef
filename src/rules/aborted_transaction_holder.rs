//! `aborted-transaction-holder`: a session sits in a failed transaction and still holds an advisory lock.

use super::idle_holder::rested;
use super::{Context, Draft, Rule, words};
use crate::analysis::HolderRef;
use crate::model::BackendState;

/// See the module.
#[derive(Debug)]
pub struct AbortedTransactionHolder;

impl Rule for AbortedTransactionHolder {
    fn name(&self) -> &'static str {
        "aborted-transaction-holder"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        context
            .observed
            .holders()
            .filter_map(|holder| {
                let HolderRef::Session(pid) = holder else { return None };
                let backend = context
                    .backend(pid)
                    .filter(|backend| backend.state == Some(BackendState::IdleInTransactionAborted))?;
                let lasted = context.observed.state_for(backend).unwrap_or_default();
                let mut holds = context.judged_holds(holder);
                holds.retain(|hold| hold.past.held.at_least.max(lasted) >= context.thresholds.idle);
                if holds.is_empty() {
                    return None;
                }
                let mut draft = rested(context, self.name(), pid, &holds);
                draft.summary = words::holding(context, &draft, backend, "in a failed transaction");
                draft.detail = words::evidence(context, &draft, &holds);
                // After an error at a transaction's top level its transaction locks are gone, and the local id is 0.
                draft.detail.push(if holds.iter().all(|hold| hold.past.local_zero) {
                    "What is still held after the error is session scope: ROLLBACK will not free it.".to_owned()
                } else {
                    "The error came behind a savepoint: a transaction's own locks are still there, and ROLLBACK frees \
                     those."
                        .to_owned()
                });
                Some(draft)
            })
            .collect()
    }
}
