//! What goes to a pipe and what goes to a terminal.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::Duration;

use pglockwatch::app::demo::Cluster;
use postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::pty::Terminal;
use crate::support::server;

const SOON: Duration = Duration::from_secs(20);

/// A server with one idle leak by an application that hopes to be printed as it is.
struct Leak {
    home: TempDir,
    dsn: String,
    // The session ends before its server.
    _session: Client,
    _cluster: Cluster,
}

impl Leak {
    fn new() -> Self {
        let cluster = server::start(&server::any(), &[]);
        let mut config = cluster.config();
        let mut session = config.application_name("report-worker").connect(NoTls).unwrap();
        session.batch_execute("SELECT pg_advisory_lock(612001) /* \u{1b}[31mred\u{1b}[0m \u{7} */").unwrap();
        std::thread::sleep(Duration::from_millis(1200));
        let dsn = format!("host={} port={} user=postgres dbname=postgres", cluster.host(), cluster.port());
        Self { home: tempfile::tempdir().unwrap(), dsn, _session: session, _cluster: cluster }
    }

    fn args<'a>(&'a self, command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&[command, "--dsn", &self.dsn, "--idle-threshold", "1s", "--wait-threshold", "1s"], more].concat()
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    fn run(&self, command: &str, more: &[&str]) -> Ran {
        let mut program = pglockwatch(self.home());
        program.args(self.args(command, more));
        run(program, SOON)
    }

    fn on_terminal(&self, command: &str, more: &[&str], environment: &[(&str, &str)]) -> Terminal {
        Terminal::start(self.home(), self.args(command, more), environment)
    }
}

#[test]
fn no_escape_sequence_goes_to_a_pipe() {
    let leak = Leak::new();
    let outputs = [
        ("check", &[][..]),
        ("check", &["--format", "nagios"]),
        ("top", &["--once"]),
        ("runbook", &[]),
        ("check", &["--color", "never"]),
    ];
    for (command, more) in outputs {
        let ran = leak.run(command, more);
        assert!(ran.stdout.contains("612001"), "{ran:?}");
        let controls = ran.stdout.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(controls, None, "{command} {more:?}: {ran:?}");
        assert_eq!(ran.stderr, "", "{command} {more:?}");
    }
    let coloured = leak.run("check", &["--color", "always"]);
    assert!(coloured.stdout.contains("\u{1b}["), "--color always is not obeyed: {coloured:?}");
}

#[test]
fn nagios_is_one_line_with_performance_data_then_a_line_per_finding() {
    let ran = Leak::new().run("check", &["--format", "nagios"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    let (text, data) = lines[0].split_once(" | ").unwrap();
    assert!(text.starts_with("PGLOCKWATCH WARNING - ") && text.contains("612001"), "{text}");
    let labels: Vec<&str> = data.split(' ').map(|field| field.split('=').next().unwrap()).collect();
    assert_eq!(labels, ["holders", "waiters", "idle_held", "findings", "longest_wait"]);
    assert!(data.starts_with("holders=1;;;0 waiters=0;;;0 idle_held=1;;;0 findings=1;;;0 "), "{data}");
}

#[test]
fn a_terminal_gets_colours_unless_it_says_no() {
    let leak = Leak::new();
    let coloured = |environment: &[(&str, &str)], more: &[&str]| {
        let mut terminal = leak.on_terminal("check", more, environment);
        terminal.wait_for("612001", SOON);
        assert_eq!(terminal.wait(SOON), 1);
        terminal.raw().contains("\u{1b}[")
    };
    assert!(coloured(&[], &[]), "no colours on a terminal");
    assert!(!coloured(&[("NO_COLOR", "1")], &[]), "NO_COLOR is not obeyed");
    assert!(!coloured(&[], &["--color", "never"]), "--color never is not obeyed");
}

#[test]
fn top_once_prints_one_table_and_ends() {
    let leak = Leak::new();
    let ran = leak.run("top", &["--once"]);
    assert_eq!(ran.code, Some(0), "top has no opinion: {ran:?}");
    for words in ["612001", "report-worker", "idle-holder"] {
        assert!(ran.stdout.contains(words), "no {words:?}: {ran:?}");
    }
}

#[test]
fn top_on_a_terminal_shows_the_leak_and_gives_the_screen_back_on_ctrl_c() {
    let leak = Leak::new();
    let mut terminal = leak.on_terminal("top", &["--interval", "500ms"], &[]);
    terminal.wait_for("612001", SOON);
    terminal.wait_for("report-worker", SOON);
    assert!(terminal.raw().contains("\u{1b}["), "no colours on a terminal");
    assert!(!terminal.raw().contains("\u{1b}[31mred"), "a stranger's escape sequence reached the terminal");
    terminal.send("\u{3}");
    assert_eq!(terminal.wait(SOON), 0);
    assert!(terminal.is_restored(), "the screen is not given back");
}

#[test]
fn top_follows_the_size_of_its_terminal() {
    let leak = Leak::new();
    let mut terminal = leak.on_terminal("top", &["--interval", "300ms"], &[]);
    terminal.wait_for("612001", SOON);
    terminal.resize(15.try_into().unwrap(), 80.try_into().unwrap());
    terminal.wait_until("a line stays wider than the terminal, or the leak is gone", SOON, |screen| {
        screen.contains("612001") && screen.lines().all(|line| line.chars().count() <= 80)
    });
    terminal.send("\u{3}");
    assert_eq!(terminal.wait(SOON), 0);
}

#[test]
fn top_into_a_pipe_prints_tables_until_term() {
    let leak = Leak::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pglockwatch"));
    command.args(leak.args("top", &["--interval", "200ms"])).env("HOME", leak.home()).current_dir(leak.home());
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, printed) = channel();
    spawn(move || lines.map(Result::unwrap).try_for_each(|line| sender.send(line + "\n")));
    let mut text = String::new();
    while text.matches("612001").count() < 3 {
        text.push_str(&printed.recv_timeout(SOON).expect("it prints a table for each poll"));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    text.extend(printed);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(!text.contains('\u{1b}'), "an escape sequence in a pipe: {text}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
