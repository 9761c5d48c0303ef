//! What people and programs see, for reports built up by hand.

use std::time::Duration;

use serde_json::Value;

use super::fixture::{example, failed, finding, holder, hostile, key, lock, target};
use super::runbook::Selection;
use super::style::{self, Screen};
use super::top::{Silence, View};
use super::{Status, json, nagios, runbook, runbook_markdown, table, top};
use crate::analysis::report::{
    Failure, FailureKind, KeyReport, LockReport, PoolerReport, ReportedKeys, Severity, TargetReport,
};

const PIPE: Screen = Screen { color: false, width: None, height: None };

fn screen(width: usize) -> Screen {
    Screen { width: Some(width), ..PIPE }
}

fn as_json(reports: &[TargetReport]) -> (String, Value) {
    let text = json::render(reports, "0.1.0").unwrap();
    let value = serde_json::from_str(&text).unwrap();
    (text, value)
}

#[test]
fn the_worst_decides_and_a_blind_spot_outweighs_a_warning() {
    let mut warning = example();
    warning.findings.remove(0);
    let mut unknown = target("c");
    let held = lock(key(1, None), holder(1, "a"), &[]);
    unknown.findings = vec![finding("hidden-sessions", Severity::Unknown, &held)];
    let mut info = target("d");
    info.findings = vec![finding("shared-key", Severity::Info, &held)];
    let mut silenced = example();
    for finding in &mut silenced.findings {
        finding.silenced = Some("OPS-4711".to_owned());
    }
    assert_eq!(Status::of(&[failed("a"), example()]), Status::Critical);
    assert_eq!(Status::of(&[warning.clone(), failed("a")]), Status::Unknown);
    assert_eq!(Status::of(&[unknown.clone(), warning]), Status::Warning);
    assert_eq!(Status::of(&[unknown]), Status::Unknown);
    assert_eq!(Status::of(&[info, silenced]), Status::Ok);
}

#[test]
fn json_has_the_promised_fields_and_types() {
    let (_, value) = as_json(&[example(), failed("b")]);
    assert_eq!(value["schema"], 1);
    assert_eq!(value["status"], "critical");
    let first = &value["targets"][0];
    assert_eq!(first["sampled_at"], "2026-11-29T14:03:07.000083Z");
    assert_eq!(first["poll_seconds"], 0.0021);
    assert_eq!(first["error"], Value::Null);
    assert!(first.get("truncated").is_none());
    let lock = &first["locks"][0];
    assert_eq!(lock["key"]["text"], "8675309");
    assert_eq!(lock["key"]["space"], "bigint");
    assert_eq!(lock["key"]["names"][0]["source"], "dictionary");
    assert_eq!(lock["held_seconds"], serde_json::json!({"at_least": 192.0, "at_most": null}));
    assert_eq!(lock["holder"]["kind"], "session");
    assert_eq!(lock["holder"]["pooler"], Value::Null);
    assert_eq!(lock["first_seen"], Value::Null);
    assert_eq!(lock["waiters"][0]["wait_seconds"], 178.0);
    let finding = &first["findings"][0];
    assert_eq!(finding["keys"][0], "8675309");
    assert_eq!(finding["longest_wait_seconds"], 178.0);
    assert_eq!(finding["advice"]["action"], "investigate");
    let second = &value["targets"][1];
    assert_eq!(second["error"]["kind"], "connect");
    assert_eq!(second["server"], Value::Null);
    assert_eq!(second["locks"], serde_json::json!([]));
}

