//! `overlong-hold`: a key has been held for longer than its dictionary entry, or the holder's, says is normal.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Context, Draft, Rule, by_entry, words};
use crate::analysis::{Hold, HolderRef};

/// See the module.
#[derive(Debug)]
pub struct OverlongHold;

impl Rule for OverlongHold {
    fn name(&self) -> &'static str {
        "overlong-hold"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let by_key = by_entry::by_entry(context)
            .into_iter()
            .filter_map(|(holder, entry, holds)| Some((holder, entry.name.clone(), entry.max_hold?, holds)));
        by_key
            .chain(by_holder_entry(context))
            .filter_map(|(holder, entry, max_hold, mut holds)| {
                holds.retain(|hold| hold.past.held.at_least > max_hold);
                if holds.is_empty() {
                    return None;
                }
                let mut draft = by_entry::draft(context, self.name(), holder, &entry, &holds);
                draft.summary = format!(
                    "{} has held {} for at least {}, longer than the {} that the dictionary gives \"{entry}\".",
                    words::holder_label(context, holder),
                    words::keys_label(context, &draft.pids, &draft.keys),
                    words::duration(draft.held.unwrap_or_default().at_least),
                    words::duration(max_hold),
                );
                draft.detail = words::evidence(context, &draft, &holds);
                Some(draft)
            })
            .collect()
    }
}

type Limited<'a> = (HolderRef, String, Duration, Vec<&'a Hold>);

fn by_holder_entry<'a>(context: &Context<'a>) -> Vec<Limited<'a>> {
    let mut found: BTreeMap<(HolderRef, &str), (Duration, Vec<&Hold>)> = BTreeMap::new();
    for holder in context.observed.holders() {
        // All holds of a holder share them.
        let entries = context.observed.entries_of(holder);
        for (entry, max_hold) in entries.iter().filter_map(|entry| Some((entry, entry.max_hold?))) {
            let holds = context.observed.holds_of(holder).filter(|hold| !hold.key.numbers.is_extension());
            found.entry((holder, &entry.name)).or_insert((max_hold, Vec::new())).1.extend(holds);
        }
    }
    found.into_iter().map(|((holder, name), (max, holds))| (holder, name.to_owned(), max, holds)).collect()
}
