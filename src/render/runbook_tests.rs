//! The runbook as text and as markdown, on reports of worlds made by hand.

use std::sync::Arc;

use super::runbook::{self, Selection};
use super::style::{self, Screen};
use super::{fixture, runbook_markdown};
use crate::analysis::report::TargetReport;
use crate::analysis::{Grouping, Thresholds};
use crate::keys::{KeyBook, key as key_text};
use crate::model::testing::{World, key};
use crate::monitor::Monitor;

const PLAIN: Screen = Screen { color: false, width: None, height: None };

fn report(world: &mut World) -> TargetReport {
    let mut monitor = Monitor::new(
        "primary".to_owned(),
        Thresholds::default(),
        Arc::new(KeyBook::default()),
        Grouping::default(),
        false,
    );
    monitor.observe(world.poll())
}

/// A leak with a waiter, a forgotten prepared transaction, and names made to break things.
fn hostile() -> World {
    let mut world = World::new();
    let name = "a`b\n# head\u{1b}[31m <script>|*_[x](http://y) ```";
    world.connect(4711, name).hold(4711, key(612_001)).hold(4711, key(612_002));
    world.backend(4711).user = Some("ev'il\"ro\nle".into());
    world.backend(4711).query = Some("SELECT '```\n# not a heading'".into());
    world.prepare(1, "order '77' ````\n- item", key(9));
    world.connect(4712, "api").to(30.0).wait(4712, key(612_001)).to(120.0);
    world
}

#[test]
fn a_runbook_has_its_sections_and_wraps_words_only() {
    let text = runbook::render(&[report(&mut hostile())], &Selection::default(), PLAIN);
    let mut place = 0;
    for title in ["CRITICAL  idle-holder", "What is wrong", "Holder", "Also holds", "Waiting", "Before you act", "Do"] {
        let found = text[place..].find(title).unwrap_or_else(|| panic!("{title} is not in order in\n{text}"));
        place += found;
    }
    for title in ["Verify", "Prevent", "More"] {
        assert!(text.contains(title), "{title} is not in\n{text}");
    }
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
    let words = text.lines().filter(|line| line.starts_with(&" ".repeat(16)));
    assert!(words.into_iter().all(|line| style::width(line) <= 80), "{text}");
    // What is to be typed stands as it was made.
    for finding in &report(&mut hostile()).findings {
        for line in finding.advice.sql.iter().flat_map(|sql| sql.lines()) {
            assert!(text.lines().any(|shown| shown.trim_start() == line.trim_start()), "{line}\nis not in\n{text}");
        }
        for command in finding.advice.steps.iter().flat_map(|step| step.lines().skip(1)) {
            assert!(text.lines().any(|shown| shown.ends_with(command)), "{command}\nis not in\n{text}");
            assert!(command.len() <= 160, "{command}");
        }
    }
}

#[test]
fn hostile_names_do_not_break_markdown() {
    let text = runbook_markdown::render(&[report(&mut hostile())], &Selection::default());
    let mut fence: Option<String> = None;
    let mut outside = Vec::new();
    for line in text.lines() {
        let start = line.trim_start();
        let ticks: String = start.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if start == open => fence = None,
            Some(open) => assert!(!start.contains(open.as_str()), "{line}"),
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => outside.push(line),
        }
    }
    assert_eq!(fence, None, "an open block in\n{text}");
    for line in &outside {
        assert!(!line.contains("<script") && !line.contains("[x]("), "{line}");
        assert!(
            !line.starts_with('#')
                || line.starts_with("# pglockwatch")
                || line.starts_with("## ")
                || line.starts_with("### "),
            "{line}"
        );
    }
    let headings = outside.iter().filter(|line| line.starts_with("## ")).count();
    assert_eq!(headings, report(&mut hostile()).findings.len(), "{text}");
}

#[test]
fn the_worst_comes_first_and_the_silenced_last_with_its_reason() {
    let mut report = report(&mut hostile());
    assert_eq!(report.findings.len(), 3);
    report.findings[0].silenced = Some("OPS-4711".to_owned());
    for text in [
        runbook::render(std::slice::from_ref(&report), &Selection::default(), PLAIN),
        runbook_markdown::render(std::slice::from_ref(&report), &Selection::default()),
    ] {
        let silenced = text.find("SILENCED").unwrap();
        assert!(silenced > text.find("WARNING").unwrap(), "{text}");
        assert!(text[silenced..].contains(if text.starts_with('#') { "OPS-4711" } else { "not counted: OPS-4711" }));
    }
}

#[test]
fn a_selection_takes_a_session_or_a_key() {
    let reports = [report(&mut hostile())];
    let of = |selection| runbook::render(&reports, &selection, PLAIN);
    let waiter = of(Selection { pid: Some(4712), key: None });
    assert!(waiter.contains("idle-holder") && !waiter.contains("prepared-transaction-holder"), "{waiter}");
    let prepared = of(Selection { pid: None, key: Some(key_text::from_bigint(9)) });
    assert!(prepared.contains("prepared-transaction-holder") && !prepared.contains("idle-holder"), "{prepared}");
    let nothing = of(Selection { pid: Some(1), key: None });
    assert_eq!(nothing, "primary: nothing to do, no finding about pid 1; 3 advisory locks held, 1\nwaiting.\n");
    let both = of(Selection { pid: Some(1), key: Some(key_text::from_bigint(9)) });
    assert!(both.contains("no finding about pid 1 and key 9;"), "{both}");
}

#[test]
fn a_target_that_does_not_answer_is_said_first() {
    let reports = [fixture::target("quiet"), fixture::failed("replica")];
    let text = runbook::render(&reports, &Selection::default(), PLAIN);
    assert!(text.contains("quiet: nothing to do; 0 advisory locks held, 0 waiting."), "{text}");
    assert!(text.contains("replica could not be looked at: cannot connect"), "{text}");
    assert!(text.contains("Is PostgreSQL running there"), "{text}");
}
