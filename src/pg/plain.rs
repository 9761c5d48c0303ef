//! One connection for statements that somebody else words: simple protocol only, for named statements do not live
//! through a pooler.
//!
//! Knows how an answer and an error come. It has no deadline of its own: the caller must give each call one.

use std::fmt;
use std::time::Duration;

use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::{DbError, Severity};

use super::client::Client;
use super::conninfo::{Address, ConnSettings, Environment, SessionAttrs};
use super::{connect, failure, rows};
use crate::analysis::report::Failure;
use crate::model::Time;

/// The rows of one statement; a NULL is nothing.
pub type Rows = Vec<Vec<Option<String>>>;

/// A connection.
pub struct PlainSession {
    client: Client,
    address: String,
}

impl fmt::Debug for PlainSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainSession").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why a message has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The server, or whatever stands before it, answered with an error.
    Error {
        /// SQLSTATE
        code: String,
        /// What it said, in one line.
        message: String,
        /// The connection ended with it.
        fatal: bool,
    },
    /// The connection is gone; why, in one line.
    Lost(String),
}

impl PlainSession {
    /// Connects, as [`Session::connect`](super::Session::connect) does.
    ///
    /// # Errors
    /// A [`Failure`] that names host:port and what to do.
    pub fn connect(settings: &ConnSettings, environment: &dyn Environment, timeout: Duration) -> Result<Self, Failure> {
        let opened = connect::open(connect::Kind::Server, settings, environment, connect::most(settings, timeout))?;
        Ok(Self { client: opened.client, address: opened.address })
    }

    /// The most that [`connect`](Self::connect) may take.
    pub fn connect_deadline(settings: &ConnSettings, timeout: Duration) -> Duration {
        connect::most(settings, timeout)
    }

    /// host:port of the server that answered.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends one message, which may have several statements; the rows of those that return any. Bytes that are not
    /// UTF-8 are U+FFFD as a whole.
    ///
    /// # Errors
    /// A [`Refusal`]. Statements behind one that failed did not run.
    pub fn send(&mut self, message: &str) -> Result<Vec<Rows>, Refusal> {
        let messages = self.client.simple_query(message).map_err(|error| refusal(&error))?;
        let mut sets: Vec<Rows> = Vec::new();
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(_) => sets.push(Rows::new()),
                SimpleQueryMessage::Row(row) => {
                    // `get` panics on bytes that are not UTF-8, `try_get` does not.
                    let cell = |place| row.try_get(place).map_or(Some("\u{FFFD}"), |cell| cell).map(str::to_owned);
                    if let Some(set) = sets.last_mut() {
                        set.push((0..row.len()).map(cell).collect());
                    }
                }
                // Ends of commands, and kinds of message that a later version of the client may add.
                _ => {}
            }
        }
        Ok(sets)
    }
}

/// A time that was asked for as `encode(timestamptz_send(...), 'hex')`.
pub fn moment(hex: &str) -> Option<Time> {
    rows::time(hex)
}

/// The same text for a time, to compare with.
pub fn hex_of(moment: Time) -> String {
    rows::hex(moment)
}

fn refusal(error: &tokio_postgres::Error) -> Refusal {
    let Some(db) = error.as_db_error() else {
        let why = if error.is_closed() { "the connection was closed".to_owned() } else { failure::reason(error) };
        return Refusal::Lost(why);
    };
    Refusal::Error {
        code: db.code().code().to_owned(),
        message: failure::one_line(db.message()),
        fatal: matches!(DbError::parsed_severity(db), Some(Severity::Fatal | Severity::Panic)),
    }
}

impl ConnSettings {
    /// The same, but only the server at this address (host:port, as [`PlainSession::address`] says it): several
    /// sessions tell something about each other only if they are of one server.
    #[must_use]
    pub fn only_at(&self, address: &str) -> Self {
        let addresses: Vec<Address> = self.addresses.iter().filter(|one| one.name() == address).cloned().collect();
        Self { addresses: if addresses.is_empty() { self.addresses.clone() } else { addresses }, ..self.clone() }
    }

    /// Whether it may lead two sessions to two servers: it names several addresses, and does not ask for the one server
    /// that takes writes.
    pub fn leads_to_several_servers(&self) -> bool {
        self.addresses.len() > 1 && !matches!(self.attrs, SessionAttrs::ReadWrite | SessionAttrs::Primary)
    }

    /// The same with one more startup option.
    #[must_use]
    pub fn with_startup_option(&self, option: &str) -> Self {
        let options = match &self.startup_options {
            Some(own) => format!("{own} {option}"),
            None => option.to_owned(),
        };
        Self { startup_options: Some(options), ..self.clone() }
    }
}
