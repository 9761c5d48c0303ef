//! The memory across polls: how long a lock has surely been held, whether the hold is unbroken, what its scope is,
//! which statement was current when it first appeared.
//!
//! Knows Snapshots, in the order in which they were taken, and nothing of thresholds and rules. Identity across polls
//! is pid and backend_start, never the pid alone.

mod holds;
mod memory;
mod names;
mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::moment::{BackendMemory, Moment};
use super::observed::{CountMismatch, HolderRef, Holdings, Observed, Waiting};
use super::pooled::pooled;
use super::pools::{Grouping, groups, pools};
use super::wait_memory::WaitMemory;
use super::waits::{Waits, waits};
use crate::analysis::Numbered;
use crate::keys::{KeyBook, LookUp};
use crate::model::{AdvisoryKey, LockObject, LockOwner, Locks, Pid, SharedText, Snapshot, Time, VirtualTransaction};
use holds::Holds;
use memory::HolderMemory;
use names::NameMemory;
pub use state::TrackerState;
pub(super) use state::{is_plausible, is_plausible_count};

/// What a target is called and how its keys and applications are named.
#[derive(Debug, Clone, Copy)]
pub struct TargetNames<'a> {
    /// The target's name.
    pub target: &'a str,
    /// The names of keys and holders.
    pub book: &'a KeyBook,
    /// The rule for application groups.
    pub grouping: &'a Grouping,
}

/// Who a holder is across polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
enum HolderId {
    Session(Pid, Option<Time>),
    Prepared(u32, Time),
}

/// Where in a snapshot its backends and prepared transactions are.
#[derive(Debug, Default)]
struct Places {
    backends: Numbered<Pid, usize>,
    prepared: Numbered<VirtualTransaction, usize>,
}

impl Places {
    fn of(snapshot: &Snapshot) -> Self {
        let backends = snapshot.backends.iter().enumerate().map(|(place, backend)| (backend.pid, place));
        let prepared = snapshot.prepared.iter().enumerate();
        Self {
            backends: backends.collect(),
            prepared: prepared.map(|(place, prepared)| (prepared.virtualtransaction, place)).collect(),
        }
    }
}

/// The memory of one target.
#[derive(Debug, Default)]
pub struct Tracker {
    polls: u64,
    first: Duration,
    last: Option<Moment>,
    server_started: Option<Time>,
    checkpointer_started: Option<Time>,
    /// The locks of the last poll, by owner.
    locks: Locks,
    holds: Numbered<HolderId, HolderMemory>,
    names: NameMemory,
    backends: Numbered<Pid, BackendMemory>,
    waits: WaitMemory,
    mismatches: HashMap<String, Duration>,
    /// A memory from an earlier process, until the first poll.
    resumes: Option<Box<TrackerState>>,
    /// A reading of this process's clock, and what it is called here: times of an earlier process count on.
    clock: (Duration, Duration),
}

impl Tracker {
    /// Takes in one poll and says what is known after it.
    pub fn observe(&mut self, mut snapshot: Snapshot, names: TargetNames<'_>) -> Observed {
        let resumed = self.resume(&snapshot);
        let restarted = self.restarted(&snapshot);
        if restarted {
            // All advisory locks are lost, and pids begin anew.
            self.holds.clear();
            self.backends.clear();
            self.waits = WaitMemory::default();
        }
        let began = self.clock.1 + snapshot.monotonic.saturating_sub(self.clock.0);
        let now = Moment { began, ended: began + snapshot.poll_duration, server: snapshot.sampled_at };
        if self.polls == 0 {
            self.first = now.began;
        }
        self.polls += 1;
        let places = Places::of(&snapshot);
        drop_unknown_owners(&mut snapshot, &places);
        let graph = waits(&snapshot);
        let waited = self.waits.update(&snapshot, &graph, &places.backends, now, self.polls == 1 || resumed);
        let cycles = graph.cycles.clone();
        let waiting = waiting(&graph, &waited, &snapshot, names);
        let queues = queues(&waiting);
        // Holds and waits say all that the rows said.
        let locks = std::mem::take(&mut snapshot.locks);
        let holds = self.holds(locks, &snapshot, &places, &queues, names, now);
        let queues =
            queues.into_iter().map(|(key, waits)| (key, waits.iter().map(|wait| wait.pid).collect())).collect();
        let mut observed = assemble(snapshot, places, holds, waiting, queues, cycles, names);
        observed.polls = self.polls;
        observed.restarted = restarted;
        observed.observed = now.began.saturating_sub(self.first);
        observed.count_mismatches = self.count_mismatches(&observed, names, now.began);
        let before_locks = observed.snapshot.before_locks;
        self.backends = observed
            .snapshot
            .backends
            .iter()
            .map(|backend| (backend.pid, BackendMemory::of(backend, before_locks)))
            .collect();
        self.last = Some(now);
        observed
    }

    /// After a crash of one process the postmaster lives on and starts all others anew, the checkpointer among them.
    /// Without the right to see it only real restarts are noticed.
    fn restarted(&mut self, snapshot: &Snapshot) -> bool {
        let checkpointer = snapshot
            .backends
            .iter()
            .find(|backend| backend.backend_type == "checkpointer")
            .and_then(|backend| backend.backend_start);
        let before = self.server_started.replace(snapshot.server.started_at);
        let recovered = match (self.checkpointer_started, checkpointer) {
            (Some(before), Some(now)) => before != now,
            _ => false,
        };
        self.checkpointer_started = checkpointer.or(self.checkpointer_started);
        before.is_some_and(|before| before != snapshot.server.started_at) || (before.is_some() && recovered)
    }

