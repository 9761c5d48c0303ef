//! What is known after a poll: every hold with its bounds and proofs, every wait with its roots.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::accounts::Accounts;
use super::pooled::Pooled;
use super::pools::applications_at;
use super::report::{KeyReport, Past, PoolReport, ReportedKey, ReportedKeys, Shared, Waited};
use crate::analysis::Numbered;
use crate::keys::{HolderEntry, Name};
use crate::model::{
    AdvisoryKey, Backend, LockMode, LockObject, Pid, PreparedTransaction, SharedText, Snapshot, VirtualTransaction,
};

/// When a situation becomes a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// t: idle, held or counted wrongly for this long.
    pub idle: Duration,
    /// w: waited for this long.
    pub wait: Duration,
    /// This many keys in one session are a hoard.
    pub hoard: usize,
    /// Held for this long is critical by itself; off by default.
    pub critical_after: Option<Duration>,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { idle: Duration::from_secs(60), wait: Duration::from_secs(10), hoard: 100, critical_after: None }
    }
}

/// A holder, by its place in the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderRef {
    /// A backend's pid.
    Session(Pid),
    /// A prepared transaction.
    Prepared(VirtualTransaction),
}

/// One granted advisory row, with what polls have taught about it. There may be very many, and every rule looks at them:
/// what several share is shared.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The key.
    pub key: AdvisoryKey,
    /// The mode.
    pub mode: LockMode,
    /// Who holds it.
    pub holder: HolderRef,
    /// What polls have taught of it.
    pub past: Arc<Past>,
    /// The key's names.
    pub names: Shared<Name>,
    /// Declared to be held for long, by the key or by the holder.
    pub expected: bool,
    /// Sessions that queue for exactly this key and are blocked by this hold or by a waiter ahead; shared by all holds
    /// of the key.
    pub waiters: Shared<Pid>,
}

/// One holder and its holds.
#[derive(Debug, Clone)]
pub(crate) struct Holdings {
    /// Who.
    pub holder: HolderRef,
    /// The places of its holds in [`Observed::holds`].
    pub places: Range<usize>,
    /// Their keys as reports show them.
    pub keys: Arc<Vec<KeyReport>>,
    /// The `[[holder]]` entries that cover it.
    pub entries: Shared<Arc<HolderEntry>>,
}

impl Hold {
    /// Followers queue for this key on purpose.
    pub fn waiters_expected(&self) -> bool {
        self.names.iter().any(|name| name.waiters_expected)
    }
}

/// One session that waits for a lock, of whichever kind.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The session.
    pub pid: Pid,
    /// What it waits for.
    pub object: LockObject,
    /// In which mode.
    pub mode: LockMode,
    /// How long.
    pub waited: Waited,
    /// It follows a leader on purpose: counts in no ">= w".
    pub on_purpose: bool,
    /// Holders in a conflicting mode, and the waiter directly ahead.
    pub blocked_by: Vec<HolderRef>,
    /// Where its chain ends; empty if it ends in nothing but a cycle.
    pub roots: Arc<[HolderRef]>,
    /// Cycles that its chain ends in, or that it is part of, by their place in [`Observed::cycles`].
    pub cycles: Arc<[usize]>,
}

impl Waiting {
    /// The advisory key that is waited for, if it is one.
    pub fn key(&self) -> Option<AdvisoryKey> {
        self.object.key()
    }
}

/// How long an entry's holders have been too few or too many.
#[derive(Debug, Clone)]
pub struct CountMismatch {
    /// The place of the entry in the key book.
    pub entry: usize,
    /// Its holders now.
    pub holders: Vec<HolderRef>,
    /// For how long.
    pub lasted: Duration,
    /// In every poll since the first.
    pub throughout: bool,
}

