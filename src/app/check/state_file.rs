//! The file of `--state-file`: what one look remembers for the next, for one target or several.
//!
//! It may have been damaged, or be somebody else's who means no good: what is not surely ours is not believed. It is
//! never written in place: a new file takes its name, so that two looks at once leave one whole file, and whatever a
//! symbolic link of that name leads to stays as it is.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::monitor::MonitorState;
use crate::render::style::safe;

/// The form of the file.
const SCHEMA: u32 = 1;
/// What has not been looked at for so long is dropped.
const OLDEST: Duration = Duration::from_secs(60 * 60);
/// How long another look is waited for: what is lost without it is little, and we must not be late.
const PATIENCE: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_millis(2);
/// The most that is read.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// What is remembered of all targets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memories {
    pglockwatch_state: u32,
    targets: BTreeMap<String, Memory>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    /// Seconds of this machine's clock, only to find out what nobody looks at any more.
    saved: u64,
    state: MonitorState,
}

impl Default for Memories {
    fn default() -> Self {
        Self { pglockwatch_state: SCHEMA, targets: BTreeMap::new() }
    }
}

impl Memories {
    /// What is remembered of this target.
    pub(super) fn take(&mut self, target: &str) -> Option<MonitorState> {
        self.targets.remove(target).map(|memory| memory.state)
    }
}

/// Refuses a path at which a file cannot be kept: a mistake that should be told before anything is looked at.
///
/// # Errors
/// One sentence.
pub(super) fn refuse_unfit(path: &Path) -> Result<()> {
    let refuse = |why: &str| Err(Error::usage(format!("--state-file: {} {why}", shown(path))));
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => refuse("is a folder: name a file"),
        Ok(metadata) => {
            let kind = metadata.file_type();
            if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() {
                return refuse("is not a regular file: name another");
            }
            Ok(())
        }
        Err(_) if folder(path).is_dir() => Ok(()),
        Err(_) => refuse("is in no folder that there is: make the folder first"),
    }
}

/// What the file remembers; nothing if there is none.
///
/// # Errors
/// One sentence on why what is there is not believed.
pub(super) fn read(path: &Path) -> std::result::Result<Memories, String> {
    let not_used = |why: &str| format!("the state file {} is not used: {why}", shown(path));
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Memories::default()),
        Err(error) => return Err(not_used(&error.to_string())),
        Ok(metadata) => metadata,
    };
    if metadata.is_symlink() {
        return Err(not_used("it is a symbolic link"));
    }
    let file = open(path).map_err(|error| not_used(&error.to_string()))?;
    let metadata = file.metadata().map_err(|error| not_used(&error.to_string()))?;
    if !metadata.is_file() {
        return Err(not_used("it is not a regular file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(not_used("it belongs to somebody else"));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(not_used("others can write to it"));
    }
    if metadata.len() > MOST_BYTES {
        return Err(not_used("it is too large to be ours"));
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(|error| not_used(&error.to_string()))?;
    match serde_json::from_str::<Memories>(&text) {
        Ok(memories) if memories.pglockwatch_state == SCHEMA => Ok(memories),
        Ok(_) => Err(not_used("another version of pglockwatch wrote it")),
        // Not what serde says: it quotes what is in the file.
        Err(_) => Err(not_used("it is damaged, or was not written by pglockwatch")),
    }
}

/// Opens it and never what a symbolic link leads to, nor waits for a pipe's other end.
fn open(path: &Path) -> io::Result<fs::File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Puts these states in place of what the file has of their targets, and drops what is old. What it has of others is
/// kept: another look may have written it meanwhile.
///
/// # Errors
/// The file cannot be written.
pub(super) fn update(path: &Path, states: Vec<(String, MonitorState)>) -> Result<()> {
    update_within(PATIENCE, path, states)
}

fn update_within(patience: Duration, path: &Path, states: Vec<(String, MonitorState)>) -> Result<()> {
    // Looks at several targets, begun in the same minute, may share a file: none may lose what another has just kept.
    let _alone = lock(path, patience);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // What was wrong with it has been told when it was read.
    let mut memories = read(path).unwrap_or_default();
    memories.targets.retain(|_, memory| now.abs_diff(memory.saved) <= OLDEST.as_secs());
    memories.targets.extend(states.into_iter().map(|(target, state)| (target, Memory { saved: now, state })));
    replace(path, &memories).map_err(|error| {
        Error::failure(format!("cannot write the state file {}", shown(path)))
            .caused_by(error)
            .hint("Nothing is remembered until that is mended: leaks on busy connections stay unseen.")
    })
}

/// Waits until no other look writes into this folder; nothing where that takes too long, or cannot be known. The lock
/// is on the folder, for the file itself is another one each time. It ends with the process at the latest.
fn lock(path: &Path, patience: Duration) -> Option<fs::File> {
    let folder = fs::File::open(folder(path)).ok()?;
    let until = Instant::now() + patience;
    loop {
        match folder.try_lock() {
            Ok(()) => return Some(folder),
            Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(POLL),
            Err(_) => return None,
        }
    }
}

fn replace(path: &Path, memories: &Memories) -> io::Result<()> {
    let text = serde_json::to_vec(memories)?;
    // A name that nobody can foresee, in the same folder, made anew and for its owner alone.
    let mut new = tempfile::Builder::new()
        .prefix(".pglockwatch-state-")
        .permissions(fs::Permissions::from_mode(0o600))
        .tempfile_in(folder(path))?;
    new.write_all(&text)?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

fn shown(path: &Path) -> String {
    safe(&path.display().to_string()).into_owned()
}

#[cfg(test)]
mod tests;
