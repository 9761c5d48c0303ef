//! Small files that people write by hand: read whole, regular files only, and not without bound.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// The most that is read.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// What a file holds, and who may read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallFile {
    /// Its text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Its permission bits, as 0o600.
    pub mode: u32,
}

/// Reads a file. Anything but a regular file, and one over 16 MB, is an error: a pipe would block, a device never end.
pub fn read(path: &Path) -> Result<SmallFile> {
    let (bytes, mode) = read_bytes(path)?;
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok(SmallFile { text, mode })
}

/// The same for a file that need not be text: its bytes and its permission bits.
pub fn read_bytes(path: &Path) -> Result<(Vec<u8>, u32)> {
    refuse_unfit(path)?;
    // Some files of the kernel's are regular ones, and wait for their next line.
    let waits_for_nothing = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(waits_for_nothing).open(path)?;
    let metadata = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok((bytes, metadata.mode() & 0o7777))
}

/// Refuses what must not even be opened, for opening a pipe would wait for its writer.
pub fn refuse_unfit(path: &Path) -> Result<()> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if metadata.len() > MOST_BYTES {
        return Err(Error::new(ErrorKind::FileTooLarge, "it is larger than 16 MB"));
    }
    Ok(())
}
