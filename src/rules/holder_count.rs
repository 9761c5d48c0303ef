//! `holder-count`: a dictionary entry has fewer or more holders than it says.

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{CountMismatch, Hold};
use crate::keys::{Entry, Matcher, key};

/// See the module.
#[derive(Debug)]
pub struct HolderCount;

impl Rule for HolderCount {
    fn name(&self) -> &'static str {
        "holder-count"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        context
            .observed
            .count_mismatches
            .iter()
            .filter(|mismatch| {
                mismatch.lasted >= context.thresholds.idle || (context.short_observation && mismatch.throughout)
            })
            .filter_map(|mismatch| Some(self.draft(context, context.book.entries().get(mismatch.entry)?, mismatch)))
            .collect()
    }
}

impl HolderCount {
    fn draft(&self, context: &Context<'_>, entry: &Entry, mismatch: &CountMismatch) -> Draft {
        let named = |hold: &&Hold| {
            hold.names.iter().filter_map(|name| name.entry.as_ref()).any(|known| known.name == entry.name)
        };
        let holds: Vec<&Hold> = context.observed.holds.iter().filter(named).collect();
        let waiters: Vec<_> = holds.iter().flat_map(|hold| hold.waiters.iter()).copied().collect();
        let mut draft =
            Draft::new(self.name(), Subject::Entry(entry.name.clone()), Severity::Warning, Action::Investigate)
                .with_holds(&holds)
                .with_waiters(context, &waiters);
        for &holder in &mismatch.holders {
            draft = draft.with_holder(context, holder);
        }
        if holds.is_empty()
            && let Matcher::Exact(numbers) = entry.matcher
        {
            draft.key_texts.push(key::text(numbers));
        }
        draft.summary = format!(
            "\"{}\" should have {} and has {}.",
            entry.name,
            entry.holders.as_ref().map(wanted).unwrap_or_default(),
            match mismatch.holders.len() {
                0 => "none".to_owned(),
                count => count.to_string(),
            },
        );
        if mismatch.lasted > std::time::Duration::ZERO {
            draft.detail.push(format!("It has been so for {}.", words::duration(mismatch.lasted)));
        }
        draft.detail.extend(
            mismatch
                .holders
                .iter()
                .take(20)
                .map(|&holder| format!("Held by {}.", words::holder_label(context, holder))),
        );
        for (word, value) in [("Owner", &entry.owner), ("Team", &entry.team), ("Contact", &entry.contact)] {
            if let Some(value) = value {
                draft.detail.push(format!("{word}: {value}."));
            }
        }
        draft
    }
}

fn wanted(range: &crate::keys::CountRange) -> String {
    let (least, most) = (*range.0.start(), *range.0.end());
    if least == most {
        words::count(least as usize, "holder", "holders")
    } else if most == u32::MAX {
        format!("at least {least} holders")
    } else {
        format!("{least} to {most} holders")
    }
}
