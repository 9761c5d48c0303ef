//! The holds of a poll: each granted advisory row joined to what is remembered of it, named, and put in order.
//!
//! Holder by holder, for rules look at holders: what they read together lies together, however many locks there are.
//! Most holders have the locks that they had in the last poll, and polls show most locks of a holder alike: those share
//! one memory, and what it says is worked out once.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::memory::{HolderMemory, Memories, Place, Row, recall};
use super::names::Words;
use super::{HolderId, Places, TargetNames, Tracker};
use crate::analysis::Numbered;
use crate::analysis::few::Few;
use crate::analysis::hold_memory::{HoldMemory, Queued, Sight};
use crate::analysis::moment::{BackendMemory, Moment};
use crate::analysis::observed::{Hold, HolderRef, Holdings, Waiting};
use crate::analysis::report::Shared;
use crate::keys::{HolderEntry, KeyBook};
use crate::model::{
    AdvisoryKey, Backend, BackendState, Held, LockMode, LockOwner, Locks, Pid, PreparedTransaction, Snapshot, Time, age,
};

/// All holds of a poll, by holder, key and mode.
#[derive(Default)]
pub(super) struct Holds {
    pub list: Vec<Hold>,
    /// Which are whose.
    pub holders: Vec<Holdings>,
    /// The places of those whose key is waited for.
    pub waited_for: Numbered<AdvisoryKey, Vec<usize>>,
    /// The places of those whose key has a name.
    pub named: Vec<usize>,
}

/// What all rows of one owner share.
struct Owner<'a> {
    id: HolderId,
    holder: HolderRef,
    backend: Option<&'a Backend>,
    prepared: Option<&'a PreparedTransaction>,
    began_no_statement: bool,
    rested: Duration,
    connected: Option<Duration>,
    /// What the names of its keys rest on is as in the last poll.
    same_words: bool,
    /// What a session says of itself.
    words: Option<Words>,
    /// The `[[holder]]` entries that cover it.
    entries: Shared<Arc<HolderEntry>>,
    /// Where its advisory locks are among the poll's.
    held: Range<usize>,
}

impl Owner<'_> {
    /// The memory of a lock that the last poll did not show.
    fn new_memory(&self, now: Moment, last: Option<Moment>) -> HoldMemory {
        let statement = self.backend.and_then(|backend| backend.query.clone());
        HoldMemory::new(now, last, self.backend, statement)
    }

    /// What a poll shows of one of its locks.
    fn sight<'b>(
        &'b self,
        mode: LockMode,
        local_zero: bool,
        queue: &'b Queue<'_>,
        before_locks: Time,
        now: Moment,
    ) -> Sight<'b> {
        Sight {
            mode,
            local_zero,
            backend: self.backend,
            began_no_statement: self.began_no_statement,
            application: self.words.as_ref().and_then(|words| words.plain_application.as_ref()),
            prepared: self.prepared.map(|prepared| age(now.server, prepared.prepared)),
            rested: self.rested,
            connected: self.connected,
            before_locks,
            now,
            queue: &queue.waits,
        }
    }
}

/// The locks of an owner, by key and mode.
fn rows(locks: &Locks, held: Range<usize>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for Held { mode, virtualtransaction, keys, .. } in locks.held_at(held) {
        rows.extend(keys.iter().map(|&key| ((key, mode), virtualtransaction.local == 0)));
    }
    rows.sort_by_key(|(id, _)| *id);
    rows
}

/// Whether two polls show the same keys in the same modes and order.
fn are_same<'a>(before: impl Iterator<Item = Held<'a>>, now: impl Iterator<Item = Held<'a>>) -> bool {
    let keys = |held: Held<'a>| (held.mode, held.keys);
    before.map(keys).eq(now.map(keys))
}

/// Whether the local transaction ids of an owner's rows are 0. Nearly always they are equal: a backend may begin or end a
/// transaction while the server reads its locks.
enum Zeros {
    All(bool),
    /// By key and mode.
    Each(Vec<bool>),
}

