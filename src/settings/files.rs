//! Files that a user names: read once, whole, within bounds.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::keys::Dictionary;
use crate::pg::Environment;

/// A file that was read, and who else may read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedFile {
    /// Its path as it was written.
    path: PathBuf,
    /// Its group or everybody may read it.
    others_can_read: bool,
}

impl NamedFile {
    /// What to say of it if it holds a password.
    pub fn warning(&self) -> Option<String> {
        let path = self.path.display();
        self.others_can_read.then(|| format!("{path} holds a password and others can read it: chmod 600 {path}"))
    }
}

/// The text of a regular file of at most 16 MB.
///
/// # Errors
/// It cannot be read. The sentence names the path.
pub(super) fn read(path: &Path, environment: &dyn Environment) -> Result<(String, NamedFile)> {
    let cannot = |error| Error::usage(format!("cannot read {}", path.display())).caused_by(error);
    let file = environment.read(path).map_err(cannot)?;
    let named = NamedFile { path: path.to_owned(), others_can_read: file.mode & 0o044 != 0 };
    Ok((file.text, named))
}

/// Key dictionaries, each once however often it is named.
///
/// # Errors
/// One cannot be read or is wrong.
pub(super) fn dictionaries<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    environment: &dyn Environment,
) -> Result<Vec<Dictionary>> {
    let mut seen: Vec<&PathBuf> = Vec::new();
    let mut dictionaries = Vec::new();
    for path in paths {
        if seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let (text, _) = read(path, environment)?;
        dictionaries.push(Dictionary::parse(&path.display().to_string(), &text).map_err(Error::problems)?);
    }
    Ok(dictionaries)
}
