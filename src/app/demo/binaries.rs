//! Where this machine keeps PostgreSQL's server programs.
//!
//! It knows folders and `PATH`. It must not know what the server is wanted for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::DemoError;

/// The oldest server that pglockwatch works with.
const OLDEST_MAJOR: u32 = 12;

/// A folder with `initdb` and `postgres`, and which PostgreSQL that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// The folder.
    pub folder: PathBuf,
    /// The major version, as 15.
    pub major: u32,
}

impl Binaries {
    /// The server programs in exactly this folder.
    ///
    /// # Errors
    /// When `initdb` or `postgres` is not there, does not run, or is older than PostgreSQL 12.
    pub fn at(folder: &Path) -> Result<Self, DemoError> {
        if !holds_a_server(folder) {
            return Err(DemoError::new(format!("there is no initdb and postgres in {}", folder.display()))
                .hint("Name the folder that `pg_config --bindir` prints on a machine with the PostgreSQL server."));
        }
        let major = major_of(folder).ok_or_else(|| {
            DemoError::new(format!("{} does not run here", folder.join("postgres").display()))
                .hint("Try `postgres --version` there to see why.")
        })?;
        if major < OLDEST_MAJOR {
            return Err(DemoError::new(format!("{} is PostgreSQL {major}", folder.display()))
                .hint("pglockwatch works with PostgreSQL 12 and later."));
        }
        Ok(Self { folder: folder.to_owned(), major })
    }

    /// What `PATH` finds first; else what `pg_config --bindir` says; else the newest in the usual folders.
    ///
    /// # Errors
    /// When there is no server anywhere: says what to install.
    pub fn find() -> Result<Self, DemoError> {
        Self::all().into_iter().next().ok_or_else(|| {
            DemoError::new("found no PostgreSQL server programs (initdb and postgres)")
                .hint("Install the server: `apt-get install postgresql` (Debian, Ubuntu), `dnf install postgresql-server` (Fedora), `brew install postgresql` (macOS).")
                .hint("If they are somewhere unusual, name the folder: --bindir FOLDER.")
        })
    }

    /// Every server found, the preferred one first, each folder once.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut usual: Vec<Self> = usual_folders().iter().filter_map(|folder| Self::at(folder).ok()).collect();
        usual.sort_by_key(|found| std::cmp::Reverse(found.major));
        let mut all: Vec<Self> = path_folders()
            .into_iter()
            .chain(pg_config_folder())
            .filter_map(|folder| Self::at(&folder).ok())
            .chain(usual)
            .collect();
        let mut seen = std::collections::HashSet::new();
        all.retain(|found| seen.insert(found.folder.canonicalize().unwrap_or_else(|_| found.folder.clone())));
        all
    }

    /// The path of one of the programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn holds_a_server(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file())
}

fn path_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| holds_a_server(folder)).collect()
}

fn pg_config_folder() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(folder.trim_end()))
}

/// Where packages put the server: parent folder, how the version's folder begins, and what follows.
const USUAL: &[(&str, &str, &str)] = &[
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/local", "pgsql", "bin"),
    ("/usr/libexec", "postgresql", ""),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
];

fn usual_folders() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (parent, begins, then) in USUAL {
        let Ok(entries) = std::fs::read_dir(parent) else { continue };
        let mut folders: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(begins))
            .map(|entry| entry.path().join(then))
            .filter(|folder| holds_a_server(folder))
            .collect();
        folders.sort();
        found.extend(folders);
    }
    found
}

fn major_of(folder: &Path) -> Option<u32> {
    let output = Command::new(folder.join("postgres")).arg("--version").stdin(Stdio::null()).output().ok()?;
    parse_major(&String::from_utf8_lossy(&output.stdout))
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`, or `19beta1`, is 15, or 19.
fn parse_major(version: &str) -> Option<u32> {
    let number = version.split("(PostgreSQL)").nth(1)?.trim_start();
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_packagers_print() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 19beta1"), Some(19));
        assert_eq!(parse_major("postgres (PostgreSQL) 9.6.24"), Some(9));
        assert_eq!(parse_major("no such thing"), None);
    }

    #[test]
    fn a_folder_without_a_server_is_named_in_the_error() {
        let error = Binaries::at(Path::new("/nonexistent/bin")).unwrap_err();
        assert!(error.message.contains("/nonexistent/bin"), "{error}");
        assert_eq!(error.hints.len(), 1);
    }
}
