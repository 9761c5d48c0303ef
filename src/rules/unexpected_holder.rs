//! `unexpected-holder`: the dictionary says which applications may hold a key, and this holder is none of them.

use super::{Context, Draft, Rule, by_entry, words};
use crate::analysis::HolderRef;

/// See the module.
#[derive(Debug)]
pub struct UnexpectedHolder;

impl Rule for UnexpectedHolder {
    fn name(&self) -> &'static str {
        "unexpected-holder"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        by_entry::by_entry(context)
            .into_iter()
            .filter_map(|(holder, entry, holds)| {
                let HolderRef::Session(pid) = holder else { return None };
                let backend = context.backend(pid)?;
                if entry.applications.is_empty() || entry.applications.matches(&backend.application) {
                    return None;
                }
                let mut draft = by_entry::draft(context, self.name(), holder, &entry.name, &holds);
                draft.summary = format!(
                    "{} holds {}, which belongs to {}.",
                    words::session_label(context, pid),
                    words::keys_label(context, &draft.pids, &draft.keys),
                    entry.applications.patterns.join(", "),
                );
                draft.detail = words::evidence(context, &draft, &holds);
                Some(draft)
            })
            .collect()
    }
}
