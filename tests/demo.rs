//! The demo: what it plants, and that nothing of it is left.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pglockwatch::app::demo::{Planted, run};
use pglockwatch::cli::demo::DemoArgs;
use postgres::{Config, NoTls};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::pty::Terminal;
use crate::support::session::single;
use crate::support::{say, server};

const SOON: Duration = Duration::from_secs(40);

fn args() -> DemoArgs {
    DemoArgs { bindir: Some(server::any().folder), once: true }
}

/// The folder in the demo's DSN, where its server lives.
fn folder(planted: &Planted) -> PathBuf {
    let host = planted.dsn.split(' ').find_map(|part| part.strip_prefix("host=")).unwrap();
    PathBuf::from(host)
}

#[test]
fn plants_locks_of_each_kind_and_leaves_nothing_behind() {
    let mut notes = Vec::new();
    let mut lived_in = PathBuf::new();
    let result: Result<u8, pglockwatch::app::demo::DemoError> = run(&args(), true, &mut notes, |planted| {
        lived_in = folder(planted);
        assert!(planted.dictionary.starts_with(&lived_in));
        let mut client = planted.dsn.parse::<Config>().unwrap().connect(NoTls).unwrap();
        let mut count = |what: &str| {
            single(&mut client, &format!("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND {what}"))
                .unwrap()
        };
        assert_eq!(count("granted"), "11");
        assert_eq!(count("NOT granted"), "3");
        assert_eq!(count("pid IS NULL"), "1", "the prepared transaction's");
        assert_eq!(count("objsubid = 2 AND classid = 31"), "4", "the starved pool's");
        Ok(7)
    });
    assert_eq!(result, Ok(7));
    assert!(!lived_in.as_os_str().is_empty() && !lived_in.exists(), "{} is left", lived_in.display());
    let notes = String::from_utf8(notes).unwrap();
    assert!(notes.contains("stopped and its folder removed"), "{notes}");
}

#[test]
fn cleans_up_when_what_opens_on_it_fails() {
    let mut lived_in = PathBuf::new();
    let failed = pglockwatch::app::demo::DemoError::new("the screen broke");
    let result: Result<u8, _> = run(&args(), true, &mut std::io::sink(), |planted| {
        lived_in = folder(planted);
        Err(failed.clone())
    });
    assert_eq!(result, Err(failed));
    assert!(!lived_in.as_os_str().is_empty() && !lived_in.exists(), "{} is left", lived_in.display());
}

#[test]
fn a_folder_without_a_server_is_one_plain_sentence() {
    let args = DemoArgs { bindir: Some(PathBuf::from("/nonexistent")), once: true };
    let result: Result<u8, pglockwatch::app::demo::DemoError> = run(&args, true, &mut std::io::sink(), |_| Ok(0));
    let error = result.unwrap_err();
    assert_eq!(error.message, "there is no initdb and postgres in /nonexistent");
    assert!(!error.hints.is_empty());
}

/// The folders that demos live in, in a temporary folder of the test's own.
fn homes(temporary: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(temporary).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Waits until the demo's folder is gone. A server cannot live without it.
fn assert_gone(temporary: &Path) {
    let began = Instant::now();
    while !homes(temporary).is_empty() {
        assert!(began.elapsed() < SOON, "left behind: {:?}", homes(temporary));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A temporary folder that the demo's server, under whichever user, can enter.
fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    folder
}

fn assert_shows_everything(output: &Output) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    let planted = [
        "idle-holder",
        "carried-lock",
        "idle-in-transaction-holder",
        "prepared-transaction-holder",
        "pool-starved",
        "blocked-waiters",
        "Rails migrations",
        "Prisma Migrate",
        "nightly-report",
        "scheduler-leader",
        "order 77",
    ];
    for words in planted {
        assert!(stdout.contains(words), "no {words:?}:\n{stdout}\n{stderr}");
    }
    assert!(!stdout.contains('\u{1b}'), "an escape sequence in a pipe: {stdout}");
    assert!(stderr.contains("stopped and its folder removed"), "{stderr}");
}

#[test]
fn into_a_pipe_it_shows_everything_once() {
    let temporary = open_folder();
    let output = Command::new(env!("CARGO_BIN_EXE_pglockwatch"))
        .args(["demo", "--bindir"])
        .arg(server::any().folder)
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_shows_everything(&output);
    assert_gone(temporary.path());
}

#[test]
fn an_ordinary_user_runs_it_too() {
    if !rustix::process::geteuid().is_root() {
        return say("SKIPPED: the demo as another user; whoever runs these tests is an ordinary user already");
    }
    let id = |which: &str| -> u32 {
        let output = Command::new("id").args([which, "nobody"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    let temporary = open_folder();
    // The build may be where only root can go.
    let bin = open_folder();
    let program = bin.path().join("pglockwatch");
    std::fs::copy(env!("CARGO_BIN_EXE_pglockwatch"), &program).unwrap();
    let output = Command::new(&program)
        .args(["demo", "--once", "--bindir"])
        .arg(server::any().folder)
        .uid(id("-u"))
        .gid(id("-g"))
        .current_dir("/")
        .env("HOME", "/nonexistent")
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_shows_everything(&output);
    assert_gone(temporary.path());
}

fn on_terminal(temporary: &Path) -> Terminal {
    let bindir = server::any().folder;
    let bindir = bindir.to_str().unwrap();
    let terminal =
        Terminal::start(Path::new("/"), ["demo", "--bindir", bindir], &[("TMPDIR", temporary.to_str().unwrap())]);
    terminal.wait_for("carried-lock", SOON);
    assert_eq!(homes(temporary).len(), 1);
    terminal
}

#[test]
fn on_a_terminal_it_opens_top_and_ctrl_c_clears_all_away() {
    let temporary = open_folder();
    let mut terminal = on_terminal(temporary.path());
    terminal.wait_for("pool-starved", SOON);
    assert!(terminal.raw().contains("pglockwatch runbook --dsn"), "it does not say what another terminal is for");
    terminal.send("\u{3}");
    assert_eq!(terminal.wait(SOON), 0);
    assert!(homes(temporary.path()).is_empty(), "left behind: {:?}", homes(temporary.path()));
    assert!(terminal.is_restored());
}

#[test]
fn term_clears_all_away() {
    let temporary = open_folder();
    let mut terminal = on_terminal(temporary.path());
    kill_process(Pid::from_raw(terminal.pid().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(terminal.wait(SOON), 0);
    assert!(homes(temporary.path()).is_empty(), "left behind: {:?}", homes(temporary.path()));
}

#[test]
fn killed_hard_it_leaves_nothing_either() {
    let temporary = open_folder();
    let mut terminal = on_terminal(temporary.path());
    kill_process(Pid::from_raw(terminal.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
    terminal.wait(SOON);
    assert_gone(temporary.path());
}

#[test]
fn interrupted_while_it_starts_it_leaves_nothing_either() {
    for pause in [200, 600, 1000] {
        let temporary = open_folder();
        let mut child = Command::new(env!("CARGO_BIN_EXE_pglockwatch"))
            .args(["demo", "--bindir"])
            .arg(server::any().folder)
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        child.wait().unwrap();
        assert_gone(temporary.path());
    }
}
