//! One row of `pg_locks`, and what identifies an advisory lock in it.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::{Oid, Pid, Time};

/// The three numbers of an advisory key as `pg_locks` shows them, without the database.
///
/// `objsubid` 1 is the one-bigint form (classid the high half, objid the low half), 2 the two-int4 form; any other
/// value belongs to an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyNumbers {
    /// `pg_locks.classid`
    pub classid: u32,
    /// `pg_locks.objid`
    pub objid: u32,
    /// `pg_locks.objsubid`
    pub objsubid: u16,
}

/// An advisory key: the numbers and the database they belong to. The same numbers in another database are
/// another lock. Database 0 is node-wide (Citus uses it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AdvisoryKey {
    /// `pg_locks.database`
    pub database: Oid,
    /// classid, objid and objsubid
    pub numbers: KeyNumbers,
}

/// In two steps instead of four: each lock is looked for by it.
impl Hash for AdvisoryKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let KeyNumbers { classid, objid, objsubid } = self.numbers;
        hasher.write_u64(u64::from(classid) << 32 | u64::from(objid));
        hasher.write_u64(u64::from(self.database) << 32 | u64::from(objsubid));
    }
}

impl KeyNumbers {
    /// Whether the key belongs to an extension: neither the bigint form nor the two-int4 form.
    pub fn is_extension(self) -> bool {
        !matches!(self.objsubid, 1 | 2)
    }
}

/// What a lock is on. Only advisory keys are looked into; any other object is known by its identity alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockObject {
    /// An advisory key.
    Advisory(AdvisoryKey),
    /// Any other object: `locktype` and its numbers, equal for equal objects.
    Other {
        /// `pg_locks.locktype`: relation, virtualxid, transactionid, tuple, ...
        locktype: String,
        /// The object's numbers in one text, only to be compared.
        identity: String,
    },
}

impl LockObject {
    /// The advisory key, if it is one.
    pub fn key(&self) -> Option<AdvisoryKey> {
        match self {
            Self::Advisory(key) => Some(*key),
            Self::Other { .. } => None,
        }
    }
}

/// A lock mode, as in PostgreSQL's "Table-Level Locks". Advisory functions take only `Exclusive` and `Share`;
/// extensions (Citus, TimescaleDB) use others too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LockMode {
    /// AccessShareLock
    AccessShare,
    /// RowShareLock
    RowShare,
    /// RowExclusiveLock
    RowExclusive,
    /// ShareUpdateExclusiveLock
    ShareUpdateExclusive,
    /// ShareLock
    Share,
    /// ShareRowExclusiveLock
    ShareRowExclusive,
    /// ExclusiveLock
    Exclusive,
    /// AccessExclusiveLock
    AccessExclusive,
}

impl LockMode {
    /// All modes, weakest first.
    pub const ALL: [Self; 8] = [
        Self::AccessShare,
        Self::RowShare,
        Self::RowExclusive,
        Self::ShareUpdateExclusive,
        Self::Share,
        Self::ShareRowExclusive,
        Self::Exclusive,
        Self::AccessExclusive,
    ];

    /// The name that `pg_locks.mode` shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::AccessShare => "AccessShareLock",
            Self::RowShare => "RowShareLock",
            Self::RowExclusive => "RowExclusiveLock",
            Self::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
            Self::Share => "ShareLock",
            Self::ShareRowExclusive => "ShareRowExclusiveLock",
            Self::Exclusive => "ExclusiveLock",
            Self::AccessExclusive => "AccessExclusiveLock",
        }
    }

    /// The mode of that name, or nothing for a mode that never blocks (`SIReadLock`) or is unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether the two modes conflict: table "Conflicting Lock Modes" of PostgreSQL's manual, section 13.3.1.
    pub fn conflicts_with(self, other: Self) -> bool {
        use LockMode::{
            AccessExclusive, AccessShare, Exclusive, RowExclusive, RowShare, Share, ShareRowExclusive,
            ShareUpdateExclusive,
        };
        match self {
            AccessShare => other == AccessExclusive,
            RowShare => other >= Exclusive,
            RowExclusive => other >= Share,
            ShareUpdateExclusive => other >= ShareUpdateExclusive,
            Share => !matches!(other, AccessShare | RowShare | Share),
            ShareRowExclusive => other >= RowExclusive,
            Exclusive => other != AccessShare,
            AccessExclusive => true,
        }
    }
}

/// Who has or wants a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockOwner {
    /// A backend, by pid.
    Backend(Pid),
    /// A prepared transaction: `pg_locks.pid` is NULL, its virtualtransaction leads to `pg_prepared_xacts`.
    Prepared(VirtualTransaction),
}

/// `pg_locks.virtualtransaction`, as in `7/1234`. Local id 0 on a granted row: the backend was in no transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualTransaction {
    /// The backend's slot number; negative for a prepared transaction.
    pub backend: i32,
    /// The local transaction id.
    pub local: u32,
}

/// One row of `pg_locks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    /// What the lock is on.
    pub object: LockObject,
    /// The mode held or wanted.
    pub mode: LockMode,
    /// Held (true) or waited for.
    pub granted: bool,
    /// Who has or wants it.
    pub owner: LockOwner,
    /// The owner's virtual transaction at that instant.
    pub virtualtransaction: VirtualTransaction,
    /// Since when it waits: PostgreSQL 14 and later; NULL there, in a waiting row, means just now.
    pub waitstart: Option<Time>,
}