impl Zeros {
    /// Of these, if they are equal.
    fn of<'a>(mut held: impl Iterator<Item = Held<'a>>) -> Option<Self> {
        let zero = |held: Held<'a>| held.virtualtransaction.local == 0;
        let first = zero(held.next()?);
        held.all(|held| zero(held) == first).then_some(Self::All(first))
    }

    fn at(&self, number: usize) -> bool {
        match self {
            Self::All(zero) => *zero,
            Self::Each(zeros) => zeros[number],
        }
    }
}

/// The queue for one key.
#[derive(Default)]
struct Queue<'a> {
    waits: Vec<Queued<'a>>,
    pids: Shared<Pid>,
}

impl Queue<'_> {
    /// Who queues, without the holder itself.
    fn but(&self, holder: HolderRef) -> Shared<Pid> {
        match holder {
            HolderRef::Session(own) if self.pids.contains(&own) => {
                self.pids.iter().copied().filter(|&pid| pid != own).collect()
            }
            _ => self.pids.clone(),
        }
    }
}

impl Tracker {
    /// Takes in the advisory locks that are held: by holder, key and mode.
    pub(super) fn holds(
        &mut self,
        mut locks: Locks,
        snapshot: &Snapshot,
        places: &Places,
        queues: &Numbered<AdvisoryKey, Vec<&Waiting>>,
        names: TargetNames<'_>,
        now: Moment,
    ) -> Holds {
        let same_names = self.names.begin(snapshot, names.book);
        locks.sort();
        let owners: Vec<Owner<'_>> = locks
            .by_owner()
            .filter_map(|(owner, held)| self.owner(owner, held, snapshot, places, names.book))
            .collect();
        // Each row asks it.
        let queues: Few<Queue<'_>> = queues.iter().map(|(key, waits)| (*key, self.queue(waits))).collect();
        let nobody = Queue::default();
        let mut before = std::mem::take(&mut self.holds);
        let mut all = Holds::default();
        all.list.reserve_exact(locks.len());
        all.holders.reserve_exact(owners.len());
        self.holds.reserve(owners.len());
        for owner in &owners {
            let first = all.list.len();
            let memory = before.remove(&owner.id).unwrap_or_default();
            let (mut memory, zeros) = self.recall(owner, &locks, memory, same_names, names);
            let mut memories = Memories::new(memory.memories);
            let new = || owner.new_memory(now, self.last);
            let is_expected = owner.entries.iter().any(|entry| entry.expected);
            for (number, remembered) in memory.locks.iter_mut().enumerate() {
                let ((key, mode), local_zero) = (remembered.id, zeros.at(number));
                let queue = queues.get(&key).unwrap_or(&nobody);
                if !queue.waits.is_empty() {
                    all.waited_for.entry(key).or_default().push(all.list.len());
                }
                let as_before = memories.as_before(remembered.memory, local_zero);
                let memory = as_before.filter(|_| queue.waits.is_empty()).unwrap_or_else(|| {
                    let sight = owner.sight(mode, local_zero, queue, snapshot.before_locks, now);
                    memories.see(remembered.memory, &sight, self.polls, new)
                });
                remembered.memory = Place::of(memory);
                if !remembered.names.is_empty() {
                    all.named.push(all.list.len());
                }
                all.list.push(Hold {
                    key,
                    mode,
                    holder: owner.holder,
                    expected: is_expected || remembered.names.iter().any(|name| name.long_lived),
                    past: Arc::clone(&memories.pasts[memory]),
                    names: remembered.names.clone(),
                    waiters: queue.but(owner.holder),
                });
            }
            let places = first..all.list.len();
            let (keys, entries) = (Arc::clone(&memory.keys), owner.entries.clone());
            all.holders.push(Holdings { holder: owner.holder, places, keys, entries });
            self.holds.insert(owner.id, HolderMemory { memories: memories.after, ..memory });
        }
        let words = |owner: Owner<'_>| Some((owner.backend?.pid, owner.words?));
        self.names.end(owners.into_iter().filter_map(words));
        self.locks = locks;
        for places in all.waited_for.values_mut() {
            places.sort_by_key(|&place| all.list[place].mode);
        }
        all
    }

