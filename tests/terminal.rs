//! `top` and its terminal, where no server is: what it does with the terminal needs none.

use std::io::Read as _;
use std::num::NonZeroU16;
use std::path::Path;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use crate::support::pty::Terminal;

const SOON: Duration = Duration::from_secs(30);

const WITHOUT_SERVER: [&str; 5] = ["top", "--dsn", "host=127.0.0.1 port=1 user=x dbname=x", "--interval", "5s"];

fn open_without_server(home: &Path) -> Terminal {
    let terminal = Terminal::start(home, WITHOUT_SERVER, &[]);
    terminal.wait_for("cannot connect", SOON);
    terminal
}

#[test]
fn whatever_the_terminal_says_it_can_be_ended() {
    let home = tempfile::tempdir().unwrap();
    // Clicks beside the screen, and answers that nobody asked for. On the first the library panics where overflow is
    // checked, as here.
    for said in ["\u{1b}[<0;0;5M", "\u{1b}[M   ", "\u{1b}[0;0R\u{1b}[?0u", "\u{1b}[<99999999;1;1m", "\u{1b}]52;c;\u{7}"]
    {
        let mut terminal = open_without_server(home.path());
        terminal.send(said);
        std::thread::sleep(Duration::from_millis(50));
        terminal.send("q");
        terminal.wait(SOON);
        assert!(terminal.is_restored(), "{said:?}: {}", terminal.screen());
    }
}

#[test]
fn it_ends_without_a_word_when_the_terminal_is_closed() {
    let home = tempfile::tempdir().unwrap();
    let pair = native_pty_system().openpty(PtySize { rows: 40, cols: 140, ..PtySize::default() }).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_pglockwatch"));
    command.args(WITHOUT_SERVER);
    command.env_clear();
    command.env("TERM", "xterm-256color");
    command.env("HOME", home.path());
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut reader = pair.master.try_clone_reader().unwrap();
    let (mut output, mut buffer) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&output).contains("refused") {
        let length = reader.read(&mut buffer).unwrap();
        output.extend_from_slice(&buffer[..length]);
    }
    // All that is left of it.
    drop((reader, pair.master));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < SOON, "it goes on without a terminal");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.exit_code(), 0, "{status:?}");
}

#[test]
fn a_window_that_was_small_for_a_moment_is_whole_again() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = open_without_server(home.path());
    let size = |number| NonZeroU16::new(number).unwrap();
    for _ in 0..20 {
        terminal.resize(size(20), size(80));
        terminal.resize(size(40), size(140));
        terminal.wait_until("the screen is not whole", SOON, |screen| {
            screen.contains("q quit") && screen.lines().any(|line| line.chars().count() == 140)
        });
    }
    terminal.send("q");
    assert_eq!(terminal.wait(SOON), 0);
}

#[test]
fn a_key_pressed_while_the_window_is_resized_takes_effect_at_once() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = open_without_server(home.path());
    let size = |number| NonZeroU16::new(number).unwrap();
    for round in 0..200 {
        let (key, columns, title) =
            if round % 2 == 0 { ("2", 100, "── Locks ─") } else { ("3", 140, "── Waits ─") };
        // The other way round comes rarely, but it comes.
        if round % 8 == 7 {
            terminal.send(key);
            terminal.resize(size(30), size(columns));
        } else {
            terminal.resize(size(30), size(columns));
            terminal.send(key);
        }
        terminal.wait_for(title, SOON);
    }
    // More than a reader takes in at once.
    terminal.send(&("23".repeat(1_000) + "4"));
    terminal.wait_for("── Pools ─", SOON);
    terminal.send("q");
    assert_eq!(terminal.wait(SOON), 0);
}
