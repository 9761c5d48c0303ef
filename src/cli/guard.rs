//! `guard`: what was typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `guard`
#[derive(Debug, Args)]
#[command(after_help = "\
Polls every 100 ms while the command runs, and after it. A lock was left behind
if an idle session still holds it at the end, or if it vanished together with
its idle session: it was never unlocked. Only sessions count that began after
guard, in the database of the DSN. Locks of transactions never count.

The command's input, output and signals pass through. The report goes to stderr;
as JSON to stdout, in one line behind the command's own output.

Exit codes: the command's own if that is not 0 (128 + N if signal N ended it,
127 there is no such command, 126 it cannot be run); else 1 a lock was left
behind; else 3 the server could not be watched all the time; else 0. If it
cannot be watched at all the command is not run: 3. Bad usage: 2.

Examples:
  pglockwatch guard -d 'host=localhost dbname=app_test user=app' -- pytest -x
  pglockwatch guard --format json --output locks.json -- cargo test")]
pub struct GuardArgs {
    /// How to print what was left behind
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = GuardFormat::Text)]
    pub format: GuardFormat,
    /// Write the report to this file instead
    #[arg(long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The formats of `guard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GuardFormat {
    /// For people.
    Text,
    /// One JSON object, in one line.
    Json,
}
