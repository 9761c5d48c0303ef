//! The command that is guarded: started, waited for, and what its end is called.
//!
//! It knows processes and signals, and nothing of servers.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{self, ExitStatus};
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::signal::Sent;

/// No such command: as shells, `env` and `timeout` have it.
const NOT_FOUND: u8 = 127;
/// It is there, and cannot be run.
const NOT_RUN: u8 = 126;
/// Added to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;

/// A command that runs. It has our terminal, our input and our output.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    pid: Pid,
}

/// Why a command does not run: the sentence, and the exit code.
pub(super) struct NotStarted(pub Error, pub Exit);

impl Child {
    /// Starts it. `ended` is called once, when it has ended; until [`end`](Self::end) its process id stays its own.
    pub(super) fn start(command: &[OsString], ended: impl FnOnce() + Send + 'static) -> Result<Self, NotStarted> {
        let not_run = |error| NotStarted(error, Exit::from(NOT_RUN));
        let Some((program, arguments)) = command.split_first() else {
            return Err(not_run(Error::usage("there is no command to run")));
        };
        let process = process::Command::new(program).args(arguments).spawn().map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN };
            let message = format!("cannot run {}", program.to_string_lossy());
            NotStarted(Error::failure(message).caused_by(error), Exit::from(code))
        })?;
        let Some(pid) = i32::try_from(process.id()).ok().and_then(Pid::from_raw) else {
            return Err(not_run(Error::failure("the command's process id is out of range")));
        };
        let wait = move || {
            // It is left to be reaped: a signal that comes now must not hit whoever gets its process id next.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
            ended();
        };
        let waiter = thread::Builder::new().name("wait".to_owned()).spawn(wait);
        waiter.map_err(|error| not_run(Error::failure("cannot start a thread").caused_by(error)))?;
        Ok(Self { process, pid })
    }

    /// Hands on a signal that the command has not got itself. A terminal's reaches both, and so does one that the
    /// command sends to its process group.
    pub(super) fn hand_on(&self, sent: Sent) {
        let has_it = sent.sender.is_none_or(|sender| sender == self.pid.as_raw_nonzero().get());
        if let (Some(signal), false) = (Signal::from_named_raw(sent.number), has_it) {
            // It fails only if the command may not be signalled by us any more: nothing can be done then.
            let _ = kill_process(self.pid, signal);
        }
    }

    /// The exit code, once it has ended.
    pub(super) fn end(mut self) -> Result<Exit> {
        let status =
            self.process.wait().map_err(|error| Error::failure("cannot wait for the command").caused_by(error))?;
        Ok(exit_of(status))
    }
}

/// As shells have it: a signal is told as 128 and its number.
fn exit_of(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| Some(SIGNALLED + status.signal()?));
    Exit::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// The exit code of a process that this signal ended.
pub(super) fn exit_of_signal(number: i32) -> Exit {
    Exit::from(u8::try_from(SIGNALLED + number).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_shells() {
        assert_eq!(exit_of(ExitStatus::from_raw(7 << 8)).code(), 7);
        assert_eq!(exit_of(ExitStatus::from_raw(15)).code(), 143);
        assert_eq!(exit_of(ExitStatus::from_raw(0)).code(), 0);
        assert_eq!(exit_of_signal(2).code(), 130);
    }
}
