//! The holds of a poll: each granted advisory row joined to what is remembered of it, named, and put in order.
//!
//! The memory is kept in the order of keys, and the rows are brought into it: one pass through both finds for each row
//! its memory.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::iter::Peekable;
use std::sync::Arc;

use super::names::Known;
use super::{HolderId, Places, TargetNames, Tracker};
use crate::analysis::hold_memory::{Beside, HoldMemory, Queued, Sight};
use crate::analysis::moment::{BackendMemory, Moment};
use crate::analysis::observed::{Hold, HolderRef, Waiting};
use crate::keys::{HolderEntry, KeyBook};
use crate::model::{
    AdvisoryKey, Backend, LockMode, LockObject, LockOwner, LockRow, Pid, PreparedTransaction, Snapshot,
};

/// Which hold it is, in the order of the memory.
pub(super) type HoldId = (AdvisoryKey, LockMode, HolderId);

/// What is remembered of one hold.
#[derive(Debug)]
pub(super) struct Remembered {
    pub id: HoldId,
    /// Boxed: it is large, and each poll makes a new list.
    pub memory: Box<HoldMemory>,
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
    /// What the names of its keys rest on is as in the last poll.
    same_words: bool,
    /// Its application's name without digits.
    application: Option<Arc<[Box<str>]>>,
    /// The `[[holder]]` entries that cover it.
    entries: Arc<[Arc<HolderEntry>]>,
    /// Its statement, once it is wanted.
    statement: OnceCell<Option<Arc<str>>>,
}

impl Owner<'_> {
    fn statement(&self) -> Option<Arc<str>> {
        let query = || self.backend.and_then(|backend| backend.query.as_deref()).map(Arc::from);
        self.statement.get_or_init(query).clone()
    }
}

/// One granted advisory row.
struct Row<'a> {
    key: AdvisoryKey,
    /// That of the lock: rows are sorted by it, and the lock itself lies elsewhere.
    mode: LockMode,
    /// The place of its owner.
    owner: usize,
    lock: &'a LockRow,
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
    /// Takes in the granted advisory rows: by key, mode and holder.
    pub(super) fn holds(
        &mut self,
        snapshot: &Snapshot,
        places: &Places,
        queues: &HashMap<AdvisoryKey, Vec<&Waiting>>,
        names: TargetNames<'_>,
        now: Moment,
    ) -> Vec<Hold> {
        let same_names = self.names.begin(snapshot, names.book);
        let (rows, owners) = self.rows(snapshot, places, names.book);
        let queues: HashMap<AdvisoryKey, Queue<'_>> =
            queues.iter().map(|(key, waits)| (*key, self.queue(waits))).collect();
        let nobody = Queue::default();
        let mut before = std::mem::take(&mut self.holds).into_iter().peekable();
        let mut after = Vec::with_capacity(rows.len());
        let mut holds = Vec::with_capacity(rows.len());
        for Row { key, mode, owner, lock } in rows {
            let owner = &owners[owner];
            let queue = queues.get(&key).unwrap_or(&nobody);
            let sight = Sight {
                row: lock,
                backend: owner.backend,
                began_no_statement: owner.began_no_statement,
                application: owner.application.as_ref(),
                prepared: owner.prepared.map(|prepared| prepared.prepared),
                before_locks: snapshot.before_locks,
                now,
                last: self.last,
                queue: &queue.waits,
            };
            let id = (key, mode, owner.id);
            let (mut memory, known) = match recall(&mut before, &id) {
                Some(remembered) => (remembered.memory, remembered.known),
                None => (Box::new(HoldMemory::new(&sight, owner.statement())), None),
            };
            memory.see(&sight);
            let known = match known {
                Some(known) if same_names && owner.same_words => known,
                known => self.names.look_up(key, owner.backend, names, known),
            };
            let beside = Beside {
                key,
                holder: owner.holder,
                names: Arc::clone(&known.names),
                report: Arc::clone(&known.report),
                holder_entries: Arc::clone(&owner.entries),
                waiters: queue.but(owner.holder),
            };
            holds.push(memory.hold(&sight, beside, self.polls));
            after.push(Remembered { id, memory, known: Some(known) });
        }
        self.holds = after;
        self.names.end(owners.iter().filter_map(|owner| owner.backend));
        // Only prepared transactions are in another order here.
        holds.sort_by_key(|hold| (hold.key, hold.mode, hold.holder));
        holds
    }

    /// The granted advisory rows in the order of the memory, and their owners.
    fn rows<'a>(&self, snapshot: &'a Snapshot, places: &Places, book: &KeyBook) -> (Vec<Row<'a>>, Vec<Owner<'a>>) {
        let mut owners: Vec<Owner<'_>> = Vec::new();
        let mut known: HashMap<LockOwner, usize> = HashMap::new();
        let mut rows = Vec::with_capacity(snapshot.locks.len());
        for row in snapshot.locks.iter().filter(|row| row.granted) {
            let LockObject::Advisory(key) = row.object else { continue };
            let owner = known.get(&row.owner).copied().or_else(|| {
                owners.push(self.owner(row.owner, snapshot, places, book)?);
                known.insert(row.owner, owners.len() - 1);
                Some(owners.len() - 1)
            });
            rows.extend(owner.map(|owner| Row { key, mode: row.mode, owner, lock: row }));
        }
        rows.sort_by(|one, other| {
            let by_key = (one.key, one.mode).cmp(&(other.key, other.mode));
            by_key.then_with(|| owners[one.owner].id.cmp(&owners[other.owner].id))
        });
        (rows, owners)
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
            same_words: backend.is_none_or(|backend| self.names.has_same_words(backend)),
            application: named.map(|backend| {
                let name: Box<str> = backend.application.chars().filter(|c| !c.is_ascii_digit()).collect();
                Arc::from([name])
            }),
            entries: holder_entries(backend, prepared, book),
            statement: OnceCell::new(),
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

/// What is remembered of this hold. Whatever stands before it in the memory is gone.
fn recall(before: &mut Peekable<impl Iterator<Item = Remembered>>, id: &HoldId) -> Option<Remembered> {
    while before.next_if(|remembered| remembered.id < *id).is_some() {}
    before.next_if(|remembered| remembered.id == *id)
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
    book.holders().iter().filter(covers).map(Arc::clone).collect()
}
