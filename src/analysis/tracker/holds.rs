//! The holds of a poll: each granted advisory row joined to what is remembered of it, named, and put in order.
//!
//! Holder by holder, for rules look at holders: what they read together lies together, however many locks there are.
//! Most holders have the locks that they had in the last poll, and their memory stays where it is.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;

use super::names::Known;
use super::{HolderId, Places, TargetNames, Tracker, shared};
use crate::analysis::hold_memory::{Beside, HoldMemory, Queued, Sight};
use crate::analysis::moment::{BackendMemory, Moment};
use crate::analysis::observed::{Hold, HolderRef, Waiting};
use crate::keys::{HolderEntry, KeyBook};
use crate::model::{
    AdvisoryKey, Backend, BackendState, LockMode, LockObject, LockOwner, LockRow, Pid, PreparedTransaction, Snapshot,
    Time, age,
};

/// Which of a holder's locks it is, in the order of the memory.
type LockId = (AdvisoryKey, LockMode);

/// All holds of a poll, by holder, key and mode.
#[derive(Default)]
pub(super) struct Holds {
    pub list: Vec<Hold>,
    /// Which are whose.
    pub holders: Vec<(HolderRef, Range<usize>)>,
    /// The places of those whose key is waited for.
    pub waited_for: HashMap<AdvisoryKey, Vec<usize>>,
}

/// What is remembered of one hold.
#[derive(Debug)]
pub(super) struct Remembered {
    pub id: LockId,
    pub memory: HoldMemory,
    /// Its names; nothing in a memory from an earlier process.
    pub known: Option<Known>,
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
    /// Its granted advisory rows, by key and mode.
    rows: Vec<(LockId, &'a LockRow)>,
}

impl Owner<'_> {
    /// What is remembered of its locks, one for each row, from what was remembered after the last poll.
    fn recall(&self, before: Vec<Remembered>, now: Moment, last: Option<Moment>) -> Vec<Remembered> {
        let ids = || self.rows.iter().map(|(id, _)| *id);
        if ids().eq(before.iter().map(|remembered| remembered.id)) {
            return before;
        }
        let statement: Option<Arc<str>> = self.backend.and_then(|backend| backend.query.as_deref()).map(Arc::from);
        let mut before = before.into_iter().peekable();
        ids()
            .map(|id| {
                while before.next_if(|remembered| remembered.id < id).is_some() {}
                before.next_if(|remembered| remembered.id == id).unwrap_or_else(|| Remembered {
                    id,
                    memory: HoldMemory::new(now, last, self.backend, statement.clone()),
                    known: None,
                })
            })
            .collect()
    }

    /// What a poll shows of one of its locks.
    fn sight<'b>(&'b self, row: &'b LockRow, queue: &'b Queue<'_>, before_locks: Time, now: Moment) -> Sight<'b> {
        Sight {
            row,
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
        queues: &HashMap<AdvisoryKey, Vec<&Waiting>>,
        names: TargetNames<'_>,
        now: Moment,
    ) -> Holds {
        let same_names = self.names.begin(snapshot, names.book);
        let owners = self.owners(snapshot, places, names.book);
        // Each row asks it.
        let queues: HashMap<AdvisoryKey, Queue<'_>, RandomState> =
            queues.iter().map(|(key, waits)| (*key, self.queue(waits))).collect();
        let nobody = Queue::default();
        let mut before = std::mem::take(&mut self.holds);
        let mut all = Holds::default();
        all.list.reserve_exact(owners.iter().map(|owner| owner.rows.len()).sum());
        all.holders.reserve_exact(owners.len());
        self.holds.reserve(owners.len());
        for owner in &owners {
            let first = all.list.len();
            let mut memory = owner.recall(before.remove(&owner.id).unwrap_or_default(), now, self.last);
            for (((key, _), row), Remembered { memory, known, .. }) in owner.rows.iter().zip(&mut memory) {
                let queue = queues.get(key).unwrap_or(&nobody);
                if !queue.waits.is_empty() {
                    all.waited_for.entry(*key).or_default().push(all.list.len());
                }
                let sight = owner.sight(row, queue, snapshot.before_locks, now);
                memory.see(&sight);
                let known = match known.take() {
                    Some(same) if same_names && owner.same_words => known.insert(same),
                    before => known.insert(self.names.look_up(*key, owner.backend, names, before)),
                };
                let beside = Beside {
                    key: *key,
                    holder: owner.holder,
                    names: Arc::clone(&known.names),
                    report: Arc::clone(&known.report),
                    holder_entries: Arc::clone(&owner.entries),
                    waiters: queue.but(owner.holder),
                };
                all.list.push(memory.hold(&sight, beside, self.polls));
            }
            all.holders.push((owner.holder, first..all.list.len()));
            self.holds.insert(owner.id, memory);
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
        let mut known: HashMap<LockOwner, usize> = HashMap::new();
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
                owners[place].rows.push(((key, row.mode), row));
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
