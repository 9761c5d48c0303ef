//! One row of `pg_stat_activity`.

use std::sync::Arc;

use super::{Oid, Pid, SharedText, Time};
use crate::sql::may_begin_with;

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
        self.calls_session_advisory || self.query.as_deref().is_none_or(|query| may_begin_with(query, "EXECUTE"))
    }

    /// A client's connection, as opposed to a background process or a walsender.
    pub fn is_client(&self) -> bool {
        self.backend_type == "client backend"
    }
}

#[cfg(test)]
mod tests {
    use crate::model::testing::World;

    #[test]
    fn a_statement_that_is_known_by_its_name_only_may_call_anything() {
        let mut world = World::new();
        world.connect(1, "worker");
        let mut may_call = |query: Option<&str>| {
            world.backend(1).query = query.map(Into::into);
            world.backend(1).may_call_session_advisory()
        };
        assert!(may_call(None), "one that we may not see");
        for statement in ["EXECUTE take(31)", "-- job:41\nEXECUTE take", "/* a /* b */ c */ EXECUTE take"] {
            assert!(may_call(Some(statement)), "{statement}");
        }
        assert!(!may_call(Some("SELECT 1 -- EXECUTE take")));
    }
}
