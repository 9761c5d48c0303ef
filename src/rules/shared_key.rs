//! `shared-key`: holder and waiter of a key are of different users or applications, and the dictionary does not say
//! that both may use it.

use std::collections::BTreeMap;

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{Hold, HolderRef};
use crate::keys::key;
use crate::model::{AdvisoryKey, Backend, Pid};

/// See the module.
#[derive(Debug)]
pub struct SharedKey;

impl Rule for SharedKey {
    fn name(&self) -> &'static str {
        "shared-key"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let mut shared: BTreeMap<AdvisoryKey, (Vec<&Hold>, Vec<Pid>)> = BTreeMap::new();
        for hold in context.observed.waited_for().filter(|hold| context.is_judged(hold)) {
            let strangers: Vec<Pid> = hold
                .waiters
                .iter()
                .copied()
                .filter(|&waiter| context.backend(waiter).is_some_and(|waiter| differ(context, hold, waiter)))
                .collect();
            if !strangers.is_empty() {
                let (holds, waiters) = shared.entry(hold.key).or_default();
                holds.push(hold);
                waiters.extend(strangers);
            }
        }
        shared
            .into_iter()
            .map(|(lock, (holds, mut waiters))| {
                waiters.sort_unstable();
                waiters.dedup();
                let mut draft = Draft::new(self.name(), Subject::Key(lock), Severity::Info, Action::None)
                    .with_holds(&holds)
                    .with_waiters(context, &waiters);
                for hold in &holds {
                    draft = draft.with_holder(context, hold.holder);
                }
                draft.pids.dedup();
                draft.summary = format!(
                    "Key {} is used by different applications or users: {} holds it, {} waits for it.",
                    key::text(lock.numbers),
                    words::holder_label(context, holds[0].holder),
                    words::session_label(context, draft.waiters[0]),
                );
                draft.detail = vec![
                    "If they mean the same lock, list both in the entry's applications; if not, two pieces of code \
                     chose the same number."
                        .to_owned(),
                ];
                draft
            })
            .collect()
    }
}

fn differ(context: &Context<'_>, hold: &Hold, waiter: &Backend) -> bool {
    let holder = match hold.holder {
        HolderRef::Session(pid) => match context.backend(pid) {
            Some(holder) => holder,
            None => return false,
        },
        // It has an owner and no application.
        HolderRef::Prepared(id) => {
            return context.observed.prepared(id).is_some_and(|holder| waiter.user.as_deref() != Some(&holder.owner));
        }
    };
    let same = holder.user == waiter.user && context.observed.group(holder) == context.observed.group(waiter);
    let allowed = hold.names.iter().filter_map(|name| name.entry.as_ref()).any(|entry| {
        !entry.applications.is_empty()
            && entry.applications.matches(&holder.application)
            && entry.applications.matches(&waiter.application)
    });
    !same && !allowed
}