    /// Brings what is remembered of an owner's locks up to those that the poll shows: each of them, by key and mode, with
    /// its names. With their local transaction ids.
    fn recall(
        &self,
        owner: &Owner<'_>,
        locks: &Locks,
        memory: HolderMemory,
        same_names: bool,
        names: TargetNames<'_>,
    ) -> (HolderMemory, Zeros) {
        let HolderMemory { seen, locks: mut remembered, mut keys, memories } = memory;
        let held = locks.held_at(owner.held.clone());
        let zeros = Zeros::of(held.clone());
        let same_locks = are_same(self.locks.held_at(seen), held);
        let rows = if same_locks && zeros.is_some() { Vec::new() } else { rows(locks, owner.held.clone()) };
        let mut places = None;
        if !same_locks {
            let (recalled, recalled_from) = recall(&rows, remembered);
            (remembered, places) = (recalled, Some(recalled_from));
        }
        let same_words = same_names && owner.same_words;
        if !(same_locks && same_words) {
            keys = self.names.keys_of(&mut remembered, keys, places.as_deref(), same_words, owner.backend, names);
        }
        let zeros = zeros.unwrap_or_else(|| Zeros::Each(rows.iter().map(|(_, zero)| *zero).collect()));
        (HolderMemory { seen: owner.held.clone(), locks: remembered, keys, memories }, zeros)
    }

    fn owner<'a>(
        &self,
        owner: LockOwner,
        held: Range<usize>,
        snapshot: &'a Snapshot,
        places: &Places,
        book: &KeyBook,
    ) -> Option<Owner<'a>> {
        let (mut backend, mut prepared) = (None, None);
        let (id, holder) = match owner {
            LockOwner::Backend(pid) => {
                let found = &snapshot.backends[*places.backends.get(&pid)?];
                backend = Some(found);
                (HolderId::Session(pid, found.backend_start), HolderRef::Session(pid))
            }
            LockOwner::Prepared(id) => {
                let found = &snapshot.prepared[*places.prepared.get(&id)?];
                prepared = Some(found);
                (HolderId::Prepared(found.transaction, found.prepared), HolderRef::Prepared(id))
            }
        };
        let (words, same_words) = backend.map(|backend| self.names.words_of(backend)).unzip();
        let since = |then| age(snapshot.sampled_at, then);
        Some(Owner {
            id,
            holder,
            backend,
            prepared,
            began_no_statement: backend.is_some_and(|backend| {
                let before = self.backends.get(&backend.pid);
                before
                    .is_some_and(|before| before.began_no_statement(&BackendMemory::of(backend, snapshot.before_locks)))
            }),
            rested: backend
                .filter(|backend| backend.state.is_some_and(BackendState::is_idle))
                .and_then(|backend| backend.state_change)
                .map_or(Duration::ZERO, since),
            connected: backend.and_then(|backend| backend.backend_start).map(since),
            same_words: same_words.unwrap_or(true),
            words,
            entries: holder_entries(backend, prepared, book),
            held,
        })
    }

    fn queue<'a>(&self, waits: &[&'a Waiting]) -> Queue<'a> {
        let queued = |wait: &&'a Waiting| Queued {
            wait,
            continued: self.waits.continued(wait.pid),
            since: self.waits.queued_by(wait.pid),
        };
        Queue { waits: waits.iter().map(queued).collect(), pids: waits.iter().map(|wait| wait.pid).collect() }
    }
}

/// The `[[holder]]` entries that cover a holder. A prepared transaction has an owner and a database, and neither
/// application nor client.
fn holder_entries(
    backend: Option<&Backend>,
    prepared: Option<&PreparedTransaction>,
    book: &KeyBook,
) -> Shared<Arc<HolderEntry>> {
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
