//! `key-collision`: a held key has several dictionary names of equal rank.

use std::collections::BTreeMap;

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::Hold;
use crate::analysis::report::{Action, Severity};
use crate::keys::{Source, key};
use crate::model::AdvisoryKey;

/// See the module.
#[derive(Debug)]
pub struct KeyCollision;

impl Rule for KeyCollision {
    fn name(&self) -> &'static str {
        "key-collision"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let mut colliding: BTreeMap<AdvisoryKey, Vec<&Hold>> = BTreeMap::new();
        for hold in context.observed.named_holds().filter(|hold| context.is_judged(hold)) {
            if hold.names.iter().filter(|name| name.source == Source::Dictionary).count() > 1 {
                colliding.entry(hold.key).or_default().push(hold);
            }
        }
        for holds in colliding.values_mut() {
            holds.sort_by_key(|hold| hold.mode);
        }
        colliding
            .into_iter()
            .map(|(lock, holds)| {
                let mut draft = Draft::new(self.name(), Subject::Key(lock), Severity::Warning, Action::FixDictionary)
                    .with_holds(&holds);
                for hold in &holds {
                    draft = draft.with_holder(context, hold.holder);
                }
                draft.pids.dedup();
                let names: Vec<String> = holds[0].names.iter().map(|name| format!("\"{}\"", name.label)).collect();
                draft.summary = format!(
                    "Key {} has {} names in the dictionary: {}.",
                    key::text(lock.numbers),
                    names.len(),
                    names.join(" and ")
                );
                draft.detail = words::evidence(context, &draft, &holds);
                draft.detail.push(
                    "If both names are used, two pieces of code shut each other out; if not, one entry is wrong."
                        .to_owned(),
                );
                draft
            })
            .collect()
    }
}
