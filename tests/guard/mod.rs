//! `guard` around real test suites: one of Rust (this very binary), one of pytest, and whatever a shell can do.

mod suite;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use postgres::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::pty::Terminal;
use crate::support::session::{single, superuser};
use crate::support::{say, server};

/// For anything that happens soon, on a machine that is busy with the other tests.
const SOON: Duration = Duration::from_secs(60);
/// The longest that a guarded suite may take.
const LONG: Duration = Duration::from_secs(180);

/// A server on which somebody else has held a lock for long, and a home with a dictionary.
struct World {
    cluster: Cluster,
    home: TempDir,
    leader: Client,
}

impl World {
    fn new() -> Self {
        let cluster = server::start(&server::any(), &[]);
        let mut leader = superuser(&cluster);
        single(&mut leader, "SELECT pg_advisory_lock(28319)").unwrap();
        let home = tempfile::tempdir().unwrap();
        let dictionary = "[[key]]\nname = 'nightly-report'\nkey = 612001\nowner = 'billing'\n";
        std::fs::write(home.path().join("keys.toml"), dictionary).unwrap();
        Self { cluster, home, leader }
    }

    fn dsn(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.cluster.host(), self.cluster.port())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn arguments(&self, options: &[&str], command: &[&str]) -> Vec<String> {
        let dsn = self.dsn();
        let words = ["guard", "--dsn", dsn.as_str(), "--keys", "keys.toml"];
        words.iter().chain(options).chain(&["--"]).chain(command).map(|&word| word.to_owned()).collect()
    }

    /// Guards a command, for as long as it takes.
    fn guard(&self, options: &[&str], command: &[&str]) -> Ran {
        let mut guard = pglockwatch(self.home.path());
        guard.args(self.arguments(options, command)).env(suite::SERVER, self.dsn());
        run(guard, LONG)
    }

    /// Guards one of the tests in [`suite`], run as `cargo test` runs it.
    fn guard_suite(&self, options: &[&str], test: &str) -> Ran {
        let binary = std::env::current_exe().unwrap();
        let name = format!("guard::suite::{test}");
        self.guard(options, &[binary.to_str().unwrap(), "--exact", &name, "--ignored", "--nocapture"])
    }

    /// Guards a command that the test talks to meanwhile.
    fn start(&self, command: &[&str]) -> Guarded {
        let mut guard = Command::new(env!("CARGO_BIN_EXE_pglockwatch"));
        guard.args(self.arguments(&[], command)).current_dir(self.home.path()).env("HOME", self.home.path());
        guard.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Guarded(Some(guard.spawn().unwrap()))
    }

    /// Waits until the guarded command has made this file.
    fn wait_for(&self, file: &str) {
        let began = Instant::now();
        while !self.path(file).exists() {
            assert!(began.elapsed() < SOON, "no {file}");
            sleep(Duration::from_millis(20));
        }
    }
}

/// A guard that runs. It ends with its test.
struct Guarded(Option<Child>);

impl Guarded {
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.as_ref().unwrap().id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Its exit code and what it said.
    fn end(mut self) -> (Option<i32>, String, String) {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The JSON report behind a command's own output.
fn report(ran: &Ran) -> Value {
    let line = ran.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn a_rust_suite_that_leaks_fails_and_a_clean_one_passes() {
    let mut world = World::new();
    let ran = world.guard_suite(&[], "leaks");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("test result: ok. 1 passed"), "{ran:?}");
    for said in [
        "pglockwatch guard: 1 lock was left behind in postgres (",
        "LEFT BEHIND  612001 \"nightly-report\" (billing)  ExclusiveLock\n",
        ", leaky suite@127.0.0.1 as postgres\n",
        "  first seen  SELECT pg_advisory_lock(612001)\n",
        "  last seen   SELECT 'the next test'\n",
        "  went with its session, which was last seen at ",
    ] {
        assert!(ran.stderr.contains(said), "no {said:?}: {ran:?}");
    }
    let ran = world.guard_suite(&["--format", "json"], "unlocks");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    let report = report(&ran);
    assert_eq!(
        (&report["status"], &report["exit_code"], &report["database"]),
        (&"ok".into(), &0.into(), &"postgres".into())
    );
    // The session lock and the one of a transaction were seen; the leader's, which was there before, is not counted.
    assert_eq!((&report["locks"], &report["left_behind_count"]), (&2.into(), &0.into()), "{report}");
    single(&mut world.leader, "SELECT 1").unwrap();
}

#[test]
fn a_lock_that_outlives_the_command_is_still_held() {
    let world = World::new();
    let binary = std::env::current_exe().unwrap();
    // As a server does that a suite starts and forgets to stop.
    let script = format!(
        "'{}' --exact guard::suite::stays --ignored >/dev/null 2>&1 & while [ ! -e held ]; do sleep 0.05; done; exit 5",
        binary.display()
    );
    let ran = world.guard(&["--format", "json", "--output", "report.json"], &["sh", "-c", &script]);
    std::fs::write(world.path("done"), "").unwrap();
    // The command's own code is kept, whatever was left behind.
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(5), "", ""), "{ran:?}");
    let written = std::fs::read_to_string(world.path("report.json")).unwrap();
    let report: Value = serde_json::from_str(&written).unwrap();
    assert_eq!((&report["status"], &report["exit_code"]), (&"left-behind".into(), &5.into()));
    let left = &report["left_behind"][0];
    assert_eq!((&left["how"], &left["key"]["text"]), (&"still-held".into(), &"7".into()), "{report}");
    assert_eq!(left["holder"]["state"], "idle");
}

