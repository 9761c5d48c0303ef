//! `check --format nagios`: one line with performance data, then a line per finding.
//!
//! A plugin's output is cut at `|` (performance data begins) and at line breaks, so in our texts both become `?`.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::{Status, counts, style};
use crate::analysis::report::{Counts, Finding, Severity, TargetReport};

/// One thing that a line can be about.
struct Item<'a> {
    rank: u8,
    word: &'static str,
    target: &'a str,
    rule: Option<&'static str>,
    text: &'a str,
    silenced: Option<&'a str>,
    counts: bool,
}

/// The whole output.
pub fn render(reports: &[TargetReport]) -> String {
    let several = reports.len() > 1;
    let mut items: Vec<Item<'_>> = reports.iter().flat_map(items_of).collect();
    // Stable: among equals the Report's order, worst first, stays.
    items.sort_by_key(|item| std::cmp::Reverse(item.rank));

    let counted = items.iter().filter(|item| item.counts).count();
    let findings = items.iter().filter(|item| item.counts && item.rule.is_some()).count();
    let totals = totals(reports);
    let headline = match items.iter().find(|item| item.counts) {
        Some(worst) => {
            let more = if counted > 1 { format!(" (+{} more)", counted - 1) } else { String::new() };
            format!("{}{}{more}", prefix(several, worst.target), one_line(worst.text))
        }
        None => all_well(reports, &totals),
    };
    let word = Status::of(reports).name().to_uppercase();
    let mut text = format!("PGLOCKWATCH {word} - {headline} | {}\n", perfdata(&totals, findings));
    for item in &items {
        let rule = item.rule.map(|rule| format!("{rule}: ")).unwrap_or_default();
        let silenced = item.silenced.map(|reason| format!(" (silenced: {})", one_line(reason))).unwrap_or_default();
        let prefix = prefix(several, item.target);
        let _ = writeln!(text, "{} {prefix}{rule}{}{silenced}", item.word, one_line(item.text));
    }
    text
}

fn items_of(report: &TargetReport) -> impl Iterator<Item = Item<'_>> {
    let failure = report.failure.iter().map(|failure| Item {
        rank: 4,
        word: "UNKNOWN",
        target: &report.target,
        rule: None,
        text: &failure.message,
        silenced: None,
        counts: true,
    });
    failure.chain(report.findings.iter().map(|finding| item_of(report, finding)))
}

fn item_of<'a>(report: &'a TargetReport, finding: &'a Finding) -> Item<'a> {
    let (rank, word) = match finding.severity {
        _ if finding.silenced.is_some() => (0, "SILENCED"),
        Severity::Critical => (5, "CRITICAL"),
        Severity::Warning => (3, "WARNING"),
        Severity::Unknown => (2, "UNKNOWN"),
        Severity::Info => (1, "INFO"),
    };
    Item {
        rank,
        word,
        target: &report.target,
        rule: Some(finding.rule),
        text: &finding.summary,
        silenced: finding.silenced.as_deref(),
        counts: counts(finding),
    }
}

fn all_well(reports: &[TargetReport], totals: &Counts) -> String {
    let servers = if reports.len() > 1 { format!(" on {} servers", reports.len()) } else { String::new() };
    let expected = match totals.expected_holders {
        0 => String::new(),
        holders => format!(", {}", style::count(holders, "expected holder")),
    };
    format!(
        "nothing wrong: {} held{servers}, {} waiting{expected}",
        style::count(totals.locks, "advisory lock"),
        totals.waiters
    )
}

fn totals(reports: &[TargetReport]) -> Counts {
    reports.iter().map(|report| report.counts).fold(Counts::default(), |sum, counts| Counts {
        locks: sum.locks + counts.locks,
        holders: sum.holders + counts.holders,
        waiters: sum.waiters + counts.waiters,
        idle_held: sum.idle_held + counts.idle_held,
        expected_holders: sum.expected_holders + counts.expected_holders,
        longest_wait: sum.longest_wait.max(counts.longest_wait),
    })
}

/// `label=value;warn;crit;min`: no thresholds, for each finding has its own.
fn perfdata(totals: &Counts, findings: usize) -> String {
    format!(
        "holders={};;;0 waiters={};;;0 idle_held={};;;0 findings={findings};;;0 longest_wait={:.1}s;;;0",
        totals.holders,
        totals.waiters,
        totals.idle_held,
        totals.longest_wait.as_secs_f64()
    )
}

fn prefix(several: bool, target: &str) -> String {
    if several { format!("{}: ", one_line(target)) } else { String::new() }
}

fn one_line(text: &str) -> String {
    let replaced: Cow<'_, str> = if text.contains(['|', '\n', '\r', '\u{2028}', '\u{2029}']) {
        Cow::Owned(text.replace(['|', '\n', '\r', '\u{2028}', '\u{2029}'], "?"))
    } else {
        Cow::Borrowed(text)
    };
    style::safe(&replaced).into_owned()
}
