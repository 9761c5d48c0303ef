//! `scope-violation`: the dictionary says that a key is taken for a transaction, and it was seen as a session lock.

use super::{Context, Draft, Rule, by_entry, words};
use crate::analysis::HoldScope;
use crate::keys::Scope;

/// See the module.
#[derive(Debug)]
pub struct ScopeViolation;

impl Rule for ScopeViolation {
    fn name(&self) -> &'static str {
        "scope-violation"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        by_entry::by_entry(context)
            .into_iter()
            .filter_map(|(holder, entry, mut holds)| {
                holds.retain(|hold| hold.past.scope == HoldScope::Session);
                if entry.scope != Some(Scope::Transaction) || holds.is_empty() {
                    return None;
                }
                let mut draft = by_entry::draft(context, self.name(), holder, &entry.name, &holds);
                draft.summary = format!(
                    "{} holds {} as a session lock; the dictionary says that it is taken for a transaction.",
                    words::holder_label(context, holder),
                    words::keys_label(context, &draft.pids, &draft.keys),
                );
                draft.detail = words::evidence(context, &draft, &holds);
                Some(draft)
            })
            .collect()
    }
}
