//! The Report: all that any front end shows. It mirrors the JSON of `check --format json`.

use std::sync::Arc;
use std::time::Duration;

use crate::keys::{Kind, Source};
use crate::model::{KeyNumbers, Pid, Time};

/// How bad a finding is. The order is that of urgency: the greatest is the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing, counts as nothing.
    Info,
    /// Could not be judged.
    Unknown,
    /// Act in working hours.
    Warning,
    /// Act now.
    Critical,
}

impl Severity {
    /// All severities, worst first.
    pub const WORST_FIRST: [Self; 4] = [Self::Critical, Self::Warning, Self::Unknown, Self::Info];

    /// The name in JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A hold's length: PostgreSQL keeps no grant time, so two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldFor {
    /// Surely at least this long.
    pub at_least: Duration,
    /// Surely not longer than this; unknown for a prepared transaction and for a hidden session.
    pub at_most: Option<Duration>,
}

/// Which error kept a target from being looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No connection: refused, unknown host, too many clients, ...
    Connect,
    /// Password, role or database refused.
    Auth,
    /// TLS handshake or certificate.
    Tls,
    /// No answer within the deadline.
    Timeout,
    /// 53200: the shared lock table is full.
    LockTableFull,
    /// The server refused a query.
    Query,
    /// The target's own settings cannot be used.
    Config,
}

impl FailureKind {
    /// The name in JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Auth => "auth",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::LockTableFull => "lock_table_full",
            Self::Query => "query",
            Self::Config => "config",
        }
    }
}

/// Why a target could not be looked at, in one plain sentence, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which kind of failure.
    pub kind: FailureKind,
    /// One sentence; never a password, never a DSN.
    pub message: String,
    /// What to do about it: zero or more sentences.
    pub hints: Vec<String>,
}

/// Everything about one target at one moment.
#[derive(Debug, Clone)]
pub struct TargetReport {
    /// The target's name.
    pub target: String,
    /// Why it could not be looked at; then `server` is nothing and the lists are empty.
    pub failure: Option<Failure>,
    /// The server.
    pub server: Option<ServerReport>,
    /// The server's clock at this poll.
    pub sampled_at: Option<Time>,
    /// How many polls there were.
    pub polls: u64,
    /// How long has been observed, from the first poll to this one.
    pub observed: Duration,
    /// How long this poll took.
    pub poll_duration: Duration,
    /// Every granted advisory row.
    pub locks: Vec<LockReport>,
    /// Pools that have sessions, those with locks first.
    pub pools: Vec<PoolReport>,
    /// Findings, worst first. Silenced ones are here too.
    pub findings: Vec<Finding>,
    /// Totals.
    pub counts: Counts,
    /// Waiting sessions, and whoever their chains end at: for the tree of waits.
    pub waits: Vec<WaitReport>,
    /// Findings of the poll before that are none any more.
    pub ended: Vec<Ended>,
}

/// A finding that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The finding's id.
    pub id: String,
    /// How it ended.
    pub how: Ending,
}

/// How a finding ended, as far as the next poll could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Its sessions live on and no longer hold its keys.
    Unlocked,
    /// Its sessions are gone.
    SessionEnded,
    /// The transaction that held is over: committed, rolled back, or a prepared transaction finished.
    TransactionEnded,
    /// Another start of the postmaster: a restart or a failover, with which all advisory locks are gone.
    ServerRestarted,
    /// The situation is no longer to be seen, though the locks may be there: the session works again, say.
    Unseen,
}

impl Ending {
    /// The words of the event log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unlocked => "unlocked",
            Self::SessionEnded => "session ended",
            Self::TransactionEnded => "transaction ended",
            Self::ServerRestarted => "server restarted",
            Self::Unseen => "unseen",
        }
    }
}

impl TargetReport {
    /// A report of a target that could not be looked at.
    pub fn failed(target: String, failure: Failure) -> Self {
        Self {
            target,
            failure: Some(failure),
            server: None,
            sampled_at: None,
            polls: 0,
            observed: Duration::ZERO,
            poll_duration: Duration::ZERO,
            locks: Vec::new(),
            pools: Vec::new(),
            findings: Vec::new(),
            counts: Counts::default(),
            waits: Vec::new(),
            ended: Vec::new(),
        }
    }
}

/// The server in a report.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerReport {
    /// As `15.18`.
    pub version: String,
    /// In recovery: a standby.
    pub in_recovery: bool,
    /// Start of the postmaster.
    pub started_at: Time,
    /// Our role.
    pub role: String,
    /// Our role sees the state of all sessions.
    pub sees_all_sessions: bool,
    /// Our role may signal other roles' sessions.
    pub can_signal: bool,
    /// Advisory locks against the nominal lock table.
    pub lock_table_ratio: f64,
    /// Holders whose state we may not see.
    pub hidden_holders: usize,
}

/// Totals of one target. Never cut, whatever happens to the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Granted advisory locks (rows).
    pub locks: usize,
    /// Distinct sessions and prepared transactions that hold one.
    pub holders: usize,
    /// Sessions that wait for an advisory lock.
    pub waiters: usize,
    /// Advisory locks held by sessions idle for at least the threshold.
    pub idle_held: usize,
    /// Holders whose every lock is expected.
    pub expected_holders: usize,
    /// The longest wait for an advisory lock.
    pub longest_wait: Duration,
}

/// Key and names of a lock.
#[derive(Debug, Clone)]
pub struct KeyReport {
    /// Key text.
    pub text: String,
    /// The numbers.
    pub numbers: KeyNumbers,
    /// The database's name; nothing for node-wide keys.
    pub database: Option<String>,
    /// The names it has.
    pub names: Vec<NameReport>,
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

/// Session, transaction, or unknown: `pg_locks` does not store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScopeReport {
    /// Proved to be session scope.
    Session,
    /// A prepared transaction's.
    Transaction,
    /// Everything else.
    Unknown,
}

