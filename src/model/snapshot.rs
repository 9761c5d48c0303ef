//! What one poll saw.

use std::time::Duration;

use super::{Backend, LeaseRead, Locks, Pid, Pooler, PreparedTransaction, Server, Time};

/// One poll of one server. Locks were read first, sessions after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The server's clock just before the locks were read.
    pub before_locks: Time,
    /// The server's clock after the locks were read: all ages are counted to here.
    pub sampled_at: Time,
    /// This process's monotonic clock when the poll began, counted from an arbitrary start.
    pub monotonic: Duration,
    /// How long the poll took, from sending to the last row.
    pub poll_duration: Duration,
    /// All advisory rows, all rows that are waited for, and the rows of whoever holds what is waited for.
    pub locks: Locks,
    /// All backends. Our own only if advisory locks are held on it, which are not ours: see [`Backend::lent_to_us`].
    pub backends: Vec<Backend>,
    /// The prepared transactions that own rows in `locks`.
    pub prepared: Vec<PreparedTransaction>,
    /// The server.
    pub server: Server,
    /// Our own backend.
    pub own_pid: Pid,
    /// Our own connection goes through a pooler: it was given a backend that was there before it, or another one than
    /// before.
    pub behind_pooler: bool,
    /// What the target's PgBouncers said at the same time.
    pub poolers: Vec<Pooler>,
    /// The server answered 53200 (shared lock table full) to the usual questions, and this was read by the
    /// last-resort query: names may be missing.
    pub lock_table_full: bool,
    /// The lease tables that were asked for, in that order.
    pub leases: Vec<LeaseRead>,
}