/// Everything known after a poll.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The target's name.
    pub target: String,
    /// The poll itself, without its rows of `pg_locks`.
    pub snapshot: Snapshot,
    /// How many polls there were.
    pub polls: u64,
    /// From the first poll to this one.
    pub observed: Duration,
    /// Since the last poll the server was restarted, or recovered from a crash of one of its processes: all sessions
    /// and their locks were lost.
    pub restarted: bool,
    /// Every granted advisory row, by holder, key and mode.
    pub holds: Vec<Hold>,
    /// Every waiting session.
    pub waiting: BTreeMap<Pid, Waiting>,
    /// Cycles in the waits-for graph with an advisory edge, each sorted.
    pub cycles: Vec<Vec<Pid>>,
    /// All pools.
    pub pools: Vec<(PoolReport, Vec<Pid>)>,
    /// The pools of the backends that a PgBouncer says it uses.
    pub pooled: BTreeMap<Pid, Pooled>,
    /// Entries with too few or too many holders.
    pub count_mismatches: Vec<CountMismatch>,
    /// The places of backends in the snapshot, by pid.
    pub(crate) backends: Numbered<Pid, usize>,
    /// The application groups of backends, by their places in the snapshot.
    pub(crate) groups: Vec<SharedText>,
    /// How many application groups connect from each client address, once somebody asks.
    pub(crate) applications_at: OnceLock<HashMap<SharedText, usize>>,
    /// The places of backends that are seen to work or to rest, for each database and role, once somebody asks.
    pub(crate) accounts: OnceLock<Accounts>,
    /// The places of prepared transactions in the snapshot, by virtualtransaction and by gid.
    pub(crate) prepared: Numbered<VirtualTransaction, usize>,
    pub(crate) gids: HashMap<String, usize>,
    /// Who queues for each key, longest wait first, then by pid.
    pub(crate) queues: Numbered<AdvisoryKey, Vec<Pid>>,
    /// Every holder, in ascending order.
    pub(crate) holders: Vec<Holdings>,
    /// Where each is there.
    pub(crate) places_of_holders: Numbered<HolderRef, usize>,
    /// The places of holds whose key is waited for, by mode and holder.
    pub(crate) waited_for: Numbered<AdvisoryKey, Vec<usize>>,
    /// The places of all holds by key, mode and holder, once somebody asks for a key that nobody waits for.
    pub(crate) by_key: OnceLock<Vec<(AdvisoryKey, LockMode, usize)>>,
    /// The places of holds whose key has a name.
    pub(crate) named: Vec<usize>,
    /// Waiters by the holder where their chain ends (advisory waits only).
    pub(crate) by_root: BTreeMap<HolderRef, Vec<Pid>>,
    /// Waiters by the cycle that their chain ends in (advisory waits only).
    pub(crate) by_cycle: Vec<Vec<Pid>>,
}

impl Observed {
    /// A backend of the snapshot.
    pub fn backend(&self, pid: Pid) -> Option<&Backend> {
        self.backends.get(&pid).map(|&place| &self.snapshot.backends[place])
    }

    /// The application group of a backend.
    pub fn group(&self, backend: &Backend) -> &str {
        self.backends.get(&backend.pid).map_or("", |&place| &self.groups[place])
    }

    /// The same, to be kept.
    pub fn shared_group(&self, backend: &Backend) -> SharedText {
        self.backends.get(&backend.pid).map(|&place| self.groups[place].clone()).unwrap_or_default()
    }

    /// How many application groups connect from this client address.
    pub fn applications_at(&self, address: &str) -> usize {
        let count = || applications_at(&self.snapshot.backends, &self.groups);
        self.applications_at.get_or_init(count).get(address).copied().unwrap_or_default()
    }

