//! What completes a connection string: variables, the user's name and home, small files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::pg::files::{self, SmallFile};

/// Where [`ConnInfo::complete`](super::ConnInfo::complete) looks for what a connection string leaves out. An argument,
/// so that it can be tested and so that a target of a config file may be completed with less than the whole.
pub trait Environment {
    /// An environment variable, if it is set and is UTF-8.
    fn var(&self, name: &str) -> Option<String>;
    /// The home folder.
    fn home(&self) -> Option<PathBuf>;
    /// The name of the operating system's user.
    fn os_user(&self) -> Option<String>;
    /// Reads a small file.
    ///
    /// # Errors
    /// As [`std::fs`] gives them; also if it is no regular file or over 16 MB.
    fn read(&self, path: &Path) -> io::Result<SmallFile>;
    /// The name of a variable that says where to connect, or how, and whose value is no UTF-8: [`Environment::var`]
    /// cannot give it, and to go on without it could mean another server.
    fn unreadable(&self) -> Option<String> {
        None
    }
    /// Whether there is something at that path.
    fn exists(&self, path: &Path) -> bool;
}

/// The environment of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn unreadable(&self) -> Option<String> {
        let ours = |name: &str| name.starts_with("PG") || name.starts_with("DATA_SOURCE_");
        let mut names = std::env::vars_os()
            .filter(|(_, value)| value.to_str().is_none())
            .filter_map(|(name, _)| name.into_string().ok());
        names.find(|name| ours(name))
    }

    fn home(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
    }

    fn os_user(&self) -> Option<String> {
        whoami::username().ok()
    }

    fn read(&self, path: &Path) -> io::Result<SmallFile> {
        files::read(path)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }
}

/// An environment of plain values: for tests, and for completing a string with nothing but defaults.
#[derive(Debug, Clone, Default)]
pub struct FixedEnvironment {
    /// Variables.
    pub variables: BTreeMap<String, String>,
    /// The home folder.
    pub home: Option<PathBuf>,
    /// The user's name.
    pub os_user: Option<String>,
    /// All files there are.
    pub files: BTreeMap<PathBuf, SmallFile>,
}

impl Environment for FixedEnvironment {
    fn var(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn home(&self) -> Option<PathBuf> {
        self.home.clone()
    }

    fn os_user(&self) -> Option<String> {
        self.os_user.clone()
    }

    fn read(&self, path: &Path) -> io::Result<SmallFile> {
        self.files.get(path).cloned().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }
}
