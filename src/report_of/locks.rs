//! The locks of a Report, with their holders and who queues for them.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Found, pids};
use crate::analysis::Numbered;
use crate::analysis::report::{HolderPooler, HolderReport, LockReport, Shared, WaiterReport};
use crate::analysis::{HolderRef, Holdings, Observed};
use crate::model::{Backend, BackendState, Pid, age};
use crate::rules::Context;

/// The locks of a poll, and what findings name them.
pub(super) fn locks(context: &Context<'_>, found: &[Found]) -> Vec<LockReport> {
    let observed = context.observed;
    let count = observed.holds.len();
    let Named { keys, lists, rules } = Named::new(count, found);
    let mut holders: Vec<Arc<HolderReport>> = Vec::with_capacity(observed.holders.len());
    let mut holder_of: Vec<usize> = Vec::with_capacity(count);
    for Holdings { holder, places, .. } in &observed.holders {
        holder_of.extend(places.clone().map(|_| holders.len()));
        holders.push(Arc::new(holder_report(context, *holder)));
    }
    let waiters = waiters(observed);
    // Those in findings first, and of a hoard's thousands the least: the list may be cut behind. Equal ones stay by
    // holder.
    let (mut order, others): (Vec<usize>, Vec<usize>) =
        (0..count).partition(|&place| rules[place] != 0 || !observed.holds[place].waiters.is_empty());
    order.sort_by_key(|&place| (keys[place], std::cmp::Reverse(observed.holds[place].waiters.len())));
    let lock = |place: usize| {
        let hold = &observed.holds[place];
        LockReport {
            key: Arc::clone(&hold.report),
            mode: hold.mode.name(),
            hold_expected: hold.expected,
            past: Arc::clone(&hold.past),
            holder: Arc::clone(&holders[holder_of[place]]),
            waiters: if hold.waiters.is_empty() {
                Shared::default()
            } else {
                waiters.get(&place).cloned().unwrap_or_default()
            },
            rules: lists[rules[place]].clone(),
        }
    };
    order.into_iter().chain(others).map(lock).collect()
}

/// Which findings name which holds.
struct Named {
    /// For each hold the number of keys of the smallest finding that names it.
    keys: Vec<usize>,
    /// All lists of rules that there are, the empty one first.
    lists: Vec<Shared<&'static str>>,
    /// For each hold the place of its list.
    rules: Vec<usize>,
}

impl Named {
    fn new(holds: usize, found: &[Found]) -> Self {
        let mut named = Self { keys: vec![usize::MAX; holds], lists: vec![Shared::default()], rules: vec![0; holds] };
        // What a list becomes with a rule.
        let mut longer: HashMap<(usize, &'static str), usize> = HashMap::new();
        for one in found {
            let rule = one.draft.rule;
            // Nearly always all holds of a finding are named by the same rules.
            let mut last = None;
            for &place in &one.places {
                named.keys[place] = one.draft.keys.len().min(named.keys[place]);
                let before = named.rules[place];
                let after = match last {
                    Some((same, after)) if same == before => after,
                    _ if named.lists[before].contains(&rule) => before,
                    _ => *longer.entry((before, rule)).or_insert_with(|| {
                        let with_rule = named.lists[before].iter().copied().chain([rule]).collect();
                        named.lists.push(with_rule);
                        named.lists.len() - 1
                    }),
                };
                named.rules[place] = after;
                last = Some((before, after));
            }
        }
        named
    }
}

/// By the places of holds who queues for their keys. Holds of one key share the list.
fn waiters(observed: &Observed) -> Numbered<usize, Shared<WaiterReport>> {
    let mut waiters = Numbered::default();
    for places in observed.waited_for.values() {
        let mut last: (&[Pid], Shared<WaiterReport>) = (&[], Shared::default());
        for &place in places {
            let hold = &observed.holds[place];
            if last.0 != &*hold.waiters {
                last = (&hold.waiters, hold.waiters.iter().filter_map(|&pid| waiter(observed, pid)).collect());
            }
            waiters.insert(place, last.1.clone());
        }
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
