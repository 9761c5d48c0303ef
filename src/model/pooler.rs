//! What one PgBouncer said of its server connections: which backend serves which pool.

use super::Pid;

/// `pool_mode`: when a client gives its server connection back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolMode {
    /// When the client disconnects.
    Session,
    /// At the end of each transaction.
    Transaction,
    /// After each statement.
    Statement,
}

impl PoolMode {
    /// The word that `SHOW POOLS` uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Transaction => "transaction",
            Self::Statement => "statement",
        }
    }

    /// The mode of that word; nothing for a word that PgBouncer 1.12 to 1.25 do not use.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Session, Self::Transaction, Self::Statement].into_iter().find(|mode| mode.name() == name)
    }

    /// Whether a client gets another server connection while it stays connected: what a session lock does not survive.
    pub fn is_shared(self) -> bool {
        self != Self::Session
    }
}

/// One PgBouncer, as it was during a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pooler {
    /// host:port of its console, as written.
    pub name: String,
    /// What it said; else why it said nothing, as one sentence.
    pub said: Result<PoolerSaid, String>,
    /// It may serve other servers too (it was not given as this target's own): only server connections whose address
    /// agrees as well are this server's.
    pub shared_between_targets: bool,
}

/// What a PgBouncer said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolerSaid {
    /// `SHOW VERSION`, as `1.18.0`.
    pub version: Option<String>,
    /// `SHOW SERVERS`.
    pub servers: Vec<PoolerServer>,
}

/// One row of `SHOW SERVERS`, with its pool's mode and the client that has it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolerServer {
    /// PgBouncer's own name of the database.
    pub database: String,
    /// The name of the database on the server; nothing if `SHOW DATABASES` does not say.
    pub server_database: Option<String>,
    /// The pool's user.
    pub user: String,
    /// Of the pool: `SHOW POOLS`, else `SHOW DATABASES`, else the default in `SHOW CONFIG`.
    pub pool_mode: PoolMode,
    /// `remote_pid`: the backend's pid; nothing in old versions.
    pub remote_pid: Option<Pid>,
    /// `local_addr`: where PgBouncer's end of the connection is; nothing for a Unix socket.
    pub local_addr: Option<String>,
    /// `local_port`: the backend's `client_port` if nothing stands in between; nothing for a Unix socket.
    pub local_port: Option<i32>,
    /// PgBouncer frees session locks whenever a client gives the connection back: `server_reset_query_always` with a
    /// `server_reset_query` that does so.
    pub resets: bool,
    /// `close_needed`: it is closed as soon as its client gives it back.
    pub close_needed: bool,
    /// The client that has it now (`link`).
    pub client: Option<PoolerClient>,
}

/// The client that a server connection is linked to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolerClient {
    /// Its `application_name` (PgBouncer 1.18 and later).
    pub application: Option<String>,
    /// Its address; `unix` for a Unix socket.
    pub addr: Option<String>,
    /// Its port.
    pub port: Option<i32>,
}
