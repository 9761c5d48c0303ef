//! What a probe says to the server. Pure.
//!
//! Every statement that asks for a backend does so itself: whatever lies between may send the next one elsewhere. Each
//! calls a volatile function, for a pooler that spreads reads over standbys leaves such statements on the primary. And
//! each ends with a mark, by which it is found again in `pg_stat_activity`.

use super::KEY_CLASS;
use super::observed::Backend;
use crate::audit::PROBE;
use crate::pg;

/// Words the statements of one run.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    /// The second number of the keys of this run.
    pub objid: i32,
    /// What the marks of this run begin with.
    pub run: String,
    /// How many marks were made.
    marks: u32,
}

/// The backend that runs the statement: pid, backend_start, the database's oid.
const ME: &str = "pg_catalog.pg_backend_pid(), \
     (SELECT pg_catalog.encode(pg_catalog.timestamptz_send(a.backend_start), 'hex') \
     FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) AS a), \
     (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())";

/// Makes a statement volatile.
const CLOCK: &str = "pg_catalog.clock_timestamp()";

/// A second column: `pg_stat_statements` counts statements of one shape together, and ours must not be taken for an
/// application's, nor an application's for ours.
const APART: &str = "pg_catalog.pg_backend_pid()";

/// For a transaction: its isolation must let each statement see what is now.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// The end of a transaction that has changed nothing.
pub(super) const ROLLBACK: &str = "ROLLBACK";
/// The end of a transaction.
pub(super) const COMMIT: &str = "COMMIT";

impl Statements {
    /// The statements of the run with this second number.
    pub fn new(objid: i32) -> Self {
        Self { objid, run: format!("{PROBE} {objid:x}"), marks: 0 }
    }

    /// A new mark.
    pub fn mark(&mut self) -> String {
        self.marks += 1;
        format!("/* {} {} */", self.run, self.marks)
    }

    fn key(&self) -> String {
        format!("{KEY_CLASS}, {}", self.objid)
    }

    /// The rows of `pg_locks` with this run's key, in this database.
    fn rows(&self) -> String {
        format!(
            "pg_catalog.pg_locks AS l WHERE l.locktype = 'advisory' AND l.classid = {KEY_CLASS} AND l.objid = {} \
             AND l.objsubid = 2 AND l.granted AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d \
             WHERE d.datname = pg_catalog.current_database())",
            self.objid
        )
    }

    /// Which backend is this?
    pub fn me(mark: &str) -> String {
        format!("SELECT {ME}, {CLOCK} {mark}")
    }

    /// Is this server a standby?
    pub fn standby(mark: &str) -> String {
        format!("SELECT pg_catalog.pg_is_in_recovery(), {CLOCK} {mark}")
    }

    /// Who holds the key? pid, backend_start (NULL where the session is gone), database, mode.
    pub fn holders(&self, mark: &str) -> String {
        format!(
            "SELECT l.pid, (SELECT pg_catalog.encode(pg_catalog.timestamptz_send(a.backend_start), 'hex') \
             FROM pg_catalog.pg_stat_get_activity(l.pid) AS a), l.database, l.mode, {CLOCK} FROM {} {mark}",
            self.rows()
        )
    }

    /// Which backend is this, and how many locks on the key does it hold?
    pub fn mine(&self, mark: &str) -> String {
        format!(
            "SELECT {ME}, (SELECT pg_catalog.count(*) FROM {} AND l.pid = pg_catalog.pg_backend_pid()), {CLOCK} {mark}",
            self.rows()
        )
    }

    /// Which backend is this, and what does this advisory lock function say?
    pub fn call(&self, function: &str, mark: &str) -> String {
        format!("SELECT {ME}, pg_catalog.{function}({}) {mark}", self.key())
    }

    /// One message: takes the lock twice, frees it once, looks, frees it again, looks, frees it once more. Whatever
    /// happens to us meanwhile, the server does all of it.
    pub fn count(&self, mark: &str) -> String {
        let key = self.key();
        let call = |function: &str| format!("SELECT pg_catalog.{function}({key}), {APART} {mark}");
        let (take, free) = (call("pg_try_advisory_lock"), call("pg_advisory_unlock"));
        let look = format!("SELECT pg_catalog.count(*) FROM {} AND l.pid = pg_catalog.pg_backend_pid()", self.rows());
        format!("{take}; {take}; {free}; {look}; {free}; {look}; {free}")
    }

    /// One message: waits for the key for this long at most, in a transaction; the caller ends the transaction.
    pub fn wait(&self, lock_timeout: u128, statement_timeout: u128, mark: &str) -> String {
        format!(
            "{BEGIN}; SET LOCAL lock_timeout = {lock_timeout}; SET LOCAL statement_timeout = {statement_timeout}; \
             SELECT pg_catalog.pg_advisory_xact_lock({}), {APART} {mark}",
            self.key()
        )
    }

    /// What does a backend do? Its state and its last statement; no row if it has ended. Also fresh inside a
    /// transaction, which would see the same picture again.
    pub fn look_at(backend: Backend, mark: &str) -> String {
        format!(
            "SELECT pg_catalog.pg_stat_clear_snapshot(); SELECT a.state, a.query, {CLOCK} \
             FROM pg_catalog.pg_stat_get_activity({}) AS a \
             WHERE pg_catalog.encode(pg_catalog.timestamptz_send(a.backend_start), 'hex') = '{}' {mark}",
            backend.pid,
            pg::hex_of(backend.started)
        )
    }

    /// Did our startup option reach the server?
    pub fn option(mark: &str) -> String {
        format!("SELECT pg_catalog.current_setting('{OPTION}', true), {CLOCK} {mark}")
    }
}

/// The name of a setting that means nothing to anybody.
const OPTION: &str = "pglockwatch.probe";

/// A startup option that does nothing.
pub(super) fn startup_option() -> String {
    format!("-c {OPTION}=1")
}

/// What pgpool-II answers itself, and PostgreSQL does not know.
pub(super) const POOL_VERSION: &str = "SHOW pool_version";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_never_the_same() {
        let mut statements = Statements::new(0x1234);
        let (one, two) = (statements.mark(), statements.mark());
        assert_eq!(one, "/* pglockwatch probe 1234 1 */");
        assert_ne!(one, two);
        assert!(Statements::me(&one).ends_with(&one));
    }

    #[test]
    fn a_session_lock_is_only_ever_taken_on_our_own_key() {
        let statements = Statements::new(7);
        for text in [statements.count(""), statements.call("pg_try_advisory_lock", ""), statements.wait(1, 2, "")] {
            assert!(text.contains(&format!("({KEY_CLASS}, 7)")), "{text}");
        }
        assert_eq!(statements.count("").matches("pg_try_advisory_lock").count(), 2);
        assert_eq!(statements.count("").matches("pg_advisory_unlock").count(), 3);
    }
}
