//! `check --state-file` where it cannot be written, or where something else is: findings come all the same, with one
//! sentence, and nothing that was there before is lost. The program runs as an ordinary user, for root may write
//! everywhere.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pglockwatch::app::demo::{Cluster, Folder};
use serde_json::Value;

use crate::support::session::superuser;
use crate::support::{say, server};

/// A server with a session that holds a lock, and the ordinary user's folder.
struct World {
    cluster: Cluster,
    folder: Folder,
    _holder: postgres::Client,
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// The lock that is held is in the report.
    fn shows_the_lock(&self) -> bool {
        let report: Value = serde_json::from_str(&self.stdout).unwrap_or_default();
        report["targets"][0]["locks"].to_string().contains("4711")
    }
}

impl World {
    /// Nothing, said loudly, where the user may not start our program.
    fn new() -> Option<Self> {
        let cluster = server::start(&server::any(), &[]);
        let mut holder = superuser(&cluster);
        holder.batch_execute("SELECT pg_advisory_lock(4711)").unwrap();
        let world = Self { cluster, folder: Folder::create("pglockwatch-state-").unwrap(), _holder: holder };
        match world.command("first.state").stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                say("SKIPPED: state files of an ordinary user: it may not start the program where it lies");
                None
            }
            status => {
                status.unwrap();
                Some(world)
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, file: &str) -> Command {
        let mut command = self.folder.command(env!("CARGO_BIN_EXE_pglockwatch"));
        let dsn = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.cluster.port());
        command.args(["check", "--format", "json", "--timeout", "60s", "--dsn", &dsn, "--state-file", file]);
        command
    }

    fn check(&self, file: &str) -> Ran {
        let output = self.command(file).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ran = Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran
    }

    /// Its findings come, and one sentence with these words says that nothing is remembered.
    fn forgets(&self, file: &str, why: &str) {
        let ran = self.check(file);
        assert!(ran.shows_the_lock() && ran.code == Some(3), "{file}: {:?} {}{}", ran.code, ran.stdout, ran.stderr);
        let first = format!("pglockwatch: cannot write the state file {file}: ");
        let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("pglockwatch: ")).collect();
        let last = lines.last().unwrap_or(&"");
        assert!(last.starts_with(&first) && last.contains(why), "{file}: {}", ran.stderr);
        assert!(lines.len() <= 2, "{}", ran.stderr);
    }

    /// Its findings come, what is there is not believed for this reason, and a file of its own takes its place.
    fn mends(&self, file: &str, why: &str) {
        let ran = self.check(file);
        assert!(ran.shows_the_lock() && ran.code == Some(0), "{file}: {:?} {}{}", ran.code, ran.stdout, ran.stderr);
        let first = format!("pglockwatch: the state file {file} is not used: {why}");
        assert!(ran.stderr.starts_with(&first), "{file}: {}", ran.stderr);
        self.is_whole(file);
        assert_eq!(self.check(file).stderr, "", "the next look has nothing to complain of");
    }

    fn is_whole(&self, file: &str) {
        let metadata = fs::symlink_metadata(self.path(file)).unwrap();
        assert!(metadata.is_file() && metadata.mode() & 0o7777 == 0o600, "{metadata:?}");
        let text = fs::read_to_string(self.path(file)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["pglockwatch_state"], 1);
    }

    /// A folder of the ordinary user's, with a good state file in it.
    fn used(&self, folder: &str) -> PathBuf {
        let path = self.path(folder);
        fs::create_dir(&path).unwrap();
        self.own(&path);
        let ran = self.check(&format!("{folder}/check.state"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        path
    }

    /// Gives it to the ordinary user.
    fn own(&self, path: &Path) {
        let owner = fs::metadata(self.folder.path()).unwrap();
        chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_folder_that_may_not_be_written_keeps_what_it_has() {
    let Some(world) = World::new() else { return };
    let folder = world.used("closed");
    let before = fs::read(folder.join("check.state")).unwrap();
    allow(&folder, 0o555);
    world.forgets("closed/check.state", "Permission denied");
    assert_eq!(fs::read(folder.join("check.state")).unwrap(), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
    // One that may not even be entered.
    allow(&folder, 0o000);
    let ran = world.check("closed/check.state");
    assert!(ran.code == Some(3) && ran.stderr.contains("closed/check.state"), "{:?} {}", ran.code, ran.stderr);
    allow(&folder, 0o755);
    world.is_whole("closed/check.state");
}

#[test]
fn what_is_no_file_of_ours_is_told_and_what_it_leads_to_stays() {
    let Some(world) = World::new() else { return };
    fs::create_dir(world.path("folder")).unwrap();
    for (file, why) in [("folder", "is a folder: name a file"), ("none/check.state", "make the folder first")] {
        let ran = world.check(file);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{}", ran.stderr);
        assert!(ran.stderr.starts_with(&format!("pglockwatch: --state-file: {file} ")) && ran.stderr.contains(why));
    }
    fs::write(world.path("precious"), "dear").unwrap();
    for (name, to) in [("link", "precious"), ("link-to-nothing", "nowhere"), ("link-to-folder", "folder")] {
        symlink(world.path(to), world.path(name)).unwrap();
        world.mends(name, "it is a symbolic link");
    }
    assert_eq!(fs::read_to_string(world.path("precious")).unwrap(), "dear");
    assert!(!world.path("nowhere").exists() && fs::read_dir(world.path("folder")).unwrap().count() == 0);
    fs::write(world.path("locked"), "{}").unwrap();
    world.own(&world.path("locked"));
    allow(&world.path("locked"), 0o000);
    world.mends("locked", "Permission denied");
}

#[test]
fn a_file_of_somebody_elses_is_neither_believed_nor_lost() {
    let Some(world) = World::new() else { return };
    if fs::metadata(world.folder.path()).unwrap().uid() == fs::metadata("/proc/self").unwrap().uid() {
        say("SKIPPED: a state file of another user's: only root can make one");
        return;
    }
    world.used("shared");
    let theirs = world.path("shared/theirs.state");
    fs::copy(world.path("shared/check.state"), &theirs).unwrap();
    allow(&theirs, 0o644);
    // As in /tmp: everybody may make files there, and nobody may take away another's.
    chown(world.path("shared"), Some(0), Some(0)).unwrap();
    allow(&world.path("shared"), 0o1777);
    let before = fs::read(&theirs).unwrap();
    world.forgets("shared/theirs.state", "Operation not permitted");
    assert_eq!(fs::read(&theirs).unwrap(), before);
    assert_eq!(fs::read_dir(world.path("shared")).unwrap().count(), 2, "nothing is left beside it");
    // In a folder of its own it may.
    let theirs = world.path("theirs.state");
    fs::copy(world.path("shared/check.state"), &theirs).unwrap();
    allow(&theirs, 0o644);
    world.mends("theirs.state", "it belongs to somebody else");
}

/// A small file system that is unmounted when this goes.
struct Small(PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_the_file_that_was_there() {
    let Some(world) = World::new() else { return };
    let folder = world.path("small");
    fs::create_dir(&folder).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k,mode=777", "tmpfs"]).arg(&folder).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        say("SKIPPED: a state file on a full disk: it takes root, who may mount one");
        return;
    }
    let _small = Small(folder.clone());
    assert_eq!(world.check("small/check.state").code, Some(0));
    let before = fs::read(folder.join("check.state")).unwrap();
    // As much as there is place for.
    let _ = fs::write(folder.join("hog"), vec![b'x'; 65_536]);
    world.forgets("small/check.state", "No space left");
    assert_eq!(fs::read(folder.join("check.state")).unwrap(), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left beside it");
    fs::remove_file(folder.join("hog")).unwrap();
    assert_eq!(world.check("small/check.state").code, Some(0));
    world.is_whole("small/check.state");
}

#[test]
fn many_looks_at_once_leave_one_whole_file() {
    let Some(world) = World::new() else { return };
    let mut looks = Vec::new();
    for _ in 0..8 {
        looks.push(world.command("check.state").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    }
    for look in looks {
        let output = look.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    world.is_whole("check.state");
    let left = fs::read_dir(world.folder.path()).unwrap().count();
    assert_eq!(left, 2, "nothing is left beside this file and the first");
}
