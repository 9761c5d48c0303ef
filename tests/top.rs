//! `top` on a real terminal and a real server: a leak from its appearance to its end, bad days, and the terminal that
//! comes back.

use std::num::NonZeroU16;
use std::path::Path;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::pty::Terminal;
use crate::support::server;
use crate::support::session::{Session, superuser, wait_until};

const SOON: Duration = Duration::from_secs(30);

/// A key must be answered within this, whatever the server does. A busy machine is slower than a person notices.
const AT_ONCE: Duration = Duration::from_secs(1);

fn cluster() -> Cluster {
    server::start(&server::any(), &[])
}

fn dsn(cluster: &Cluster) -> String {
    format!("host={} port={} user=postgres dbname=postgres connect_timeout=5", cluster.host(), cluster.port())
}

fn leak(cluster: &Cluster, application: &str, key: i64) -> Session {
    let session = Session::named(cluster, application);
    session.run(&format!("SELECT pg_advisory_lock({key})"), SOON).unwrap();
    session
}

fn arguments(cluster: &Cluster) -> Vec<String> {
    let dsn = dsn(cluster);
    ["top", "--dsn", &dsn, "--interval", "200ms", "--idle-threshold", "1s", "--wait-threshold", "1s", "--timeout", "2s"]
        .map(str::to_owned)
        .to_vec()
}

