//! From the result sets of [`super::query`] to the model.
//!
//! Knows the columns' order and the texts that PostgreSQL writes into them; knows no socket and no clock.

mod locks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::calls::Calls;
use super::query::{GID_BYTES, NAME_BYTES, QUERY_BYTES, SPELLINGS};
use super::text::{from_escaped, unescape};
use crate::model::{
    Backend, BackendState, LockOwner, Oid, Pid, PreparedTransaction, Server, SharedText, Texts, Time,
    VirtualTransaction,
};
pub(crate) use locks::{LockRows, missing_keys};

/// What the server sent is not what PostgreSQL 12 to 18 send.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RowError {
    /// The number of result sets is wrong: a proxy that rewrites, or no PostgreSQL.
    #[error("it sent {got} result sets where {expected} were asked for")]
    Sets {
        /// How many came.
        got: usize,
        /// How many should have come.
        expected: usize,
    },
    /// A column does not hold what it should.
    #[error("column {column} of the {set} cannot be read")]
    Column {
        /// Which set.
        set: &'static str,
        /// Which column, from 0.
        column: usize,
    },
    /// A set that always has a row has none.
    #[error("the {0} have no row")]
    Empty(&'static str),
}

/// Result sets, each the rows of one statement that returns any.
pub(crate) fn result_sets(
    messages: Vec<SimpleQueryMessage>,
    expected: usize,
) -> Result<Vec<Vec<SimpleQueryRow>>, RowError> {
    let mut sets: Vec<Vec<SimpleQueryRow>> = Vec::with_capacity(expected);
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => sets.push(Vec::new()),
            SimpleQueryMessage::Row(row) => {
                if let Some(set) = sets.last_mut() {
                    set.push(row);
                }
            }
            // Ends of commands, and kinds of message that a later version of the client may add.
            _ => {}
        }
    }
    if sets.len() == expected { Ok(sets) } else { Err(RowError::Sets { got: sets.len(), expected }) }
}

/// One row, read by place.
struct Cells<'a> {
    row: &'a SimpleQueryRow,
    set: &'static str,
}

impl<'a> Cells<'a> {
    fn error(&self, column: usize) -> RowError {
        RowError::Column { set: self.set, column }
    }

    fn text(&self, column: usize) -> Result<Option<&'a str>, RowError> {
        // `get` panics on bytes that are not UTF-8, `try_get` does not.
        self.row.try_get(column).map_err(|_| self.error(column))
    }

    fn needed(&self, column: usize) -> Result<&'a str, RowError> {
        self.text(column)?.ok_or_else(|| self.error(column))
    }

    fn parsed<T: std::str::FromStr>(&self, column: usize) -> Result<Option<T>, RowError> {
        self.text(column)?.map(|text| text.parse().map_err(|_| self.error(column))).transpose()
    }

    fn number<T: std::str::FromStr>(&self, column: usize) -> Result<T, RowError> {
        self.parsed(column)?.ok_or_else(|| self.error(column))
    }

    fn flag(&self, column: usize) -> Result<bool, RowError> {
        Ok(self.text(column)? == Some("t"))
    }

    fn name(&self, column: usize) -> Result<Option<String>, RowError> {
        Ok(self.text(column)?.map(|text| from_escaped(text, NAME_BYTES)))
    }

    fn time(&self, column: usize) -> Result<Option<Time>, RowError> {
        self.text(column)?.map(|text| sent_time(text).ok_or_else(|| self.error(column))).transpose()
    }

    fn moment(&self, column: usize) -> Result<Time, RowError> {
        self.time(column)?.ok_or_else(|| self.error(column))
    }
}

/// Microseconds from 1970-01-01 to 2000-01-01.
const UNIX_TO_POSTGRES: i64 = 946_684_800_000_000;

/// The way back of [`time`].
pub(crate) fn hex(time: Time) -> String {
    format!("{:016x}", time.timestamp_micros().saturating_sub(UNIX_TO_POSTGRES).cast_unsigned())
}

/// A time as `timestamptz_send` writes it: microseconds since 2000-01-01 00:00 UTC, a big-endian 64-bit integer, here
/// in hex.
pub(crate) fn time(hex: &str) -> Option<Time> {
    of_postgres(u64::from_str_radix(hex, 16).ok()?.cast_signed())
}

/// The same, escaped as the poll's texts are.
fn sent_time(escaped: &str) -> Option<Time> {
    let mut bytes = [0; 8];
    let mut sent = unescape(escaped.as_bytes());
    for byte in &mut bytes {
        *byte = sent.next()?;
    }
    if sent.next().is_some() { None } else { of_postgres(i64::from_be_bytes(bytes)) }
}

fn of_postgres(microseconds: i64) -> Option<Time> {
    DateTime::from_timestamp_micros(microseconds.checked_add(UNIX_TO_POSTGRES)?)
}