#[test]
fn json_keeps_the_order_of_the_documentation() {
    let (text, _) = as_json(&[example()]);
    let fields = ["\"schema\"", "\"version\"", "\"status\"", "\"targets\"", "\"locks\"", "\"pools\"", "\"findings\""];
    let places: Vec<usize> = fields.iter().map(|field| text.find(field).unwrap()).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn long_lists_are_cut_and_say_so_and_what_is_wrong_stays() {
    let mut report = example();
    let wrong = report.locks.remove(0);
    report.locks = (0..1_500).map(|number| lock(key(number, None), holder(1, "a"), &[])).collect();
    report.locks.push(wrong);
    report.findings[0].key_reports = (0..1_500).map(|number| key(number, None)).collect();
    report.findings[0].key_count = 1_500;
    let (_, value) = as_json(&[report]);
    let target = &value["targets"][0];
    assert_eq!(target["truncated"], true);
    assert_eq!(target["locks"].as_array().unwrap().len(), 1_000);
    assert_eq!(target["locks"][0]["key"]["text"], "8675309");
    assert_eq!(target["findings"][0]["keys"].as_array().unwrap().len(), 1_000);
    assert_eq!(target["findings"][0]["truncated"], true);
    assert_eq!(target["findings"][0]["key_count"], 1_500);
}

#[test]
fn no_output_obeys_a_hostile_name() {
    let report = hostile();
    let view = view(&report);
    let (json, value) = as_json(std::slice::from_ref(&report));
    // The text survives, though the bytes are harmless.
    assert!(value["targets"][0]["target"].as_str().unwrap().contains("\u{1b}[31mev'il\"|\nname\u{202e}"));
    let outputs = [
        json,
        nagios::render(std::slice::from_ref(&report)),
        table::render(std::slice::from_ref(&report), PIPE),
        table::render(std::slice::from_ref(&report), screen(80)),
        top::render(&[view], PIPE),
        top::render(&[view], screen(80)),
    ];
    for output in outputs {
        assert!(!output.chars().any(|c| c != '\n' && style::is_unsafe(c)), "{output}");
    }
}

#[test]
fn a_plugin_line_has_one_bar_and_a_line_per_finding() {
    let text = nagios::render(&[example()]);
    assert_eq!(
        text,
        "PGLOCKWATCH CRITICAL - pid 4711 holds 8675309. (+1 more) | holders=3;;;0 waiters=2;;;0 idle_held=1;;;0 \
         findings=2;;;0 longest_wait=178.0s;;;0\nCRITICAL carried-lock: pid 4711 holds 8675309.\nWARNING idle-holder: \
         pid 4802 holds 612001.\n"
    );
    let text = nagios::render(&[hostile(), failed("b")]);
    assert_eq!(text.matches('|').count(), 1, "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("UNKNOWN b: cannot connect"), "{text}");
    assert!(text.lines().nth(3).unwrap().starts_with("SILENCED "), "{text}");
}

#[test]
fn a_plugin_line_without_findings_says_what_was_looked_at() {
    let text = nagios::render(&[target("a")]);
    assert!(text.starts_with("PGLOCKWATCH OK - nothing wrong: 0 advisory locks held, 0 waiting | holders=0;;;0"));
    let text = nagios::render(&[failed("a")]);
    assert!(text.starts_with("PGLOCKWATCH UNKNOWN - cannot connect to 10.0.0.5:5432"), "{text}");
}

#[test]
fn the_table_shows_the_worst_first_and_who_holds_what() {
    let expected = "\
primary  PostgreSQL 15.18  2 findings: 1 critical, 1 warning  seen 14:03:07 UTC, in 2.1 ms

CRITICAL  carried-lock  8675309 \"schema-migrations\" (billing, team payments)  in app
          held >= 3m12s by pid 4711, api@10.0.0.7 as app; idle 1m01s; 2 sessions wait, the longest 2m58s
          A leak on a pooled connection.
WARNING   idle-holder   612001  in app
          held >= 3m12s by pid 4802, report-worker@10.0.0.7 as app; idle 1m01s; nobody waits

What to do:  pglockwatch runbook          4 locks held, 2 waiting, 1 expected holder
";
    assert_eq!(table::render(&[example()], PIPE), expected);
}

#[test]
fn the_table_fits_the_screen_and_says_the_same() {
    for report in [example(), hostile(), failed("primary")] {
        for width in [40, 80, 200] {
            let text = table::render(std::slice::from_ref(&report), screen(width));
            // The target's own name is never cut: it is how people tell servers apart.
            let body = text.lines().filter(|line| !line.contains("PostgreSQL 15.18"));
            for line in body {
                assert!(style::width(line) <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn a_narrow_screen_cuts_no_key() {
    for width in [30, 60, 80] {
        let text = table::render(&[example()], screen(width));
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(joined.contains("8675309 \"schema-migrations\" (billing, team payments) in app"), "{width}: {text}");
    }
}

#[test]
fn several_keys_are_counted_and_some_are_named() {
    let mut report = example();
    let finding = &mut report.findings[0];
    finding.key_reports = (1..=5).map(|number| key(number, (number == 1).then_some("first"))).collect();
    finding.key_count = 5;
    let text = table::render(&[report], PIPE);
    assert!(text.contains("  5 keys: 1 \"first\", 2, 3, ...  in app\n"), "{text}");
}

#[test]
fn nothing_wrong_is_one_line() {
    let mut report = target("primary");
    report.counts.locks = 4;
    report.counts.expected_holders = 1;
    assert_eq!(
        table::render(&[report.clone()], PIPE),
        "primary  PostgreSQL 15.18  nothing wrong: 4 advisory locks held, 0 waiting, 1 expected holder\n"
    );
    report.target = "b".to_owned();
    let text = table::render(&[report, example()], PIPE);
    assert!(
        text.ends_with(
            "\n\nb        PostgreSQL 15.18  nothing wrong: 4 advisory locks held, 0 waiting, 1 expected holder\n"
        ),
        "{text}"
    );
}

#[test]
fn blind_is_not_clean() {
    let mut report = target("primary");
    let hidden = lock(key(1, None), holder(1, ""), &["hidden-sessions"]);
    let mut blind = finding("hidden-sessions", Severity::Unknown, &hidden);
    blind.summary = "3 of 3 holders cannot be judged.".to_owned();
    blind.detail = vec!["Role mon may not see them. Run as a superuser:  GRANT pg_monitor TO mon;".to_owned()];
    report.findings = vec![blind];
    let text = table::render(&[report], PIPE);
    assert!(text.starts_with("primary  PostgreSQL 15.18  UNKNOWN: 3 of 3 holders cannot be judged"), "{text}");
    assert!(
        text.contains("\n         Role mon may not see them. Run as a superuser:  GRANT pg_monitor TO mon;\n"),
        "{text}"
    );
}

#[test]
fn a_server_that_cannot_be_looked_at_says_why_and_what_to_do() {
    assert_eq!(
        table::render(&[failed("primary")], PIPE),
        "primary  UNKNOWN: cannot connect to 10.0.0.5:5432 (primary): connection refused\n         Is PostgreSQL running \
         there, and does it listen on that address?\n"
    );
}

#[test]
fn silenced_findings_are_shown_and_not_counted() {
    let mut report = example();
    report.findings.remove(0);
    report.findings[0].silenced = Some("OPS-4711".to_owned());
    let text = table::render(&[report], PIPE);
    assert!(text.contains("nothing wrong") && text.contains("SILENCED  idle-holder"), "{text}");
    assert!(text.contains("Not counted: OPS-4711") && !text.contains("What to do"), "{text}");
}

#[test]
fn colours_are_an_argument() {
    let colored = Screen { color: true, ..PIPE };
    assert!(table::render(&[example()], colored).contains("\u{1b}[1;31mCRITICAL\u{1b}[0m"));
    assert!(!table::render(&[example()], PIPE).contains('\u{1b}'));
}

fn view(report: &TargetReport) -> View<'_> {
    View {
        target: &report.target,
        report: Some(report),
        age: Duration::from_secs(1),
        silence: None,
        interval: Duration::from_secs(2),
    }
}

#[test]
fn top_shows_a_row_per_lock_the_worst_first() {
    let report = example();
    let text = top::render(&[view(&report)], PIPE);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "pglockwatch  primary  15.18 primary  role mon, sees all  polled 1 s ago in 2.1 ms, every 2s");
    assert_eq!(lines[1], "4 locks  2 waiting  1 critical  1 warning  1 expected");
    assert!(lines[2].starts_with("KEY ") && lines[2].ends_with("FINDING"), "{text}");
    assert!(lines[3].starts_with("8675309 \"schema-migrations\""), "{text}");
    assert!(
        lines[3].contains("pid 4711 api@10.0.0.7 as app") && lines[3].ends_with("2, 2m58s  carried-lock"),
        "{text}"
    );
    assert!(lines[4].starts_with("612001") && lines[4].ends_with("idle 1m01s  -         idle-holder"), "{text}");
}

#[test]
fn top_fits_the_screen_and_counts_what_it_leaves_out() {
    let mut report = hostile();
    report.locks.extend((0..500).map(|number| lock(key(number, None), holder(1, "worker"), &[])));
    for (width, height) in [(80, 24), (100, 10), (200, 50)] {
        let screen = Screen { color: false, width: Some(width), height: Some(height) };
        let text = top::render(&[view(&report)], screen);
        assert!(text.lines().count() < height, "{width}x{height}: {text}");
        assert!(text.contains("more locks"), "{text}");
        // The name of the target is long on purpose; rows must fit all the same.
        for line in text.lines().skip(1) {
            assert!(style::width(line) <= width, "{width}: {line}");
        }
    }
}

#[test]
fn a_coloured_row_is_no_wider_than_a_plain_one() {
    let report = example();
    let plain = top::render(&[view(&report)], screen(80));
    let colored = top::render(&[view(&report)], Screen { color: true, ..screen(80) });
    let stripped = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap().replace_all(&colored, "").into_owned();
    let widest = |text: &str| text.lines().map(style::width).max();
    assert_eq!(widest(&stripped), widest(&plain), "{colored}");
    assert!(widest(&plain) <= Some(80), "{plain}");
}

#[test]
fn old_rows_say_that_they_are_old() {
    let report = example();
    let failure = Failure { kind: FailureKind::Timeout, message: "no answer within 10s".to_owned(), hints: vec![] };
    let silence =
        Silence { lasted: Duration::from_secs(12), failure: Some(&failure), retry_in: Some(Duration::from_secs(4)) };
    let text = top::render(&[View { silence: Some(silence), ..view(&report) }], PIPE);
    assert!(
        text.starts_with(
            "pglockwatch  primary  no answer for 12 s: the rows below are from 14:03:07 UTC; next try in 4 s\nno answer \
             within 10s\n"
        ),
        "{text}"
    );
    assert!(text.contains("carried-lock"), "{text}");
}

#[test]
fn what_is_to_be_known_of_the_look_itself_is_on_every_page() {
    let problem = Some("PgBouncer at pgb:6432\u{1b}[2J has not answered for 3 s".to_owned());
    let poolers = vec![PoolerReport { name: "pgb:6432".to_owned(), version: None, problem }];
    let report = TargetReport { poolers, behind_pooler: true, ..target("orders") };
    let view = View {
        target: "orders",
        report: Some(&report),
        age: Duration::ZERO,
        silence: None,
        interval: Duration::from_secs(2),
    };
    let pages = [
        table::render(std::slice::from_ref(&report), PIPE),
        top::render(&[view], PIPE),
        runbook::render(std::slice::from_ref(&report), &Selection::default(), screen(400)),
        runbook_markdown::render(std::slice::from_ref(&report), &Selection::default()),
    ];
    for page in pages {
        assert!(page.contains("which sessions it lends to clients is not known"), "{page}");
        assert!(page.contains("through a pooler") && !page.contains('\u{1b}'), "{page}");
    }
    let (_, value) = as_json(&[report, target("well")]);
    assert_eq!(value["targets"][0]["notes"].as_array().unwrap().len(), 2);
    assert!(value["targets"][1].get("notes").is_none());
    assert_eq!(value["status"], "ok");
}

/// The same numbers are another key in another database, and another session's lock is another finding's.
#[test]
fn a_finding_names_the_lock_of_its_own_key_and_session() {
    let mut report = target("primary");
    let ours = lock(key(7, None), holder(10, "api"), &["idle-holder"]);
    report.findings = vec![finding("idle-holder", Severity::Warning, &ours)];
    let names = |lock: &LockReport| top::worst_finding(&report, lock).is_some();
    assert!(names(&ours));
    assert!(names(&LockReport { key: ours.key.alone(), ..ours.clone() }), "a list of its own");
    let other_number = lock(key(8, None), holder(10, "api"), &["idle-holder"]);
    let other_session = lock(key(7, None), holder(11, "api"), &["idle-holder"]);
    let elsewhere = KeyReport { database: Some("other".into()), ..KeyReport::clone(&ours.key) };
    let other_database = LockReport { key: elsewhere.into(), ..ours.clone() };
    assert!(![other_number, other_session, other_database].iter().any(names));
    // A text of a key that nobody holds has no database.
    report.findings[0].key_reports = ReportedKeys::default();
    report.findings[0].key_texts = vec!["7".to_owned()];
    assert!(top::worst_finding(&report, &ours).is_some());
}