fn open(cluster: &Cluster, home: &Path) -> Terminal {
    Terminal::start(home, arguments(cluster), &[])
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

fn wait_for_plain_page(terminal: &Terminal) {
    let began = Instant::now();
    while !terminal.raw().contains("-- any key") {
        assert!(began.elapsed() < SOON, "no plain page:\n{}", terminal.screen());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is between the two lines that `v` puts around the statement.
fn plain_statement(raw: &str) -> String {
    let end = raw.rfind("-- any key").expect("no plain page");
    let page = &raw[..end];
    let begin = page.rfind("\u{1b}[?25h").expect("the cursor is not shown") + "\u{1b}[?25h".len();
    page[begin..].replace('\r', "").trim().to_owned()
}

#[test]
fn a_leak_appears_is_found_is_freed_by_its_statement_and_moves_to_history() {
    let cluster = cluster();
    let home = tempfile::tempdir().unwrap();
    let mut terminal = open(&cluster, home.path());
    terminal.wait_for("Nothing is wrong", SOON);
    let leak_of_api = leak(&cluster, "api", 612_001);
    let _other = leak(&cluster, "worker", 7);
    let waiter = Session::named(&cluster, "migrator");
    waiter.begin("SELECT pg_advisory_lock(612001)", true);
    terminal.wait_for("idle-holder", SOON);
    terminal.wait_for("CRITICAL", SOON);

    terminal.send("/api\r");
    terminal.wait_for("filter: api", SOON);
    terminal.send("\r");
    terminal.wait_for("What is wrong", SOON);
    terminal.wait_for("612001", SOON);
    terminal.send("y");
    terminal.wait_for("copied", SOON);
    assert!(terminal.raw().contains("\u{1b}]52;c;"), "no OSC 52");
    terminal.send("v");
    wait_for_plain_page(&terminal);
    let statement = plain_statement(&terminal.raw());
    assert!(statement.contains(&format!("pid = {}", leak_of_api.pid)) && statement.contains("612001"), "{statement}");

    // The screen ends no session by itself: only the statement that a person runs does.
    let mut client = superuser(&cluster);
    let held =
        format!("EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {})", leak_of_api.pid);
    assert!(wait_until(&mut client, &held, SOON));
    client.simple_query(&statement).unwrap_or_else(|error| panic!("{error}: {statement}"));
    assert!(wait_until(&mut client, &format!("NOT {held}"), SOON), "{statement}");

    terminal.send("x");
    terminal.wait_for("This was gone at", SOON);
    terminal.send("\u{1b}");
    std::thread::sleep(Duration::from_millis(100));
    terminal.send("6");
    terminal.wait_for("new holder", SOON);
    terminal.wait_for("ended", SOON);
    terminal.wait_for(&format!("pid {}", waiter.pid), SOON);

    terminal.send("s");
    terminal.wait_for("saved ", SOON);
    let saved: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [report] = saved.as_slice() else { panic!("{saved:?}") };
    assert!(std::fs::read_to_string(report).unwrap().starts_with("# pglockwatch runbook"));
    terminal.send("q");
    assert_eq!(terminal.wait(SOON), 0);
}

/// Our backend alone, or every process of the server: what SIGSTOP does to them is the same, what a new connection
/// would see is not.
fn processes(cluster: &Cluster, all: bool) -> Vec<u32> {
    let mut client = superuser(cluster);
    let which = if all { "pid <> pg_backend_pid()" } else { "application_name = 'pglockwatch'" };
    let list = format!("SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE {which}");
    let listed = crate::support::session::single(&mut client, &list).unwrap();
    let mut pids: Vec<u32> = listed.split(' ').map(|pid| pid.parse().unwrap()).collect();
    if all {
        pids.push(cluster.pid());
    }
    pids
}

#[test]
fn a_server_that_stops_leaves_keys_working_and_comes_back() {
    let cluster = cluster();
    let _leak = leak(&cluster, "api", 612_001);
    let home = tempfile::tempdir().unwrap();
    let mut terminal = open(&cluster, home.path());
    for all in [false, true] {
        terminal.wait_for("idle-holder", SOON);
        let stopped = processes(&cluster, all);
        for &pid in &stopped {
            signal(pid, Signal::STOP);
        }
        terminal.wait_for("no answer for", SOON);
        terminal.wait_for("the rows below are from", SOON);
        for (key, text) in [("2", "Locks 1"), ("?", "Help"), ("\u{1b}", "Locks 1"), ("5", "Keys 1")] {
            terminal.send(key);
            terminal.wait_for(text, AT_ONCE);
            // A lone Esc must not become the beginning of an escape sequence.
            std::thread::sleep(Duration::from_millis(100));
        }
        for &pid in &stopped {
            signal(pid, Signal::CONT);
        }
        terminal.wait_for("s ago", SOON);
        terminal.send("6");
        terminal.wait_for("answers", SOON);
        terminal.send("1");
    }
    terminal.send("q");
    assert_eq!(terminal.wait(SOON), 0);
    let mut client = superuser(&cluster);
    let gone = "NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pglockwatch')";
    assert!(wait_until(&mut client, gone, SOON), "a connection was left behind");
}

#[test]
fn it_ends_at_once_while_the_server_hangs() {
    let cluster = cluster();
    let home = tempfile::tempdir().unwrap();
    let mut terminal = open(&cluster, home.path());
    terminal.wait_for("Nothing is wrong", SOON);
    let mut client = superuser(&cluster);
    let backends = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pglockwatch'";
    let ours: u32 = crate::support::session::single(&mut client, backends).unwrap().parse().unwrap();
    signal(ours, Signal::STOP);
    terminal.wait_for("no answer for", SOON);
    terminal.send("q");
    let code = terminal.wait(Duration::from_secs(2));
    signal(ours, Signal::CONT);
    assert_eq!(code, 0);
}

#[test]
fn the_window_is_resized_while_it_runs() {
    let cluster = cluster();
    let _leak = leak(&cluster, "api", 612_001);
    let home = tempfile::tempdir().unwrap();
    let mut terminal = open(&cluster, home.path());
    terminal.wait_for("idle-holder", SOON);
    let size = |number| NonZeroU16::new(number).unwrap();
    for (rows, columns) in [(15, 60), (24, 80), (80, 250), (5, 20), (40, 140)] {
        terminal.resize(size(rows), size(columns));
        terminal.wait_for(if rows > 10 { "enter details" } else { "too small" }, SOON);
        let lines = terminal.screen().lines().count();
        assert!(lines <= usize::from(rows), "{lines} lines at {columns}x{rows}");
    }
    terminal.send("q");
    assert_eq!(terminal.wait(SOON), 0);
}

/// Starts `top` from a shell that writes the terminal's modes into files before and after. Its pid comes in a file too.
fn from_shell(cluster: &Cluster, home: &Path) -> (Terminal, u32) {
    let script =
        "stty -g > before; sh -c 'echo $$ > pid; exec \"$0\" \"$@\"' \"$0\" \"$@\"; echo $? > code; stty -g > after";
    let mut args = vec!["-c".to_owned(), script.to_owned(), env!("CARGO_BIN_EXE_pglockwatch").to_owned()];
    args.extend(arguments(cluster));
    let terminal = Terminal::start_program("sh", home, args, &[]);
    terminal.wait_for("idle-holder", SOON);
    let pid = std::fs::read_to_string(home.join("pid")).unwrap().trim().parse().unwrap();
    (terminal, pid)
}

fn assert_as_before(home: &Path, terminal: &Terminal, how: &str) {
    let read =
        |name: &str| std::fs::read_to_string(home.join(name)).unwrap_or_else(|error| panic!("{how}: {name}: {error}"));
    assert_eq!(read("after"), read("before"), "{how}: the terminal's modes");
    assert_eq!(read("code").trim(), "0", "{how}: the exit code");
    // The last that the program wrote may still be on its way.
    let began = Instant::now();
    while !terminal.is_restored() {
        assert!(began.elapsed() < SOON, "{how}: the screen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let raw = terminal.raw();
    let off = raw.rfind("\u{1b}[?1000l").unwrap_or_else(|| panic!("{how}: the mouse"));
    assert!(raw.rfind("\u{1b}[?1000h").is_some_and(|on| on < off), "{how}: the mouse");
}

#[test]
fn the_terminal_is_as_before_after_every_kind_of_end() {
    let cluster = cluster();
    let _leak = leak(&cluster, "api", 612_001);
    for how in ["q", "\u{3}", "TERM", "HUP", "INT", "plain page"] {
        let home = tempfile::tempdir().unwrap();
        let (mut terminal, pid) = from_shell(&cluster, home.path());
        match how {
            "TERM" => signal(pid, Signal::TERM),
            "HUP" => signal(pid, Signal::HUP),
            "INT" => signal(pid, Signal::INT),
            "plain page" => {
                terminal.send("v");
                wait_for_plain_page(&terminal);
                terminal.send("\u{3}");
            }
            keys => terminal.send(keys),
        }
        terminal.wait(SOON);
        assert_as_before(home.path(), &terminal, how);
    }
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_brings_it_back() {
    let cluster = cluster();
    let home = tempfile::tempdir().unwrap();
    let script = home.path().join("run");
    let line = arguments(&cluster).iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    std::fs::write(&script, format!("exec {} {line}\n", env!("CARGO_BIN_EXE_pglockwatch"))).unwrap();
    let mut terminal =
        Terminal::start_program("bash", home.path(), ["--norc", "--noprofile", "-i"], &[("PS1", "ready> ")]);
    terminal.wait_for("ready>", SOON);
    terminal.send("stty -g > before; sh run\r");
    terminal.wait_for("Nothing is wrong", SOON);
    for _ in 0..2 {
        terminal.send("\u{1a}");
        terminal.wait_for("Stopped", SOON);
        assert!(terminal.is_restored(), "{}", terminal.screen());
        terminal.send("stty -g > after; echo 0 > code; fg\r");
        terminal.wait_for("Nothing is wrong", SOON);
        assert!(!terminal.is_restored());
        let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
        assert_eq!(read("after"), read("before"));
        terminal.send("6");
        terminal.wait_for("opened", SOON);
        terminal.send("1");
        terminal.wait_for("Nothing is wrong", SOON);
    }
    terminal.send("q");
    // An older prompt is on the screen already. What is typed before the new one may be lost with the program's input.
    let began = Instant::now();
    while !terminal.screen().trim_end().ends_with("ready>") {
        assert!(began.elapsed() < SOON, "no prompt:\n{}", terminal.screen());
        std::thread::sleep(Duration::from_millis(20));
    }
    terminal.send("stty -g > after; exit\r");
    terminal.wait(SOON);
    assert_as_before(home.path(), &terminal, "Ctrl-Z");
}

#[test]
fn several_targets_stand_side_by_side_and_one_may_be_away() {
    let cluster = cluster();
    let _leak = leak(&cluster, "api", 612_001);
    let home = tempfile::tempdir().unwrap();
    let mut args = arguments(&cluster);
    args.extend(["--dsn".to_owned(), "host=127.0.0.1 port=1 user=x dbname=x".to_owned()]);
    let mut terminal = Terminal::start(home.path(), args, &[]);
    terminal.wait_for("TARGET", SOON);
    terminal.wait_for("127.0.0.1:1: no answer for", SOON);
    terminal.wait_for("idle-holder", SOON);
    terminal.send("tG\r");
    terminal.wait_for("cannot connect to", SOON);
    terminal.send("q");
    assert_eq!(terminal.wait(SOON), 0);
}

#[test]
fn no_color_means_no_color() {
    let cluster = cluster();
    let _leak = leak(&cluster, "api", 612_001);
    let home = tempfile::tempdir().unwrap();
    for (environment, colored) in [(&[("NO_COLOR", "1")][..], false), (&[], true)] {
        let mut terminal = Terminal::start(home.path(), arguments(&cluster), environment);
        terminal.wait_for("idle-holder", SOON);
        terminal.send("q");
        terminal.wait(SOON);
        let raw = terminal.raw();
        let colors = raw.split('\u{1b}').filter(|part| part.starts_with("[38;") || part.starts_with("[48;")).count();
        assert_eq!(colors > 0, colored, "{colors} colours with {environment:?}");
    }
}
