//! What a guard says, of reports made by hand.

use std::sync::Arc;
use std::time::Duration;

use super::guard::{json, text};
use crate::analysis::report::{GuardReport, HowLeft};
use crate::guard::testing::left;

fn report() -> GuardReport {
    GuardReport {
        target: "orders".to_owned(),
        database: "app".to_owned(),
        polls: 31,
        sessions: 2,
        locks: 1,
        ..GuardReport::default()
    }
}

#[test]
fn nothing_left_behind_is_one_line_that_says_what_was_seen() {
    assert_eq!(
        text(&report()),
        "pglockwatch guard: no lock was left behind in app (orders); 1 lock and 2 sessions seen in 31 polls\n"
    );
}

#[test]
fn blind_is_not_clean() {
    let blind = GuardReport { blind: vec!["A poll failed: gone.".to_owned()], ..report() };
    assert_eq!(
        text(&blind),
        "pglockwatch guard: UNKNOWN: the server could not be watched all the time in app (orders); \
         1 lock and 2 sessions seen in 31 polls\n  A poll failed: gone.\n"
    );
    assert!(json(&blind, 0, "1").unwrap().contains(r#""status":"unknown""#));
}

#[test]
fn what_counts_as_nothing_is_told_all_the_same() {
    let more =
        GuardReport { declared: 2, at_work: 1, not_judged: 3, longest_gap: Duration::from_millis(350), ..report() };
    let text = text(&more);
    for said in ["2 locks of expected or silenced", "1 lock still held by sessions", "3 locks that vanished", "0.3s"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn hostile_names_stay_in_their_place() {
    let mut hostile = left();
    hostile.holder.application = Some("a\nLEFT BEHIND  1\u{1b}[2J".into());
    hostile.holder.query = Some("x\r\u{202e}".repeat(400).into());
    hostile.first_seen.as_mut().unwrap().query = Some(Arc::from("SELECT \"\u{9b}31m\""));
    hostile.how = HowLeft::EndedWithSession;
    let report = GuardReport { left: vec![hostile], ..report() };
    let text = text(&report);
    assert_eq!(text.lines().filter(|line| line.starts_with("LEFT BEHIND")).count(), 1, "{text}");
    assert!(!text.chars().any(|c| c != '\n' && super::style::is_unsafe(c)), "{text}");
    assert!(text.lines().all(|line| line.len() < 2_000), "{text}");
    let json = json(&report, 0, "1").unwrap();
    let line = json.strip_prefix('\n').unwrap().strip_suffix('\n').unwrap();
    assert!(!line.chars().any(super::style::is_unsafe), "{line}");
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(value["left_behind"][0]["holder"]["application"], "a\nLEFT BEHIND  1\u{1b}[2J");
    assert_eq!(value["status"], "left-behind");
}

#[test]
fn a_hoard_is_cut_and_counted() {
    let report = GuardReport { left: vec![left(); 60], ..report() };
    let text = text(&report);
    assert!(text.starts_with("pglockwatch guard: 60 locks were left behind"), "{text}");
    assert_eq!(text.matches("LEFT BEHIND").count(), 50);
    assert!(text.contains("... and 10 more"), "{text}");
}
