//! The Report: all that any front end shows. It mirrors the JSON of `check --format json`.

mod advice;
mod finding;
mod guard;
mod lease;
mod lock;
mod shared;

use std::time::Duration;

use crate::model::{Pid, SharedText, Time};

pub use advice::{Action, Advice, Adviser, LateAdvice, VERIFY};
pub use finding::{Finding, Severity};
pub use guard::{GuardReport, HowLeft, LeftBehind};
pub use lease::{LeaseReport, LeaseSubject, LeaseTableReport};
pub use lock::{
    FirstSeen, HoldScope, HolderPooler, HolderReport, KeyReport, LockReport, NameReport, Past, Quiet, ReportedKey,
    ReportedKeys, Waited, WaiterReport,
};
pub use shared::Shared;

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
    /// The lease tables that the config names.
    pub leases: Vec<LeaseTableReport>,
    /// Findings, worst first. Silenced ones are here too.
    pub findings: Vec<Finding>,
    /// Totals.
    pub counts: Counts,
    /// Waiting sessions, and whoever their chains end at: for the tree of waits.
    pub waits: Vec<WaitReport>,
    /// The text of the key that the report was narrowed to: everything else is left out.
    pub only_key: Option<String>,
    /// Findings of the poll before that are none any more.
    pub ended: Vec<Ended>,
    /// The PgBouncers of the target.
    pub poolers: Vec<PoolerReport>,
    /// Our own connection goes through a pooler.
    pub behind_pooler: bool,
}

/// A PgBouncer that was asked beside the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolerReport {
    /// host:port of its console, as written.
    pub name: String,
    /// As `1.18.0`.
    pub version: Option<String>,
    /// Why it could not be asked; nothing of what it said before is used then.
    pub problem: Option<String>,
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
            leases: Vec::new(),
            findings: Vec::new(),
            counts: Counts::default(),
            waits: Vec::new(),
            only_key: None,
            ended: Vec::new(),
            poolers: Vec::new(),
            behind_pooler: false,
        }
    }

    /// What to know about how the target was looked at, one sentence each: a PgBouncer that could not be asked, and a
    /// pooler between us and the server.
    pub fn notes(&self) -> Vec<String> {
        let problems = self.poolers.iter().filter_map(|pooler| pooler.problem.as_ref());
        let mut notes: Vec<String> =
            problems.map(|why| format!("{why}; which sessions it lends to clients is not known.")).collect();
        if self.behind_pooler {
            notes.push(
                "We look through a pooler ourselves: name the server directly, for a pooler may lead to another server, \
                 and makes us wait for a free connection."
                    .to_owned(),
            );
        }
        notes
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
    /// Since the last poll it was restarted, or recovered from a crash of one of its processes.
    pub restarted: bool,
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

/// A client pool: sessions that share database, user, application group and client address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolReport {
    /// datname
    pub database: Option<SharedText>,
    /// usename
    pub user: Option<SharedText>,
    /// The application group.
    pub application: SharedText,
    /// `client_addr`
    pub client_addr: Option<SharedText>,
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
