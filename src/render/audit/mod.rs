//! `audit` as text: what is unsafe and what to change, then what was read.

mod json;

use std::fmt::Write as _;

use comfy_table::{Cell, ContentArrangement, Table};

use super::style::{self, Paint, Screen};
use crate::analysis::report::Severity;
use crate::audit::log::{LogReport, Origin};
use crate::audit::{Call, Judged, ServerAudit, Verb, calls};
use crate::keys::{KeyBook, LookUp, key};
use crate::model::{KeyNumbers, ServerFacts, Setting};

pub use json::render as json;

/// Lines stand this far in under what they belong to.
const INDENT: usize = 8;
/// So many statements, failed unlocks and deadlocks are listed.
const LISTED: usize = 50;
/// A statement in a pipe or a file is cut here.
const STATEMENT: usize = 120;

/// Everything, for people.
pub fn text(servers: &[ServerAudit], log: Option<&LogReport>, book: &KeyBook, screen: Screen) -> String {
    let mut blocks: Vec<String> = servers.iter().map(|server| of_server(server, screen)).collect();
    blocks.extend(log.map(|log| of_log(log, book, screen)));
    blocks.join("\n")
}

fn of_server(server: &ServerAudit, screen: Screen) -> String {
    let name = screen.paint(Paint::Strong, &style::safe(&server.target)).into_owned();
    let judged = match &server.outcome {
        Ok(judged) => judged,
        Err(failure) => {
            let word = screen.paint(Paint::Severity(Severity::Unknown), "UNKNOWN");
            let mut text = format!("{name}  {word}: {}\n", style::safe(&failure.message));
            for hint in &failure.hints {
                indented(&mut text, hint, screen);
            }
            return text;
        }
    };
    let mut text = format!("{name}  PostgreSQL {}  {}\n", style::safe(&judged.facts.version), verdict(judged, screen));
    for sentence in remarks(judged) {
        indented(&mut text, &sentence, screen);
    }
    for finding in &judged.findings {
        let word = screen.paint(Paint::Severity(Severity::Warning), "UNSAFE");
        let _ = writeln!(text, "\n{word}  {}", finding.what.name());
        indented(&mut text, &finding.summary, screen);
        indented(&mut text, &format!("Change: {}", finding.change), screen);
        for statement in &finding.statements {
            let _ = writeln!(text, "{:INDENT$}{}", "", one_line(statement, screen, INDENT));
        }
    }
    text.push_str(&statements(judged, screen));
    text.push_str(&settings(&judged.facts.settings, screen));
    text
}

fn verdict(judged: &Judged, screen: Screen) -> String {
    let roles = style::count(judged.uses.len(), "role");
    if !judged.findings.is_empty() {
        let mut unsafe_roles: Vec<_> =
            judged.findings.iter().map(|finding| (&finding.role, &finding.database)).collect();
        unsafe_roles.sort_unstable();
        unsafe_roles.dedup();
        let words = format!("{} of {roles} with advisory locks unsafe", unsafe_roles.len());
        return screen.paint(Paint::Severity(Severity::Warning), &words).into_owned();
    }
    if judged.blind().is_some() {
        return screen.paint(Paint::Severity(Severity::Unknown), "UNKNOWN: not everything can be judged").into_owned();
    }
    screen.paint(Paint::Good, &format!("nothing unsafe: {roles} with advisory locks")).into_owned()
}

/// What limits what was read.
fn remarks(judged: &Judged) -> Vec<String> {
    let ServerFacts { track, dropped, truncated, .. } = &judged.facts;
    let mut remarks = Vec::new();
    if let Some((what, to_do)) = judged.blind() {
        remarks.extend([what, to_do]);
    }
    if judged.facts.blind.is_none() {
        if track != "all" && !track.is_empty() {
            remarks.push(format!(
                "pg_stat_statements.track is {track}: what runs inside functions is not seen (all shows it)."
            ));
        }
        if let Some(dropped) = dropped.filter(|dropped| *dropped > 0) {
            remarks.push(format!(
                "Rare statements were thrown away {dropped} times (pg_stat_statements.max): an unlock may be among them."
            ));
        }
        if *truncated {
            remarks.push("Only the 5000 most frequent statements were read.".to_owned());
        }
    }
    remarks
}

fn indented(text: &mut String, sentence: &str, screen: Screen) {
    let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(INDENT).max(20));
    for line in style::wrap(&style::safe(sentence), room) {
        let _ = writeln!(text, "{:INDENT$}{line}", "");
    }
}

