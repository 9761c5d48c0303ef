//! The memory across polls: how long a lock has surely been held, whether the hold is unbroken, what its scope is,
//! which statement was current when it first appeared.
//!
//! Knows Snapshots, in the order in which they were taken, and nothing of thresholds and rules. Identity across polls
//! is pid and backend_start, never the pid alone.

mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::hold_memory::{HoldMemory, Sight};
use super::moment::{BackendMemory, Moment};
use super::observed::{Account, CountMismatch, Hold, HolderRef, Observed, Waiting};
use super::pooled::pooled;
use super::pools::{Grouping, applications_at, groups, pools};
use super::wait_memory::WaitMemory;
use super::waits::{Waits, waits};
use crate::keys::{HolderEntry, KeyBook, LookUp};
use crate::model::{AdvisoryKey, Backend, BackendState, LockMode, LockObject, LockOwner, LockRow, Pid, Snapshot, Time};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
enum HolderId {
    Session(Pid, Option<Time>),
    Prepared(u32, Time),
}

type HoldId = (AdvisoryKey, LockMode, HolderId);

/// The memory of one target.
#[derive(Debug, Default)]
pub struct Tracker {
    polls: u64,
    first: Duration,
    last: Option<Moment>,
    server_started: Option<Time>,
    checkpointer_started: Option<Time>,
    /// Boxed: a table of them has up to twice the places that it needs.
    holds: HashMap<HoldId, Box<HoldMemory>>,
    backends: HashMap<Pid, BackendMemory>,
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
        drop_unknown_owners(&mut snapshot);
        let backends: BTreeMap<Pid, usize> =
            snapshot.backends.iter().enumerate().map(|(place, backend)| (backend.pid, place)).collect();
        let graph = waits(&snapshot);
        let waited = self.waits.update(&snapshot, &graph, &backends, now, self.polls == 1 || resumed);
        let cycles = graph.cycles.clone();
        let waiting = waiting(&graph, &waited, &snapshot, names);
        let holds = self.holds(&snapshot, &backends, &waiting, names, now);
        let mut observed = assemble(snapshot, backends, holds, waiting, cycles, names);
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

    fn holds(
        &mut self,
        snapshot: &Snapshot,
        backends: &BTreeMap<Pid, usize>,
        waiting: &BTreeMap<Pid, Waiting>,
        names: TargetNames<'_>,
        now: Moment,
    ) -> Vec<Hold> {
        let mut before = std::mem::take(&mut self.holds);
        let mut queues: HashMap<AdvisoryKey, Vec<&Waiting>> = HashMap::new();
        for wait in waiting.values() {
            if let Some(key) = wait.key() {
                queues.entry(key).or_default().push(wait);
            }
        }
        for queue in queues.values_mut() {
            queue.sort_by_key(|wait| (std::cmp::Reverse(wait.waited.duration), wait.pid));
        }
        let mut known = HolderNames::default();
        let mut holds = Vec::new();
        for row in snapshot.locks.iter().filter(|row| row.granted) {
            let LockObject::Advisory(key) = row.object else { continue };
            let Some((id, holder, backend)) = identify(row, snapshot, backends) else { continue };
            let queue = queues.get(&key).map_or(&[][..], Vec::as_slice);
            let sight = Sight {
                row,
                backend,
                before: backend.and_then(|backend| self.backends.get(&backend.pid)),
                prepared: match id {
                    HolderId::Prepared(_, prepared) => Some(prepared),
                    HolderId::Session(..) => None,
                },
                before_locks: snapshot.before_locks,
                now,
                last: self.last,
                queue,
                waits: &self.waits,
            };
            let mut memory = before
                .remove(&(key, row.mode, id))
                .unwrap_or_else(|| Box::new(HoldMemory::new(&sight, known.statement(backend))));
            memory.see(&sight);
            let mut hold = memory.hold(&sight, key, holder, self.polls);
            known.name(&mut hold, snapshot, backend, names);
            hold.waiters =
                queue.iter().filter(|wait| holder != HolderRef::Session(wait.pid)).map(|wait| wait.pid).collect();
            self.holds.insert((key, row.mode, id), memory);
            holds.push(hold);
        }
        holds.sort_by_key(|hold| (hold.key, hold.mode, hold.holder));
        holds
    }