/// A row with a clock in its last column.
pub(crate) fn clock(row: &SimpleQueryRow) -> Result<Time, RowError> {
    let cells = Cells { row, set: "clock" };
    row.len().checked_sub(1).map_or_else(|| Err(cells.error(0)), |last| cells.moment(last))
}

/// The set of one row with our own pid.
pub(crate) fn own_pid(rows: &[SimpleQueryRow]) -> Result<Pid, RowError> {
    Cells { row: rows.first().ok_or(RowError::Empty("pid"))?, set: "pid" }.number(0)
}

/// A backend, and its role's oid: the name is remembered by it for the day when only the oid can be read.
pub(crate) type BackendOfRole = (Backend, Option<Oid>);

/// Reads a session. The name of its database is not there yet, nor that of its role if the statement brought none: see
/// [`Names::give`]. Its statement is kept if it is one of `pids`, or names an advisory lock function.
pub(crate) fn backend(
    row: &SimpleQueryRow,
    pids: &BTreeSet<Pid>,
    texts: &mut Texts,
) -> Result<BackendOfRole, RowError> {
    let cells = Cells { row, set: "sessions" };
    let pid = cells.number(0)?;
    // An oid of 0 means none: a background worker without a database or without a role.
    let datid = cells.parsed::<Oid>(3)?.filter(|oid| *oid != 0);
    let role = cells.parsed::<Oid>(4)?.filter(|oid| *oid != 0);
    let backend_start = cells.time(9)?;
    // Of a session that our role may not see, the query is a text of the server's own that says so.
    let visible = backend_start.is_some();
    // The names of functions are ASCII, which escaping leaves as it is.
    let sent = cells.text(15)?.filter(|_| visible);
    let suspected = sent.is_some_and(|sent| SPELLINGS.iter().any(|name| sent.contains(name)));
    let mut query = sent.filter(|_| suspected || pids.contains(&pid)).map(|sent| from_escaped(sent, CUT_QUERY_BYTES));
    let advisory = query.as_deref().filter(|_| suspected).map(Calls::of).unwrap_or_default();
    if let Some(query) = &mut query {
        query.truncate(query.floor_char_boundary(QUERY_BYTES));
    }
    let backend = Backend {
        pid,
        leader_pid: cells.parsed(1)?,
        backend_type: texts.of(cells.text(2)?.unwrap_or_default()),
        datid,
        database: None,
        user: role_name(&cells, 5)?.map(|name| texts.of(&name)),
        application: texts.of(cells.text(6)?.unwrap_or_default()),
        client_addr: cells.text(7)?.map(|address| texts.of(address)),
        client_port: cells.parsed(8)?,
        backend_start,
        xact_start: cells.time(10)?,
        query_start: cells.time(11)?,
        state_change: cells.time(12)?,
        state: cells.text(13)?.and_then(BackendState::from_name),
        has_written: cells.flag(14)?,
        calls_advisory: advisory.any,
        calls_session_advisory: advisory.session,
        lent_to_us: false,
        query: query.map(Arc::from),
    };
    Ok((backend, role))
}

/// The name of a role, if one was sent.
fn role_name(cells: &Cells<'_>, column: usize) -> Result<Option<String>, RowError> {
    // What the server calls a role that is dropped.
    Ok(cells.name(column)?.filter(|name| !name.starts_with("unknown (OID=")))
}

/// A query of at least this many bytes may have been cut: by `track_activity_query_size`, whose least value is 100 with
/// the byte that ends the text, or by us.
const CUT_QUERY_BYTES: usize = if QUERY_BYTES < 99 { QUERY_BYTES } else { 99 };

/// Names by oid.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// Of databases.
    pub databases: BTreeMap<Oid, SharedText>,
    /// Of roles.
    pub roles: BTreeMap<Oid, SharedText>,
}

impl Names {
    /// Names the database of a session, and its role if its row did not.
    pub(crate) fn give(&self, (backend, role): &mut BackendOfRole) {
        backend.database = backend.datid.and_then(|oid| self.databases.get(&oid).cloned());
        if backend.user.is_none() {
            backend.user = role.and_then(|oid| self.roles.get(&oid).cloned());
        }
    }

    /// Learns the name of a session's role.
    pub(crate) fn learn(&mut self, (backend, role): &BackendOfRole) {
        if let (Some(oid), Some(name)) = (role, &backend.user) {
            self.roles.entry(*oid).or_insert_with(|| name.clone());
        }
    }
}

