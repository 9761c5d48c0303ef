//! The server itself and its prepared transactions.

use super::{Oid, SharedText, Time, VirtualTransaction};

/// What does not change from poll to poll, or seldom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `server_version`, as `15.18`; without what a packager appended.
    pub version: String,
    /// `server_version_num`, as 150018.
    pub version_num: u32,
    /// `pg_is_in_recovery()`
    pub in_recovery: bool,
    /// `pg_postmaster_start_time()`
    pub started_at: Time,
    /// `current_user` of our session.
    pub role: String,
    /// Superuser, or has `pg_read_all_stats`: sees the state of all sessions.
    pub sees_all_sessions: bool,
    /// Superuser, or has `pg_signal_backend`.
    pub can_signal: bool,
    /// `max_connections`
    pub max_connections: u32,
    /// `max_locks_per_transaction`
    pub max_locks_per_transaction: u32,
    /// `max_prepared_transactions`
    pub max_prepared_transactions: u32,
    /// All databases, by oid.
    pub databases: Vec<(Oid, SharedText)>,
}

impl Server {
    /// The name of a database; nothing for 0 (node-wide) and for one that was dropped meanwhile.
    pub fn database_name(&self, oid: Oid) -> Option<&SharedText> {
        self.databases.iter().find(|(known, _)| *known == oid).map(|(_, name)| name)
    }

    /// The nominal size of the shared lock table in locks ("Lock Management" in the manual, 19.12). The table can
    /// grow over it until the spare shared memory is used up.
    pub fn nominal_lock_slots(&self) -> u64 {
        u64::from(self.max_locks_per_transaction)
            * (u64::from(self.max_connections) + u64::from(self.max_prepared_transactions))
    }
}

/// One row of `pg_prepared_xacts` that holds an advisory lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedTransaction {
    /// transaction: its xid.
    pub transaction: u32,
    /// The virtualtransaction of its rows in `pg_locks`.
    pub virtualtransaction: VirtualTransaction,
    /// gid: a text that a stranger chose.
    pub gid: String,
    /// Since when it is prepared.
    pub prepared: Time,
    /// owner
    pub owner: String,
    /// database
    pub database: String,
}