    fn count_mismatches(&mut self, observed: &Observed, names: TargetNames<'_>, now: Duration) -> Vec<CountMismatch> {
        let mut holders: HashMap<&str, BTreeSet<HolderRef>> = HashMap::new();
        for hold in &observed.holds {
            for entry in hold.names.iter().filter_map(|name| name.entry.as_ref()) {
                if entry.holders.is_some() {
                    holders.entry(&entry.name).or_default().insert(hold.holder);
                }
            }
        }
        let mut mismatches = Vec::new();
        let mut since = HashMap::new();
        for (place, entry) in names.book.entries().iter().enumerate() {
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
fn drop_unknown_owners(snapshot: &mut Snapshot) {
    let pids: HashSet<Pid> = snapshot.backends.iter().map(|backend| backend.pid).collect();
    let prepared: HashSet<_> = snapshot.prepared.iter().map(|prepared| prepared.virtualtransaction).collect();
    snapshot.locks.retain(|row| match row.owner {
        LockOwner::Backend(pid) => pids.contains(&pid),
        LockOwner::Prepared(id) => prepared.contains(&id),
    });
}

fn identify<'a>(
    row: &LockRow,
    snapshot: &'a Snapshot,
    backends: &BTreeMap<Pid, usize>,
) -> Option<(HolderId, HolderRef, Option<&'a Backend>)> {
    match row.owner {
        LockOwner::Backend(pid) => {
            let backend = &snapshot.backends[*backends.get(&pid)?];
            Some((HolderId::Session(pid, backend.backend_start), HolderRef::Session(pid), Some(backend)))
        }
        LockOwner::Prepared(id) => {
            let prepared = snapshot.prepared.iter().find(|prepared| prepared.virtualtransaction == id)?;
            Some((HolderId::Prepared(prepared.transaction, prepared.prepared), HolderRef::Prepared(id), None))
        }
    }
}

fn waiting(
    graph: &Waits<'_>,
    waited: &HashMap<Pid, super::report::Waited>,
    snapshot: &Snapshot,
    names: TargetNames<'_>,
) -> BTreeMap<Pid, Waiting> {
    let mut on_purpose: HashMap<AdvisoryKey, bool> = HashMap::new();
    let mut follows = |object: &LockObject| match object {
        LockObject::Advisory(key) => *on_purpose.entry(*key).or_insert_with(|| {
            let known = LookUp {
                database: snapshot.server.database_name(key.database),
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

/// Names of holds; what is equal for all holds of one session is found once.
#[derive(Default)]
struct HolderNames {
    entries: HashMap<HolderRef, Vec<Arc<HolderEntry>>>,
    statements: HashMap<Pid, Arc<str>>,
}

impl HolderNames {
    /// The statement of a session, once for all its locks.
    fn statement(&mut self, backend: Option<&Backend>) -> Option<Arc<str>> {
        let backend = backend?;
        let query = backend.query.as_deref()?;
        Some(Arc::clone(self.statements.entry(backend.pid).or_insert_with(|| Arc::from(query))))
    }

    fn name(&mut self, hold: &mut Hold, snapshot: &Snapshot, backend: Option<&Backend>, names: TargetNames<'_>) {
        let database = snapshot.server.database_name(hold.key.database);
        let user = backend.and_then(|backend| backend.user.as_deref()).unwrap_or_default();
        let query = backend.and_then(|backend| backend.query.as_deref()).unwrap_or_default();
        let application = backend.map_or("", |backend| backend.application.as_str());
        let known = LookUp { database, target: names.target, application, user, query };
        hold.names = names.book.names(hold.key.numbers, known);
        if !names.book.holders().is_empty() {
            let entries = self
                .entries
                .entry(hold.holder)
                .or_insert_with(|| holder_entries(snapshot, hold.holder, backend, names.book));
            hold.holder_entries.clone_from(entries);
        }
        hold.expected =
            hold.names.iter().any(|name| name.long_lived) || hold.holder_entries.iter().any(|entry| entry.expected);
    }
}

/// The `[[holder]]` entries that cover a holder. A prepared transaction has an owner and a database, and neither
/// application nor client.
fn holder_entries(
    snapshot: &Snapshot,
    holder: HolderRef,
    backend: Option<&Backend>,
    book: &KeyBook,
) -> Vec<Arc<HolderEntry>> {
    let prepared = match holder {
        HolderRef::Prepared(id) => snapshot.prepared.iter().find(|prepared| prepared.virtualtransaction == id),
        HolderRef::Session(_) => None,
    };
    let covers = |entry: &&Arc<HolderEntry>| match (backend, prepared) {
        (Some(backend), _) => entry.matches(
            Some(&backend.application),
            backend.user.as_deref(),
            backend.database.as_deref(),
            backend.client_addr.as_deref(),
        ),
        (None, Some(prepared)) => entry.matches(None, Some(&prepared.owner), Some(&prepared.database), None),
        (None, None) => false,
    };
    book.holders().iter().filter(covers).map(Arc::clone).collect()
}

/// See [`Observed::colleagues`].
fn by_account(backends: &[Backend]) -> BTreeMap<Account, Vec<usize>> {
    let mut accounts: BTreeMap<Account, Vec<usize>> = BTreeMap::new();
    for (place, backend) in
        backends.iter().enumerate().filter(|(_, backend)| backend.is_client() && !backend.is_hidden())
    {
        accounts.entry((backend.database.clone(), backend.user.clone())).or_default().push(place);
    }
    for places in accounts.values_mut() {
        places.sort_by_key(|&place| {
            let backend = &backends[place];
            match backend.state {
                Some(BackendState::Idle) => (1, std::cmp::Reverse(backend.state_change)),
                Some(_) => (0, std::cmp::Reverse(None)),
                None => (2, std::cmp::Reverse(None)),
            }
        });
    }
    accounts
}

fn assemble(
    snapshot: Snapshot,
    backends: BTreeMap<Pid, usize>,
    holds: Vec<Hold>,
    waiting: BTreeMap<Pid, Waiting>,
    cycles: Vec<Vec<Pid>>,
    names: TargetNames<'_>,
) -> Observed {
    let mut by_holder: BTreeMap<HolderRef, Vec<usize>> = BTreeMap::new();
    for (place, hold) in holds.iter().enumerate() {
        by_holder.entry(hold.holder).or_default().push(place);
    }
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
    let session = |holder: &HolderRef| match holder {
        HolderRef::Session(pid) => Some(*pid),
        HolderRef::Prepared(_) => None,
    };
    let holding: BTreeSet<Pid> = by_holder.keys().filter_map(session).collect();
    let queued: BTreeSet<Pid> = waiting.values().filter(|wait| wait.key().is_some()).map(|wait| wait.pid).collect();
    let groups = groups(&snapshot.backends, names.grouping);
    let applications_at = applications_at(&snapshot.backends, &groups);
    let by_account = by_account(&snapshot.backends);
    let pools = pools(&snapshot.backends, &groups, &holding, &queued);
    let pooled = pooled(&snapshot.backends, &snapshot.poolers);
    Observed {
        target: names.target.to_owned(),
        snapshot,
        polls: 0,
        observed: Duration::ZERO,
        restarted: false,
        holds,
        waiting,
        cycles,
        pools,
        pooled,
        count_mismatches: Vec::new(),
        backends,
        groups,
        applications_at,
        by_account,
        by_holder,
        by_root,
        by_cycle,
    }
}
