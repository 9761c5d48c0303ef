//! The locks of a Report, with their holders and who queues for them.

use std::sync::Arc;

use super::{Found, pids};
use crate::analysis::report::{HolderPooler, HolderReport, LockReport, WaiterReport};
use crate::analysis::{HolderRef, Holdings, Observed};
use crate::model::{Backend, BackendState, Pid, age};
use crate::rules::Context;

/// The locks of a poll, and what findings name them.
pub(super) fn locks(context: &Context<'_>, found: &[Found]) -> Vec<LockReport> {
    let observed = context.observed;
    let (keys, rules) = named(observed.holds.len(), found);
    let mut holders: Vec<Arc<HolderReport>> = Vec::with_capacity(observed.holds.len());
    for Holdings { holder, places, .. } in &observed.holders {
        let report = Arc::new(holder_report(context, *holder));
        holders.extend(places.clone().map(|_| Arc::clone(&report)));
    }
    let mut waiters = waiters(observed);
    let mut order: Vec<usize> = (0..observed.holds.len()).collect();
    // Those in findings first, and of a hoard's thousands the least: the list may be cut behind. Equal ones stay by
    // holder.
    order.sort_by_key(|&place| (keys[place], std::cmp::Reverse(waiters[place].len())));
    let lock = |place: usize| {
        let hold = &observed.holds[place];
        LockReport {
            key: Arc::clone(&hold.report),
            mode: hold.mode.name(),
            hold_expected: hold.expected,
            past: Arc::clone(&hold.past),
            holder: Arc::clone(&holders[place]),
            waiters: std::mem::take(&mut waiters[place]),
            rules: Arc::clone(&rules[place]),
        }
    };
    order.into_iter().map(lock).collect()
}

/// For each hold the number of keys of the smallest finding that names it, and the rules of all that do.
fn named(holds: usize, found: &[Found]) -> (Vec<usize>, Vec<Arc<[&'static str]>>) {
    let mut keys = vec![usize::MAX; holds];
    let mut rules: Vec<Arc<[&'static str]>> = vec![Arc::default(); holds];
    for one in found {
        // Nearly always all holds of a finding are named by the same rules.
        let mut last: (Arc<[&'static str]>, Arc<[&'static str]>) = (Arc::default(), Arc::from([one.draft.rule]));
        for &place in &one.places {
            keys[place] = one.draft.keys.len().min(keys[place]);
            let before = &mut rules[place];
            if before.contains(&one.draft.rule) {
                continue;
            }
            if last.0 != *before {
                last = (Arc::clone(before), before.iter().copied().chain([one.draft.rule]).collect());
            }
            *before = Arc::clone(&last.1);
        }
    }
    (keys, rules)
}

/// For each hold who queues for its key. Holds of one key share the list.
fn waiters(observed: &Observed) -> Vec<Arc<[WaiterReport]>> {
    let mut waiters: Vec<Arc<[WaiterReport]>> = vec![Arc::default(); observed.holds.len()];
    let mut waited_for: Vec<usize> =
        (0..waiters.len()).filter(|&place| !observed.holds[place].waiters.is_empty()).collect();
    waited_for.sort_by_key(|&place| observed.holds[place].key);
    let mut last: (&[Pid], Arc<[WaiterReport]>) = (&[], Arc::default());
    for place in waited_for {
        let hold = &observed.holds[place];
        if last.0 != &*hold.waiters {
            last = (&hold.waiters, hold.waiters.iter().filter_map(|&pid| waiter(observed, pid)).collect());
        }
        waiters[place] = Arc::clone(&last.1);
    }
    waiters
}

/// Idle for the idle threshold or longer.
pub(super) fn is_long_idle(context: &Context<'_>, backend: &Backend) -> bool {
    backend.state == Some(BackendState::Idle)
        && context.observed.state_for(backend).is_some_and(|lasted| lasted >= context.thresholds.idle)
}

/// A session or a prepared transaction.
pub(crate) fn holder_report(context: &Context<'_>, holder: HolderRef) -> HolderReport {
    let observed = context.observed;
    let none = HolderReport {
        pid: None,
        gid: None,
        backend_type: None,
        backend_start: None,
        user: None,
        application: None,
        client_addr: None,
        client_port: None,
        state: None,
        state_for: None,
        transaction_for: None,
        query: None,
        application_group: String::new(),
        long_idle: false,
        pooler: None,
    };
    match holder {
        HolderRef::Session(pid) => match observed.backend(pid) {
            Some(backend) => session_report(context, backend),
            None => HolderReport { pid: Some(pid), ..none },
        },
        HolderRef::Prepared(id) => match observed.prepared(id) {
            Some(prepared) => HolderReport {
                gid: Some(prepared.gid.clone()),
                user: Some(prepared.owner.clone()),
                transaction_for: Some(age(observed.snapshot.sampled_at, prepared.prepared)),
                ..none
            },
            None => none,
        },
    }
}

fn session_report(context: &Context<'_>, backend: &Backend) -> HolderReport {
    let observed = context.observed;
    let since = |time| age(observed.snapshot.sampled_at, time);
    HolderReport {
        pid: Some(backend.pid),
        gid: None,
        backend_type: Some(backend.backend_type.clone()).filter(|kind| !kind.is_empty()),
        backend_start: backend.backend_start,
        user: backend.user.clone(),
        application: Some(backend.application.clone()),
        client_addr: backend.client_addr.clone(),
        client_port: backend.client_port,
        state: backend.state.map(BackendState::name),
        state_for: backend.state_change.map(since),
        transaction_for: backend.xact_start.map(since),
        query: backend.query.clone(),
        application_group: observed.group(backend).to_owned(),
        long_idle: is_long_idle(context, backend),
        pooler: observed.pooled.get(&backend.pid).map(|pooled| HolderPooler {
            database: pooled.database.clone(),
            pool_mode: pooled.pool_mode,
            linked: pooled.client.is_some(),
        }),
    }
}

fn waiter(observed: &Observed, pid: Pid) -> Option<WaiterReport> {
    let wait = observed.waiting.get(&pid)?;
    let backend = observed.backend(pid);
    Some(WaiterReport {
        pid,
        waited: wait.waited,
        mode: wait.mode.name(),
        blocked_by: pids(&wait.blocked_by),
        user: backend.and_then(|backend| backend.user.clone()),
        application: backend.map(|backend| backend.application.clone()),
        client_addr: backend.and_then(|backend| backend.client_addr.clone()),
        backend_type: backend.map(|backend| backend.backend_type.clone()),
    })
}
