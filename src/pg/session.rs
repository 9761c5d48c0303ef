//! One connection to one server, and one poll over it.
//!
//! A session has no deadline of its own beyond those it asks the server to keep: a server that is stopped keeps none.
//! [`crate::watch`] gives every operation a deadline from outside.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use tokio_postgres::error::{DbError, Severity, SqlState};

use super::answer::{Answer, Parts};
use super::client::Client;
use super::connect::Kind;
use super::conninfo::{ConnSettings, Environment};
use super::hoards::Hoards;
use super::read_error::ReadError;
use super::{Select, TableRows, connect, failure, lease, query, rows, statements, table};
use crate::analysis::report::Failure;
use crate::model::{Backend, LeaseTable, LockOwner, Locks, Pid, Server, ServerFacts, Snapshot, Texts};

/// From so many locks per session on it costs the server less to send them in groups.
const MANY_LOCKS: usize = 4;

/// The statements of so few sessions cost less than to find out whose are needed.
const FEW_SESSIONS: usize = 32;

/// For so many polls after the last that saw somebody wait for something that is no advisory lock, the next is asked as
/// if somebody did: where such waits come and go, few polls are asked twice.
const CALM_POLLS: u32 = 10;

/// What a server answers that is older than the one the poll was worded for.
const UNKNOWN_TO_OLDER: &[SqlState] =
    &[SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_FUNCTION, SqlState::UNDEFINED_OBJECT];

/// An open connection to a server.
pub struct Session {
    client: Client,
    address: String,
    version_num: u32,
    timeout: Duration,
    /// The last transaction did not end: it must be ended before the next begins.
    broken_transaction: bool,
    /// The connection cannot be used any more.
    lost: bool,
    memory: Option<Memory>,
    /// The backend of the last poll.
    own_pid: Option<Pid>,
    /// Somebody lends us backends: see [`Snapshot::behind_pooler`].
    lent: bool,
    /// How the next poll is asked, by what the last one saw.
    form: query::Form,
    /// The locks that need not be sent, for they are known.
    hoards: Hoards,
    texts: Texts,
    /// Polls since somebody waited for something that is no advisory lock, as far as that matters.
    calm: u32,
    /// The last poll was answered only without the shared catalogs.
    resorted: bool,
}

