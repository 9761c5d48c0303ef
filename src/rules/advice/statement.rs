//! The statements that a person may run: each does nothing once what was seen is no longer so, and says which.
//!
//! Pure text. It knows `pg_locks`, `pg_stat_activity` and the signalling functions of PostgreSQL 12 to 18, and no rule.
//!
//! How a statement keeps its promise:
//! - `pg_locks` is read first, the sessions after it: `MATERIALIZED` reads each once, and the nested loop over the one
//!   row of `held` (or the gate in `seen`) fixes the order. PostgreSQL says `active` before a transaction begins and
//!   `idle` after its locks are gone, so the later look at the state is the stricter one.
//! - `pg_stat_activity` is frozen at its first use in a transaction. `pg_stat_clear_snapshot()` thaws it, so that the
//!   statement also tells the truth when it is pasted into an open transaction block.
//! - `CASE` evaluates its arms in order and stops at the first that holds ("Expression Evaluation Rules" in the
//!   manual, 4.2.14): the signalling function is the last condition, it is volatile, and it stands in no aggregate.
//! - Comparisons that could meet a NULL are `IS DISTINCT FROM`: an unknown fact must never fall through to the signal.

use std::fmt::Write as _;

use crate::model::{AdvisoryKey, LockMode, Pid, Time};
use crate::quote;

/// Where the rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The views.
    Views,
    /// The functions beneath the views, for a server whose shared lock table is full: the views open catalogues, and
    /// that takes a lock. The role's rights are then left to the server to check, for the same reason.
    Functions,
}

/// How a session rested when it was seen. It must still rest so to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Idle, in no transaction.
    Idle,
    /// Idle in the transaction with this `xact_start`.
    InTransaction(Time),
    /// In a failed transaction since this `state_change`; `xact_start` is NULL there.
    Aborted(Time),
}

/// A session and the lock to end it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// pid
    pub pid: Pid,
    /// `backend_start`
    pub backend_start: Time,
    /// The key it holds.
    pub key: AdvisoryKey,
    /// The mode it holds it in.
    pub mode: LockMode,
    /// How it rested.
    pub rest: Rest,
}

/// A session and the lock that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// pid
    pub pid: Pid,
    /// `backend_start`
    pub backend_start: Time,
    /// The key it waits for.
    pub key: AdvisoryKey,
    /// The mode it wants.
    pub mode: LockMode,
}

const GONE: &str = "nothing done: session gone";
const HIDDEN: &str = "nothing done: not visible to you (needs pg_read_all_stats, and track_activities on)";
const OTHER: &str = "nothing done: pid belongs to another session";
const FREED: &str = "nothing done: lock freed";
const BUSY: &str = "nothing done: working for somebody now, run it again";
const MOVED_ON: &str = "nothing done: working for somebody now or at rest anew, run pglockwatch again";
const NOT_WAITING: &str = "nothing done: no longer waiting for this lock";
const SUPERUSER: &str = "nothing done: only a superuser may signal the session of a superuser";
const NOT_ALLOWED: &str = "nothing done: not allowed to you (needs pg_signal_backend, or the role of the session)";
const TERMINATED: &str = "terminated: its locks are free once it has ended";
const CANCELLED: &str = "cancelled: its statement fails, its session stays";

/// Ends one session, guarded.
pub fn terminate(holding: &Holding, source: Source) -> String {
    let mut sql = read_one(holding.pid, holding.key, holding.mode, true, source);
    sql.reserve(1_200);
    arms_before_rest(&mut sql, &timestamp(holding.backend_start), "h.vxid IS NULL", FREED);
    match holding.rest {
        Rest::Idle => {
            arm(&mut sql, "s.state IS DISTINCT FROM 'idle' OR h.vxid NOT LIKE '%/0'", BUSY);
        }
        Rest::InTransaction(xact_start) => {
            arm(&mut sql, &format!("s.xact_start IS DISTINCT FROM {}", timestamp(xact_start)), MOVED_ON);
            arm(&mut sql, "s.state IS DISTINCT FROM 'idle in transaction'", BUSY);
        }
        Rest::Aborted(state_change) => {
            let condition = format!(
                "s.state IS DISTINCT FROM 'idle in transaction (aborted)'\n    OR s.state_change IS DISTINCT FROM {}",
                timestamp(state_change)
            );
            arm(&mut sql, &condition, MOVED_ON);
        }
    }
    rights_and_signal(&mut sql, source, "pg_terminate_backend", TERMINATED);
    sql.push_str("FROM held h LEFT JOIN seen s ON true;");
    sql
}

