//! What the dictionary rules have in common: a holder, one entry, and the holder's keys that the entry names.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Context, Draft, Subject};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{Hold, HolderRef};
use crate::keys::Entry;
use crate::model::Pid;

type Entries<'a, 'b> = BTreeMap<(HolderRef, &'b str), (&'a Arc<Entry>, Vec<&'a Hold>)>;

/// The holds of each (holder, dictionary entry), in a stable order. Extension keys take no part.
pub(super) fn by_entry<'a>(context: &Context<'a>) -> Vec<(HolderRef, &'a Arc<Entry>, Vec<&'a Hold>)> {
    let mut found: Entries<'_, '_> = BTreeMap::new();
    for hold in context.observed.named_holds().filter(|hold| !hold.key.numbers.is_extension()) {
        for entry in hold.names.iter().filter_map(|name| name.entry.as_ref()) {
            let (_, holds) = found.entry((hold.holder, &entry.name)).or_insert_with(|| (entry, Vec::new()));
            holds.push(hold);
        }
    }
    found.into_iter().map(|((holder, _), (entry, holds))| (holder, entry, holds)).collect()
}

/// A warning about a holder and an entry. Its waiters are those for these keys.
pub(super) fn draft(
    context: &Context<'_>,
    rule: &'static str,
    holder: HolderRef,
    entry: &str,
    holds: &[&Hold],
) -> Draft {
    let waiters: Vec<Pid> = holds.iter().flat_map(|hold| hold.waiters.iter()).copied().collect();
    let subject = Subject::HolderEntry(holder, entry.to_owned());
    Draft::new(rule, subject, Severity::Warning, Action::Investigate)
        .with_holder(context, holder)
        .with_holds(holds)
        .with_waiters(context, &waiters)
}
