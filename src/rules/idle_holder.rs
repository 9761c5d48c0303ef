//! `idle-holder`: a session has been idle for at least t and holds an advisory lock.

use super::companions::{MOST_COMPANIONS, companions};
use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{Hold, HolderRef};
use crate::model::{Backend, BackendState, Pid};

/// See the module.
#[derive(Debug)]
pub struct IdleHolder;

impl Rule for IdleHolder {
    fn name(&self) -> &'static str {
        "idle-holder"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        sessions_in(context, BackendState::Idle)
            .map(|(pid, backend, holds)| {
                let mut draft = rested(context, self.name(), pid, &holds);
                draft.summary = words::holding(context, &draft, backend, "idle");
                draft.detail = words::evidence(context, &draft, &holds);
                beside_work(context, &mut draft, &holds);
                draft
            })
            .collect()
    }
}

/// Sessions that have been in this state for at least t, with the holds that are judged.
pub(super) fn sessions_in<'a>(
    context: &'a Context<'a>,
    state: BackendState,
) -> impl Iterator<Item = (Pid, &'a Backend, Vec<&'a Hold>)> {
    context.observed.holders().filter_map(move |holder| {
        let HolderRef::Session(pid) = holder else { return None };
        let backend = context.backend(pid).filter(|backend| backend.state == Some(state))?;
        context.observed.state_for(backend).filter(|&lasted| lasted >= context.thresholds.idle)?;
        let holds = context.judged_holds(holder);
        (!holds.is_empty()).then_some((pid, backend, holds))
    })
}

/// What the state rules have in common: a session, its keys, who waits, how bad.
pub(super) fn rested(context: &Context<'_>, rule: &'static str, pid: Pid, holds: &[&Hold]) -> Draft {
    let holder = HolderRef::Session(pid);
    let mut draft = Draft::new(rule, Subject::Holder(holder), Severity::Warning, Action::Terminate)
        .with_holder(context, holder)
        .with_holds(holds)
        .with_waiters(context, context.observed.waiters_of(holder));
    draft.severity = context.critical_when_waited_for(&draft);
    draft
}

/// A migration that works on a second connection looks just like a leak, and ending it lets a second migrator in.
pub(super) fn beside_work(context: &Context<'_>, draft: &mut Draft, holds: &[&Hold]) {
    let Some(&pid) = draft.pids.first() else { return };
    if !holds.iter().all(|hold| Context::is_work(hold)) {
        return;
    }
    let beside = companions(context, pid);
    let Some(&first) = beside.first() else { return };
    draft.severity = draft.severity.min(Severity::Warning);
    draft.action = Action::Investigate;
    let others = match beside.len() {
        1 => String::new(),
        MOST_COMPANIONS => format!(" and at least {} more", MOST_COMPANIONS - 1),
        count => format!(" and {} more", count - 1),
    };
    draft.detail.push(format!(
        "A job or migration that is still within its time: {}{others} may be doing its work on another connection.",
        words::session_label(context, first)
    ));
}
