//! A lock, its holder and who queues for it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::{HeldFor, Shared};
use crate::keys::key::KeyText;
use crate::keys::{Kind, Name, Source};
use crate::model::{KeyNumbers, LockMode, Pid, PoolMode, SharedText, Time};

/// Key and names of a lock.
#[derive(Debug, Clone)]
pub struct KeyReport {
    /// Key text.
    pub text: KeyText,
    /// The numbers.
    pub numbers: KeyNumbers,
    /// The database's name; nothing for node-wide keys.
    pub database: Option<SharedText>,
    /// The names it has.
    pub names: Shared<NameReport>,
}

impl KeyReport {
    /// A key of the database of this name.
    pub fn new(numbers: KeyNumbers, database: Option<SharedText>, names: &[Name]) -> Self {
        Self { text: KeyText::of(numbers), numbers, database, names: names.iter().map(NameReport::of).collect() }
    }
}

/// A key of a lock: one of a list that all locks of its holder share.
#[derive(Debug, Clone)]
pub struct ReportedKey {
    keys: Arc<Vec<KeyReport>>,
    place: usize,
}

impl ReportedKey {
    /// The key at this place of its holder's list.
    pub fn new(keys: &Arc<Vec<KeyReport>>, place: usize) -> Self {
        Self { keys: Arc::clone(keys), place }
    }

    /// The same, without the rest of the list: to be kept for long.
    #[must_use]
    pub fn alone(&self) -> Self {
        (**self).clone().into()
    }

    /// Whether both are the same place of the same list.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys) && self.place == other.place
    }
}

impl Deref for ReportedKey {
    type Target = KeyReport;

    fn deref(&self) -> &KeyReport {
        &self.keys[self.place]
    }
}

impl From<KeyReport> for ReportedKey {
    fn from(key: KeyReport) -> Self {
        Self { keys: Arc::new(vec![key]), place: 0 }
    }
}

/// The keys of a finding: the first of a list that the locks of one holder share, or one by one.
#[derive(Debug, Clone)]
pub struct ReportedKeys(Listed);

#[derive(Debug, Clone)]
enum Listed {
    First(Arc<Vec<KeyReport>>, usize),
    Each(Vec<ReportedKey>),
}

impl ReportedKeys {
    /// The first of this list, at most so many.
    pub fn first_of(keys: &Arc<Vec<KeyReport>>, at_most: usize) -> Self {
        Self(Listed::First(Arc::clone(keys), at_most.min(keys.len())))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Listed::First(_, count) => *count,
            Listed::Each(keys) => keys.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key at this place.
    pub fn get(&self, place: usize) -> Option<&KeyReport> {
        match &self.0 {
            Listed::First(keys, count) => keys[..*count].get(place),
            Listed::Each(keys) => keys.get(place).map(|key| &**key),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &KeyReport> + Clone {
        let (first, each) = match &self.0 {
            Listed::First(keys, count) => (&keys[..*count], &[][..]),
            Listed::Each(keys) => (&[][..], keys.as_slice()),
        };
        first.iter().chain(each.iter().map(|key| &**key))
    }
}

impl Default for ReportedKeys {
    fn default() -> Self {
        Self(Listed::Each(Vec::new()))
    }
}

impl FromIterator<ReportedKey> for ReportedKeys {
    fn from_iter<I: IntoIterator<Item = ReportedKey>>(keys: I) -> Self {
        Self(Listed::Each(keys.into_iter().collect()))
    }
}

/// One name of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameReport {
    /// The bare name.
    pub name: String,
    /// The name as people read it.
    pub label: String,
    /// Dictionary or well-known.
    pub source: Source,
    /// What the lock is for.
    pub kind: Kind,
    /// Module or service.
    pub owner: Option<String>,
    /// Team.
    pub team: Option<String>,
    /// Where to ask.
    pub contact: Option<String>,
    /// Free text.
    pub note: Option<String>,
    /// A link for on-call.
    pub runbook: Option<String>,
    /// A built-in name that only circumstances speak for.
    pub may_be: bool,
}

impl NameReport {
    fn of(name: &Name) -> Self {
        let entry = name.entry.as_ref();
        Self {
            name: name.name.clone(),
            label: name.label.clone(),
            source: name.source,
            kind: name.kind,
            owner: entry.and_then(|entry| entry.owner.clone()),
            team: entry.and_then(|entry| entry.team.clone()),
            contact: entry.and_then(|entry| entry.contact.clone()),
            note: name.note.clone(),
            runbook: entry.and_then(|entry| entry.runbook.clone()),
            may_be: name.may_be,
        }
    }
}

/// What is known of a lock's scope: `pg_locks` does not store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HoldScope {
    /// Proved: session.
    Session,
    /// A prepared transaction's.
    Transaction,
    /// Not proved.
    #[default]
    Unknown,
}

impl HoldScope {
    /// The name in JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Unknown => "unknown",
        }
    }
}

