//! `prepared-transaction-holder`: a prepared transaction holds an advisory lock, and no session does.

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::HolderRef;
use crate::analysis::report::{Action, Severity};
use crate::model::age;

/// See the module.
#[derive(Debug)]
pub struct PreparedTransactionHolder;

impl Rule for PreparedTransactionHolder {
    fn name(&self) -> &'static str {
        "prepared-transaction-holder"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        context
            .observed
            .holders()
            .filter_map(|holder| {
                let HolderRef::Prepared(id) = holder else { return None };
                let prepared = context.observed.prepared(id)?;
                let since = age(context.observed.snapshot.sampled_at, prepared.prepared);
                let holds = context.judged_holds(holder);
                if since < context.thresholds.idle || holds.is_empty() {
                    return None;
                }
                let mut draft =
                    Draft::new(self.name(), Subject::Holder(holder), Severity::Warning, Action::FinishPrepared)
                        .with_holder(context, holder)
                        .with_holds(&holds)
                        .with_waiters(context, context.observed.waiters_of(holder));
                draft.severity = context.critical_when_waited_for(&draft);
                draft.summary = format!(
                    "Prepared transaction '{}' of {} holds {}, prepared {} ago; {}.",
                    prepared.gid,
                    prepared.owner,
                    words::keys_label(context, &draft.pids, &draft.keys),
                    words::duration(since),
                    words::waiters(context, &draft.waiters),
                );
                draft.detail = words::evidence(context, &draft, &holds);
                draft.detail.push(
                    "No session holds it: it stays, over restarts too, until its transaction manager commits or rolls \
                     it back."
                        .to_owned(),
                );
                Some(draft)
            })
            .collect()
    }
}
