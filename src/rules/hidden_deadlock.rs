//! `hidden-deadlock`: an application waits for itself through a lock that its advisory waiter holds back.
//!
//! The server sees no cycle: the holder is idle, its client waits for the third session on another connection.

use std::collections::BTreeMap;

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{HolderRef, Waiting};
use crate::model::{Backend, BackendState, Pid};

/// See the module.
#[derive(Debug)]
pub struct HiddenDeadlock;

impl Rule for HiddenDeadlock {
    fn name(&self) -> &'static str {
        "hidden-deadlock"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        // holder -> (waiter, third)
        let mut found: BTreeMap<Pid, Vec<(Pid, Pid)>> = BTreeMap::new();
        for third in context.observed.waiting.values().filter(|wait| wait.key().is_none()) {
            if !context.waited_long(third.pid) {
                continue;
            }
            for waiter in third.blocked_by.iter().filter_map(|blocker| advisory_waiter(context, *blocker)) {
                for holder in waiter.roots.iter().filter_map(|root| idle_kin(context, *root, third.pid)) {
                    found.entry(holder).or_default().push((waiter.pid, third.pid));
                }
            }
        }
        found.into_iter().map(|(holder, pairs)| self.draft(context, holder, &pairs)).collect()
    }

    fn absorbs(&self, mine: &Draft, other: &Draft) -> bool {
        matches!(other.rule, "idle-holder" | "carried-lock" | "blocked-waiters")
            && other.pids.iter().all(|pid| mine.pids.contains(pid))
            && !other.pids.is_empty()
    }
}

impl HiddenDeadlock {
    fn draft(&self, context: &Context<'_>, holder: Pid, pairs: &[(Pid, Pid)]) -> Draft {
        let subject = HolderRef::Session(holder);
        let waits = |pid: &Pid| context.observed.waiting.get(pid);
        let keys: Vec<_> = pairs.iter().filter_map(|(waiter, _)| waits(waiter).and_then(Waiting::key)).collect();
        let holds: Vec<_> = context.observed.holds_of(subject).filter(|hold| keys.contains(&hold.key)).collect();
        let mut draft = Draft::new(self.name(), Subject::Holder(subject), Severity::Critical, Action::CancelWaiter)
            .with_holds(&holds)
            .with_keys(keys)
            .with_waiters(context, context.observed.waiters_of(subject));
        draft.pids = vec![holder];
        draft.pids.extend(pairs.iter().flat_map(|&(waiter, third)| [waiter, third]));
        draft.pids.sort_unstable();
        draft.pids.dedup();
        draft.cancel = pairs.iter().map(|&(waiter, _)| waiter).collect();
        draft.cancel.sort_unstable();
        draft.cancel.dedup();
        let (waiter, third) = pairs[0];
        draft.summary = format!(
            "{} waits for key {} of idle {}, and holds back {} of the same application: nobody can go on.",
            words::session_label(context, waiter),
            words::keys_label(context, &draft.pids, &draft.keys),
            words::session_label(context, holder),
            words::session_label(context, third),
        );
        for (who, pid) in [("The waiter", waiter), ("The session held back", third)] {
            if let Some(wait) = waits(&pid) {
                let (lasted, object) = (words::waited(wait.waited), words::object(&wait.object));
                draft.detail.push(format!("{who}, pid {pid}, has waited {lasted} for {object}."));
            }
        }
        draft.detail.push(format!(
            "The holder, pid {holder}, is the victim: its client waits for pid {third}. Cancelling pid {waiter} lets \
             both go on."
        ));
        draft.detail.extend(words::evidence(context, &draft, &holds));
        draft
    }
}

fn advisory_waiter<'a>(context: &Context<'a>, blocker: HolderRef) -> Option<&'a Waiting> {
    let HolderRef::Session(pid) = blocker else { return None };
    context
        .observed
        .waiting
        .get(&pid)
        .filter(|wait| wait.key().is_some_and(|key| !key.numbers.is_extension()) && context.waited_long(pid))
}

/// The root, if it is an idle session of the same user, and of the same application or client, as the third session.
fn idle_kin(context: &Context<'_>, root: HolderRef, third: Pid) -> Option<Pid> {
    let HolderRef::Session(pid) = root else { return None };
    let holder = context.backend(pid).filter(|backend| backend.state == Some(BackendState::Idle))?;
    let third = context.backend(third)?;
    (holder.user == third.user && kin(holder, third)).then_some(pid)
}

fn kin(one: &Backend, other: &Backend) -> bool {
    (!one.application.is_empty() && one.application == other.application) || one.client_addr == other.client_addr
}
