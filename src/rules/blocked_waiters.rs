//! `blocked-waiters`: a session has waited for at least w, and no rule that says more names the root of its chain.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Context, Draft, Rule, Subject, is_state_rule, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{Hold, HolderRef, Waiting};
use crate::model::{AdvisoryKey, Pid};

/// So many waiters of one root are critical by themselves.
const CRITICAL_WAITERS: usize = 10;

/// See the module.
#[derive(Debug)]
pub struct BlockedWaiters;

impl Rule for BlockedWaiters {
    fn name(&self) -> &'static str {
        "blocked-waiters"
    }

    fn judge(&self, context: &Context<'_>, before: &[Draft]) -> Vec<Draft> {
        let named: HashSet<HolderRef> = before.iter().flat_map(named_roots).collect();
        let mut circling: BTreeSet<Pid> = BTreeSet::new();
        for draft in before.iter().filter(|draft| draft.rule == "lock-cycle") {
            circling.extend(&draft.pids);
        }
        let mut roots: BTreeSet<HolderRef> = BTreeSet::new();
        for wait in context.observed.waiting.values().filter(|wait| wait.key().is_some()) {
            if context.has_waited(wait.pid) && !circling.contains(&wait.pid) {
                roots.extend(wait.roots.iter().filter(|root| !named.contains(root)));
            }
        }
        // Shared readers have the same waiters: one finding with all of them.
        let mut groups: BTreeMap<Vec<Pid>, Vec<HolderRef>> = unfound_cycles(context, before);
        for root in roots {
            let waiters: Vec<Pid> =
                context.observed.waiters_of(root).iter().copied().filter(|pid| !circling.contains(pid)).collect();
            groups.entry(waiters).or_default().push(root);
        }
        groups.into_iter().map(|(waiters, roots)| self.draft(context, &waiters, &roots)).collect()
    }
}

impl BlockedWaiters {
    fn draft(&self, context: &Context<'_>, waiters: &[Pid], roots: &[HolderRef]) -> Draft {
        let waits = || waiters.iter().filter_map(|pid| context.observed.waiting.get(pid));
        let keys: BTreeSet<AdvisoryKey> = waits().filter_map(Waiting::key).collect();
        let of_roots: HashSet<HolderRef> = roots.iter().copied().collect();
        let held = keys.iter().flat_map(|key| context.observed.holds_on(*key));
        let own: Vec<&Hold> = held.filter(|hold| of_roots.contains(&leader(context, hold.holder))).collect();
        let severity = severity(context, waiters, &keys);
        let mut draft = Draft::new(self.name(), Subject::Roots(roots.to_vec()), severity, Action::Investigate)
            .with_holds(&own)
            .with_keys(keys)
            .with_waiters(context, waiters);
        for &root in roots {
            draft = draft.with_holder(context, root);
        }
        let first = words::holder_label(context, roots[0]);
        let others = match roots.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        draft.summary = format!(
            "{} for {}, behind {first}{others}, which {}.",
            words::waiters(context, waiters),
            words::keys_label(context, &draft.pids, &draft.keys),
            doing(context, roots[0]),
        );
        draft.detail = words::evidence(context, &draft, &own);
        if own.is_empty() {
            draft.detail.push(
                "The root of the chain holds none of these keys: it blocks their holder outside advisory locks."
                    .to_owned(),
            );
        }
        draft
    }
}

/// Whoever answers for a holder: the leader of a parallel worker, else itself.
fn leader(context: &Context<'_>, holder: HolderRef) -> HolderRef {
    match holder {
        HolderRef::Session(pid) => {
            let backend = context.backend(pid);
            backend.and_then(|backend| backend.leader_pid).map_or(holder, HolderRef::Session)
        }
        HolderRef::Prepared(_) => holder,
    }
}

/// Cycles that are no lock-cycle, for they have no advisory edge or are too young: a chain that ends there has all of
/// their sessions as its root. By waiters.
fn unfound_cycles(context: &Context<'_>, before: &[Draft]) -> BTreeMap<Vec<Pid>, Vec<HolderRef>> {
    let found: HashSet<&Vec<Pid>> = before
        .iter()
        .filter_map(|draft| match &draft.subject {
            Subject::Cycle(pids) if draft.rule == "lock-cycle" => Some(pids),
            _ => None,
        })
        .collect();
    let mut groups: BTreeMap<Vec<Pid>, Vec<HolderRef>> = BTreeMap::new();
    for (place, pids) in context.observed.cycles.iter().enumerate().filter(|(_, pids)| !found.contains(pids)) {
        let waiters = context.observed.waiters_of_cycle(place).to_vec();
        if waiters.iter().any(|&pid| context.has_waited(pid)) {
            groups.entry(waiters).or_default().extend(pids.iter().map(|&pid| HolderRef::Session(pid)));
        }
    }
    groups
}

/// The roots of chains that a finding of another rule names.
fn named_roots(draft: &Draft) -> Vec<HolderRef> {
    match (draft.rule, &draft.subject) {
        ("hidden-deadlock", _) => draft.pids.iter().map(|&pid| HolderRef::Session(pid)).collect(),
        ("prepared-transaction-holder", Subject::Holder(root)) => vec![*root],
        (rule, Subject::Holder(root)) if is_state_rule(rule) && draft.proved => vec![*root],
        _ => Vec::new(),
    }
}

fn severity(context: &Context<'_>, waiters: &[Pid], keys: &BTreeSet<AdvisoryKey>) -> Severity {
    let unwanted =
        waiters.iter().filter_map(|pid| context.observed.waiting.get(pid)).filter(|wait| !wait.on_purpose).count();
    let tenth = context.observed.snapshot.server.max_connections.div_ceil(10) as usize;
    let many = unwanted >= CRITICAL_WAITERS || (unwanted >= 3 && unwanted >= tenth);
    let work = keys.iter().all(|key| {
        let mut holds = context.observed.holds_on(*key).peekable();
        holds.peek().is_some() && holds.all(Context::is_work)
    });
    if many && !work { Severity::Critical } else { Severity::Warning }
}

fn doing(context: &Context<'_>, root: HolderRef) -> String {
    let HolderRef::Session(pid) = root else { return "waits for its transaction manager".to_owned() };
    let Some(backend) = context.backend(pid) else { return "has gone".to_owned() };
    let lasted = context.observed.state_for(backend).map(words::duration);
    match (backend.state, lasted) {
        (Some(state), Some(lasted)) if state.is_idle() => format!("has been {} for {lasted}", state.name()),
        (Some(_), Some(lasted)) => format!("has worked on one statement for {lasted}"),
        _ => "does what we may not see".to_owned(),
    }
}
