//! The holds of a poll: each granted advisory row joined to what is remembered of it, named, and put in order.
//!
//! Holder by holder, for rules look at holders: what they read together lies together, however many locks there are.
//! Most holders have the locks that they had in the last poll, and polls show most locks of a holder alike: those share
//! one memory, and what it says is worked out once.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{HolderId, Places, TargetNames, Tracker};
use crate::analysis::Numbered;
use crate::analysis::hold_memory::{HoldMemory, Queued, Sight};
use crate::analysis::moment::{BackendMemory, Moment};
use crate::analysis::observed::{Hold, HolderRef, Holdings, Waiting};
use crate::analysis::report::{KeyReport, Past, Shared};
use crate::keys::{HolderEntry, KeyBook, Name};
use crate::model::{
    AdvisoryKey, Backend, BackendState, Held, LockMode, LockOwner, Locks, Pid, PreparedTransaction, Snapshot, Time, age,
};

/// Which of a holder's locks it is, in the order of the memory.
type LockId = (AdvisoryKey, LockMode);

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

/// What is remembered of a holder's locks.
#[derive(Debug, Default)]
pub(super) struct HolderMemory {
    /// Where they are in the locks of the last poll. While polls show the same keys in the same order, nothing needs to
    /// be put in order or found again.
    seen: Range<usize>,
    /// By key and mode.
    pub locks: Vec<Remembered>,
    /// The keys of those as reports show them; none in a memory from an earlier process.
    keys: Arc<Vec<KeyReport>>,
    /// The memories that they share.
    pub memories: Vec<HoldMemory>,
}

impl HolderMemory {
    /// Adds a lock with a memory of its own, which may be that of the lock before it.
    pub(super) fn push(&mut self, id: LockId, memory: HoldMemory) {
        if self.memories.last() != Some(&memory) {
            self.memories.push(memory);
        }
        self.locks.push(Remembered { id, memory: Place::of(self.memories.len() - 1), names: Shared::default() });
    }
}

/// What is remembered of one lock.
#[derive(Debug)]
pub(super) struct Remembered {
    pub id: LockId,
    /// Which of its holder's memories; nothing for a lock that the last poll did not show.
    pub memory: Option<Place>,
    /// Its names.
    names: Shared<Name>,
}

/// Which of a holder's memories it is. There may be very many locks: it takes half of what a number and its lack take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(NonZeroU32);

impl Place {
    fn of(place: usize) -> Option<Self> {
        u32::try_from(place + 1).ok().and_then(NonZeroU32::new).map(Self)
    }

