//! Exit codes, and nothing else: from an outcome or an error to the number that a script sees.

use std::process::ExitCode;

use crate::error::{Error, ErrorKind};
use crate::render::Status;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exit(u8);

/// Which convention a command's exit codes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Convention {
    /// The monitoring plugins' convention (`check`): whatever keeps us from judging is 3.
    Plugin,
    /// 0, or 1 for a bad verdict, 2 on bad usage, 3 where there can be no verdict.
    Verdict,
    /// 0, or 1 on failure, 2 on bad usage.
    Plain,
}

impl Exit {
    /// All is well.
    pub const SUCCESS: Self = Self(0);
    /// What was asked for could not be done; in `check`: a warning.
    pub const FAILURE: Self = Self(1);
    /// Bad usage; in `check`: critical.
    pub const USAGE: Self = Self(2);
    /// `check`, `probe` or `guard` could not judge.
    pub const UNKNOWN: Self = Self(3);

    /// The number.
    pub fn code(self) -> u8 {
        self.0
    }

    /// The code of `check` for what it found.
    pub fn of_status(status: Status) -> Self {
        match status {
            Status::Ok => Self::SUCCESS,
            Status::Warning => Self(1),
            Status::Critical => Self(2),
            Status::Unknown => Self::UNKNOWN,
        }
    }

    /// The code for an error. A closed pipe is no failure: whoever read us has seen enough.
    pub fn of_error(error: &Error, convention: Convention) -> Self {
        match (error.kind, convention) {
            (ErrorKind::ClosedPipe, _) => Self::SUCCESS,
            (ErrorKind::Usage, Convention::Plain | Convention::Verdict) => Self::USAGE,
            (ErrorKind::Failure | ErrorKind::Stopped, Convention::Plain) => Self::FAILURE,
            (_, Convention::Plugin) | (ErrorKind::Failure | ErrorKind::Stopped, Convention::Verdict) => Self::UNKNOWN,
        }
    }

    /// The code for a command line that clap refused.
    pub fn of_bad_usage(convention: Convention) -> Self {
        match convention {
            Convention::Plugin => Self::UNKNOWN,
            Convention::Plain | Convention::Verdict => Self::USAGE,
        }
    }
}

impl From<u8> for Exit {
    fn from(code: u8) -> Self {
        Self(code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_says_unknown_where_other_commands_say_usage_or_failure() {
        let usage = Error::usage("no such option");
        assert_eq!(Exit::of_error(&usage, Convention::Plugin), Exit::UNKNOWN);
        assert_eq!(Exit::of_error(&usage, Convention::Plain), Exit::USAGE);
        assert_eq!(Exit::of_error(&usage, Convention::Verdict), Exit::USAGE);
        let failure = Error::failure("cannot connect");
        assert_eq!(Exit::of_error(&failure, Convention::Plugin), Exit::UNKNOWN);
        assert_eq!(Exit::of_error(&failure, Convention::Plain), Exit::FAILURE);
        assert_eq!(Exit::of_error(&failure, Convention::Verdict), Exit::UNKNOWN);
        assert_eq!(Exit::of_error(&usage, Convention::Verdict), Exit::USAGE);
    }

    #[test]
    fn a_closed_pipe_is_quiet_success() {
        let closed = Error::output(std::io::ErrorKind::BrokenPipe.into());
        assert_eq!(Exit::of_error(&closed, Convention::Plain), Exit::SUCCESS);
    }
}