/// What the last good poll taught, for the day when the shared catalogs cannot be read.
struct Memory {
    server: Server,
    names: rows::Names,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Session {
    /// Connects. `timeout` bounds the wait for sockets, and each statement of later polls on the server; it does not
    /// bound a server that accepts the connection and says nothing: the caller must.
    ///
    /// # Errors
    /// A [`Failure`] that names host:port and what to do.
    pub fn connect(settings: &ConnSettings, environment: &dyn Environment, timeout: Duration) -> Result<Self, Failure> {
        let opened = connect::open(Kind::Server, settings, environment, connect::most(settings, timeout))?;
        Ok(Self {
            client: opened.client,
            address: opened.address,
            version_num: opened.version_num,
            timeout,
            broken_transaction: false,
            lost: false,
            memory: None,
            own_pid: None,
            lent: opened.lent,
            form: query::Form::FIRST,
            hoards: Hoards::default(),
            texts: Texts::default(),
            calm: CALM_POLLS,
            resorted: false,
        })
    }

    /// The most that [`connect`](Self::connect) may take: `timeout`, or less if the user's `connect_timeout` is less.
    pub fn connect_deadline(settings: &ConnSettings, timeout: Duration) -> Duration {
        connect::most(settings, timeout)
    }

    /// host:port of the server that answered.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether the connection is gone: it ended, or what came over it cannot be trusted any more.
    pub fn is_lost(&self) -> bool {
        self.lost || self.client.is_closed()
    }

    /// Whether there was a good poll over this connection.
    pub fn has_polled(&self) -> bool {
        self.memory.is_some()
    }

    /// Reads locks, sessions and facts, in one transaction that changes nothing. `epoch` is where
    /// [`Snapshot::monotonic`] counts from.
    ///
    /// When the server answers that its shared lock table is full (53200), or when a lock on a shared catalog is not to
    /// be had (55P03), it is asked once more without the shared catalogs, and names come from the last good poll.
    ///
    /// The lease tables are read after it, as far as half of what is left of the time allows; what is wrong with one is
    /// in the snapshot and no error.
    ///
    /// # Errors
    /// A [`Failure`] that names host:port and what to do. The session can be used again unless
    /// [`is_lost`](Self::is_lost).
    pub fn poll(&mut self, epoch: Instant, leases: &[LeaseTable]) -> Result<Snapshot, Failure> {
        let began = Instant::now();
        self.resorted = false;
        let snapshot = self.roll_back().and_then(|()| self.usual_poll()).or_else(|error| self.last_resort(error));
        match snapshot {
            Ok(mut snapshot) => {
                self.read_leases(&mut snapshot, leases, began);
                snapshot.monotonic = began.saturating_duration_since(epoch);
                snapshot.poll_duration = began.elapsed();
                // A connection keeps its backend, unless somebody in between gives it another.
                self.lent |= self.own_pid.replace(snapshot.own_pid).is_some_and(|before| before != snapshot.own_pid)
                    || snapshot.backends.iter().any(|backend| backend.lent_to_us);
                snapshot.behind_pooler = self.lent;
                Ok(snapshot)
            }
            Err(ReadError::Client(error)) => {
                // After an error of the server's that is not fatal the connection goes on; after any other it does not.
                let severity = error.as_db_error().and_then(DbError::parsed_severity);
                let goes_on =
                    error.as_db_error().is_some() && !matches!(severity, Some(Severity::Fatal | Severity::Panic));
                // A pooler's other server may be of an older version: which one it is is asked on connecting.
                let is_older = error.code().is_some_and(|code| UNKNOWN_TO_OLDER.contains(code));
                self.lost |= !goes_on || is_older;
                Err(failure::poll_failure(&error, &self.address))
            }
            Err(ReadError::Rows(error)) => Err(failure::unreadable(&error, &self.address)),
        }
    }

    /// Reads columns of a table, in one transaction that changes nothing. The session ends with it.
    ///
    /// # Errors
    /// A [`Failure`] that names the table, host:port and what to do.
    pub fn read(mut self, select: &Select) -> Result<TableRows, Failure> {
        table::read(&mut self.client, &self.address, select, self.timeout)
    }

    /// Reads what the server counted of statements with advisory locks, and the settings about leaks. The session ends
    /// with it.
    ///
    /// # Errors
    /// A [`Failure`] that names host:port and what to do.
    pub fn audit(mut self) -> Result<ServerFacts, Failure> {
        statements::read(&mut self.client, &self.address, self.version_num, self.timeout)
    }

    /// After the locks, so that nothing about these tables can lose them.
    fn read_leases(&mut self, snapshot: &mut Snapshot, tables: &[LeaseTable], began: Instant) {
        if tables.is_empty() {
            return;
        }
        if self.resorted {
            snapshot.leases = lease::not_read(tables);
            return;
        }
        // The deadline from outside is the whole timeout.
        let left = self.timeout.saturating_sub(began.elapsed());
        let (leases, lost) = lease::read_all(&mut self.client, tables, Instant::now() + left / 2);
        snapshot.leases = leases;
        self.lost |= lost;
    }

    /// Ends a transaction that an error has left open. Until then the server refuses everything else.
    fn roll_back(&mut self) -> Result<(), ReadError> {
        if self.broken_transaction {
            self.client.simple_query("ROLLBACK")?;
            self.broken_transaction = false;
        }
        Ok(())
    }

    /// Half the time that a poll may take: the last resort needs the other half.
    fn statement_timeout(&self) -> Duration {
        self.timeout / 2
    }

    fn ask(&mut self, message: &str, sets: usize) -> Result<Parts, ReadError> {
        let mut answer = Answer::new(&self.hoards, &mut self.texts);
        self.broken_transaction = true;
        self.client.each(message, |part| answer.take(part))?;
        self.broken_transaction = false;
        Ok(answer.parts(sets)?)
    }

    fn ask_usual(&mut self) -> Result<Parts, ReadError> {
        let message = query::poll(self.version_num, &self.form, self.statement_timeout());
        self.ask(&message, query::POLL_SETS)
    }

    /// Asks until nothing is missing. All of a snapshot must be of one poll.
    fn whole_answer(&mut self) -> Result<Parts, ReadError> {
        loop {
            let answer = self.ask_usual()?;
            if answer.locks.others && !self.form.others {
                // What holds these waits back was not sent.
                self.form.others = true;
            } else if !answer.locks.seen.unknown() {
                return Ok(answer);
            } else if self.form.sums.in_place_of_keys.is_empty() {
                return Err(rows::missing_keys().into());
            } else {
                // A hoard is not what it was.
                self.form.sums.in_place_of_keys.clear();
            }
        }
    }

    fn usual_poll(&mut self) -> Result<Snapshot, ReadError> {
        let answer = self.whole_answer()?;
        let Parts { before_locks, mut locks, pids, after_locks, mut sessions, rest } = answer;
        let [prepared, databases, facts] = rest.as_slice() else {
            return Err(rows::RowError::Empty("facts").into());
        };
        let mut names = rows::Names { databases: rows::databases(databases)?, roles: BTreeMap::new() };
        let (mut server, own_pid) = rows::facts(facts)?;
        // Behind a pooler the server may be another one, after a failover to another version.
        self.version_num = server.version_num;
        server.databases = names.databases.iter().map(|(oid, name)| (*oid, name.clone())).collect();
        for session in &mut sessions {
            names.give(session);
            names.learn(session);
        }
        let backends = with_own_if_lent(sessions, own_pid, &locks.rows);
        self.hoards.learn(std::mem::take(&mut locks.seen), locks.rows.len());
        self.calm = if locks.others { 0 } else { self.calm.saturating_add(1) };
        self.form = query::Form {
            grouped: locks.rows.len() > MANY_LOCKS * backends.len(),
            others: self.calm < CALM_POLLS,
            all_queries: backends.len() <= FEW_SESSIONS || pids.len() * 2 > backends.len(),
            sums: query::Sums {
                wanted: self.hoards.any(),
                in_place_of_keys: self.hoards.settled(),
                seed: self.hoards.seed,
            },
        };
        let snapshot = Snapshot {
            before_locks,
            sampled_at: after_locks,
            monotonic: Duration::ZERO,
            poll_duration: Duration::ZERO,
            prepared: rows::prepared(prepared, &locks, &names)?,
            locks: locks.rows,
            backends,
            server: server.clone(),
            own_pid,
            behind_pooler: false,
            poolers: Vec::new(),
            lock_table_full: false,
            leases: Vec::new(),
        };
        self.memory = Some(Memory { server, names });
        Ok(snapshot)
    }

    /// Asks without the shared catalogs, if the error is one that they cause and there is a memory of their names.
    fn last_resort(&mut self, error: ReadError) -> Result<Snapshot, ReadError> {
        let code = match &error {
            ReadError::Client(error) => error.code().cloned(),
            ReadError::Rows(_) => None,
        };
        let full = code == Some(SqlState::OUT_OF_MEMORY);
        if !(full || code == Some(SqlState::LOCK_NOT_AVAILABLE)) || self.memory.is_none() {
            return Err(error);
        }
        // What went wrong first is the news, whatever goes wrong now.
        self.resorted = true;
        self.without_catalogs(full).map_err(|_| error)
    }

    fn without_catalogs(&mut self, lock_table_full: bool) -> Result<Snapshot, ReadError> {
        self.roll_back()?;
        let message = query::last_resort(self.version_num, self.statement_timeout());
        let answer = self.ask(&message, query::LAST_RESORT_SETS)?;
        let Parts { before_locks, locks, after_locks, mut sessions, rest, .. } = answer;
        let (Some(memory), [prepared, own_pid]) = (&self.memory, rest.as_slice()) else {
            return Err(rows::RowError::Empty("pid").into());
        };
        for session in &mut sessions {
            memory.names.give(session);
        }
        if locks.seen.unknown() {
            return Err(rows::missing_keys().into());
        }
        let own_pid = rows::own_pid(own_pid)?;
        let backends = with_own_if_lent(sessions, own_pid, &locks.rows);
        Ok(Snapshot {
            before_locks,
            sampled_at: after_locks,
            monotonic: Duration::ZERO,
            poll_duration: Duration::ZERO,
            prepared: rows::prepared(prepared, &locks, &memory.names)?,
            locks: locks.rows,
            backends,
            server: memory.server.clone(),
            own_pid,
            behind_pooler: false,
            poolers: Vec::new(),
            lock_table_full,
            leases: Vec::new(),
        })
    }
}

/// The backends of a poll. We take no advisory lock: those of our own backend were left on it before a pooler lent it to
/// us, and it must not be missing among the holders. Without such locks it is left out.
fn with_own_if_lent(sessions: Vec<rows::BackendOfRole>, own_pid: Pid, locks: &Locks) -> Vec<Backend> {
    let lent_to_us = locks.held().any(|held| held.owner == LockOwner::Backend(own_pid));
    // What it is doing is this poll.
    let ours = |backend| Backend {
        lent_to_us,
        application: "".into(),
        xact_start: None,
        query_start: None,
        state: None,
        state_change: None,
        has_written: false,
        ..backend
    };
    let backends = sessions.into_iter().map(|(backend, _)| backend);
    let others_or_lent = backends.filter(|backend| lent_to_us || backend.pid != own_pid);
    others_or_lent.map(|backend| if backend.pid == own_pid { ours(backend) } else { backend }).collect()
}
