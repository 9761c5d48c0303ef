//! The plain table of `top`: a header that says how old the rows are, one row per lock, the worst first.

use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};

use super::style::{self, Paint, Screen};
use super::table::{key_text, place};
use super::{counted, counts};
use crate::analysis::report::{Failure, Finding, HolderReport, LockReport, Severity, TargetReport, Waited};

/// What `top` knows of one target at this moment.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The target's name.
    pub target: &'a str,
    /// The last good poll.
    pub report: Option<&'a TargetReport>,
    /// How long ago it was.
    pub age: Duration,
    /// The server gave no answer since: what it said, where it said something.
    pub silence: Option<Silence<'a>>,
    /// The pause between two polls.
    pub interval: Duration,
}

/// A server that gives no answer.
#[derive(Debug, Clone, Copy)]
pub struct Silence<'a> {
    /// For how long.
    pub lasted: Duration,
    /// Why.
    pub failure: Option<&'a Failure>,
    /// When the next try is due.
    pub retry_in: Option<Duration>,
}

/// A file is not watched by anybody: more rows than this help nobody, and a hoard may have thousands.
const MOST_ROWS: usize = 1_000;

/// Narrower than this a column says nothing.
const NARROWEST: usize = 12;

/// Columns whose text is made of strangers' names: they share what the others leave.
const FLEXIBLE: [usize; 2] = [0, 1];