    /// Client sessions of the same database and role, itself among them: those in a transaction or a statement first,
    /// then the others, who rested last first. Without those whose state is not to be seen. Each with its application
    /// group.
    pub fn colleagues(&self, backend: &Backend) -> impl Iterator<Item = (&Backend, &str)> + '_ {
        let accounts = self.accounts.get_or_init(|| Accounts::of(&self.snapshot.backends));
        let places = self.backends.get(&backend.pid).map_or(&[][..], |&place| accounts.of_account(place));
        places.iter().map(|&place| (&self.snapshot.backends[place], &*self.groups[place]))
    }

    /// A prepared transaction of the snapshot.
    pub fn prepared(&self, id: VirtualTransaction) -> Option<&PreparedTransaction> {
        self.prepared.get(&id).map(|&place| &self.snapshot.prepared[place])
    }

    /// The prepared transaction of that gid.
    pub fn prepared_by_gid(&self, gid: &str) -> Option<&PreparedTransaction> {
        self.gids.get(gid).map(|&place| &self.snapshot.prepared[place])
    }

    /// Who queues for a key, longest wait first, then by pid.
    pub fn queue(&self, key: AdvisoryKey) -> &[Pid] {
        self.queues.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The pool of a backend whose clients take turns on it: a transaction or statement pool.
    pub fn shared_pool(&self, pid: Pid) -> Option<&Pooled> {
        self.pooled.get(&pid).filter(|pooled| pooled.pool_mode.is_shared())
    }

    /// The key of the hold at this place in `holds`, as a report shows it.
    pub fn reported_key(&self, place: usize) -> ReportedKey {
        let holdings = &self.holders[self.holders.partition_point(|holdings| holdings.places.end <= place)];
        ReportedKey::new(&holdings.keys, place - holdings.places.start)
    }

    /// The keys of all holds of a holder, as a report shows them: at most so many.
    pub fn reported_keys_of(&self, holder: HolderRef, at_most: usize) -> ReportedKeys {
        let holdings = self.holdings(holder);
        holdings.map(|holdings| ReportedKeys::first_of(&holdings.keys, at_most)).unwrap_or_default()
    }

    /// All holds of a key, by mode and holder.
    pub fn holds_on(&self, key: AdvisoryKey) -> impl Iterator<Item = &Hold> + Clone + '_ {
        self.places_on(key).map(|place| &self.holds[place])
    }

    /// The places of those in `holds`.
    pub fn places_on(&self, key: AdvisoryKey) -> impl Iterator<Item = usize> + Clone + '_ {
        let waited_for = self.waited_for.get(&key);
        let others = if waited_for.is_some() { &[] } else { self.others_on(key) };
        waited_for.into_iter().flatten().chain(others.iter().map(|(.., place)| place)).copied()
    }

    fn others_on(&self, key: AdvisoryKey) -> &[(AdvisoryKey, LockMode, usize)] {
        let by_key = self.by_key.get_or_init(|| {
            let holds = self.holds.iter().enumerate();
            let mut order: Vec<_> = holds.map(|(place, hold)| (hold.key, hold.mode, place)).collect();
            // They stand by holder: the place is the holder's order.
            order.sort_unstable();
            order
        });
        let start = by_key.partition_point(|(other, ..)| *other < key);
        let end = start + by_key[start..].partition_point(|(other, ..)| *other == key);
        &by_key[start..end]
    }

    /// A hold of this key: of the first of these sessions, else of anybody.
    pub fn hold_on(&self, key: AdvisoryKey, pids: &[Pid]) -> Option<&Hold> {
        let own = pids.first().map(|&pid| self.holds_of(HolderRef::Session(pid)).as_slice()).unwrap_or_default();
        let place = own.partition_point(|hold| hold.key < key);
        own.get(place).filter(|hold| hold.key == key).or_else(|| self.holds_on(key).next())
    }

    /// All holds whose key has a name, by holder, key and mode.
    pub fn named_holds(&self) -> impl Iterator<Item = &Hold> + '_ {
        self.named.iter().map(|&place| &self.holds[place])
    }

    /// All holds whose key is waited for, key by key: those of one key by mode and holder.
    pub fn waited_for(&self) -> impl Iterator<Item = &Hold> + '_ {
        self.waited_for.values().flatten().map(|&place| &self.holds[place])
    }

    /// All holders.
    pub fn holders(&self) -> impl Iterator<Item = HolderRef> + '_ {
        self.holders.iter().map(|holdings| holdings.holder)
    }

    /// All holds of a holder, by key and mode.
    pub fn holds_of(&self, holder: HolderRef) -> std::slice::Iter<'_, Hold> {
        self.holds[self.places_of(holder)].iter()
    }

    /// The places of all holds of a holder in `holds`.
    pub fn places_of(&self, holder: HolderRef) -> Range<usize> {
        self.holdings(holder).map_or(0..0, |holdings| holdings.places.clone())
    }

    /// The `[[holder]]` entries that cover a holder of a lock.
    pub fn entries_of(&self, holder: HolderRef) -> &[Arc<HolderEntry>] {
        self.holdings(holder).map_or(&[], |holdings| &holdings.entries)
    }

    fn holdings(&self, holder: HolderRef) -> Option<&Holdings> {
        self.places_of_holders.get(&holder).map(|&place| &self.holders[place])
    }

    /// Every session that waits for an advisory lock and whose chain ends at this holder.
    pub fn waiters_of(&self, root: HolderRef) -> &[Pid] {
        self.by_root.get(&root).map_or(&[], Vec::as_slice)
    }

    /// Every session that waits for an advisory lock and whose chain ends in this cycle, its members among them.
    pub fn waiters_of_cycle(&self, cycle: usize) -> &[Pid] {
        self.by_cycle.get(cycle).map_or(&[], Vec::as_slice)
    }

    /// How long a backend has been in its present state.
    pub fn state_for(&self, backend: &Backend) -> Option<Duration> {
        backend.state_change.map(|change| crate::model::age(self.snapshot.sampled_at, change))
    }
}
