//! What the experiments of a probe saw. Plain data, without meaning: that is [`verdict`](super::verdict)'s business.

use std::time::Duration;

use crate::analysis::report::Failure;
use crate::model::{Oid, Pid, Time};

/// A backend. The pid alone may be given to another one later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backend {
    /// pid
    pub pid: Pid,
    /// backend_start
    pub started: Time,
    /// The oid of its database.
    pub database: Oid,
}

/// Why an experiment, or the whole probe, came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No connection.
    Connect(Failure),
    /// No answer for so long.
    Silent(Duration),
    /// An error of the server's or a pooler's.
    Refused {
        /// SQLSTATE
        code: String,
        /// What it said.
        message: String,
        /// The connection ended with it.
        fatal: bool,
    },
    /// The connection ended.
    Lost(String),
    /// The answer is not what such a statement answers.
    Unreadable,
    /// A signal.
    Stopped,
    /// All of it together took too long.
    OutOfTime,
}

impl Trouble {
    /// One sentence without a full stop.
    pub fn sentence(&self) -> String {
        match self {
            Self::Connect(failure) => failure.message.clone(),
            Self::Silent(length) => format!("there was no answer for {:.1} s", length.as_secs_f64()),
            Self::Refused { code, message, .. } => format!("a statement was refused: {message} ({code})"),
            Self::Lost(why) => format!("the connection is lost: {why}"),
            Self::Unreadable => "an answer is not what PostgreSQL answers to such a statement".to_owned(),
            Self::Stopped => "stopped by a signal".to_owned(),
            Self::OutOfTime => "it took too long".to_owned(),
        }
    }
}

/// One client, alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alone {
    /// So many statements outside a transaction.
    pub statements: usize,
    /// The backends that ran them, in the order in which they were first seen.
    pub backends: Vec<Backend>,
}

/// The same client, while others through the same DSN are busy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Busy {
    /// So many others were connected.
    pub others: usize,
    /// Why there was not one more.
    pub no_more: Option<Trouble>,
    /// So many statements of the client were run meanwhile.
    pub statements: usize,
    /// The backends that ran them.
    pub backends: Vec<Backend>,
    /// A backend that served another client too, while the client was connected.
    pub shared: Option<Backend>,
    /// BEGIN was refused, with these words.
    pub begin_refused: Option<String>,
    /// So many statements of the client were served while another, who had asked before, was not.
    pub served_before_another: usize,
    /// The others held transactions open meanwhile.
    pub in_transactions: bool,
}

/// What became of a startup option that does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartupOption {
    /// It reached the server.
    Passed,
    /// It did not.
    Dropped,
    /// The connection was refused because of it, with these words.
    Refused(String),
    /// Nobody knows: no connection.
    Unknown,
}

/// What another session sees of the client's backend, whose client rests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtRest {
    /// The client's own statement is the last one.
    Untouched,
    /// Somebody ran this statement behind it, which frees locks.
    Reset(String),
    /// Somebody ran another statement behind it.
    Used,
    /// The backend has ended.
    Ended,
    /// Statements of sessions are not to be seen.
    Blind,
}

/// What another session sees of a backend whose client has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaving {
    /// It has ended.
    Ended,
    /// It goes on, and this statement, which frees locks, was run.
    Reset(String),
    /// It goes on with all that the client left; the last statement was this one, or the client's own.
    AsLeft(Option<String>),
    /// It goes on, and statements of sessions are not to be seen.
    Blind,
}

/// A lock that was taken with `pg_try_advisory_xact_lock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionLock {
    /// It was there within the transaction.
    pub held: bool,
    /// It was still there behind it.
    pub left: bool,
}

/// How a wait for a lock with a `lock_timeout` ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// With 55P03, as it must.
    TimedOut,
    /// The lock timeout did nothing: the statement's own ended it, or we did.
    Late,
    /// It got a lock that somebody else held.
    Granted,
    /// Otherwise.
    Other(String),
}

/// A lock that was taken with `pg_try_advisory_lock`, and kept over transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLock {
    /// So many transactions, one of them failed, ended while it should have been held.
    pub transactions: usize,
    /// It was there behind them.
    pub kept: bool,
    /// The unlock ran on the backend that took it.
    pub same_backend: bool,
    /// What the unlock returned.
    pub unlocked: bool,
}

