//! From the rows of the locks' statement to the locks of the snapshot.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::SimpleQueryRow;

use super::{Cells, RowError, time};
use crate::model::{
    AdvisoryKey, KeyNumbers, LockMode, LockObject, LockOwner, LockRow, Locks, Oid, Pid, Time, VirtualTransaction,
};
use crate::pg::hoards::{Group, Hoards, Seen};

/// The rows of the locks' statement.
#[derive(Debug, Default)]
pub(crate) struct LockRows {
    /// The locks of the snapshot.
    pub rows: Locks,
    /// Xids of prepared transactions, by the virtualtransaction that owns their locks.
    pub prepared: BTreeMap<VirtualTransaction, u32>,
    /// Somebody waits for something that is no advisory lock.
    pub others: bool,
    /// What the answer teaches of sessions with very many locks.
    pub seen: Seen,
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

    /// Reads one row. The keys of some may be `known`.
    pub(crate) fn read(&mut self, row: &SimpleQueryRow, known: &Hoards) -> Result<(), RowError> {
        let cells = Cells { row, set: "locks" };
        let label = Label::of(&cells)?;
        if let (None, Some(xid), true) = (cells.text(PID)?, label.own_xid(&cells)?, label.granted) {
            self.prepared.insert(id(&cells)?, xid);
        }
        // A mode that never blocks.
        let Some(mode) = LockMode::from_name(label.mode) else { return Ok(()) };
        let virtualtransaction = id(&cells)?;
        let owner = cells.parsed(PID)?.map_or(LockOwner::Prepared(virtualtransaction), LockOwner::Backend);
        let row = |object| LockRow {
            object,
            mode,
            granted: label.granted,
            owner,
            virtualtransaction,
            waitstart: label.waitstart,
        };
        match label.identity {
            None => {
                let (database, objsubid) = (cells.number(DATABASE)?, objsubid(&cells)?);
                let keys = match owner {
                    LockOwner::Backend(pid) if label.granted => {
                        self.held(&cells, known, Group { pid, mode, database, objsubid })?
                    }
                    _ => Cow::Owned(numbers(&cells)?),
                };
                // A hoard comes as one row: to grow step by step would be to copy most of it several times.
                self.rows.reserve(keys.len());
                for &key in &*keys {
                    let numbers = KeyNumbers { classid: high(key), objid: low(key), objsubid };
                    self.rows.push(row(LockObject::Advisory(AdvisoryKey { database, numbers })));
                }
            }
            Some("relation") => {
                let database: Oid = cells.number(DATABASE)?;
                for relation in numbers(&cells)? {
                    self.rows.push(row(other("relation", format!("{database}/{relation}"))));
                }
            }
            Some(identity) => {
                let (locktype, identity) = identity.split_once('/').ok_or_else(|| cells.error(LABEL))?;
                self.rows.push(row(other(locktype, identity.to_owned())));
            }
        }
        Ok(())
    }

    /// The keys of a group that is held: they were sent, or else their sum was.
    fn held<'a>(&mut self, cells: &Cells<'_>, known: &'a Hoards, group: Group) -> Result<Cow<'a, [i64]>, RowError> {
        let sum = cells.text(SUM)?;
        if let (None, Some(sum)) = (cells.text(NUMBERS)?, sum) {
            return Ok(Cow::Borrowed(self.seen.counted(known, group, sum)));
        }
        let keys = numbers(cells)?;
        self.seen.sent(known, group, sum, &keys);
        Ok(Cow::Owned(keys))
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

/// The columns of [`super::super::query`]'s locks.
const PID: usize = 0;
const VIRTUALTRANSACTION: usize = 1;
const DATABASE: usize = 2;
const OBJSUBID: usize = 3;
const LABEL: usize = 4;
const NUMBERS: usize = 5;
const SUM: usize = 6;

/// A sum came in place of keys, and none was asked for.
pub(crate) fn missing_keys() -> RowError {
    RowError::Column { set: "locks", column: NUMBERS }
}

/// What the label says: see `query::label`.
struct Label<'a> {
    mode: &'a str,
    granted: bool,
    waitstart: Option<Time>,
    /// The locktype, and the numbers of the object; none for an advisory key.
    identity: Option<&'a str>,
}

impl<'a> Label<'a> {
    fn of(cells: &Cells<'a>) -> Result<Self, RowError> {
        let mut parts = cells.text(LABEL)?.unwrap_or("ExclusiveLock").splitn(4, '/');
        let mode = parts.next().ok_or_else(|| cells.error(LABEL))?;
        let granted = match parts.next() {
            None | Some("t") => true,
            Some("f") => false,
            Some(_) => return Err(cells.error(LABEL)),
        };
        let waitstart = parts.next().filter(|hex| !hex.is_empty());
        let waitstart = waitstart.map(|hex| time(hex).ok_or_else(|| cells.error(LABEL))).transpose()?;
        Ok(Self { mode, granted, waitstart, identity: parts.next() })
    }

    /// The xid, if the row is on a transaction's id.
    fn own_xid(&self, cells: &Cells<'_>) -> Result<Option<u32>, RowError> {
        let xid = self.identity.and_then(|identity| identity.strip_prefix("transactionid/"));
        xid.map(|xid| xid.parse().map_err(|_| cells.error(LABEL))).transpose()
    }
}

/// int2 on the server, which shows it signed.
fn objsubid(cells: &Cells<'_>) -> Result<u16, RowError> {
    Ok(cells.number::<i16>(OBJSUBID)?.cast_unsigned())
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
fn numbers(cells: &Cells<'_>) -> Result<Vec<i64>, RowError> {
    let text = cells.needed(NUMBERS)?;
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let mut numbers = Vec::with_capacity(1 + inner.matches(',').count());
    for number in inner.split(',') {
        numbers.push(number.parse().map_err(|_| cells.error(NUMBERS))?);
    }
    Ok(numbers)
}

/// The virtualtransaction of a lock.
fn id(cells: &Cells<'_>) -> Result<VirtualTransaction, RowError> {
    virtual_transaction(cells.needed(VIRTUALTRANSACTION)?).ok_or_else(|| cells.error(VIRTUALTRANSACTION))
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