    pub(super) fn get(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// How the memories of a holder's locks go on with a poll.
struct Memories {
    before: Vec<HoldMemory>,
    after: Vec<HoldMemory>,
    /// What each of those says now.
    pasts: Vec<Arc<Past>>,
    /// Where locks for which nobody queues have gone on: by their memory, or its lack, and whether their local
    /// transaction id is 0. Nothing else makes a difference between the locks of a holder.
    went_on: Vec<[Option<usize>; 2]>,
}

impl Memories {
    fn new(before: Vec<HoldMemory>) -> Self {
        let went_on = vec![[None; 2]; before.len() + 1];
        Self { before, after: Vec::new(), pasts: Vec::new(), went_on }
    }

    /// How a lock for which nobody queues has gone on, if another one with this memory, or with none, has shown it.
    fn as_before(&self, memory: Option<Place>, local_zero: bool) -> Option<usize> {
        self.went_on[memory.map_or(0, |place| place.get() + 1)][usize::from(local_zero)]
    }

    /// Takes in what poll number `polls` shows of a lock with this memory, or with none. The place of what it has now.
    fn see(&mut self, memory: Option<Place>, sight: &Sight<'_>, polls: u64, new: impl Fn() -> HoldMemory) -> usize {
        let mut seen = memory.map_or_else(new, |place| self.before[place.get()].clone());
        seen.see(sight);
        let is_last = self.after.last() == Some(&seen)
            && self.pasts.last().is_some_and(|past| past.local_zero == sight.local_zero);
        if !is_last {
            self.pasts.push(Arc::new(seen.past(sight, polls)));
            self.after.push(seen);
        }
        let place = self.after.len() - 1;
        if sight.queue.is_empty() {
            let before = memory.map_or(0, |place| place.get() + 1);
            self.went_on[before][usize::from(sight.local_zero)] = Some(place);
        }
        place
    }
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
    /// Its application's name without digits.
    application: Option<Arc<[Box<str>]>>,
    /// The `[[holder]]` entries that cover it.
    entries: Shared<Arc<HolderEntry>>,
    /// Where its advisory locks are among the poll's.
    held: Range<usize>,
}

/// An advisory lock, and whether its row's local transaction id is 0.
type Row = (LockId, bool);

impl Owner<'_> {
    /// The memory of a lock that the last poll did not show.
    fn new_memory(&self, now: Moment, last: Option<Moment>) -> HoldMemory {
        let statement = self.backend.and_then(|backend| backend.query.as_deref()).map(Arc::from);
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
            application: self.application.as_ref(),
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

/// What is remembered of an owner's locks, one for each row, from what was remembered after the last poll, and the place
/// of each there.
fn recall(rows: &[Row], before: Vec<Remembered>) -> (Vec<Remembered>, Vec<Option<usize>>) {
    let mut before = before.into_iter().enumerate().peekable();
    let mut one = |id: LockId| {
        while before.next_if(|(_, remembered)| remembered.id < id).is_some() {}
        match before.next_if(|(_, remembered)| remembered.id == id) {
            Some((place, remembered)) => (remembered, Some(place)),
            None => (Remembered { id, memory: None, names: Shared::default() }, None),
        }
    };
    rows.iter().map(|(id, _)| one(*id)).unzip()
}

/// Whether two polls show the same keys in the same modes and order.
fn are_same<'a>(before: impl Iterator<Item = Held<'a>>, now: impl Iterator<Item = Held<'a>>) -> bool {
    let keys = |held: Held<'a>| (held.mode, held.keys);
    before.map(keys).eq(now.map(keys))
}

/// Whether all rows have the same local transaction id as to being 0; which it is. Nearly always they have: a backend
/// may begin or end a transaction while the server reads its locks.
fn common_zero<'a>(mut held: impl Iterator<Item = Held<'a>>) -> Option<bool> {
    let zero = |held: Held<'a>| held.virtualtransaction.local == 0;
    let first = zero(held.next()?);
    held.all(|held| zero(held) == first).then_some(first)
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
        let queues: Numbered<AdvisoryKey, Queue<'_>> =
            queues.iter().map(|(key, waits)| (*key, self.queue(waits))).collect();
        let nobody = Queue::default();
        let mut before = std::mem::take(&mut self.holds);
        let mut all = Holds::default();
        all.list.reserve_exact(locks.len());
        all.holders.reserve_exact(owners.len());
        self.holds.reserve(owners.len());
        for owner in &owners {
            let first = all.list.len();
            let HolderMemory { seen, locks: mut remembered, mut keys, memories } =
                before.remove(&owner.id).unwrap_or_default();
            let held = locks.held_at(owner.held.clone());
            let zero = common_zero(held.clone());
            let same_locks = are_same(self.locks.held_at(seen), held);
            let rows = (zero.is_none() || !same_locks).then(|| rows(&locks, owner.held.clone()));
            let mut places = None;
            if let (Some(rows), false) = (&rows, same_locks) {
                let (recalled, recalled_from) = recall(rows, remembered);
                (remembered, places) = (recalled, Some(recalled_from));
            }
            let same_words = same_names && owner.same_words;
            if !(same_locks && same_words) {
                keys = self.names_of(&mut remembered, keys, places.as_deref(), same_words, owner.backend, names);
            }
            let mut memories = Memories::new(memories);
            let new = || owner.new_memory(now, self.last);
            let is_expected = owner.entries.iter().any(|entry| entry.expected);
            for (number, remembered) in remembered.iter_mut().enumerate() {
                let (key, mode) = remembered.id;
                let local_zero = rows.as_ref().map_or(zero == Some(true), |rows| rows[number].1);
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
            let (entries, seen) = (owner.entries.clone(), owner.held.clone());
            all.holders.push(Holdings { holder: owner.holder, places, keys: Arc::clone(&keys), entries });
            self.holds.insert(owner.id, HolderMemory { seen, locks: remembered, keys, memories: memories.after });
        }
        self.names.end(owners.iter().filter_map(|owner| owner.backend));
        drop(owners);
        self.locks = locks;
        for places in all.waited_for.values_mut() {
            places.sort_by_key(|&place| all.list[place].mode);
        }
        all
    }

    /// Names a holder's locks, and returns their keys as reports show them: the list that was there before, if it still
    /// says it all. `places` has where each lock was before; nothing if all are where they were. `same_words`: what the
    /// names rest on is as in the last poll.
    fn names_of(
        &self,
        locks: &mut [Remembered],
        before: Arc<Vec<KeyReport>>,
        places: Option<&[Option<usize>]>,
        same_words: bool,
        backend: Option<&Backend>,
        names: TargetNames<'_>,
    ) -> Arc<Vec<KeyReport>> {
        let mut keys = places.map(|places| Vec::with_capacity(places.len()));
        for (place, lock) in locks.iter_mut().enumerate() {
            let known = places.map_or(Some(place), |places| places[place]).and_then(|place| before.get(place));
            let new = match known {
                Some(_) if same_words => None,
                known => self.names.look_up(lock.id.0, backend, names, known),
            };
            if let Some(new) = new {
                lock.names = new.names;
                keys.get_or_insert_with(|| before[..place].to_vec()).push(new.report);
            } else if let (Some(keys), Some(known)) = (&mut keys, known) {
                keys.push(known.clone());
            }
        }
        keys.map_or(before, Arc::new)
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
        let named = backend.filter(|backend| !backend.application.is_empty());
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
            same_words: backend.is_none_or(|backend| self.names.has_same_words(backend)),
            application: named.map(|backend| {
                let name: Box<str> = backend.application.chars().filter(|c| !c.is_ascii_digit()).collect();
                Arc::from([name])
            }),
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
