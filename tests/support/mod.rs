//! What integration tests stand on: real servers, the program itself, a terminal.

pub mod command;
pub mod full;
pub mod line;
pub mod pgbouncer;
pub mod pgpool;
pub mod proxy;
pub mod psql;
pub mod pty;
pub mod server;
pub mod session;
pub mod wire;

use std::io::Write as _;

/// Says something on stderr although the test passes: the test harness only swallows what `eprintln!` prints.
pub fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}
