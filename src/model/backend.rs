//! One row of `pg_stat_activity`.

use std::sync::Arc;

use super::{Oid, Pid, SharedText, Time};

/// `pg_stat_activity.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendState {
    /// active
    Active,
    /// idle
    Idle,
    /// idle in transaction
    IdleInTransaction,
    /// idle in transaction (aborted)
    IdleInTransactionAborted,
    /// fastpath function call
    Fastpath,
    /// disabled: `track_activities` is off in that session
    Disabled,
}

impl BackendState {
    /// The text that `pg_stat_activity.state` shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Idle => "idle",
            Self::IdleInTransaction => "idle in transaction",
            Self::IdleInTransactionAborted => "idle in transaction (aborted)",
            Self::Fastpath => "fastpath function call",
            Self::Disabled => "disabled",
        }
    }

    /// The state of that text; nothing for a text that PostgreSQL 12 to 18 do not use.
    pub fn from_name(name: &str) -> Option<Self> {
        [
            Self::Active,
            Self::Idle,
            Self::IdleInTransaction,
            Self::IdleInTransactionAborted,
            Self::Fastpath,
            Self::Disabled,
        ]
        .into_iter()
        .find(|state| state.name() == name)
    }

    /// Idle, in or out of a transaction: no statement runs.
    pub fn is_idle(self) -> bool {
        matches!(self, Self::Idle | Self::IdleInTransaction | Self::IdleInTransactionAborted)
    }
}

/// One backend, as `pg_stat_activity` shows it to our role. Texts are UTF-8 already, whatever the encoding of the
/// backend's database, and still hostile: a stranger chose them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// pid
    pub pid: Pid,
    /// `leader_pid`: the leader of a parallel worker (PostgreSQL 13 and later).
    pub leader_pid: Option<Pid>,
    /// `backend_type`, as `client backend`; NULL is empty.
    pub backend_type: SharedText,
    /// datid
    pub datid: Option<Oid>,
    /// datname
    pub database: Option<SharedText>,
    /// usename; NULL when the role was dropped.
    pub user: Option<SharedText>,
    /// `application_name`; empty when none was given.
    pub application: SharedText,
    /// `client_addr`; NULL for a Unix socket, or hidden from us.
    pub client_addr: Option<SharedText>,
    /// `client_port`; -1 for a Unix socket.
    pub client_port: Option<i32>,
    /// `backend_start`; NULL when hidden from us.
    pub backend_start: Option<Time>,
    /// `xact_start`
    pub xact_start: Option<Time>,
    /// `query_start`
    pub query_start: Option<Time>,
    /// `state_change`
    pub state_change: Option<Time>,
    /// state; NULL when hidden from us, or for a background worker that reports none.
    pub state: Option<BackendState>,
    /// Whether the present transaction has a transaction id, so has written (`backend_xid`).
    pub has_written: bool,
    /// The current or last statement, cut to at most 1,024 bytes. Only of backends that hold or wait for a lock of the
    /// snapshot, or whose statement may call an advisory lock function; of others nothing.
    pub query: Option<Arc<str>>,
    /// Whether that statement calls an advisory lock function, of any backend whose query we may see.
    pub calls_advisory: bool,
    /// Whether it calls one for session locks: a lock, a try or an unlock.
    pub calls_session_advisory: bool,
    /// Our own backend, which a pooler lent to us with somebody's lock on it. What it did for others is not to be seen:
    /// `state`, the query and the times of its last statement are ours, and left out.
    pub lent_to_us: bool,
}

impl Backend {
    /// A hidden backend: our role may not see its state, `track_activities` is off in it, or it works for us just now.
    pub fn is_hidden(&self) -> bool {
        self.backend_start.is_none() || self.state == Some(BackendState::Disabled) || self.lent_to_us
    }

    /// Whether the current or last statement may call an advisory lock function for session locks. One that we may not
    /// see may, and so may EXECUTE, which shows the name of a statement and not the statement.
    pub fn may_call_session_advisory(&self) -> bool {
        self.calls_session_advisory || self.query.as_deref().is_none_or(executes_a_name)
    }

    /// A client's connection, as opposed to a background process or a walsender.
    pub fn is_client(&self) -> bool {
        self.backend_type == "client backend"
    }
}

/// Whether it is, or has in it, an `EXECUTE name`, also behind a comment.
fn executes_a_name(statements: &str) -> bool {
    statements.split(';').any(|statement| {
        let behind_comment = statement.rsplit_once("*/").map_or(statement, |(_, behind)| behind);
        let is_execute = |word: &str| word.eq_ignore_ascii_case("EXECUTE");
        [statement, behind_comment].iter().any(|text| text.split_ascii_whitespace().next().is_some_and(is_execute))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_is_known_by_its_name_only_may_call_anything() {
        for statement in
            ["EXECUTE take(31)", " execute take", "BEGIN; EXECUTE take(31); COMMIT", "/* job */ EXECUTE take"]
        {
            assert!(executes_a_name(statement), "{statement}");
        }
        for statement in ["SELECT 1", "GRANT EXECUTE ON FUNCTION f TO x", "SELECT executed FROM t", "", "EXECUTED"] {
            assert!(!executes_a_name(statement), "{statement}");
        }
    }
}