/// A statement on one line, made safe and cut.
fn one_line(statement: &str, screen: Screen, before: usize) -> String {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let room = screen.width.map_or(STATEMENT, |width| width.saturating_sub(before).max(20));
    style::cut(&style::safe(&words.join(" ")), room).into_owned()
}

/// As `lock, one bigint` or `unlock shared, two ints`.
fn form(call: &Call) -> String {
    let verb = match call.verb {
        Verb::Lock => "lock",
        Verb::Try => "try",
        Verb::Unlock => "unlock",
        Verb::UnlockAll => "unlock all",
    };
    let mut text = verb.to_owned();
    if call.transaction {
        text.push_str(" xact");
    }
    if call.shared {
        text.push_str(" shared");
    }
    if let Some(form) = call.form {
        let _ = write!(text, ", {}", form.name());
    }
    text
}

fn statements(judged: &Judged, screen: Screen) -> String {
    let mut rows: Vec<[String; 6]> = Vec::new();
    for role in &judged.uses {
        for row in &role.statements {
            let mut forms: Vec<String> = calls(&row.query).iter().map(form).collect();
            forms.dedup();
            rows.push([
                style::safe(&row.role).into_owned(),
                style::safe(&row.database).into_owned(),
                row.calls.to_string(),
                format!("{:.1} ms", row.mean_ms),
                forms.join("; "),
                one_line(&row.query, screen, screen.width.map_or(0, |width| width / 2)),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let more = rows.len().saturating_sub(LISTED);
    rows.truncate(LISTED);
    let mut text = format!("\n{}", table(["ROLE", "DATABASE", "CALLS", "MEAN", "LOCK", "STATEMENT"], rows));
    if more > 0 {
        let _ = writeln!(text, "... and {}", style::count(more, "more statement"));
    }
    text
}

fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.map(Cell::new));
    table.add_rows(rows.into_iter().map(|row| row.map(Cell::new)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// What a setting means for a lock that leaks.
pub(super) fn meaning(setting: &Setting) -> &'static str {
    let off = setting.value == "0" || setting.value == "0s";
    match (setting.name.as_str(), off) {
        ("idle_session_timeout", true) => "an idle session keeps a leaked lock as long as its connection lives",
        ("idle_session_timeout", false) => "ends idle sessions, and with them their locks",
        ("idle_in_transaction_session_timeout", true) => "an open transaction keeps its locks as long as it likes",
        ("idle_in_transaction_session_timeout", false) => "ends sessions that rest in a transaction",
        ("lock_timeout", true) => "who waits for a lock waits for ever",
        ("lock_timeout", false) => "ends waits, also for advisory locks",
        ("statement_timeout", true) => "statements, waits among them, may take for ever",
        ("statement_timeout", false) => "ends statements, waits among them",
        ("client_connection_check_interval", true) => "a dead client is not noticed while its statement waits",
        ("client_connection_check_interval", false) => "notices a dead client while its statement runs or waits",
        ("tcp_keepalives_idle", true) => "the system's default, mostly 2 hours: a dead client's session stays as long",
        ("tcp_keepalives_idle", false) => "after so long a silent client is asked whether it lives",
        ("max_locks_per_transaction", _) => "the lock table has so many places for each allowed connection",
        _ => "",
    }
}

fn settings(settings: &[Setting], screen: Screen) -> String {
    let shown = |setting: &&Setting| !meaning(setting).is_empty() || setting.of.is_some();
    let rows: Vec<[String; 3]> = settings
        .iter()
        .filter(shown)
        .map(|setting| {
            let name = match &setting.of {
                Some(of) => format!("{} ({of})", setting.name),
                None => setting.name.clone(),
            };
            let room = screen.width.map_or(usize::MAX, |width| (width / 2).max(20));
            [
                style::cut(&style::safe(&name), room).into_owned(),
                style::safe(&setting.value).into_owned(),
                meaning(setting).to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() { String::new() } else { format!("\n{}", table(["SETTING", "VALUE", "HOW A LEAK ENDS"], rows)) }
}

/// The key with its names.
pub(super) fn label(numbers: KeyNumbers, origin: &Origin, statement: Option<&str>, book: &KeyBook) -> String {
    let known = LookUp {
        database: origin.database.as_deref(),
        application: origin.application.as_deref().unwrap_or_default(),
        user: origin.user.as_deref().unwrap_or_default(),
        query: statement.unwrap_or_default(),
        ..LookUp::default()
    };
    let mut label = key::text(numbers);
    if let Some(name) = book.names(numbers, known).first() {
        let may_be = if name.may_be { "may be " } else { "" };
        let _ = write!(label, " {may_be}\"{}\"", style::safe(&name.label));
    }
    label
}

/// Who and when: `2026-11-29 23:18:41 UTC  pid 5234, my app as web in app`.
fn who(origin: &Origin) -> String {
    let time = origin.time.as_deref().unwrap_or("no time");
    let pid = origin.pid.as_deref().map_or_else(|| "no pid".to_owned(), |pid| format!("pid {pid}"));
    let mut text = format!("{time}  {pid}");
    for (word, part) in [(", ", &origin.application), (" as ", &origin.user), (" in ", &origin.database)] {
        if let Some(part) = part {
            let _ = write!(text, "{word}{part}");
        }
    }
    style::safe(&text).into_owned()
}

fn of_log(log: &LogReport, book: &KeyBook, screen: Screen) -> String {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let name = screen.paint(Paint::Strong, "log");
    let lines = style::count(number(log.lines), "line");
    let mut unreadable = String::new();
    if log.unreadable > 0 {
        let of_what = if log.unreadable == 1 { "a log".to_owned() } else { format!("{} logs", log.unreadable) };
        let sentence = format!(
            "Hardly a line of {of_what} is of a format that PostgreSQL writes: is it a server log, and not compressed?"
        );
        indented(&mut unreadable, &sentence, screen);
    }
    if log.failed_unlock_count + log.deadlock_count == 0 {
        let found = if log.unreadable == 0 {
            screen.paint(Paint::Good, "no failed unlock and no deadlock on advisory locks")
        } else {
            screen.paint(Paint::Severity(Severity::Unknown), "UNKNOWN: not everything can be judged")
        };
        return format!("{name}  {lines}  {found}\n{unreadable}");
    }
    let found = format!(
        "{}, {} on advisory locks",
        style::count(number(log.failed_unlock_count), "failed unlock"),
        style::count(number(log.deadlock_count), "deadlock")
    );
    let mut text =
        format!("{name}  {lines}  {}\n{unreadable}", screen.paint(Paint::Severity(Severity::Warning), &found));
    if log.without_statement > 0 {
        let times =
            if log.without_statement == 1 { "once".to_owned() } else { format!("{} times", log.without_statement) };
        let sentence = format!(
            "The log does not say with which statement {times}. Run as a superuser:  ALTER SYSTEM SET \
             log_min_error_statement = 'warning'; SELECT pg_reload_conf();"
        );
        indented(&mut text, &sentence, screen);
    }
    for unlock in log.failed_unlocks.iter().take(LISTED) {
        let what = match (unlock.key, &unlock.statement) {
            (Some(numbers), statement) => label(numbers, &unlock.origin, statement.as_deref(), book),
            (None, Some(_)) => "a key that the statement does not say".to_owned(),
            (None, None) => "an unknown key".to_owned(),
        };
        let _ = writeln!(text, "\n{}", who(&unlock.origin));
        indented(
            &mut text,
            &format!("did not hold {what} ({}): if another session took it, that one keeps it", unlock.mode),
            screen,
        );
        if let Some(statement) = &unlock.statement {
            let _ = writeln!(text, "{:INDENT$}{}", "", one_line(statement, screen, INDENT));
        }
    }
    for deadlock in log.deadlocks.iter().take(LISTED) {
        let keys: Vec<String> = deadlock
            .keys
            .iter()
            .map(|(_, numbers)| label(*numbers, &deadlock.origin, deadlock.statement.as_deref(), book))
            .collect();
        let _ = writeln!(text, "\n{}", who(&deadlock.origin));
        indented(&mut text, &format!("was cancelled in a deadlock on {}", keys.join(", ")), screen);
        if let Some(statement) = &deadlock.statement {
            let _ = writeln!(text, "{:INDENT$}{}", "", one_line(statement, screen, INDENT));
        }
    }
    let listed = |count: u64| number(count).saturating_sub(LISTED);
    let more = listed(log.failed_unlock_count) + listed(log.deadlock_count);
    if more > 0 {
        let _ = writeln!(text, "\n... and {more} more");
    }
    text
}
