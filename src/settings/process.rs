//! The one place that asks the operating system: command line, environment, terminal.

use std::ffi::OsString;
use std::io::IsTerminal as _;

use super::Surroundings;
use crate::pg::ProcessEnvironment;

/// The command line, the program's name first.
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().collect()
}

/// What is around this process.
#[derive(Debug, Default)]
pub struct Process {
    environment: ProcessEnvironment,
}

impl Process {
    /// As the settings want it.
    pub fn surroundings(&self) -> Surroundings<'_> {
        let is_terminal = std::io::stdout().is_terminal();
        // A terminal that does not tell its size has the size that terminals had.
        let size = || crossterm::terminal::size().ok().filter(|&(columns, rows)| columns > 0 && rows > 0);
        Surroundings { environment: &self.environment, terminal: is_terminal.then(|| size().unwrap_or((80, 24))) }
    }
}
