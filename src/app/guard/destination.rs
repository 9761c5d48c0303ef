//! Where the report goes: standard error, standard output behind the command's own, or a file.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::app::output;
use crate::cli::guard::{GuardArgs, GuardFormat};
use crate::error::{Error, ErrorKind, Result};

/// Where the report goes.
#[derive(Debug)]
pub(super) enum Destination {
    Stderr,
    Stdout,
    File(File, PathBuf),
}

impl Destination {
    /// Opens it, so that a file that cannot be written is known before a long test suite runs.
    pub(super) fn open(args: &GuardArgs) -> Result<Self> {
        match (&args.output, args.format) {
            (Some(path), _) => {
                Ok(Self::File(File::create(path).map_err(|error| cannot_write(path, error))?, path.clone()))
            }
            (None, GuardFormat::Text) => Ok(Self::Stderr),
            (None, GuardFormat::Json) => Ok(Self::Stdout),
        }
    }

    /// Writes it. Whoever closes the pipe early still gets the exit code.
    pub(super) fn write(self, text: &str) -> Result<()> {
        match self {
            Self::Stderr => output::warn(text),
            Self::Stdout => match output::print(text) {
                Err(error) if error.kind == ErrorKind::ClosedPipe => {}
                printed => return printed,
            },
            Self::File(mut file, path) => {
                return file.write_all(text.as_bytes()).map_err(|error| cannot_write(&path, error));
            }
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, error: std::io::Error) -> Error {
    Error::usage(format!("cannot write to {}", path.display())).caused_by(error).hint("Name another --output.")
}
