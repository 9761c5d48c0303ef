//! `key-hoard`: one session holds very many keys.

use std::collections::HashMap;

use super::{Context, Draft, Rule, Subject, is_state_rule, words};
use crate::analysis::HolderRef;
use crate::analysis::report::{Action, Severity};

/// See the module.
#[derive(Debug)]
pub struct KeyHoard;

impl Rule for KeyHoard {
    fn name(&self) -> &'static str {
        "key-hoard"
    }

    fn judge(&self, context: &Context<'_>, before: &[Draft]) -> Vec<Draft> {
        let states: HashMap<&Subject, &Draft> =
            before.iter().filter(|draft| is_state_rule(draft.rule)).map(|draft| (&draft.subject, draft)).collect();
        context
            .observed
            .holders()
            .filter_map(|holder| {
                let HolderRef::Session(pid) = holder else { return None };
                // Most sessions hold few: those need no look at each lock.
                if context.observed.places_of(holder).len() < context.thresholds.hoard {
                    return None;
                }
                let holds = context.judged_holds(holder);
                let mut draft =
                    Draft::new(self.name(), Subject::Holder(holder), Severity::Warning, Action::Investigate)
                        .with_holds(&holds);
                if draft.keys.len() < context.thresholds.hoard || holds.is_empty() {
                    return None;
                }
                draft = draft.with_holder(context, holder).with_waiters(context, context.observed.waiters_of(holder));
                draft.summary = format!(
                    "{} holds {}; {}.",
                    words::session_label(context, pid),
                    words::count(draft.keys.len(), "key", "keys"),
                    words::waiters(context, &draft.waiters),
                );
                draft.detail = match states.get(&draft.subject) {
                    Some(state) => {
                        draft.action = state.action;
                        state.detail.clone()
                    }
                    None => words::evidence(context, &draft, &holds),
                };
                draft.detail.push(
                    "Each key takes a place in the shared lock table, which all sessions share: when it is full, \
                     nobody gets a lock any more."
                        .to_owned(),
                );
                Some(draft)
            })
            .collect()
    }

    fn absorbs(&self, mine: &Draft, other: &Draft) -> bool {
        is_state_rule(other.rule) && other.subject == mine.subject
    }
}
