//! What on-call should do now about each finding, as text for a terminal; and which findings, in which order.
//!
//! Words are wrapped; what is to be typed never is. The content is [`runbook_facts`](super::runbook_facts)'.

use std::fmt::Write as _;

use super::runbook_facts::{self, Body, Index, Section, Step};
use super::style::{self, Paint, Screen};
use crate::analysis::report::{Finding, TargetReport};
use crate::model::{KeyNumbers, Pid};

/// Which findings are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Selection {
    /// Only those that name this session, as subject or waiter.
    pub pid: Option<Pid>,
    /// Only those about this key.
    pub key: Option<KeyNumbers>,
}

impl Selection {
    fn takes(&self, finding: &Finding) -> bool {
        self.pid.is_none_or(|pid| finding.pids.contains(&pid) || finding.waiters.contains(&pid))
            && self.key.is_none_or(|key| {
                let text = crate::keys::key::text(key);
                finding.key_reports.iter().any(|report| report.numbers == key) || finding.key_texts.contains(&text)
            })
    }

    /// What was asked for, as the end of a sentence; nothing if everything was.
    pub(super) fn words(&self) -> String {
        let mut words = String::new();
        let mut word = " about";
        if let Some(pid) = self.pid {
            let _ = write!(words, "{word} pid {pid}");
            word = " and";
        }
        if let Some(key) = self.key {
            let _ = write!(words, "{word} key {}", crate::keys::key::text(key));
        }
        words
    }
}

/// The columns of a pipe or a file, and the least that the labels leave room for.
const COLUMNS: (usize, usize) = (80, 50);

/// The titles' column.
const LABEL: usize = 16;

/// Where a statement begins that does not fit beside the titles.
const MARGIN: usize = 4;

/// The findings of all targets that are wanted, worst first; silenced ones last.
pub(super) fn chosen<'a>(indexes: &'a [Index<'a>], selection: &Selection) -> Vec<(&'a Index<'a>, &'a Finding)> {
    let mut chosen: Vec<_> = indexes
        .iter()
        .flat_map(|index| index.report.findings.iter().map(move |finding| (index, finding)))
        .filter(|(_, finding)| selection.takes(finding))
        .collect();
    chosen.sort_by_key(|(_, finding)| (finding.silenced.is_some(), std::cmp::Reverse(finding.severity)));
    chosen
}

/// One sentence per target without a wanted finding: why, or that nothing is to be done.
fn quiet(report: &TargetReport, selection: &Selection) -> Option<String> {
    if let Some(failure) = &report.failure {
        let mut text = format!("{} could not be looked at: {}", report.target, failure.message);
        for hint in &failure.hints {
            let _ = write!(text, "{} {hint}", if text.ends_with(['.', '!', '?']) { "" } else { "." });
        }
        return Some(text);
    }
    if report.findings.iter().any(|finding| selection.takes(finding)) {
        return None;
    }
    Some(format!(
        "{}: nothing to do{}; {} held, {} waiting.",
        report.target,
        if selection.words().is_empty() { String::new() } else { format!(", no finding{}", selection.words()) },
        style::count(report.counts.locks, "advisory lock"),
        report.counts.waiters,
    ))
}

/// What to know of a target before its findings: that it has none that is wanted, and how it was looked at.
pub(super) fn preface(report: &TargetReport, selection: &Selection) -> Vec<String> {
    let notes = report.notes().into_iter().map(|note| format!("{}: {note}", report.target));
    quiet(report, selection).into_iter().chain(notes).collect()
}

/// The whole runbook.
pub fn render(reports: &[TargetReport], selection: &Selection, screen: Screen) -> String {
    let width = screen.width.unwrap_or(COLUMNS.0).max(COLUMNS.1);
    let mut blocks: Vec<String> = reports
        .iter()
        .flat_map(|report| preface(report, selection))
        .map(|sentence| {
            let mut text = String::new();
            push(&mut text, &style::wrap(&style::safe(&sentence), width), "", 0);
            text
        })
        .collect();
    let indexes: Vec<Index<'_>> = reports.iter().map(Index::new).collect();
    blocks.extend(chosen(&indexes, selection).iter().map(|(index, finding)| entry(index, finding, width, screen)));
    let line = format!("\n{}\n\n", "─".repeat(width));
    blocks.join(&line)
}