/// All targets, one below the other.
pub fn render(views: &[View<'_>], screen: Screen) -> String {
    let mut blocks = Vec::with_capacity(views.len());
    let mut left = screen.height.map(|height| height.saturating_sub(1));
    for (place, view) in views.iter().enumerate() {
        let share = left.map(|left| (left / (views.len() - place)).max(4));
        let block = target(*view, Screen { height: share, ..screen });
        if let Some(left) = &mut left {
            *left = left.saturating_sub(block.lines().count() + 1);
        }
        blocks.push(block);
    }
    blocks.join("\n")
}

fn target(view: View<'_>, screen: Screen) -> String {
    let mut lines = header(view, screen);
    let Some(report) = view.report else { return join(&lines, screen) };
    if let Some(server) = &report.server {
        let mut totals = vec![style::count(report.counts.locks, "lock"), format!("{} waiting", report.counts.waiters)];
        for severity in [Severity::Critical, Severity::Warning, Severity::Unknown] {
            let number = counted(report).filter(|finding| finding.severity == severity).count();
            if number > 0 {
                let text = format!("{number} {}", severity.name());
                totals.push(screen.paint(Paint::Severity(severity), &text).into_owned());
            }
        }
        if report.counts.expected_holders > 0 {
            totals.push(format!("{} expected", report.counts.expected_holders));
        }
        totals.extend(super::leases::totals(&[report]));
        if !server.sees_all_sessions {
            totals.push(format!("{} cannot be judged", style::count(server.hidden_holders, "holder")));
        }
        lines.push(totals.join("  "));
    }
    let cut = |text: &str| match screen.width {
        Some(width) => style::cut(text, width).into_owned(),
        None => text.to_owned(),
    };
    lines.extend(report.notes().iter().map(|note| cut(&style::safe(note))));
    let notes = notes(report, screen);
    let used = lines.len() + notes.len() + usize::from(!notes.is_empty()) + 1;
    let rows = screen.height.map_or(MOST_ROWS, |height| height.saturating_sub(used).max(1));
    lines.extend(table(report, rows, screen));
    let left = screen.height.map_or(MOST_ROWS, |height| height.saturating_sub(lines.len() + notes.len() + 3));
    let leases = super::leases::table(report, left, screen);
    if !leases.is_empty() {
        lines.push(String::new());
        lines.extend(leases);
    }
    if !notes.is_empty() {
        lines.push(String::new());
        lines.extend(notes);
    }
    join(&lines, screen)
}

fn join(lines: &[String], screen: Screen) -> String {
    let height = screen.height.unwrap_or(usize::MAX);
    lines.iter().take(height).fold(String::new(), |text, line| text + line + "\n")
}

/// Who is looked at, and how old what follows is.
fn header(view: View<'_>, screen: Screen) -> Vec<String> {
    let name = style::safe(view.target);
    let title = format!("{}  {}", screen.paint(Paint::Strong, "pglockwatch"), screen.paint(Paint::Strong, &name));
    let title_width = style::width(&name) + "pglockwatch".len() + 4;
    let cut = |text: &str| match screen.width {
        Some(width) => style::cut(text, width.saturating_sub(title_width).max(20)).into_owned(),
        None => text.to_owned(),
    };
    if let Some(silence) = view.silence {
        let paint = Paint::Severity(Severity::Unknown);
        let mut lines = vec![format!("{title}  {}", screen.paint(paint, &cut(&no_answer(view, silence))))];
        if let Some(failure) = silence.failure {
            let sentences = std::iter::once(&failure.message).chain(&failure.hints);
            lines.extend(sentences.flat_map(|sentence| wrapped(sentence, screen)));
        }
        return lines;
    }
    let Some((report, server)) = view.report.and_then(|report| Some((report, report.server.as_ref()?))) else {
        return vec![format!("{title}  waiting for the first answer")];
    };
    let role = if server.in_recovery { "standby" } else { "primary" };
    let sees = if server.sees_all_sessions { "sees all" } else { "does not see all sessions" };
    let who = format!("{} {role}  role {}, {sees}", server.version, server.role);
    let when = format!(
        "polled {} s ago in {}, every {}",
        view.age.as_secs(),
        style::milliseconds(report.poll_duration),
        humantime::format_duration(view.interval),
    );
    let one_line = format!("{who}  {when}");
    let fits = screen.width.is_none_or(|width| style::width(&one_line) + title_width <= width);
    if fits {
        return vec![format!("{title}  {}", style::safe(&one_line))];
    }
    // How old the rows are is what a header is for: it gets a line of its own before it is cut.
    vec![format!("{title}  {}", cut(&style::safe(&who))), when]
}

fn no_answer(view: View<'_>, silence: Silence<'_>) -> String {
    let mut text = format!("no answer for {} s", silence.lasted.as_secs());
    if let Some(at) = view.report.and_then(|report| report.sampled_at) {
        let _ = write!(text, ": the rows below are from {} UTC", at.format("%H:%M:%S"));
    }
    if let Some(retry_in) = silence.retry_in {
        let _ = write!(text, "; next try in {} s", retry_in.as_secs());
    }
    text
}

fn table(report: &TargetReport, rows: usize, screen: Screen) -> Vec<String> {
    if report.locks.is_empty() {
        return vec!["no advisory lock is held".to_owned()];
    }
    let mut locks: Vec<(Option<&Finding>, &LockReport)> =
        report.locks.iter().map(|lock| (worst_finding(report, lock), lock)).collect();
    locks.sort_by_key(|(finding, lock)| {
        let severity = finding.map(|finding| (counts(finding), finding.severity));
        std::cmp::Reverse((severity, lock.waiters.len(), lock.past.held.at_least))
    });
    // The line that says how many are missing needs a row itself.
    let shown = if locks.len() > rows { rows.saturating_sub(1) } else { rows };
    let missing = locks.len().saturating_sub(shown);

    let mut cells: Vec<[String; 6]> = locks.iter().take(shown).map(|(finding, lock)| row(*finding, lock)).collect();
    let mut header = ["KEY", "HOLDER", "HELD", "STATE", "WAITING", "FINDING"].map(str::to_owned);
    fit(&mut header, &mut cells, screen);

    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    if screen.color {
        table.enforce_styling();
    }
    table.set_header(header.map(Cell::new));
    for ((finding, _), cells) in locks.iter().zip(cells) {
        let [key, holder, held, state, waiting, rule] = cells;
        let rule = colored(Cell::new(rule), *finding, screen);
        table.add_row([key, holder, held, state, waiting].map(Cell::new).into_iter().chain([rule]));
    }
    // The last column needs no gap: in a coloured cell it would not be trimmed, and break the line.
    let last = table.column_count().saturating_sub(1);
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if place == last { 0 } else { 2 }));
    }
    // A coloured cell's padding is within its colour and not trimmed: it would wrap at the edge of the terminal.
    if let Some(last) = table.column_mut(5) {
        last.set_padding((0, 0));
    }
    let mut lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    if missing > 0 {
        lines.push(format!("... and {}", style::count(missing, "more lock")));
    }
    lines
}

/// The worst finding that names this lock: by key and by holder.
pub(crate) fn worst_finding<'a>(report: &'a TargetReport, lock: &LockReport) -> Option<&'a Finding> {
    let names = |finding: &&Finding| {
        lock.rules.contains(&finding.rule)
            && (finding.pids.is_empty() || lock.holder.pid.is_none_or(|pid| finding.pids.contains(&pid)))
            && (finding.lists(&lock.key) || finding.listed_keys() < finding.key_count)
    };
    report.findings.iter().filter(names).max_by_key(|finding| (counts(finding), finding.severity))
}