/// Ends several sessions, each guarded by itself: one row per session.
pub fn terminate_each(holdings: &[Holding], source: Source) -> String {
    let rows: Vec<String> = holdings.iter().map(holding_row).collect();
    let mut sql = read_each(&rows, ", state, since", "l.granted", source);
    arms_before_rest(&mut sql, "t.backend_start", "h.vxid IS NULL", FREED);
    let changed = "CASE t.state
      WHEN 'idle in transaction' THEN s.xact_start IS DISTINCT FROM t.since
      WHEN 'idle in transaction (aborted)' THEN s.state_change IS DISTINCT FROM t.since
      ELSE false END";
    arm(&mut sql, changed, MOVED_ON);
    arm(&mut sql, "s.state IS DISTINCT FROM t.state OR (t.state = 'idle' AND h.vxid NOT LIKE '%/0')", BUSY);
    rights_and_signal(&mut sql, source, "pg_terminate_backend", TERMINATED);
    sql.push_str(FROM_EACH);
    sql
}

/// Cancels the statement of one waiting session, guarded.
pub fn cancel(queued: &Queued) -> String {
    let mut sql = read_one(queued.pid, queued.key, queued.mode, false, Source::Views);
    arms_before_rest(&mut sql, &timestamp(queued.backend_start), "h.vxid IS NULL", NOT_WAITING);
    rights_and_signal(&mut sql, Source::Views, "pg_cancel_backend", CANCELLED);
    sql.push_str("FROM held h LEFT JOIN seen s ON true;");
    sql
}

/// Cancels the statements of several waiting sessions, each guarded by itself: one row per session.
pub fn cancel_each(queued: &[Queued]) -> String {
    let rows: Vec<String> = queued
        .iter()
        .map(|one| format!("  ({})", target_columns(one.pid, one.backend_start, one.key, one.mode)))
        .collect();
    let mut sql = read_each(&rows, "", "NOT l.granted", Source::Views);
    arms_before_rest(&mut sql, "t.backend_start", "h.vxid IS NULL", NOT_WAITING);
    rights_and_signal(&mut sql, Source::Views, "pg_cancel_backend", CANCELLED);
    sql.push_str(FROM_EACH);
    sql
}

/// Lets a role see the sessions of other roles.
pub fn grant_monitor(role: &str) -> String {
    format!("GRANT pg_monitor TO {};", quote::identifier(role))
}

/// A moment as a literal, to the microsecond, with its zone. This form is read the same under every `DateStyle`.
pub fn timestamp(time: Time) -> String {
    format!("timestamptz '{}'", time.format("%Y-%m-%d %H:%M:%S%.6f+00"))
}

fn read_one(pid: Pid, key: AdvisoryKey, mode: LockMode, granted: bool, source: Source) -> String {
    let (locks, sessions) = match source {
        Source::Views => ("pg_locks".to_owned(), "pg_stat_activity".to_owned()),
        Source::Functions => ("pg_lock_status()".to_owned(), format!("pg_stat_get_activity({pid})")),
    };
    let granted = if granted { "granted" } else { "NOT granted" };
    format!(
        "WITH held AS MATERIALIZED (
  SELECT max(virtualtransaction) AS vxid, pg_stat_clear_snapshot() AS fresh
  FROM {locks}
  WHERE locktype = 'advisory' AND {granted} AND pid = {pid} AND database = {}
    AND classid = {} AND objid = {} AND objsubid = {} AND mode = '{}'
), seen AS MATERIALIZED (
  SELECT pid, usesysid, backend_start, xact_start, state_change, state
  FROM {sessions} WHERE pid = {pid}
)
SELECT CASE
",
        key.database,
        key.numbers.classid,
        key.numbers.objid,
        key.numbers.objsubid,
        mode.name(),
    )
}