#[test]
fn codes_input_and_output_are_the_commands_own() {
    let world = World::new();
    let code = |command: &[&str]| world.guard(&[], command).code;
    assert_eq!(code(&["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["sh", "-c", "kill -TERM $$"]), Some(143));
    let ran = world.guard(&[], &["no-such-command-here"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(127), ""), "{ran:?}");
    assert!(ran.stderr.starts_with("pglockwatch: cannot run no-such-command-here: "), "{ran:?}");
    assert_eq!(code(&["./keys.toml"]), Some(126));
    let mut guard = pglockwatch(world.home.path());
    guard.args(world.arguments(&[], &["sh", "-c", "cat; echo down >&2"])).write_stdin("up\n");
    let ran = run(guard, LONG);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "up\n"), "{ran:?}");
    assert!(ran.stderr.starts_with("down\npglockwatch guard: no lock was left behind in postgres ("), "{ran:?}");
}

#[test]
fn a_guard_that_cannot_watch_does_not_run_the_command() {
    let world = World::new();
    let refused = |options: &[&str], code: i32, sentence: &str| {
        let ran = world.guard(options, &["touch", "ran"]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(ran.stderr.starts_with("pglockwatch: ") && ran.stderr.contains(sentence), "{ran:?}");
        assert!(!world.path("ran").exists(), "the command ran: {ran:?}");
    };
    // A port that was free a moment ago; of several --dsn guard takes none.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut guard = pglockwatch(world.home.path());
    guard.args(["guard", "--dsn", &format!("host=127.0.0.1 port={port} user=u"), "--", "touch", "ran"]);
    let ran = run(guard, LONG);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("connection refused") && ran.stderr.contains("The command was not run."), "{ran:?}");
    assert!(!world.path("ran").exists());
    refused(&["--dsn", "host=other"], 2, "guard watches one server");
    refused(&["--output", "no/such/folder/report"], 2, "cannot write to no/such/folder/report");
    let mut guard = pglockwatch(world.home.path());
    guard.args(["guard", "--dsn", &world.dsn(), "touch", "ran"]);
    let ran = run(guard, LONG);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn a_signal_to_guard_alone_is_handed_on() {
    let world = World::new();
    let script = "trap 'echo told; exit 9' TERM; : > ready; while :; do sleep 0.05; done";
    let guarded = world.start(&["sh", "-c", script]);
    world.wait_for("ready");
    guarded.signal(Signal::TERM);
    let (code, stdout, stderr) = guarded.end();
    assert_eq!((code, stdout.as_str()), (Some(9), "told\n"), "{stderr}");
    assert!(stderr.contains("no lock was left behind"), "{stderr}");
}

#[test]
fn ctrl_c_reaches_the_command_once_and_guard_reports_after_it() {
    let world = World::new();
    let script = "n=0; trap 'n=$((n+1))' INT; echo ready; while [ $n = 0 ]; do sleep 0.1; done; sleep 0.5; \
                  echo told $n times; exit 4";
    let mut terminal = Terminal::start(world.home.path(), world.arguments(&[], &["sh", "-c", script]), &[]);
    terminal.wait_for("ready", SOON);
    terminal.send("\u{3}");
    terminal.wait_for("no lock was left behind", SOON);
    assert!(terminal.screen().contains("told 1 times"), "{}", terminal.screen());
    assert_eq!(terminal.wait(SOON), 4);
}

#[test]
fn a_server_that_crashes_meanwhile_is_told() {
    let world = World::new();
    let guarded = world.start(&["sh", "-c", ": > ready; while [ ! -e done ]; do sleep 0.05; done"]);
    world.wait_for("ready");
    let mut victim = superuser(&world.cluster);
    let pid = single(&mut victim, "SELECT pg_backend_pid()").unwrap().parse().unwrap();
    // The postmaster ends all sessions and starts anew.
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    let began = Instant::now();
    while world.cluster.config().connect(postgres::NoTls).is_err() {
        assert!(began.elapsed() < SOON, "the server does not come back");
        sleep(Duration::from_millis(50));
    }
    std::fs::File::create(world.path("done")).unwrap().flush().unwrap();
    let (code, _, stderr) = guarded.end();
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.starts_with("pglockwatch guard: UNKNOWN: the server could not be watched all the time"), "{stderr}");
}

#[test]
fn a_pytest_suite_that_leaks_fails_and_a_clean_one_passes() {
    let Some(tools) = std::env::var_os("PGLOCKWATCH_TEST_TOOLS_PYTHON") else {
        say("SKIPPED: guard around pytest, which is not installed (tests/run does that)");
        return;
    };
    let world = World::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/guarded_pytest.py");
    std::fs::copy(source, world.path("test_pool.py")).unwrap();
    let python = Path::new(&tools).join("bin/python");
    let pytest = |test: &str| {
        let words =
            [python.to_str().unwrap(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", test, "test_pool.py"];
        world.guard(&["--format", "json"], &words)
    };
    let ran = pytest("forgets");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("1 passed"), "{ran:?}");
    let report_of_leak = report(&ran);
    let left = &report_of_leak["left_behind"][0];
    assert_eq!((&left["key"]["text"], &left["key"]["names"][0]["name"]), (&"612001".into(), &"nightly-report".into()));
    assert_eq!(left["holder"]["application"], "pytest");
    let ran = pytest("gives_back");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!((&report(&ran)["locks"], &report(&ran)["not_judged"]), (&1.into(), &0.into()));
}
