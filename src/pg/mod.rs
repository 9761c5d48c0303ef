//! PostgreSQL: how to connect as libpq does, one poll of one server, and one read of a table that is named,
//! and sessions for statements that a command words itself.
//!
//! The only module that talks to a server. It turns rows into the [`model`](crate::model) and decides nothing about
//! them: no rule, no threshold. Passwords live in `secrecy::SecretString` from the parser to the client; no error, log
//! or `Debug` output of this module contains one, nor a connection string.

mod alive;
mod answer;
mod calls;
mod client;
mod connect;
pub mod conninfo;
mod console;
mod failure;
mod files;
mod hoards;
mod lease;
mod passfile;
mod plain;
mod query;
mod read_error;
mod refused;
mod rows;
mod session;
mod statements;
mod table;
mod text;
mod tls;

pub use conninfo::{ConnInfo, ConnInfoError, ConnSettings, Environment, ProcessEnvironment};
pub use console::{Console, ConsoleRow};
pub use failure::timed_out;
pub use files::SmallFile;
pub use plain::{PlainSession, Refusal, Rows, hex_of, moment};
pub use session::Session;
pub use table::{Select, TableRows};
