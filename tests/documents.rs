//! The documents say what is so: every screen is printed again, every SQL block runs, every TOML block is read, every
//! rule, command, option, path and link exists.

mod markdown;
mod naive;
mod screen;
mod sql;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroU16;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use pglockwatch::app::demo::{DemoError, Planted, run};
use pglockwatch::cli::{self, demo::DemoArgs};
use pglockwatch::config;
use pglockwatch::keys::Dictionary;
use pglockwatch::rules;

use crate::exporter::harness::Exporter;
use crate::support::pty::Terminal;
use crate::support::server;
use markdown::{Document, blocks};
use screen::Screen;

/// `write` puts what is printed now in place of screens that no longer match.
const WRITE: &str = "PGLOCKWATCH_SCREENS";

/// A screen with a busy session in it may be taken in the middle of a statement.
const TRIES: usize = 3;

#[test]
fn every_screen_of_the_readme_is_what_is_printed() {
    let mut readme = Document::read("README.md");
    let screens: Vec<Screen> = readme.blocks("console").iter().map(Screen::of).collect();
    let naive = readme.blocks("sql").into_iter().find(|block| block.text.contains("AS held_for")).unwrap().text;
    let mut wrong: Vec<(Screen, String)> = Vec::new();
    let args = DemoArgs { bindir: Some(server::any().folder), once: true };
    let result: Result<u8, DemoError> = run(&args, true, &mut std::io::sink(), |planted| {
        let desk = tempfile::tempdir().unwrap();
        furnish(desk.path(), planted);
        sleep(planted.idle_threshold * 2);
        for screen in screens {
            let mut printed = String::new();
            if !(0..TRIES).any(|_| {
                printed = type_in(desk.path(), &screen.command);
                screen.shows(&printed)
            }) {
                wrong.push((screen, printed));
            }
        }
        metrics_are_those_of_the_readme(desk.path(), &readme);
        naive::misleads(&naive, planted);
        frees_the_leak(desk.path(), planted);
        Ok(0)
    });
    assert_eq!(result, Ok(0));
    if std::env::var_os(WRITE).is_some_and(|value| value == "write") {
        write(&mut readme, &wrong);
        return;
    }
    let mut message = String::new();
    for (screen, printed) in &wrong {
        write!(message, "\nREADME.md:{}: $ {}\n{}\n", screen.line, screen.command, printed).unwrap();
    }
    assert!(wrong.is_empty(), "these print something else now (tests/screens takes it over):\n{message}");
}

/// A folder to type commands in: `pglockwatch` there looks at the demo's server as the README says.
fn furnish(desk: &Path, planted: &Planted) {
    let seconds = |duration: Duration| format!("{}s", duration.as_secs());
    let config = format!(
        "keys = ['{}']\n[thresholds]\nidle = '{}'\nwait = '{}'\n[[target]]\nname = 'orders'\ndsn = '{}'\n",
        planted.dictionary.display(),
        seconds(planted.idle_threshold),
        seconds(planted.wait_threshold),
        planted.dsn
    );
    fs::write(desk.join("demo.toml"), config).unwrap();
    for file in ["mistaken.toml", "server.log"] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents").join(file), desk.join(file)).unwrap();
    }
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--keys*) exec '{0}' \"$@\" ;; esac\nexec '{0}' \"$@\" --config demo.toml\n",
        env!("CARGO_BIN_EXE_pglockwatch")
    );
    let path = desk.join("pglockwatch");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What the command prints to stdout, else to stderr; what the interactive screen shows for `top`, after the keys that