    fn count_mismatches(&mut self, observed: &Observed, names: TargetNames<'_>, now: Duration) -> Vec<CountMismatch> {
        let mut holders: HashMap<&str, BTreeSet<HolderRef>> = HashMap::new();
        for hold in observed.named_holds() {
            for entry in hold.names.iter().filter_map(|name| name.entry.as_ref()) {
                if entry.holders.is_some() {
                    holders.entry(&entry.name).or_default().insert(hold.holder);
                }
            }
        }
        let mut mismatches = Vec::new();
        let mut since = HashMap::new();
        for &place in names.book.counted() {
            let entry = &names.book.entries()[place];
            let Some(range) = &entry.holders else { continue };
            if !entry.targets.matches(names.target) {
                continue;
            }
            let holders: Vec<HolderRef> = holders.get(entry.name.as_str()).into_iter().flatten().copied().collect();
            if u32::try_from(holders.len()).is_ok_and(|count| range.0.contains(&count)) {
                continue;
            }
            let begun = self.mismatches.get(&entry.name).copied().unwrap_or(now);
            since.insert(entry.name.clone(), begun);
            mismatches.push(CountMismatch {
                entry: place,
                holders,
                lasted: now.saturating_sub(begun),
                throughout: begun == self.first,
            });
        }
        self.mismatches = since;
        mismatches
    }
}

/// Rows of owners that the second result set did not show: they ended between the two reads. Our own rows go too.
fn drop_unknown_owners(snapshot: &mut Snapshot, places: &Places) {
    let is_known = |owner| match owner {
        LockOwner::Backend(pid) => places.backends.contains_key(&pid),
        LockOwner::Prepared(id) => places.prepared.contains_key(&id),
    };
    snapshot.locks.retain_owners(is_known);
}

/// Who queues for each key, longest wait first.
fn queues(waiting: &BTreeMap<Pid, Waiting>) -> Numbered<AdvisoryKey, Vec<&Waiting>> {
    let mut queues: Numbered<AdvisoryKey, Vec<&Waiting>> = Numbered::default();
    for wait in waiting.values() {
        if let Some(key) = wait.key() {
            queues.entry(key).or_default().push(wait);
        }
    }
    for queue in queues.values_mut() {
        queue.sort_by_key(|wait| (std::cmp::Reverse(wait.waited.duration), wait.pid));
    }
    queues
}

fn waiting(
    graph: &Waits<'_>,
    waited: &Numbered<Pid, super::report::Waited>,
    snapshot: &Snapshot,
    names: TargetNames<'_>,
) -> BTreeMap<Pid, Waiting> {
    let mut on_purpose: Numbered<AdvisoryKey, bool> = Numbered::default();
    let mut follows = |object: &LockObject| match object {
        LockObject::Advisory(key) => *on_purpose.entry(*key).or_insert_with(|| {
            let known = LookUp {
                database: snapshot.server.database_name(key.database).map(SharedText::as_str),
                target: names.target,
                ..LookUp::default()
            };
            names.book.names(key.numbers, known).iter().any(|name| name.waiters_expected)
        }),
        LockObject::Other { .. } => false,
    };
    graph
        .waits
        .iter()
        .map(|(&pid, wait)| {
            let waiting = Waiting {
                pid,
                object: wait.object.clone(),
                mode: wait.mode,
                waited: waited.get(&pid).copied().unwrap_or_default(),
                on_purpose: follows(wait.object),
                blocked_by: wait.blocked_by.clone(),
                roots: Arc::clone(&wait.roots),
                cycles: Arc::clone(&wait.cycles),
            };
            (pid, waiting)
        })
        .collect()
}

fn assemble(
    snapshot: Snapshot,
    places: Places,
    Holds { list: holds, holders, waited_for, named }: Holds,
    waiting: BTreeMap<Pid, Waiting>,
    queues: Numbered<AdvisoryKey, Vec<Pid>>,
    cycles: Vec<Vec<Pid>>,
    names: TargetNames<'_>,
) -> Observed {
    let mut by_root: BTreeMap<HolderRef, Vec<Pid>> = BTreeMap::new();
    let mut by_cycle: Vec<Vec<Pid>> = vec![Vec::new(); cycles.len()];
    for wait in waiting.values().filter(|wait| wait.key().is_some()) {
        for root in wait.roots.iter() {
            by_root.entry(*root).or_default().push(wait.pid);
        }
        for &cycle in wait.cycles.iter() {
            by_cycle[cycle].push(wait.pid);
        }
    }
    let session = |holdings: &Holdings| match holdings.holder {
        HolderRef::Session(pid) => Some(pid),
        HolderRef::Prepared(_) => None,
    };
    let holding: BTreeSet<Pid> = holders.iter().filter_map(session).collect();
    let waiters: BTreeSet<Pid> = waiting.values().filter(|wait| wait.key().is_some()).map(|wait| wait.pid).collect();
    let groups = groups(&snapshot.backends, names.grouping);
    let pools = pools(&snapshot.backends, &groups, &holding, &waiters);
    let gids = snapshot.prepared.iter().enumerate().map(|(place, prepared)| (prepared.gid.clone(), place)).collect();
    let pooled = pooled(&snapshot.backends, &snapshot.poolers);
    Observed {
        target: names.target.to_owned(),
        snapshot,
        polls: 0,
        observed: Duration::ZERO,
        restarted: false,
        waiting,
        cycles,
        pools,
        pooled,
        count_mismatches: Vec::new(),
        backends: places.backends,
        prepared: places.prepared,
        gids,
        queues,
        groups,
        applications_at: OnceLock::new(),
        accounts: OnceLock::new(),
        by_key: OnceLock::new(),
        waited_for,
        named,
        places_of_holders: holders.iter().enumerate().map(|(place, holdings)| (holdings.holder, place)).collect(),
        holders,
        holds,
        by_root,
        by_cycle,
    }
}
