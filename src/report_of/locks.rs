//! The locks of a Report, with their holders and who queues for them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::{Found, pids};
use crate::analysis::Numbered;
use crate::analysis::report::{HolderPooler, HolderReport, LockReport, ReportedKey, Shared, WaiterReport};
use crate::analysis::{HolderRef, Observed};
use crate::model::{Backend, BackendState, Pid, SharedText, age};
use crate::rules::Context;

/// The locks of a poll, and what findings name them.
pub(super) fn locks(context: &Context<'_>, found: &[Found]) -> Vec<LockReport> {
    let observed = context.observed;
    let holders: Vec<Arc<HolderReport>> =
        observed.holders().map(|holder| Arc::new(holder_report(context, holder))).collect();
    let Marks { marks, lists } = Marks::new(observed, found);
    let waiters = waiters(observed);
    let lock = |place: usize| {
        let (hold, mark) = (&observed.holds[place], &marks[place]);
        let holdings = &observed.holders[mark.holder as usize];
        LockReport {
            key: ReportedKey::new(&holdings.keys, place - holdings.places.start),
            mode: hold.mode,
            hold_expected: hold.expected,
            past: Arc::clone(&hold.past),
            holder: Arc::clone(&holders[mark.holder as usize]),
            waiters: if mark.waiters == 0 {
                Shared::default()
            } else {
                waiters.get(&place).cloned().unwrap_or_default()
            },
            rules: lists[mark.list as usize].clone(),
        }
    };
    let mut locks = Vec::with_capacity(marks.len());
    // Those in findings first, and of a hoard's thousands the least: the list may be cut behind. Equal ones stay by
    // holder.
    for run in runs(&marks) {
        locks.extend(run.map(lock));
    }
    locks.extend((0..marks.len()).filter(|&place| !marks[place].is_set()).map(lock));
    locks
}

/// The places of those that are set, in order. Those that stand side by side mostly belong together: to sort them one by
/// one would take longer than all else that is done with them.
fn runs(marks: &[Mark]) -> impl Iterator<Item = Range<usize>> {
    let order = |mark: &Mark| mark.is_set().then_some((mark.keys, Reverse(mark.waiters)));
    let mut end = 0;
    let alike = marks.chunk_by(|one, next| order(one) == order(next)).filter_map(|alike| {
        let places = end..end + alike.len();
        end = places.end;
        order(&alike[0]).map(|order| (order, places.start, places.end))
    });
    let mut runs: Vec<_> = alike.collect();
    runs.sort_unstable();
    runs.into_iter().map(|(_, start, end)| start..end)
}

/// What there is to say of each hold. There may be very many: what is said of it takes little.
struct Marks {
    marks: Vec<Mark>,
    /// All lists of rules that there are, the empty one first.
    lists: Vec<Shared<&'static str>>,
}

#[derive(Clone)]
struct Mark {
    /// The place of its holder.
    holder: u32,
    /// The number of keys of the smallest finding that names it.
    keys: u32,
    /// The place of the list of the rules of findings that name it.
    list: u32,
    /// How many queue for its key.
    waiters: u32,
}

impl Mark {
    fn is_set(&self) -> bool {
        self.list != 0 || self.waiters != 0
    }
}

impl Marks {
    fn new(observed: &Observed, found: &[Found]) -> Self {
        let mut marks = Vec::with_capacity(observed.holds.len());
        for (holder, holdings) in observed.holders.iter().enumerate() {
            marks.resize(holdings.places.end, Mark { holder: count(holder), keys: u32::MAX, list: 0, waiters: 0 });
        }
        for &place in observed.waited_for.values().flatten() {
            marks[place].waiters = count(observed.holds[place].waiters.len());
        }
        let mut marks = Self { marks, lists: vec![Shared::default()] };
        marks.name(found);
        marks
    }

    fn name(&mut self, found: &[Found]) {
        // What a list becomes with a rule.
        let mut longer: HashMap<(u32, &'static str), u32> = HashMap::new();
        for one in found {
            let rule = one.draft.rule;
            let keys = count(one.draft.keys.len());
            // Nearly always all holds of a finding are named by the same rules.
            let mut last = None;
            for &place in &one.places {
                let mark = &mut self.marks[place];
                mark.keys = keys.min(mark.keys);
                let before = mark.list;
                let after = match last {
                    Some((same, after)) if same == before => after,
                    _ if self.lists[before as usize].contains(&rule) => before,
                    _ => *longer.entry((before, rule)).or_insert_with(|| {
                        let with_rule = self.lists[before as usize].iter().copied().chain([rule]).collect();
                        self.lists.push(with_rule);
                        count(self.lists.len() - 1)
                    }),
                };
                mark.list = after;
                last = Some((before, after));
            }
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
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
    let none = || HolderReport {
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
        application_group: SharedText::default(),
        long_idle: false,
        pooler: None,
    };
    match holder {
        HolderRef::Session(pid) => match observed.backend(pid) {
            Some(backend) => session_report(context, backend),
            None => HolderReport { pid: Some(pid), ..none() },
        },
        HolderRef::Prepared(id) => match observed.prepared(id) {
            Some(prepared) => HolderReport {
                gid: Some(prepared.gid.clone()),
                user: Some(prepared.owner.as_str().into()),
                transaction_for: Some(age(observed.snapshot.sampled_at, prepared.prepared)),
                ..none()
            },
            None => none(),
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
        application_group: observed.shared_group(backend),
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