/// stand behind it as `# then KEYS`.
fn type_in(desk: &Path, command: &str) -> String {
    let (typed, keys) = command.split_once(" # then ").unwrap_or((command, ""));
    if typed.trim_end() == "pglockwatch top" {
        return on_terminal(desk, keys);
    }
    let path = format!("{}:{}", desk.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(desk).env("PATH", path).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    let output = shell.output().unwrap();
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8(said).unwrap()
}

fn on_terminal(desk: &Path, keys: &str) -> String {
    let mut terminal = Terminal::start(desk, ["top", "--config", "demo.toml"], &[]);
    // So wide that nothing is cut: where it is cut depends on the length of pids and ages.
    terminal.resize(NonZeroU16::new(22).unwrap(), NonZeroU16::new(150).unwrap());
    // A carried lock is proved by polls: from then on nothing new is found.
    terminal.wait_for("carried-lock", Duration::from_secs(20));
    terminal.send(keys);
    sleep(Duration::from_secs(1));
    let screen = terminal.screen();
    terminal.send("q");
    terminal.wait(Duration::from_secs(10));
    screen
}

fn metrics_are_those_of_the_readme(desk: &Path, readme: &Document) {
    let exporter = Exporter::start(desk, &["--config", "demo.toml"]).ready();
    let page = exporter.metrics("").body;
    let served: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .filter(|name| !name.starts_with("process_"))
        .collect();
    let told = readme.first_cells("metric");
    let told: BTreeSet<&str> = told.iter().map(|cell| cell.trim_matches('`')).collect();
    assert_eq!(told, served, "the README's metrics and those that are served");
}

/// What the README begins with: find, read, paste the statement into psql, look again.
fn frees_the_leak(desk: &Path, planted: &Planted) {
    if Command::new("psql").arg("--version").stdout(Stdio::null()).status().is_err() {
        crate::support::say("SKIPPED: freeing a leak as the README says, for psql is not here");
        return;
    }
    let statement = type_in(desk, "pglockwatch runbook --key 612001 | sed -n '/^    WITH/,/;$/p'");
    fs::write(desk.join("statement.sql"), statement).unwrap();
    let psql = format!("psql -X -A -t -f statement.sql '{}'", planted.dsn);
    assert_eq!(type_in(desk, "pglockwatch check --key 612001 > seen; echo $?"), "1\n");
    assert_eq!(type_in(desk, &psql), "terminated: its locks are free once it has ended\n");
    sleep(Duration::from_millis(500));
    assert_eq!(type_in(desk, "pglockwatch check --key 612001 > seen; echo $?"), "0\n");
    assert_eq!(type_in(desk, &psql), "nothing done: session gone\n");
}

/// Takes over what is printed now, and says so.
fn write(readme: &mut Document, wrong: &[(Screen, String)]) {
    for (screen, printed) in wrong {
        let old = format!("```console\n$ {}\n{}```\n", screen.command, screen.output);
        assert_eq!(readme.text.matches(&old).count(), 1, "{} stands there more than once", screen.command);
        let lines: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
        let new = format!("```console\n$ {}\n{}\n```\n", screen.command, lines.join("\n"));
        readme.text = readme.text.replace(&old, &new);
        let cut = screen.output.lines().any(|line| line.contains("...")).then_some(": it had cuts, make them again");
        crate::support::say(&format!("README.md: $ {}{}", screen.command, cut.unwrap_or_default()));
    }
    fs::write(&readme.path, &readme.text).unwrap();
}

#[test]
fn every_toml_block_is_read_without_a_complaint() {
    let mut seen = 0;
    for document in Document::all() {
        for block in document.blocks("toml") {
            let place = format!("{}:{}", document.path.display(), block.line);
            let parsed = config::parse(&block.text, &place, Path::new("/etc/pglockwatch"));
            assert!(parsed.is_ok(), "{:?}", parsed.err());
            if block.text.contains("[[key]]") {
                let parsed = Dictionary::parse(&place, &block.text);
                assert!(parsed.is_ok(), "{:?}", parsed.err());
            }
            seen += 1;
        }
    }
    assert!(seen >= 2);
}

#[test]
fn the_readme_has_every_rule_and_no_other() {
    let told: BTreeSet<String> =
        Document::read("README.md").first_cells("rule").iter().map(|cell| cell.trim_matches('`').to_owned()).collect();
    let built: BTreeSet<String> = rules::ALL.iter().map(|rule| rule.name().to_owned()).collect();
    assert_eq!(told, built);
}

#[test]
fn the_readme_has_every_command_and_no_other() {
    let readme = Document::read("README.md");
    // The first table of that head is about scripts; the commands' is in the section Commands.
    let section = readme.text.split("\n## Commands\n").nth(1).unwrap().to_owned();
    let section = Document { path: readme.path.clone(), text: section };
    let told: BTreeSet<String> = section
        .first_cells("command")
        .iter()
        .flat_map(|cell| cell.split(", "))
        .map(|name| name.trim_matches('`').to_owned())
        .collect();
    let built: BTreeSet<String> = cli::command().get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    assert_eq!(told, built);
    let mut typed = 0;
    for block in blocks(&readme.text).iter().filter(|block| ["sh", "console"].contains(&block.language.as_str())) {
        let commands = if block.language == "sh" { usize::MAX } else { 1 };
        for line in block.text.lines().take(commands) {
            let Some(words) = line.trim_start_matches("$ ").strip_prefix("pglockwatch ") else { continue };
            let command = words.split_whitespace().next().unwrap_or_default();
            assert!(built.contains(command), "README.md:{}: pglockwatch {words}", block.line);
            typed += 1;
        }
    }
    assert!(typed > 10);
}

#[test]
fn every_option_in_a_document_exists() {
    let mut known: BTreeSet<String> =
        ["path", "locked", "features", "release", "binary", "output"].map(|of_cargo| format!("--{of_cargo}")).into();
    known.extend(["--quick", "--only", "--servers", "--bench", "--test"].map(str::to_owned));
    known.extend(["--bindir".to_owned(), "--all-targets".to_owned(), "--help".to_owned(), "--version".to_owned()]);
    collect_options(&cli::command(), &mut known);
    let option = regex::Regex::new(r"(?:^|[\s`(\[])(--[a-z][a-z.-]*[a-z])(?:[^a-z-]|$)").unwrap();
    for document in Document::all() {
        for found in option.captures_iter(&document.text) {
            assert!(known.contains(&found[1]), "{}: {} does not exist", document.path.display(), &found[1]);
        }
    }
}

fn collect_options(command: &clap::Command, known: &mut BTreeSet<String>) {
    known.extend(command.get_arguments().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")));
    command.get_subcommands().for_each(|sub| collect_options(sub, known));
}

#[test]
fn every_link_and_path_leads_somewhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut dead = String::new();
    for document in Document::all() {
        let name = document.path.file_name().unwrap().to_string_lossy().into_owned();
        for link in document.links().iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let there = if file.is_empty() { name.as_str() } else { file };
            let exists = folder.join(there).exists()
                && (anchor.is_empty() || Document::read(there).anchors().iter().any(|known| known == anchor));
            if !exists {
                writeln!(dead, "{name}: {link}").unwrap();
            }
        }
        for span in document.code_spans() {
            let is_path = ["src/", "tests/", ".ci/", "alerts/", "grafana/", "examples/", "packaging/"]
                .iter()
                .any(|start| span.starts_with(start));
            let path = span.split_whitespace().next().unwrap_or_default();
            let made_up = path.contains(['*', '{']) || path.chars().any(char::is_uppercase);
            if is_path && !made_up && !folder.join(path).exists() {
                writeln!(dead, "{name}: `{span}`").unwrap();
            }
        }
    }
    assert!(dead.is_empty(), "these lead nowhere:\n{dead}");
}
