//! Standard output and standard error: the only two things that commands write to.

use std::io::{self, Write as _};

use crate::error::{Error, ErrorKind, Result};

/// Writes all of it to standard output.
///
/// # Errors
/// [`ErrorKind::ClosedPipe`] if nobody reads it any more; a failure if it cannot be written.
pub fn print(bytes: impl AsRef<[u8]>) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes.as_ref()).and_then(|()| out.flush()).map_err(Error::output)
}

/// Tells an error on standard error. If that is closed too there is nobody to tell.
pub fn complain(error: &Error) {
    if error.kind != ErrorKind::ClosedPipe {
        let _ = io::stderr().lock().write_all(error.text().as_bytes());
    }
}

/// Writes a text to standard error as it is.
pub fn warn(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
