//! pglockwatch: the pool-safety diagnostic and leak monitor for PostgreSQL advisory locks.

pub mod analysis;
pub mod app;
pub mod audit;
pub mod cli;
pub mod config;
pub mod endings;
pub mod error;
pub mod exit;
pub mod guard;
pub mod keys;
pub mod logging;
pub mod model;
pub mod monitor;
pub mod pg;
pub mod pgbouncer;
pub mod quote;
pub mod render;
pub mod report_of;
pub mod rules;
pub mod settings;
pub mod signal;
pub mod silences;
mod sql;
pub mod units;
pub mod watch;

/// Runs the program: reads the command line, does what it says, and returns the exit code.
pub fn run() -> std::process::ExitCode {
    let around = settings::Process::default();
    app::main(&settings::arguments(), around.surroundings()).into()
}
