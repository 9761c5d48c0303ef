//! A temporary folder that does not outlive this process, whatever ends it, nor does a server in it.
//!
//! It knows users, processes and signals. It must not know what is in the folder but for a server's data folder,
//! `data`, whose `postmaster.pid` names the process to stop.

use std::io::Write as _;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::DemoError;

/// Whom the server's programs run as: they refuse root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Nothing for an ordinary user, who owns what he starts; for root the user `postgres`, else `nobody`.
    ///
    /// # Errors
    /// When we are root and there is neither.
    pub fn for_this_process() -> Result<Option<Self>, DemoError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        ["postgres", "nobody"].into_iter().find_map(Self::of_user).map(Some).ok_or_else(|| {
            DemoError::new("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
                .hint("Run this as an ordinary user.")
        })
    }

    fn of_user(name: &str) -> Option<Self> {
        let number = |which: &str| -> Option<u32> {
            let output = Command::new("id").args([which, name]).stderr(Stdio::null()).output().ok()?;
            String::from_utf8(output.stdout).ok()?.trim().parse().ok()
        };
        Some(Self { uid: number("-u")?, gid: number("-g")? })
    }
}

/// A temporary folder, its owner, and a small process that removes it if we cannot.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    owner: Option<Owner>,
    watcher: Option<Child>,
}

/// Waits until its standard input ends. A word before that means that all was cleaned up in good order. Without it
/// our process is gone: stop the server, if the process of that number is really the one that runs in `data`, and
/// remove the folder. CONT is for a server that was stopped by SIGSTOP and would never see QUIT.
const WATCHER: &str = r#"
trap '' HUP INT TERM
read -r _ && exit 0
cd / || exit 1
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ] && { [ ! -d /proc/self ] || [ "/proc/$pid/cwd" -ef "$1/data" ]; }; then
    kill -QUIT "$pid" 2>/dev/null
    kill -CONT "$pid" 2>/dev/null
    tries=0
    while kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
fi
# An initdb that was at work when we went still makes files for a moment: again, until all of it is gone.
tries=0
while [ -e "$1" ] && [ "$tries" -lt 300 ]; do
    rm -rf -- "$1" 2>/dev/null
    [ -e "$1" ] && sleep 0.1
    tries=$((tries + 1))
done
"#;

impl Folder {
    /// A new folder of that prefix where temporary files belong, readable by its owner alone.
    ///
    /// # Errors
    /// When it cannot be made or given to its owner.
    pub fn create(prefix: &str) -> Result<Self, DemoError> {
        let owner = Owner::for_this_process()?;
        let failed = |error: std::io::Error| {
            DemoError::new(format!("cannot make a temporary folder in {}: {error}", std::env::temp_dir().display()))
                .hint("Set TMPDIR to a folder with some 50 MB of space.")
        };
        let path = tempfile::Builder::new().prefix(prefix).tempdir().map_err(failed)?.keep();
        let mut folder = Self { path, owner, watcher: None };
        if let Some(owner) = owner {
            chown(&folder.path, Some(owner.uid), Some(owner.gid)).map_err(failed)?;
        }
        let watcher = folder
            .command("/bin/sh")
            .args(["-c", WATCHER, "pglockwatch-watcher"])
            .arg(&folder.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        folder.watcher = Some(watcher);
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The data folder of the server that lives here.
    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// A command that runs here as the folder's owner: in its own process group, so that Ctrl-C in a terminal reaches
    /// only us and all is stopped in order; with plain messages, and without the caller's PG* settings.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.path).process_group(0).stdin(Stdio::null()).env("LC_ALL", "C");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        if let Some(owner) = self.owner {
            command.uid(owner.uid).gid(owner.gid).env("HOME", &self.path);
        }
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is left to the watcher, which hears no word then.
        let removed = std::fs::remove_dir_all(&self.path).is_ok();
        let Some(watcher) = &mut self.watcher else { return };
        if let Some(mut pipe) = watcher.stdin.take().filter(|_| removed) {
            let _ = pipe.write_all(b"done\n");
        }
        let _ = watcher.wait();
    }
}
