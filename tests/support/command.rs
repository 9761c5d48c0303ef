//! The program itself, run as a stranger would: nothing of the caller's environment says where a server is.

use std::path::Path;
use std::time::{Duration, Instant};

use assert_cmd::Command;

/// What a run of the program left.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; nothing when a signal or the deadline ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

/// The program with a clean environment and an empty home, in a folder without a config file.
pub fn pglockwatch(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pglockwatch"));
    command.env_clear().current_dir(home).env("HOME", home).env("LC_ALL", "C.UTF-8");
    for name in ["PATH", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Runs it, at most this long.
pub fn run(mut command: Command, at_most: Duration) -> Ran {
    let began = Instant::now();
    let output = command.timeout(at_most).output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("stdout is not UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is not UTF-8"),
        took: began.elapsed(),
    }
}
