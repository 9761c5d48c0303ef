//! The holds of a poll: each granted advisory row joined to what is remembered of it, named, and put in order.
//!
//! Holder by holder, for rules look at holders: what they read together lies together, however many locks there are.
//! Most holders have the locks that they had in the last poll, and polls show most locks of a holder alike: those share
//! one memory, and what it says is worked out once.

use std::sync::Arc;
use std::time::Duration;

use super::names::Known;
use super::{HolderId, Places, TargetNames, Tracker, shared};
use crate::analysis::Numbered;
use crate::analysis::hold_memory::{HoldMemory, Queued, Sight};
use crate::analysis::moment::{BackendMemory, Moment};
use crate::analysis::observed::{Hold, HolderRef, Holdings, Waiting};
use crate::analysis::report::Past;
use crate::keys::{HolderEntry, KeyBook};
use crate::model::{
    AdvisoryKey, Backend, BackendState, LockMode, LockObject, LockOwner, Pid, PreparedTransaction, Snapshot, Time, age,
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
}

/// What is remembered of a holder's locks.
#[derive(Debug, Default)]
pub(super) struct HolderMemory {
    /// By key and mode.
    pub locks: Vec<Remembered>,
    /// The memories that they share.
    pub memories: Vec<HoldMemory>,
}

impl HolderMemory {
    /// Adds a lock with a memory of its own, which may be that of the lock before it.
    pub(super) fn push(&mut self, id: LockId, memory: HoldMemory) {
        if self.memories.last() != Some(&memory) {
            self.memories.push(memory);
        }
        self.locks.push(Remembered { id, memory: Some(self.memories.len() - 1), known: None });
    }
}

/// What is remembered of one lock.
#[derive(Debug)]
pub(super) struct Remembered {
    pub id: LockId,
    /// Which of its holder's memories; nothing for a lock that the last poll did not show.
    pub memory: Option<usize>,
    /// Its names; nothing in a memory from an earlier process.
    pub known: Option<Known>,
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

    /// Takes in what poll number `polls` shows of a lock with this memory, or with none. The place of what it has now.
    fn see(&mut self, memory: Option<usize>, sight: &Sight<'_>, polls: u64, new: impl Fn() -> HoldMemory) -> usize {
        let went_on = (memory.map_or(0, |place| place + 1), usize::from(sight.local_zero));
        if let (true, Some(place)) = (sight.queue.is_empty(), self.went_on[went_on.0][went_on.1]) {
            return place;
        }
        let mut seen = memory.map_or_else(new, |place| self.before[place].clone());
        seen.see(sight);
        let is_last = self.after.last() == Some(&seen)
            && self.pasts.last().is_some_and(|past| past.local_zero == sight.local_zero);
        if !is_last {
            self.pasts.push(Arc::new(seen.past(sight, polls)));
            self.after.push(seen);
        }
        let place = self.after.len() - 1;
        if sight.queue.is_empty() {
            self.went_on[went_on.0][went_on.1] = Some(place);
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
    entries: Arc<[Arc<HolderEntry>]>,
    /// Its granted advisory rows, by key and mode, and whether their local transaction id is 0.
    rows: Vec<(LockId, bool)>,
}

impl Owner<'_> {
    /// What is remembered of its locks, one for each row, from what was remembered after the last poll.
    fn recall(&self, before: Vec<Remembered>) -> Vec<Remembered> {
        let ids = || self.rows.iter().map(|(id, _)| *id);
        if ids().eq(before.iter().map(|remembered| remembered.id)) {
            return before;
        }
        let mut before = before.into_iter().peekable();
        ids()
            .map(|id| {
                while before.next_if(|remembered| remembered.id < id).is_some() {}
                before.next_if(|remembered| remembered.id == id).unwrap_or(Remembered { id, memory: None, known: None })
            })
            .collect()
    }

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

/// The queue for one key.
#[derive(Default)]
struct Queue<'a> {
    waits: Vec<Queued<'a>>,
    pids: Arc<[Pid]>,
}

impl Queue<'_> {
    /// Who queues, without the holder itself.
    fn but(&self, holder: HolderRef) -> Arc<[Pid]> {
        match holder {
            HolderRef::Session(own) if self.pids.contains(&own) => {
                self.pids.iter().copied().filter(|&pid| pid != own).collect()
            }
            _ => Arc::clone(&self.pids),
        }
    }
}