/// Reads the prepared transactions that own locks of the snapshot. Names come from `names` where the rows have none.
pub(crate) fn prepared(
    rows: &[SimpleQueryRow],
    locks: &LockRows,
    names: &Names,
) -> Result<Vec<PreparedTransaction>, RowError> {
    if locks.prepared.is_empty() {
        return Ok(Vec::new());
    }
    let owners: BTreeSet<VirtualTransaction> = locks
        .rows
        .owners()
        .filter_map(|owner| match owner {
            LockOwner::Prepared(id) => Some(id),
            LockOwner::Backend(_) => None,
        })
        .collect();
    let by_xid: BTreeMap<u32, VirtualTransaction> =
        locks.prepared.iter().filter(|(id, _)| owners.contains(id)).map(|(id, xid)| (*xid, *id)).collect();
    let mut found = Vec::new();
    for row in rows {
        let cells = Cells { row, set: "prepared transactions" };
        let transaction = cells.number(0)?;
        let Some(&virtualtransaction) = by_xid.get(&transaction) else { continue };
        let role: Option<Oid> = cells.parsed(3)?;
        let known = || role.and_then(|oid| names.roles.get(&oid)).map(ToString::to_string);
        let owner = role_name(&cells, 5)?.or_else(known);
        let database = names.databases.get(&cells.number(4)?).map(ToString::to_string);
        found.push(PreparedTransaction {
            transaction,
            virtualtransaction,
            gid: from_escaped(cells.needed(1)?, GID_BYTES),
            prepared: cells.moment(2)?,
            owner: owner.unwrap_or_default(),
            database: database.unwrap_or_default(),
        });
    }
    Ok(found)
}

/// Reads the databases' names.
pub(crate) fn databases(rows: &[SimpleQueryRow]) -> Result<BTreeMap<Oid, SharedText>, RowError> {
    rows.iter()
        .map(|row| {
            let cells = Cells { row, set: "databases" };
            Ok((cells.number(0)?, cells.name(1)?.unwrap_or_default().into()))
        })
        .collect()
}

/// Reads the facts: the server, without its databases, and our own pid.
pub(crate) fn facts(rows: &[SimpleQueryRow]) -> Result<(Server, Pid), RowError> {
    let cells = Cells { row: rows.first().ok_or(RowError::Empty("facts"))?, set: "facts" };
    let server = Server {
        version: plain_version(cells.needed(0)?),
        version_num: cells.number(1)?,
        in_recovery: cells.flag(2)?,
        started_at: cells.moment(3)?,
        role: cells.name(4)?.unwrap_or_default(),
        sees_all_sessions: cells.flag(5)?,
        can_signal: cells.flag(6)?,
        max_connections: cells.number(7)?,
        max_locks_per_transaction: cells.number(8)?,
        max_prepared_transactions: cells.number(9)?,
        databases: Vec::new(),
    };
    Ok((server, cells.number(10)?))
}

/// `15.18 (Debian 15.18-0+deb12u1)` without what the packager appended.
fn plain_version(version: &str) -> String {
    version.split_whitespace().next().unwrap_or_default().to_owned()
}

/// What the greeting says: `server_version_num`, whether transactions are read only, whether it is a standby.
pub(crate) fn greeting(rows: &[SimpleQueryRow]) -> Result<(u32, bool, bool, Option<Duration>), RowError> {
    let cells = Cells { row: rows.first().ok_or(RowError::Empty("greeting"))?, set: "greeting" };
    let age = cells.text(3)?.and_then(|seconds| seconds.parse().ok());
    let age = age.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Ok((cells.number(0)?, cells.text(1)? == Some("on"), cells.flag(2)?, age))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_microsecond() {
        let at = |hex| time(hex).map(|time| time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true));
        assert_eq!(at("0000000000000000").as_deref(), Some("2000-01-01T00:00:00.000000Z"));
        assert_eq!(at("0000000000000001").as_deref(), Some("2000-01-01T00:00:00.000001Z"));
        assert_eq!(at("ffffffffffffffff").as_deref(), Some("1999-12-31T23:59:59.999999Z"));
        assert_eq!(at("00030467b4349773").as_deref(), Some("2026-11-29T11:53:01.620083Z"));
        for same in ["0000000000000001", "ffffffffffffffff", "00030467b4349773"] {
            assert_eq!(time(same).map(hex).as_deref(), Some(same));
        }
        for (sent, same) in [
            (r"\000\000\000\000\000\000\000\001", "0000000000000001"),
            (r"\000\003\004g\2644\227s", "00030467b4349773"),
        ] {
            assert_eq!(sent_time(sent), time(same), "{sent}");
        }
        assert_eq!(sent_time(r"\000\000\000\000\000\000\001"), None, "seven bytes");
        assert_eq!(sent_time(r"\000\000\000\000\000\000\000\000\001"), None, "nine bytes");
        // Infinity is the greatest integer.
        assert_eq!(time("7fffffffffffffff"), None);
        assert_eq!(time("zz"), None);
    }

    #[test]
    fn a_version_stands_without_its_packager() {
        assert_eq!(plain_version("15.18 (Debian 15.18-0+deb12u1)"), "15.18");
        assert_eq!(plain_version("19devel"), "19devel");
    }
}