impl ScopeReport {
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
    pub key: KeyReport,
    /// As `ExclusiveLock`.
    pub mode: &'static str,
    /// What is known of its scope.
    pub scope: ScopeReport,
    /// Declared to be held for long.
    pub hold_expected: bool,
    /// How long it has been held.
    pub held: HeldFor,
    /// The statement that was current when the lock first appeared.
    pub first_seen: Option<FirstSeen>,
    /// Who holds it; shared by all locks of one holder.
    pub holder: Arc<HolderReport>,
    /// Who queues for exactly this key, longest first.
    pub waiters: Vec<WaiterReport>,
    /// Rules that name this lock.
    pub rules: Vec<&'static str>,
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
    pub backend_type: Option<String>,
    /// When it connected.
    pub backend_start: Option<Time>,
    /// The role.
    pub user: Option<String>,
    /// The raw `application_name`.
    pub application: Option<String>,
    /// Address.
    pub client_addr: Option<String>,
    /// Port.
    pub client_port: Option<i32>,
    /// As `idle in transaction`.
    pub state: Option<&'static str>,
    /// How long in that state.
    pub state_for: Option<Duration>,
    /// How long in its transaction.
    pub transaction_for: Option<Duration>,
    /// The current or last statement: not the one that took the lock.
    pub query: Option<String>,
    /// The application group, as pools and labels have it; empty for a prepared transaction.
    pub application_group: String,
    /// Idle outside a transaction for at least the idle threshold.
    pub long_idle: bool,
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
    pub user: Option<String>,
    /// The raw `application_name`.
    pub application: Option<String>,
    /// Address.
    pub client_addr: Option<String>,
    /// As `client backend`.
    pub backend_type: Option<String>,
}

/// How long a session has waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waited {
    /// The time.
    pub duration: Duration,
    /// It is an upper bound (PostgreSQL 12 and 13, a wait that was there at the first poll): printed `<= 12s`.
    pub upper_bound: bool,
}

/// A client pool: sessions that share database, user, application group and client address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolReport {
    /// datname
    pub database: Option<String>,
    /// usename
    pub user: Option<String>,
    /// The application group.
    pub application: String,
    /// `client_addr`
    pub client_addr: Option<String>,
    /// All its sessions.
    pub sessions: usize,
    /// Running a statement.
    pub active: usize,
    /// Idle outside a transaction.
    pub idle: usize,
    /// Idle in a transaction, aborted or not.
    pub idle_in_transaction: usize,
    /// Holding an advisory lock.
    pub holding: usize,
    /// Waiting for an advisory lock.
    pub waiting: usize,
}

/// One session in the tree of waits, of whichever kind of lock, and what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitReport {
    /// The waiting backend.
    pub pid: Pid,
    /// What it waits for, as `612001` or `relation`.
    pub object: String,
    /// Whether that is an advisory key.
    pub advisory: bool,
    /// As `ExclusiveLock`.
    pub mode: &'static str,
    /// How long.
    pub waited: Waited,
    /// Who blocks it directly; a prepared transaction has no pid.
    pub blocked_by: Vec<Pid>,
    /// Where its chain ends.
    pub roots: Vec<Pid>,
}

/// What a person may do about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// End the session, guarded.
    Terminate,
    /// Cancel a waiter, guarded.
    CancelWaiter,
    /// Ask the transaction manager, then finish the prepared transaction.
    FinishPrepared,
    /// Let the pooler reconnect.
    ReconnectPooler,
    /// Grant our role what it needs.
    Grant,
    /// Mend the dictionary.
    FixDictionary,
    /// Look first: it may be work.
    Investigate,
    /// Nothing to do.
    None,
}

impl Action {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::CancelWaiter => "cancel-waiter",
            Self::FinishPrepared => "finish-prepared",
            Self::ReconnectPooler => "reconnect-pooler",
            Self::Grant => "grant",
            Self::FixDictionary => "fix-dictionary",
            Self::Investigate => "investigate",
            Self::None => "none",
        }
    }
}

/// What to do about a finding, in words and as a statement that a person may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Which kind of thing to do.
    pub action: Action,
    /// In this order, one sentence each.
    pub steps: Vec<String>,
    /// One statement, guarded: it does nothing once the situation has changed.
    pub sql: Option<String>,
    /// What to know before.
    pub caveats: Vec<String>,
    /// How to prevent it.
    pub prevent: Vec<String>,
}

/// One finding.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Stable while the situation lasts.
    pub id: String,
    /// The first poll that showed it; nothing in a single look.
    pub since: Option<Time>,
    /// The reason of the `[[silence]]` that covers it.
    pub silenced: Option<String>,
    /// The rule's name.
    pub rule: &'static str,
    /// How bad.
    pub severity: Severity,
    /// One sentence.
    pub summary: String,
    /// Evidence, one sentence each.
    pub detail: Vec<String>,
    /// Key texts, at most 1,000.
    pub keys: Vec<String>,
    /// The keys again, with names, as many as `keys`.
    pub key_reports: Vec<KeyReport>,
    /// How many keys there are.
    pub key_count: usize,
    /// The keys' database, where it is one.
    pub database: Option<String>,
    /// The subject's own sessions.
    pub pids: Vec<Pid>,
    /// The prepared transaction.
    pub gid: Option<String>,
    /// Who waits: chains that end at the subject.
    pub waiters: Vec<Pid>,
    /// The longest of them.
    pub longest_wait: Option<Waited>,
    /// How long the keys have been held: the longest.
    pub held: Option<HeldFor>,
    /// What to do.
    pub advice: Advice,
}
