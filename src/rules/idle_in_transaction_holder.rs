//! `idle-in-transaction-holder`: a session has been idle in a transaction for at least t and holds an advisory lock.

use super::idle_holder::{beside_work, rested, sessions_in};
use super::{Context, Draft, Rule, words};
use crate::model::BackendState;

/// See the module.
#[derive(Debug)]
pub struct IdleInTransactionHolder;

impl Rule for IdleInTransactionHolder {
    fn name(&self) -> &'static str {
        "idle-in-transaction-holder"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        sessions_in(context, BackendState::IdleInTransaction)
            .map(|(pid, backend, holds)| {
                let mut draft = rested(context, self.name(), pid, &holds);
                draft.summary = words::holding(context, &draft, backend, "idle in a transaction");
                draft.detail = words::evidence(context, &draft, &holds);
                if backend.has_written {
                    draft.detail.push("The transaction has written: ending the session rolls it back.".to_owned());
                }
                beside_work(context, &mut draft, &holds);
                draft
            })
            .collect()
    }
}