fn row(finding: Option<&Finding>, lock: &LockReport) -> [String; 6] {
    let rule = match finding {
        Some(finding) if finding.silenced.is_some() => format!("({})", finding.rule),
        Some(finding) => finding.rule.to_owned(),
        None if lock.hold_expected => "expected".to_owned(),
        None => String::new(),
    };
    let mut key = key_text(&lock.key);
    if let Some(database) = &lock.key.database {
        let _ = write!(key, " in {}", style::safe(database));
    }
    [key, holder(&lock.holder), style::held(lock.past.held).replace(' ', ""), state(&lock.holder), waiting(lock), rule]
}

fn holder(holder: &HolderReport) -> String {
    let mut text = match (holder.pid, &holder.gid) {
        (Some(pid), _) => format!("pid {pid}"),
        (None, Some(gid)) => format!("prepared {}", style::safe(gid)),
        (None, None) => "unknown".to_owned(),
    };
    let place = place(holder);
    if !place.is_empty() {
        let _ = write!(text, " {}", style::safe(&place));
    }
    if let Some(user) = &holder.user {
        let _ = write!(text, " as {}", style::safe(user));
    }
    text
}

fn state(holder: &HolderReport) -> String {
    let state = match holder.state {
        Some("idle in transaction") => "idle in tx",
        Some("idle in transaction (aborted)") => "aborted tx",
        Some(state) => state,
        None if holder.gid.is_some() => "prepared",
        None => "not visible",
    };
    match holder.state_for {
        Some(since) => format!("{state} {}", style::duration(since)),
        None => state.to_owned(),
    }
}

fn waiting(lock: &LockReport) -> String {
    let longest: Option<Waited> = lock.waiters.iter().map(|waiter| waiter.waited).max_by_key(|waited| waited.duration);
    longest.map_or_else(|| "-".to_owned(), |longest| format!("{}, {}", lock.waiters.len(), style::waited(longest)))
}

/// Cuts the columns of names so that a row fits on one line of the screen.
fn fit(header: &mut [String; 6], rows: &mut [[String; 6]], screen: Screen) {
    let Some(width) = screen.width else { return };
    let widest = |column: usize, rows: &[[String; 6]]| {
        rows.iter().map(|row| style::width(&row[column])).chain([style::width(&header[column])]).max().unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(|column| widest(column, rows));
    let fixed: usize = (0..6).filter(|column| !FLEXIBLE.contains(column)).map(|column| widths[column]).sum();
    // Two blanks behind every column but the last.
    let room = width.saturating_sub(fixed + 10);
    let [first, second] = FLEXIBLE.map(|column| widths[column]);
    let half = room / 2;
    let first_room = if second < half { room - second } else { half.max(room.saturating_sub(second)) };
    let first_room = first_room.min(first).max(NARROWEST);
    let second_room = room.saturating_sub(first_room).max(NARROWEST);
    for row in rows.iter_mut().chain([header]) {
        row[0] = style::cut(&row[0], first_room).into_owned();
        row[1] = style::cut(&row[1], second_room).into_owned();
    }
}

fn colored(cell: Cell, finding: Option<&Finding>, screen: Screen) -> Cell {
    if !screen.color {
        return cell;
    }
    match finding {
        Some(finding) if finding.silenced.is_some() => cell.add_attribute(Attribute::Dim),
        Some(finding) => match finding.severity {
            Severity::Critical => cell.fg(Color::Red).add_attribute(Attribute::Bold),
            Severity::Warning => cell.fg(Color::Yellow),
            Severity::Unknown => cell.fg(Color::Magenta),
            Severity::Info => cell.fg(Color::Cyan),
        },
        None => cell,
    }
}

/// Findings that no row shows, and what the worst of all means.
fn notes(report: &TargetReport, screen: Screen) -> Vec<String> {
    let in_rows = |finding: &Finding| report.locks.iter().any(|lock| lock.rules.contains(&finding.rule));
    let mut notes = Vec::new();
    for (place, finding) in counted(report).enumerate() {
        if place == 0 || !in_rows(finding) {
            let sentence = format!("{}: {}", finding.rule, finding.summary);
            notes.extend(wrapped(&sentence, screen));
        }
    }
    notes
}

fn wrapped(sentence: &str, screen: Screen) -> Vec<String> {
    style::wrap(&style::safe(sentence), screen.width.unwrap_or(usize::MAX).max(20))
}