/// One granted advisory row.
#[derive(Debug, Clone)]
pub struct LockReport {
    /// Key and names.
    pub key: ReportedKey,
    /// The mode.
    pub mode: LockMode,
    /// Declared to be held for long.
    pub hold_expected: bool,
    /// What polls have taught of it; shared by the locks of one holder that have the same past.
    pub past: Arc<Past>,
    /// Who holds it; shared by all locks of one holder.
    pub holder: Arc<HolderReport>,
    /// Who queues for exactly this key, longest first; shared by all locks of the key.
    pub waiters: Shared<WaiterReport>,
    /// Rules that name this lock; shared by all locks that the same rules name.
    pub rules: Shared<&'static str>,
}

/// What polls have taught of a lock that is held. Locks that a session took between the same two polls mostly have the
/// same past.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Past {
    /// What is known of its scope.
    pub scope: HoldScope,
    /// How long it has been held.
    pub held: HeldFor,
    /// For how long polls have proved it unbroken, by our own clock.
    pub unbroken: Duration,
    /// In the unbroken hold, the backend ended a statement that began after the hold was first seen.
    pub ended_other_statement: bool,
    /// How many names of applications its session has had in the polls that saw the lock; digits are no difference.
    pub applications: usize,
    /// What polls have seen of it, broken or not, since its session last ran a session-level advisory function.
    pub quiet: Quiet,
    /// Whether the row's local transaction id is 0 in this poll.
    pub local_zero: bool,
    /// Which statement was current when it first appeared; nothing in a single look.
    pub first_seen: Option<FirstSeen>,
}

/// A run of polls that all saw a lock, in none of which the session's statement named a session-level advisory lock
/// function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quiet {
    /// From the first poll of the run to this one.
    pub lasted: Duration,
    /// How many polls.
    pub polls: u64,
    /// In one of them the lock was proved to be session scope.
    pub session_scope: bool,
}

/// Which statement was current when a lock first appeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstSeen {
    /// The server's clock at that poll.
    pub at: Time,
    /// The statement.
    pub query: Option<Arc<str>>,
    /// It was running or had just ended: it took the lock.
    pub certain: bool,
}

/// A session or a prepared transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderReport {
    /// The backend; nothing for a prepared transaction.
    pub pid: Option<Pid>,
    /// The prepared transaction's gid.
    pub gid: Option<String>,
    /// As `client backend`.
    pub backend_type: Option<SharedText>,
    /// When it connected.
    pub backend_start: Option<Time>,
    /// The role.
    pub user: Option<SharedText>,
    /// The raw `application_name`.
    pub application: Option<SharedText>,
    /// Address.
    pub client_addr: Option<SharedText>,
    /// Port.
    pub client_port: Option<i32>,
    /// As `idle in transaction`.
    pub state: Option<&'static str>,
    /// How long in that state.
    pub state_for: Option<Duration>,
    /// How long in its transaction.
    pub transaction_for: Option<Duration>,
    /// The current or last statement: not the one that took the lock.
    pub query: Option<Arc<str>>,
    /// The application group, as pools and labels have it; empty for a prepared transaction.
    pub application_group: SharedText,
    /// Idle outside a transaction for at least the idle threshold.
    pub long_idle: bool,
    /// The pool of PgBouncer that it serves.
    pub pooler: Option<HolderPooler>,
}

/// The pool of PgBouncer that a backend serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderPooler {
    /// PgBouncer's own name of the database.
    pub database: String,
    /// When a client gives the backend back.
    pub pool_mode: PoolMode,
    /// A client has it now.
    pub linked: bool,
}

/// One session that queues for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaiterReport {
    /// The backend.
    pub pid: Pid,
    /// How long it has waited.
    pub waited: Waited,
    /// As `ExclusiveLock`.
    pub mode: &'static str,
    /// Holders in a conflicting mode, and the waiter ahead of it.
    pub blocked_by: Vec<Pid>,
    /// The role.
    pub user: Option<SharedText>,
    /// The raw `application_name`.
    pub application: Option<SharedText>,
    /// Address.
    pub client_addr: Option<SharedText>,
    /// As `client backend`.
    pub backend_type: Option<SharedText>,
}

/// How long a session has waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waited {
    /// The time.
    pub duration: Duration,
    /// It is an upper bound (PostgreSQL 12 and 13, a wait that was there at the first poll): printed `<= 12s`.
    pub upper_bound: bool,
    /// Nothing is known of it but that it waits: before PostgreSQL 14, at the first poll, by a role that may not see
    /// when the statement began. The time is zero then.
    pub unknown: bool,
}