/// Taken twice, freed three times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Held after the first unlock.
    pub after_one: bool,
    /// Held after the second.
    pub after_two: bool,
    /// What the third returned.
    pub third: bool,
}

/// A session lock whose client left without freeing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftBehind {
    /// It was gone soon after.
    pub freed: bool,
    /// A fresh client held it.
    pub inherited: bool,
}

/// What is left at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cleanup {
    /// No lock was ever asked for.
    NothingTaken,
    /// `pg_locks` has no row with our key.
    Clean,
    /// These rows.
    Left(Vec<Lock>),
    /// It could not be looked at; this may be left.
    Unknown(Option<Lock>),
}

/// A lock of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// Who holds it.
    pub backend: Backend,
    /// In ShareLock; else in ExclusiveLock.
    pub shared: bool,
    /// It goes with its transaction.
    pub of_transaction: bool,
}

/// Everything.
#[derive(Debug, Clone)]
pub struct Observed {
    /// host:port
    pub address: String,
    /// The DSN may lead other clients to other servers.
    pub several_servers: bool,
    /// The server is in recovery.
    pub standby: bool,
    /// The second number of the key.
    pub objid: i32,
    /// Experiment 1.
    pub alone: Option<Alone>,
    /// Experiment 2.
    pub busy: Option<Busy>,
    /// A startup option.
    pub startup_option: Option<StartupOption>,
    /// What `SHOW pool_version` said, if anybody knew it.
    pub pool_version: Option<String>,
    /// Experiment 4, each look.
    pub at_rest: Vec<AtRest>,
    /// Experiment 5.
    pub leaving: Option<Leaving>,
    /// Experiment 6.
    pub transaction_lock: Option<TransactionLock>,
    /// Experiment 7.
    pub wait: Option<Wait>,
    /// Experiments 8 and 9.
    pub session_lock: Option<SessionLock>,
    /// Experiment 10.
    pub counted: Option<Counted>,
    /// Experiment 11.
    pub left_behind: Option<LeftBehind>,
    /// Why it ended before its end.
    pub trouble: Option<Trouble>,
    /// The end.
    pub cleanup: Cleanup,
}

impl Observed {
    /// Nothing yet.
    pub fn new(address: String, objid: i32) -> Self {
        Self {
            address,
            several_servers: false,
            standby: false,
            objid,
            alone: None,
            busy: None,
            startup_option: None,
            pool_version: None,
            at_rest: Vec::new(),
            leaving: None,
            transaction_lock: None,
            wait: None,
            session_lock: None,
            counted: None,
            left_behind: None,
            trouble: None,
            cleanup: Cleanup::NothingTaken,
        }
    }

    /// Whether one backend served several clients, or several backends one.
    pub fn is_shared(&self) -> bool {
        let several = |backends: &[Backend]| backends.windows(2).any(|pair| pair[0] != pair[1]);
        let mut all: Vec<Backend> = self.alone.iter().flat_map(|alone| alone.backends.clone()).collect();
        all.extend(self.busy.iter().flat_map(|busy| busy.backends.clone()));
        several(&all)
            || self.busy.as_ref().is_some_and(|busy| busy.shared.is_some() || busy.begin_refused.is_some())
            || self.at_rest.contains(&AtRest::Used)
    }

    /// Whether a statement that frees locks was seen behind the client's own more often than not.
    pub fn is_reset(&self) -> bool {
        let resets = self.at_rest.iter().filter(|look| matches!(look, AtRest::Reset(_) | AtRest::Ended)).count();
        resets * 2 > self.at_rest.len()
    }

    /// Whether a client seems to keep its backend, as far as was seen without a lock: only then a session lock is
    /// taken.
    pub fn keeps_backend(&self) -> bool {
        !self.is_shared()
            && self.busy.as_ref().is_some_and(|busy| busy.others > 0 && busy.in_transactions)
            && !self.at_rest.is_empty()
            && self.at_rest.iter().all(|look| matches!(look, AtRest::Untouched | AtRest::Blind))
            && matches!(self.leaving, Some(Leaving::Ended | Leaving::Reset(_)))
    }
}