impl Tracker {
    /// Takes in the granted advisory rows: by holder, key and mode.
    pub(super) fn holds(
        &mut self,
        snapshot: &Snapshot,
        places: &Places,
        queues: &Numbered<AdvisoryKey, Vec<&Waiting>>,
        names: TargetNames<'_>,
        now: Moment,
    ) -> Holds {
        let same_names = self.names.begin(snapshot, names.book);
        let owners = self.owners(snapshot, places, names.book);
        // Each row asks it.
        let queues: Numbered<AdvisoryKey, Queue<'_>> =
            queues.iter().map(|(key, waits)| (*key, self.queue(waits))).collect();
        let nobody = Queue::default();
        let mut before = std::mem::take(&mut self.holds);
        let mut all = Holds::default();
        all.list.reserve_exact(owners.iter().map(|owner| owner.rows.len()).sum());
        all.holders.reserve_exact(owners.len());
        self.holds.reserve(owners.len());
        for owner in &owners {
            let first = all.list.len();
            let HolderMemory { locks, memories } = before.remove(&owner.id).unwrap_or_default();
            let mut locks = owner.recall(locks);
            let mut memories = Memories::new(memories);
            let new = || owner.new_memory(now, self.last);
            let is_expected = owner.entries.iter().any(|entry| entry.expected);
            for ((&(key, mode), local_zero), remembered) in
                owner.rows.iter().map(|(id, zero)| (id, *zero)).zip(&mut locks)
            {
                let queue = queues.get(&key).unwrap_or(&nobody);
                if !queue.waits.is_empty() {
                    all.waited_for.entry(key).or_default().push(all.list.len());
                }
                let sight = owner.sight(mode, local_zero, queue, snapshot.before_locks, now);
                let memory = memories.see(remembered.memory, &sight, self.polls, new);
                remembered.memory = Some(memory);
                let known = match remembered.known.take() {
                    Some(same) if same_names && owner.same_words => remembered.known.insert(same),
                    before => remembered.known.insert(self.names.look_up(key, owner.backend, names, before)),
                };
                all.list.push(Hold {
                    key,
                    mode,
                    holder: owner.holder,
                    expected: is_expected || known.names.iter().any(|name| name.long_lived),
                    past: Arc::clone(&memories.pasts[memory]),
                    names: Arc::clone(&known.names),
                    report: Arc::clone(&known.report),
                    waiters: queue.but(owner.holder),
                });
            }
            let places = first..all.list.len();
            all.holders.push(Holdings { holder: owner.holder, places, entries: Arc::clone(&owner.entries) });
            self.holds.insert(owner.id, HolderMemory { locks, memories: memories.after });
        }
        self.names.end(owners.iter().filter_map(|owner| owner.backend));
        for places in all.waited_for.values_mut() {
            places.sort_by_key(|&place| all.list[place].mode);
        }
        all
    }

    /// Who owns granted advisory rows, in the order of holders.
    fn owners<'a>(&self, snapshot: &'a Snapshot, places: &Places, book: &KeyBook) -> Vec<Owner<'a>> {
        let mut owners: Vec<Owner<'_>> = Vec::new();
        let mut known: Numbered<LockOwner, usize> = Numbered::default();
        // Rows of one owner mostly stand together.
        let mut last: Option<(LockOwner, usize)> = None;
        for row in snapshot.locks.iter().filter(|row| row.granted) {
            let LockObject::Advisory(key) = row.object else { continue };
            let same = last.filter(|(owner, _)| *owner == row.owner).map(|(_, place)| place);
            let place = same.or_else(|| known.get(&row.owner).copied()).or_else(|| {
                owners.push(self.owner(row.owner, snapshot, places, book)?);
                known.insert(row.owner, owners.len() - 1);
                Some(owners.len() - 1)
            });
            last = place.map(|place| (row.owner, place));
            if let Some(place) = place {
                owners[place].rows.push(((key, row.mode), row.virtualtransaction.local == 0));
            }
        }
        for owner in &mut owners {
            owner.rows.sort_by_key(|(id, _)| *id);
        }
        owners.sort_unstable_by_key(|owner| owner.holder);
        owners
    }

    fn owner<'a>(
        &self,
        owner: LockOwner,
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
            rows: Vec::new(),
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
) -> Arc<[Arc<HolderEntry>]> {
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
    shared(book.holders().iter().filter(covers).map(Arc::clone).collect())
}