fn entry(index: &Index<'_>, finding: &Finding, width: usize, screen: Screen) -> String {
    let mut text = head(index.report, finding, width, screen);
    for key in runbook_facts::keys(finding) {
        push(&mut text, &style::wrap(&style::safe(&key), width - 2), "", 2);
    }
    if let Some(reason) = &finding.silenced {
        push(&mut text, &style::wrap(&format!("Silenced, not counted: {}", style::safe(reason)), width - 2), "", 2);
    }
    for section in runbook_facts::sections(index, finding) {
        text.push('\n');
        push_section(&mut text, &section, width);
    }
    text
}

fn head(report: &TargetReport, finding: &Finding, width: usize, screen: Screen) -> String {
    let (paint, word) = match finding.silenced {
        Some(_) => (Paint::Faint, "SILENCED".to_owned()),
        None => (Paint::Severity(finding.severity), finding.severity.name().to_uppercase()),
    };
    let target = style::safe(&report.target);
    let place = match &finding.database {
        Some(database) => format!("{target} / {}", style::safe(database)),
        None => target.into_owned(),
    };
    let left = style::width(&word) + 2 + finding.rule.len();
    let place = style::cut(&place, width.saturating_sub(left + 2)).into_owned();
    let gap = width.saturating_sub(left + style::width(&place)).max(2);
    format!("{}  {}{:gap$}{place}\n", screen.paint(paint, &word), screen.paint(Paint::Strong, finding.rule), "")
}

fn push_section(text: &mut String, section: &Section, width: usize) {
    let room = width - LABEL;
    match &section.body {
        Body::Prose(sentences) => {
            push(text, &style::wrap(&style::safe(&sentences.join(" ")), room), section.title, LABEL);
        }
        Body::List(items) => {
            let mut title = section.title;
            for item in items {
                push_hanging(text, title, "", item, room);
                title = "";
            }
        }
        Body::Steps(steps, sql) => {
            let mut title = section.title;
            for (place, step) in steps.iter().enumerate() {
                push_step(text, title, place + 1, step, width);
                title = "";
            }
            if let Some(sql) = sql {
                text.push('\n');
                push_verbatim(text, title, sql.lines(), width);
            }
        }
        Body::Commands(commands) => push_verbatim(text, section.title, commands.iter().map(String::as_str), width),
    }
}

fn push_step(text: &mut String, title: &str, number: usize, step: &Step, width: usize) {
    push_hanging(text, title, &format!("{number}. "), &step.text, width - LABEL);
    if !step.commands.is_empty() {
        push_verbatim(text, "", step.commands.iter().map(String::as_str), width);
    }
}

/// One item; its further lines stand in below its text.
fn push_hanging(text: &mut String, title: &str, mark: &str, item: &str, room: usize) {
    let indent = if mark.is_empty() { 2 } else { mark.len() };
    let lines = style::wrap(&style::safe(item), room - indent);
    let hung: Vec<String> = lines
        .iter()
        .enumerate()
        .map(|(place, line)| match (place, mark.is_empty()) {
            (0, true) => line.clone(),
            (0, false) => format!("{mark}{line}"),
            _ => format!("{:indent$}{line}", ""),
        })
        .collect();
    push(text, &hung, title, LABEL);
}

/// What is to be typed, as it is: beside the titles if all of it fits there, else near the margin.
fn push_verbatim<'a>(text: &mut String, title: &str, lines: impl Iterator<Item = &'a str> + Clone, width: usize) {
    let longest = lines.clone().map(style::width).max().unwrap_or(0);
    let fits = longest + LABEL + 3 <= width;
    if !fits && !title.is_empty() {
        let _ = writeln!(text, "{title}");
    }
    let indent = if fits { LABEL } else { MARGIN };
    let lines: Vec<String> =
        lines.map(|line| if title.is_empty() && fits { format!("   {line}") } else { line.to_owned() }).collect();
    push(text, &lines, if fits { title } else { "" }, indent);
}

/// Lines at an indentation, the first with a title before it.
fn push(text: &mut String, lines: &[String], title: &str, indent: usize) {
    for (place, line) in lines.iter().enumerate() {
        let label = if place == 0 { title } else { "" };
        let _ = writeln!(text, "{}", format!("{label:indent$}{line}").trim_end());
    }
}
