//! From the rows of the locks' statement to the locks of the snapshot.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::SimpleQueryRow;

use super::{Cells, RowError};
use crate::model::{
    AdvisoryKey, KeyNumbers, LockMode, LockObject, LockOwner, LockRow, Locks, Oid, Pid, VirtualTransaction,
};

/// The rows of the locks' statement.
#[derive(Debug, Default)]
pub(crate) struct LockRows {
    /// The locks of the snapshot.
    pub rows: Locks,
    /// Xids of prepared transactions, by the virtualtransaction that owns their locks.
    pub prepared: BTreeMap<VirtualTransaction, u32>,
    /// Somebody waits for something that is no advisory lock.
    pub others: bool,
}

impl LockRows {
    /// The backends that hold or wait.
    pub(crate) fn pids(&self) -> BTreeSet<Pid> {
        let mut pids = BTreeSet::new();
        // The locks of one backend mostly stand side by side.
        let mut last = None;
        for owner in self.rows.owners() {
            if let LockOwner::Backend(pid) = owner
                && last.replace(pid) != Some(pid)
            {
                pids.insert(pid);
            }
        }
        pids
    }

    /// Reads one row.
    pub(crate) fn read(&mut self, row: &SimpleQueryRow) -> Result<(), RowError> {
        let cells = Cells { row, set: "locks" };
        if let (None, Some(xid), true) = (cells.text(0)?, own_xid(&cells)?, cells.flag(3)?) {
            self.prepared.insert(id(&cells)?, xid);
        }
        locks_of_row(&cells, &mut self.rows)
    }

    /// When all rows are read. The rows on prepared transactions' own xids only lead to their names: they, and relations'
    /// rows, are locks of the snapshot only where somebody waits for the object.
    pub(crate) fn complete(&mut self) {
        let other = |lock: &&LockRow| !lock.granted && matches!(lock.object, LockObject::Other { .. });
        let waited: BTreeSet<LockObject> =
            self.rows.others().iter().filter(other).map(|lock| lock.object.clone()).collect();
        self.rows.retain_others(|lock| matches!(lock.object, LockObject::Advisory(_)) || waited.contains(&lock.object));
        self.others = !waited.is_empty();
    }
}

/// The xid, if the row is on a transaction's id.
fn own_xid(cells: &Cells<'_>) -> Result<Option<u32>, RowError> {
    let identity = cells.text(6)?.and_then(|identity| identity.strip_prefix("transactionid/"));
    identity.map(|xid| xid.parse().map_err(|_| cells.error(6))).transpose()
}

/// The locks that one row stands for; none for a mode that never blocks.
fn locks_of_row(cells: &Cells<'_>, locks: &mut Locks) -> Result<(), RowError> {
    let Some(mode) = LockMode::from_name(cells.needed(2)?) else { return Ok(()) };
    let virtualtransaction = id(cells)?;
    let granted = cells.flag(3)?;
    let owner = cells.parsed(0)?.map_or(LockOwner::Prepared(virtualtransaction), LockOwner::Backend);
    let waitstart = cells.time(7)?;
    let row = |object| LockRow { object, mode, granted, owner, virtualtransaction, waitstart };
    match cells.text(6)? {
        None => {
            let database = cells.number(4)?;
            // int2 on the server, which shows it signed.
            let objsubid = cells.number::<i16>(5)?.cast_unsigned();
            // A hoard comes as one row: to grow step by step would be to copy most of it several times.
            locks.reserve(1 + cells.needed(8)?.matches(',').count());
            for number in numbers(cells)? {
                let number = number?;
                let numbers = KeyNumbers { classid: high(number), objid: low(number), objsubid };
                locks.push(row(LockObject::Advisory(AdvisoryKey { database, numbers })));
            }
        }
        Some("relation") => {
            let database: Oid = cells.number(4)?;
            for relation in numbers(cells)? {
                locks.push(row(other("relation", format!("{database}/{}", relation?))));
            }
        }
        Some(identity) => {
            let (locktype, identity) = identity.split_once('/').ok_or_else(|| cells.error(6))?;
            locks.push(row(other(locktype, identity.to_owned())));
        }
    }
    Ok(())
}

fn other(locktype: &str, identity: String) -> LockObject {
    LockObject::Other { locktype: locktype.to_owned(), identity }
}

#[allow(clippy::cast_possible_truncation, reason = "the halves of a 64-bit number")]
fn high(number: i64) -> u32 {
    (number.cast_unsigned() >> 32) as u32
}

#[allow(clippy::cast_possible_truncation, reason = "the halves of a 64-bit number")]
fn low(number: i64) -> u32 {
    number.cast_unsigned() as u32
}

/// A bigint, or an array of them as PostgreSQL writes it: `{1,-2}`.
fn numbers<'a>(cells: &Cells<'a>) -> Result<impl Iterator<Item = Result<i64, RowError>> + use<'a>, RowError> {
    let text = cells.needed(8)?;
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let error = cells.set;
    Ok(inner.split(',').map(move |number| number.parse().map_err(|_| RowError::Column { set: error, column: 8 })))
}

/// The virtualtransaction of a lock.
fn id(cells: &Cells<'_>) -> Result<VirtualTransaction, RowError> {
    virtual_transaction(cells.needed(1)?).ok_or_else(|| cells.error(1))
}

/// `7/1234`, and for a prepared transaction `-1/1234`.
fn virtual_transaction(text: &str) -> Option<VirtualTransaction> {
    let (backend, local) = text.rsplit_once('/')?;
    Some(VirtualTransaction { backend: backend.parse().ok()?, local: local.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_transactions_of_backends_and_of_prepared_transactions() {
        let id = |backend, local| Some(VirtualTransaction { backend, local });
        assert_eq!(virtual_transaction("7/0"), id(7, 0));
        assert_eq!(virtual_transaction("-1/4000000000"), id(-1, 4_000_000_000));
        assert_eq!(virtual_transaction("7"), None);
        assert_eq!(virtual_transaction("/1"), None);
    }
}
