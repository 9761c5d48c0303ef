//! `check`'s screen: worst first, the sentence before the number, one line when nothing is wrong.

mod finding;

pub(crate) use finding::{key_text, place};

use std::fmt::Write as _;

use super::style::{self, Paint, Screen};
use super::{Status, counted};
use crate::analysis::report::{Failure, Finding, Severity, TargetReport};

/// The rule whose finding means that holders cannot be judged.
const HIDDEN: &str = "hidden-sessions";

/// Texts under a finding's head stand this far in.
const INDENT: usize = 10;

/// The whole screen for all targets, the worst first.
pub fn render(reports: &[TargetReport], screen: Screen) -> String {
    let mut order: Vec<&TargetReport> = reports.iter().collect();
    order.sort_by_key(|report| urgency(report));
    let name_width = order.iter().map(|report| style::width(&style::safe(&report.target))).max().unwrap_or(0);
    let mut text = String::new();
    let mut after_block = false;
    for report in order {
        let block = target(report, name_width, screen);
        let is_block = block.lines().count() > 1;
        if !text.is_empty() && (after_block || is_block) {
            text.push('\n');
        }
        text.push_str(&block);
        after_block = is_block;
    }
    text
}

fn urgency(report: &TargetReport) -> u8 {
    match Status::of(std::slice::from_ref(report)) {
        Status::Critical => 0,
        Status::Unknown => 1,
        Status::Warning => 2,
        Status::Ok => 3,
    }
}

fn target(report: &TargetReport, name_width: usize, screen: Screen) -> String {
    let name = style::pad(&style::safe(&report.target), name_width);
    if let Some(failure) = &report.failure {
        return failed(&name, failure, screen);
    }
    let blind = only_blind(report);
    let mut text = header(report, &name, blind, screen);
    if let Some(finding) = blind {
        let indent = style::width(&name) + 2;
        for line in &finding.detail {
            push_wrapped(&mut text, line, indent, screen);
        }
    }
    for note in report.notes() {
        push_wrapped(&mut text, &note, style::width(&name) + 2, screen);
    }
    let shown: Vec<&Finding> =
        report.findings.iter().filter(|finding| blind.is_none_or(|blind| !std::ptr::eq(*finding, blind))).collect();
    if !shown.is_empty() {
        text.push('\n');
    }
    let widest = shown.iter().map(|finding| finding.rule.len()).max().unwrap_or(0);
    let all_fit = |width| shown.iter().all(|finding| finding::head_width(finding, widest) <= width);
    let rule_width = if screen.width.is_none_or(all_fit) { widest } else { 0 };
    for finding in &shown {
        text.push_str(&finding::block(report, finding, rule_width, screen));
    }
    if shown.iter().any(|finding| super::counts(finding)) {
        text.push('\n');
        push_footer(&mut text, report, screen);
    }
    text
}

/// The finding about holders that cannot be judged, where it is the only one that counts.
fn only_blind(report: &TargetReport) -> Option<&Finding> {
    let mut counted = counted(report);
    counted.next().filter(|finding| finding.rule == HIDDEN && counted.next().is_none())
}

fn failed(name: &str, failure: &Failure, screen: Screen) -> String {
    let word = screen.paint(Paint::Severity(Severity::Unknown), "UNKNOWN");
    let indent = style::width(name) + 2;
    let sentence = style::safe(&failure.message);
    let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(indent + "UNKNOWN: ".len()));
    let mut lines = style::wrap(&sentence, room).into_iter();
    let mut text = format!("{name}  {word}: {}\n", lines.next().unwrap_or_default());
    for line in lines {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
    for hint in &failure.hints {
        push_wrapped(&mut text, hint, indent, screen);
    }
    text
}

