//! `pool-starved`: every session of a pool is eaten by advisory locks: it holds one and rests, or waits for one.

use std::collections::BTreeSet;

use super::{Context, Draft, Rule, Subject, is_state_rule, words};
use crate::analysis::report::{Action, PoolReport, Severity};
use crate::analysis::{Hold, HolderRef, Waiting};
use crate::model::{AdvisoryKey, BackendState, Pid};

/// A smaller pool may well be all of a program's connections, each with its own lock.
const SMALLEST_POOL: usize = 4;

/// See the module.
#[derive(Debug)]
pub struct PoolStarved;

impl Rule for PoolStarved {
    fn name(&self) -> &'static str {
        "pool-starved"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let pools = context.observed.pools.iter().enumerate();
        pools.filter_map(|(place, (pool, pids))| self.draft(context, place, pool, pids)).collect()
    }

    fn absorbs(&self, mine: &Draft, other: &Draft) -> bool {
        let per_session = is_state_rule(other.rule) || matches!(other.rule, "blocked-waiters" | "key-hoard");
        per_session && !other.pids.is_empty() && other.pids.iter().all(|pid| mine.pids.contains(pid))
    }
}

impl PoolStarved {
    fn draft(&self, context: &Context<'_>, place: usize, pool: &PoolReport, pids: &[Pid]) -> Option<Draft> {
        if pids.len() < SMALLEST_POOL || !pids.iter().all(|&pid| is_eaten(context, pid)) {
            return None;
        }
        let holders: Vec<HolderRef> = pids.iter().map(|&pid| HolderRef::Session(pid)).collect();
        let holds: Vec<&Hold> = holders.iter().flat_map(|&holder| own_holds(context, holder)).collect();
        if holds.is_empty() || holds.iter().any(|hold| hold.expected) {
            return None;
        }
        let queued = pids.iter().filter_map(|pid| context.observed.waiting.get(pid)).filter_map(Waiting::key);
        let keys: BTreeSet<AdvisoryKey> = holds.iter().map(|hold| hold.key).chain(queued).collect();
        let waiters: BTreeSet<Pid> =
            holders.iter().flat_map(|&holder| context.observed.waiters_of(holder)).copied().collect();
        let mut draft = Draft::new(self.name(), Subject::Pool(place), Severity::Critical, Action::Terminate)
            .with_holds(&holds)
            .with_keys(keys)
            .with_waiters(context, &waiters.into_iter().collect::<Vec<_>>());
        draft.pids = pids.to_vec();
        let application = if pool.application.is_empty() { "no application_name" } else { &pool.application };
        draft.summary = format!(
            "All {} connections of the pool {application} are taken by advisory locks: {} hold one and rest, {} wait \
             for one.",
            pids.len(),
            pool.holding,
            pool.waiting,
        );
        draft.detail = pids.iter().take(20).map(|&pid| member(context, pid)).collect();
        draft.detail.extend(words::evidence(context, &draft, &holds));
        Some(draft)
    }
}

fn own_holds<'a>(context: &Context<'a>, holder: HolderRef) -> impl Iterator<Item = &'a Hold> + use<'a> {
    context.observed.holds_of(holder).filter(|hold| !hold.key.numbers.is_extension())
}

/// Holds an advisory lock and has rested for t, or has waited for one for w.
fn is_eaten(context: &Context<'_>, pid: Pid) -> bool {
    let queues = context
        .observed
        .waiting
        .get(&pid)
        .and_then(Waiting::key)
        .is_some_and(|key| !key.numbers.is_extension() && context.has_waited(pid));
    let rests = context.backend(pid).is_some_and(|backend| {
        backend.state.is_some_and(BackendState::is_idle)
            && context.observed.state_for(backend).is_some_and(|lasted| lasted >= context.thresholds.idle)
    });
    queues || (rests && own_holds(context, HolderRef::Session(pid)).next().is_some())
}

fn member(context: &Context<'_>, pid: Pid) -> String {
    if let Some(wait) = context.observed.waiting.get(&pid) {
        return format!("pid {pid} has waited {} for {}.", words::waited(wait.waited), words::object(&wait.object));
    }
    let mut keys: Vec<AdvisoryKey> = own_holds(context, HolderRef::Session(pid)).map(|hold| hold.key).collect();
    keys.dedup();
    let lasted = context.backend(pid).and_then(|backend| context.observed.state_for(backend)).unwrap_or_default();
    format!(
        "pid {pid} holds {} and has rested for {}.",
        words::keys_label(context, &[pid], &keys),
        words::duration(lasted)
    )
}
