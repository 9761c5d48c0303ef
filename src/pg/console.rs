//! A connection to PgBouncer's console: commands in, rows out, by the names of their columns.
//!
//! Knows the simple protocol, the only one that the console speaks, and nothing of what its commands mean.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::client::Client;
use super::conninfo::{ConnSettings, Environment};
use super::{connect, failure};
use crate::analysis::report::Failure;

/// An open console.
pub struct Console {
    client: Client,
    address: String,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A row of a console's answer: texts by the names of their columns. Columns that are empty are left out, and those
/// that are not UTF-8: PgBouncer hands on what its clients sent.
pub type ConsoleRow = HashMap<String, String>;

impl Console {
    /// Connects, with the same rules as to a server. `timeout` bounds the wait for sockets, not for a PgBouncer that
    /// accepts the connection and says nothing: the caller must.
    ///
    /// # Errors
    /// A [`Failure`] that names host:port and what to do.
    pub fn connect(settings: &ConnSettings, environment: &dyn Environment, timeout: Duration) -> Result<Self, Failure> {
        let timeout = connect::most(settings, timeout);
        let opened = connect::open(connect::Kind::Console, settings, environment, timeout)?;
        Ok(Self { client: opened.client, address: opened.address })
    }

    /// Runs one command and returns its rows.
    ///
    /// # Errors
    /// A [`Failure`] that names host:port. The connection is of no further use.
    pub fn ask(&mut self, command: &str) -> Result<Vec<ConsoleRow>, Failure> {
        let messages =
            self.client.simple_query(command).map_err(|error| failure::poll_failure(&error, &self.address))?;
        Ok(messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(by_name(row)),
                _ => None,
            })
            .collect())
    }
}

fn by_name(row: &SimpleQueryRow) -> ConsoleRow {
    let cells = row.columns().iter().enumerate().filter_map(|(place, column)| {
        let text = row.try_get(place).ok().flatten().filter(|text| !text.is_empty())?;
        Some((column.name().to_owned(), text.to_owned()))
    });
    cells.collect()
}
