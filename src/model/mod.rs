//! Plain data in PostgreSQL's own words: what one poll of one server saw.
//!
//! This module knows shapes and nothing else: no rule, no text for people, and it must never read a clock, a
//! file, the environment or a socket. All times in it are the server's own (`clock_timestamp()`), but for
//! [`Snapshot::monotonic`], which is this process's monotonic clock.

mod backend;
mod lease;
mod lock;
mod locks;
mod pooler;
mod server;
mod snapshot;
mod statements;
#[cfg(test)]
pub(crate) mod testing;
mod text;

pub use backend::{Backend, BackendState};
pub use lease::{Lease, LeaseProblem, LeaseRead, LeaseTable, Leases};
pub use lock::{AdvisoryKey, KeyNumbers, LockMode, LockObject, LockOwner, LockRow, VirtualTransaction};
pub use locks::{Held, Locks};
pub use pooler::{PoolMode, Pooler, PoolerClient, PoolerSaid, PoolerServer};
pub use server::{PreparedTransaction, Server};
pub use snapshot::Snapshot;
pub use statements::{ServerFacts, Setting, StatementRow};
pub use text::{SharedText, Texts};

use std::time::Duration;

/// A moment on the server's clock, to the microsecond, in UTC.
pub type Time = chrono::DateTime<chrono::Utc>;

/// An object identifier, as PostgreSQL's `oid`.
pub type Oid = u32;

/// A backend's process number, as PostgreSQL's `pid`.
pub type Pid = i32;

/// How long before `now` the moment `then` was. Never negative: a moment in the future is zero ago.
pub fn age(now: Time, then: Time) -> Duration {
    (now - then).to_std().unwrap_or_default()
}