fn header(report: &TargetReport, name: &str, blind: Option<&Finding>, screen: Screen) -> String {
    let server = report.server.as_ref().map_or_else(String::new, |server| {
        let standby = if server.in_recovery { " standby" } else { "" };
        format!("PostgreSQL {}{standby}", style::safe(&server.version))
    });
    let (paint, verdict) = verdict(report, blind);
    let name_width = style::width(name);
    let plain_width = name_width + style::width(&server) + style::width(&verdict) + 4;
    let name = screen.paint(Paint::Strong, name);
    let verdict = screen.paint(paint, &verdict);
    let mut text = format!("{name}  {server}  {verdict}");
    // The one line that says all is well ends here.
    if let (false, Some(at)) = (report.findings.is_empty(), report.sampled_at) {
        let seen = format!("seen {} UTC, in {}", at.format("%H:%M:%S"), style::milliseconds(report.poll_duration));
        let gap = match screen.width {
            Some(width) if plain_width + seen.len() + 2 > width => None,
            Some(width) => Some((width.min(100) - seen.len()).saturating_sub(plain_width).max(2)),
            None => Some(2),
        };
        match gap {
            Some(gap) => drop(write!(text, "{:gap$}{seen}", "")),
            None => drop(write!(text, "\n{:indent$}{seen}", "", indent = name_width.min(INDENT) + 2)),
        }
    }
    text.push('\n');
    text
}

/// What the header says in a few words, and its colour.
fn verdict(report: &TargetReport, blind: Option<&Finding>) -> (Paint, String) {
    if let Some(blind) = blind {
        let sentence = format!("UNKNOWN: {}", style::safe(blind.summary.trim_end_matches('.')));
        return (Paint::Severity(Severity::Unknown), sentence);
    }
    let mut worst = None;
    let mut parts = Vec::new();
    for severity in [Severity::Critical, Severity::Warning, Severity::Unknown] {
        let number = counted(report).filter(|finding| finding.severity == severity).count();
        if number > 0 {
            worst.get_or_insert(severity);
            parts.push(format!("{number} {}", severity.name()));
        }
    }
    if let Some(worst) = worst {
        let findings = style::count(counted(report).count(), "finding");
        return (Paint::Severity(worst), format!("{findings}: {}", parts.join(", ")));
    }
    let key = report.only_key.as_ref().map(|key| format!(" with key {key}")).unwrap_or_default();
    (Paint::Good, format!("nothing wrong{key}: {}", totals(report, "advisory lock")))
}

fn totals(report: &TargetReport, thing: &str) -> String {
    let counts = &report.counts;
    let mut text = format!("{} held, {} waiting", style::count(counts.locks, thing), counts.waiters);
    if counts.expected_holders > 0 {
        let _ = write!(text, ", {}", style::count(counts.expected_holders, "expected holder"));
    }
    if let Some(leases) = super::leases::totals(&[report]) {
        let _ = write!(text, ", {leases}");
    }
    text
}

fn push_footer(text: &mut String, report: &TargetReport, screen: Screen) {
    let mut totals = totals(report, "lock");
    let names = expected_names(report);
    if !names.is_empty() {
        let _ = write!(totals, " ({names})");
    }
    let what_to_do = "What to do:  pglockwatch runbook";
    let one_line = format!("{what_to_do}          {totals}");
    if screen.width.is_none_or(|width| style::width(&one_line) <= width) {
        let _ = writeln!(text, "{one_line}");
    } else {
        let _ = writeln!(text, "{what_to_do}");
        push_wrapped(text, &totals, 0, screen);
    }
}

/// The names of what is held on purpose, a few of them.
fn expected_names(report: &TargetReport) -> String {
    const SHOWN: usize = 3;
    let mut names: Vec<&str> = Vec::new();
    let expected = report.locks.iter().filter(|lock| lock.hold_expected);
    for name in expected.filter_map(|lock| lock.key.names.first()) {
        if !names.contains(&name.label.as_str()) {
            names.push(&name.label);
        }
        if names.len() > SHOWN {
            break;
        }
    }
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| style::safe(name)).collect();
    format!("{}{more}", shown.join(", "))
}

/// One text as lines that stand in by this much. A pipe gets one line.
fn push_wrapped(text: &mut String, sentence: &str, indent: usize, screen: Screen) {
    let sentence = style::safe(sentence);
    let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
    for line in style::wrap(&sentence, room) {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
}
