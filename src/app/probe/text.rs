//! The report for people. Pure.

use std::fmt::Write as _;

use super::verdict::{Experiment, Outcome, Report, Verdict};
use crate::analysis::report::Severity;
use crate::render::style::{self, Paint, Screen};

/// The widest that prose gets.
const COLUMNS: usize = 100;

/// The whole report.
pub(super) fn render(report: &Report, screen: Screen) -> String {
    let mut text = String::new();
    let width = screen.width.unwrap_or(COLUMNS).clamp(40, COLUMNS);
    let titles = report.experiments.iter().map(|one| style::width(one.title)).max().unwrap_or(0);
    let mut number = 1;
    // Where nothing came about, the verdict says all of it.
    let tried = report.experiments.iter().any(|one| matches!(one.outcome, Outcome::Yes | Outcome::No));
    for group in report.experiments.chunk_by(told_alike).filter(|_| tried) {
        push_experiments(&mut text, number, group, titles, width, screen);
        number += group.len();
    }
    let (paint, word) = match report.verdict {
        Verdict::Safe => (Paint::Good, "Safe"),
        Verdict::StayBehind => (Paint::Severity(Severity::Critical), "Unsafe, locks stay behind"),
        Verdict::Dropped => (Paint::Severity(Severity::Critical), "Unsafe, locks are dropped"),
        Verdict::Inconclusive => (Paint::Severity(Severity::Unknown), "Inconclusive"),
    };
    if tried {
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "{}  session advisory locks through {}",
        screen.paint(paint, word),
        style::safe(&report.address)
    );
    for reason in report.reasons.iter().chain(&report.advice) {
        push_prose(&mut text, reason, width);
    }
    push_prose(&mut text, &report.cleanup, width);
    for leftover in &report.leftovers {
        let lead = if leftover.seen { "To free it:" } else { "If it is still there when the server answers again:" };
        let _ = writeln!(text, "\n{lead}\n");
        for line in leftover.sql.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// Experiments that came to nothing for one reason are one line.
fn told_alike(one: &Experiment, next: &Experiment) -> bool {
    matches!(one.outcome, Outcome::NotTried | Outcome::Unknown)
        && one.outcome == next.outcome
        && one.evidence == next.evidence
}

fn push_experiments(
    text: &mut String,
    number: usize,
    group: &[Experiment],
    titles: usize,
    width: usize,
    screen: Screen,
) {
    let Some(experiment) = group.first() else { return };
    let (numbers, title) = match group.len() {
        1 => (number.to_string(), experiment.title),
        more => (format!("{number}-{}", number + more - 1), title_of_more(group)),
    };
    let (paint, word) = match (experiment.outcome, experiment.must_hold) {
        (Outcome::No, true) => (Paint::Severity(Severity::Critical), "NO"),
        (Outcome::No, false) => (Paint::Strong, "no"),
        (Outcome::Yes, _) => (Paint::Good, "yes"),
        (Outcome::NotTried, _) => (Paint::Faint, "not tried"),
        (Outcome::Unknown, _) => (Paint::Severity(Severity::Unknown), "unknown"),
    };
    let indent = 6 + titles + 2 + 11;
    let evidence = style::safe(&experiment.evidence);
    // Beside the outcome where there is room, else below it.
    let beside = width >= indent + 30;
    let room = if beside { width - indent } else { width - 6 };
    let mut lines = style::wrap(&evidence, room).into_iter();
    let first = if beside { lines.next().unwrap_or_default() } else { String::new() };
    let blanks = 11_usize.saturating_sub(word.len());
    let (title, word) = (style::pad(title, titles), screen.paint(paint, word));
    let head = format!("{numbers:>4}  {title}  {word}{:blanks$}{first}", "");
    let _ = writeln!(text, "{}", head.trim_end());
    for line in lines {
        let _ = writeln!(text, "{:1$}{line}", "", if beside { indent } else { 6 });
    }
}

fn title_of_more(group: &[Experiment]) -> &'static str {
    if group.iter().all(|one| one.takes_session_lock) { "all that takes a session lock" } else { "all that follows" }
}

fn push_prose(text: &mut String, sentence: &str, width: usize) {
    for line in style::wrap(&style::safe(sentence), width) {
        let _ = writeln!(text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::probe::verdict::PoolerKind;

    fn experiment(title: &'static str, outcome: Outcome, evidence: &str, takes_session_lock: bool) -> Experiment {
        Experiment { name: title, title, outcome, evidence: evidence.to_owned(), must_hold: true, takes_session_lock }
    }

    fn report(experiments: Vec<Experiment>) -> Report {
        Report {
            address: "db\u{1b}[31m:5432".to_owned(),
            objid: 7,
            verdict: Verdict::StayBehind,
            reasons: vec![
                "A reason of so many words that it does not fit into one line of a narrow screen.".to_owned(),
            ],
            experiments,
            pooler: PoolerKind::Other,
            pooler_words: String::new(),
            advice: vec!["An advice.".to_owned()],
            cleanup: "Nothing is left.".to_owned(),
            leftovers: Vec::new(),
        }
    }

    #[test]
    fn what_came_to_nothing_for_one_reason_is_one_line_and_nothing_is_too_wide() {
        let report = report(vec![
            experiment("first", Outcome::Yes, "pid 1", false),
            experiment("second", Outcome::No, "a pooler's words \u{7} that are long enough to be wrapped", false),
            experiment("third", Outcome::NotTried, "not needed", true),
            experiment("fourth", Outcome::NotTried, "not needed", true),
        ]);
        for width in [40, 60, 100] {
            let text = render(&report, Screen { width: Some(width), ..Screen::default() });
            assert!(text.contains(" 3-4  all that takes a session lock") && !text.contains("fourth"), "{text}");
            assert!(text.contains("NO") && text.contains("\\u{7}") && text.contains("db\\u{1b}[31m:5432"), "{text}");
            let prose = text.lines().filter(|line| !line.contains("advisory locks through") && !line.contains("3-4"));
            assert!(prose.clone().all(|line| style::width(line) <= width), "{text}");
        }
    }

    #[test]
    fn where_nothing_was_tried_the_verdict_says_it_all() {
        let text = render(&report(vec![experiment("first", Outcome::Unknown, "refused", false)]), Screen::default());
        assert!(text.starts_with("Unsafe, locks stay behind  "), "{text}");
    }
}