fn read_each(rows: &[String], more_columns: &str, granted: &str, source: Source) -> String {
    let (locks, sessions) = match source {
        Source::Views => ("pg_locks", "pg_stat_activity"),
        Source::Functions => ("pg_lock_status()", "pg_stat_get_activity(NULL)"),
    };
    format!(
        "WITH target (pid, backend_start, database, classid, objid, objsubid, mode{more_columns}) AS (VALUES
{}
), held AS MATERIALIZED (
  SELECT t.pid, max(l.virtualtransaction) AS vxid, pg_stat_clear_snapshot() AS fresh
  FROM target t LEFT JOIN {locks} l
    ON l.locktype = 'advisory' AND {granted} AND l.pid = t.pid AND l.database = t.database
    AND l.classid = t.classid AND l.objid = t.objid AND l.objsubid = t.objsubid AND l.mode = t.mode
  GROUP BY t.pid
), seen AS MATERIALIZED (
  SELECT pid, usesysid, backend_start, xact_start, state_change, state
  FROM {sessions} WHERE (SELECT count(*) FROM held) > 0
)
SELECT t.pid, CASE
",
        rows.join(",\n")
    )
}

const FROM_EACH: &str = "FROM target t JOIN held h ON h.pid = t.pid LEFT JOIN seen s ON s.pid = t.pid\nORDER BY t.pid;";

fn holding_row(holding: &Holding) -> String {
    let (state, since) = match holding.rest {
        Rest::Idle => ("idle", "NULL::timestamptz".to_owned()),
        Rest::InTransaction(since) => ("idle in transaction", timestamp(since)),
        Rest::Aborted(since) => ("idle in transaction (aborted)", timestamp(since)),
    };
    let columns = target_columns(holding.pid, holding.backend_start, holding.key, holding.mode);
    format!("  ({columns},\n   '{state}', {since})")
}

fn target_columns(pid: Pid, backend_start: Time, key: AdvisoryKey, mode: LockMode) -> String {
    format!(
        "{pid}, {}, {}::oid, {}::oid, {}::oid, {}, '{}'",
        timestamp(backend_start),
        key.database,
        key.numbers.classid,
        key.numbers.objid,
        key.numbers.objsubid,
        mode.name(),
    )
}

fn arms_before_rest(sql: &mut String, backend_start: &str, no_lock: &str, no_lock_says: &str) {
    arm(sql, "s.pid IS NULL", GONE);
    arm(sql, "s.backend_start IS NULL OR s.state = 'disabled'", HIDDEN);
    arm(sql, &format!("s.backend_start IS DISTINCT FROM {backend_start}"), OTHER);
    arm(sql, no_lock, no_lock_says);
}

/// The server refuses a signal with an error; the sentence comes first (`pg_signal_backend()` in the server checks
/// the same: superuser, then the session's role, then the predefined role).
fn rights_and_signal(sql: &mut String, source: Source, function: &str, done: &str) {
    if source == Source::Views {
        let superuser = "current_setting('is_superuser') = 'off'
    AND (SELECT rolsuper FROM pg_roles WHERE oid = s.usesysid)";
        arm(sql, superuser, SUPERUSER);
        let neither = "NOT (pg_has_role(s.usesysid, 'USAGE') OR pg_has_role('pg_signal_backend', 'USAGE'))";
        arm(sql, neither, NOT_ALLOWED);
    }
    arm(sql, &format!("{function}(s.pid)"), done);
    let _ = writeln!(sql, "  ELSE '{GONE}'\nEND AS outcome");
}

/// One arm of the `CASE`. On one line where it is short enough to be read so.
fn arm(sql: &mut String, condition: &str, says: &str) {
    let line = format!("  WHEN {condition} THEN '{says}'");
    if line.len() <= 100 && !condition.contains('\n') {
        sql.push_str(&line);
    } else {
        let _ = write!(sql, "  WHEN {condition}\n    THEN '{says}'");
    }
    sql.push('\n');
}
