//! Pages of hand-made Reports. What real scrapers make of them is tried in tests/.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::analysis::report::{Failure, HolderPooler, HolderReport, KeyReport, PoolReport, Severity, TargetReport};
use crate::model::{LockMode, PoolMode};
use crate::render::fixture::{failed, finding, holder, key, lock, target, time, waiter};

const NOW: Duration = Duration::from_secs(1_000);

fn metrics() -> TargetMetrics {
    TargetMetrics::new(Identity {
        target: "orders".to_owned(),
        labels: [("env".to_owned(), "prod".to_owned())].into(),
        interval: Duration::from_secs(5),
        pool_clients: false,
    })
}

fn text(targets: &[TargetMetrics], now: Duration) -> String {
    let own = Own { version: "1.2.3", config_reload_success: true, dictionary_reload_success: false };
    Gathered::of(own, targets, now).encode(Format::Prometheus)
}

fn observe(metrics: &mut TargetMetrics, report: TargetReport, now: Duration) {
    let rows = Rows::of(&report, &metrics.admit(&report, now), false);
    metrics.observe(Arc::new(report), rows, now, time());
}

fn seen(report: TargetReport) -> TargetMetrics {
    let mut metrics = metrics();
    observe(&mut metrics, report, NOW);
    metrics
}

/// The lines of one metric, without the labels that all have.
fn lines(page: &str, metric: &str) -> Vec<String> {
    let all = page.lines().filter(|line| line.starts_with(metric) && line[metric.len()..].starts_with(['{', ' ']));
    let common = "target=\"orders\",env=\"prod\"";
    all.map(|line| line.replace(&format!("{common},"), "").replace(&format!("{{{common}}}"), "")).collect()
}

fn leaky() -> TargetReport {
    let mut leak = lock(key(612_001, Some("nightly-report")), holder(4711, "worker"), &["idle-holder"]);
    leak.waiters = [waiter(4712, 12)].into();
    let mut other_mode = leak.clone();
    other_mode.mode = LockMode::Share;
    let unknown = lock(key(99, None), holder(4713, "hostile \"name\"\n\\"), &["carried-lock"]);
    let findings = vec![finding("idle-holder", Severity::Critical, &leak)];
    TargetReport { locks: vec![leak, other_mode, unknown], findings, ..target("orders") }
}

#[test]
fn a_leak_is_told_by_name_and_application_and_each_waiter_once() {
    let page = text(&[seen(leaky())], NOW);
    assert_eq!(
        lines(&page, "pglockwatch_idle_held_locks"),
        [
            "pglockwatch_idle_held_locks{datname=\"app\",application_name=\"hostile \\\"name\\\"\\\\n\\\\\",lock=\"other\"} 1",
            "pglockwatch_idle_held_locks{datname=\"app\",application_name=\"worker\",lock=\"nightly-report\"} 2",
        ]
    );
    assert_eq!(lines(&page, "pglockwatch_waiters"), ["pglockwatch_waiters{datname=\"app\",lock=\"nightly-report\"} 1"]);
    assert_eq!(
        lines(&page, "pglockwatch_longest_wait_seconds"),
        ["pglockwatch_longest_wait_seconds{datname=\"app\",lock=\"nightly-report\"} 12.0"]
    );
    assert_eq!(lines(&page, "pglockwatch_holders"), ["pglockwatch_holders{datname=\"app\",lock=\"nightly-report\"} 1"]);
    assert_eq!(lines(&page, "pglockwatch_carried_locks").len(), 1);
    assert!(
        lines(&page, "pglockwatch_findings")
            .contains(&"pglockwatch_findings{rule=\"idle-holder\",severity=\"critical\"} 1".to_owned())
    );
    for hidden in ["4711", "4712", "612001", "SELECT"] {
        assert!(!page.contains(hidden), "{hidden} is in the page");
    }
}

#[test]
fn a_holder_behind_a_pooler_has_no_application_of_its_own() {
    let with = |pool_mode| {
        let pooler = HolderPooler { database: "app".to_owned(), pool_mode, linked: false };
        let holder = HolderReport { pooler: Some(pooler), ..holder(4711, "worker") };
        let leak = lock(key(612_001, None), holder, &["pooler-session-lock"]);
        let page = text(&[seen(TargetReport { locks: vec![leak], ..target("orders") })], NOW);
        lines(&page, "pglockwatch_idle_held_locks").remove(0)
    };
    assert!(with(PoolMode::Transaction).contains("application_name=\"pooled\""));
    assert!(with(PoolMode::Session).contains("application_name=\"worker\""));
}

#[test]
fn nothing_to_show_is_said_with_a_zero() {
    let page = text(&[seen(target("orders"))], NOW);
    for (metric, labels) in [
        ("pglockwatch_idle_held_locks", "{datname=\"\",application_name=\"\",lock=\"\"}"),
        ("pglockwatch_carried_locks", "{datname=\"\",application_name=\"\",lock=\"\"}"),
        ("pglockwatch_prepared_held_locks", "{datname=\"\"}"),
        ("pglockwatch_waiters", "{datname=\"\",lock=\"\"}"),
        ("pglockwatch_silenced_findings", "{rule=\"\"}"),
        ("pglockwatch_leases_overdue", "{datname=\"\",lease=\"\"}"),
        ("pglockwatch_hidden_holders", ""),
    ] {
        assert_eq!(lines(&page, metric), [format!("{metric}{labels} 0")]);
    }
    let findings = lines(&page, "pglockwatch_findings");
    assert_eq!(findings.len(), 4 * crate::rules::ALL.len());
    assert!(findings.iter().all(|line| line.ends_with(" 0")));
    assert_eq!(lines(&page, "pglockwatch_up"), ["pglockwatch_up 1"]);
    assert_eq!(lines(&page, "pglockwatch_build_info"), ["pglockwatch_build_info{version=\"1.2.3\"} 1"]);
    assert_eq!(lines(&page, "pglockwatch_dictionary_reload_success"), ["pglockwatch_dictionary_reload_success 0"]);
}

#[test]
fn no_old_value_is_served_as_if_it_were_fresh() {
    let mut metrics = seen(leaky());
    let silent = NOW + Duration::from_secs(16);
    assert!(metrics.fresh(NOW + Duration::from_secs(14)).is_some());
    let after_silence = text(std::slice::from_ref(&metrics), silent);
    metrics.fail(FailureKind::Timeout);
    let after_failure = text(std::slice::from_ref(&metrics), NOW);
    let kept = [
        "pglockwatch_build_info",
        "pglockwatch_config_reload_success",
        "pglockwatch_dictionary_reload_success",
        "pglockwatch_up",
        "pglockwatch_last_poll_timestamp_seconds",
        "pglockwatch_poll_duration_seconds",
    ];
    for page in [after_silence, after_failure] {
        assert_eq!(lines(&page, "pglockwatch_up"), ["pglockwatch_up 0"]);
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(
                name.ends_with("_total") || kept.iter().any(|kept| name.starts_with(kept)),
                "{line} is served after a failed poll or silence"
            );
        }
    }
}

#[test]
fn counters_survive_failed_polls_and_count_what_begins() {
    let mut metrics = seen(leaky());
    observe(&mut metrics, failed("orders"), NOW);
    observe(&mut metrics, leaky(), NOW);
    let mut later = leaky();
    later.findings[0].id = "another".to_owned();
    later.locks[0].holder = Arc::new(holder(5000, "worker"));
    later.locks[1].holder = Arc::clone(&later.locks[0].holder);
    if let Some(server) = &mut later.server {
        server.restarted = true;
    }
    observe(&mut metrics, later, NOW);
    let page = text(&[metrics], NOW);
    for line in [
        "pglockwatch_polls_total{result=\"ok\"} 3",
        "pglockwatch_polls_total{result=\"connect\"} 1",
        "pglockwatch_findings_begun_total{rule=\"idle-holder\"} 2",
        "pglockwatch_findings_begun_total{rule=\"carried-lock\"} 0",
        "pglockwatch_server_restarts_total 1",
        "pglockwatch_holder_changes_total{datname=\"app\",lock=\"nightly-report\"} 1",
        "pglockwatch_poll_duration_seconds_bucket{le=\"0.001\"} 0",
        "pglockwatch_poll_duration_seconds_bucket{le=\"0.0025\"} 3",
        "pglockwatch_poll_duration_seconds_count 3",
    ] {
        let metric = line.split(['{', ' ']).next().unwrap();
        assert!(lines(&page, metric).contains(&line.to_owned()), "no {line} in\n{page}");
    }
}

#[test]
fn the_first_fifty_groups_keep_their_label_for_an_hour_after_their_last_session() {
    let pools = |names: std::ops::Range<u32>| TargetReport {
        pools: names
            .map(|n| PoolReport { application: format!("app-{n}").into(), sessions: 1, ..PoolReport::default() })
            .collect(),
        ..target("orders")
    };
    let shown =
        |metrics: &TargetMetrics, now| lines(&text(std::slice::from_ref(metrics), now), "pglockwatch_pool_sessions");
    let mut metrics = seen(pools(0..50));
    observe(&mut metrics, pools(40..70), NOW);
    let rows = shown(&metrics, NOW);
    assert_eq!(rows.len(), 11, "{rows:?}");
    assert!(rows.iter().any(|row| row.contains("application_name=\"other\"") && row.ends_with(" 20")), "{rows:?}");
    let hour_later = NOW + Duration::from_secs(3_601);
    observe(&mut metrics, pools(60..70), hour_later);
    assert_eq!(shown(&metrics, hour_later).len(), 10);
}

#[test]
fn fifty_thousand_keys_add_no_series() {
    let few = text(&[seen(leaky())], NOW).lines().count();
    let mut report = leaky();
    for number in 0..50_000 {
        let idle = holder(9_000 + i32::try_from(number % 40).unwrap(), "worker");
        report.locks.push(lock(key(number + 1_000_000, None), idle, &[]));
    }
    let many = text(&[seen(report)], NOW).lines().count();
    assert!(many <= few + 3, "{few} lines became {many}");
}

#[test]
fn both_formats_name_and_end_things_in_their_own_way() {
    let targets = [seen(leaky())];
    let own = Own { version: "1.2.3", config_reload_success: true, dictionary_reload_success: true };
    let open = Gathered::of(own, &targets, NOW).encode(Format::OpenMetrics) + Format::OpenMetrics.end();
    assert!(open.contains("# TYPE pglockwatch_polls counter\n") && open.ends_with("\n# EOF\n"), "{open}");
    assert!(open.contains("# TYPE pglockwatch_build info\n"), "{open}");
    let plain = Gathered::of(own, &targets, NOW).encode(Format::Prometheus);
    assert!(plain.contains("# TYPE pglockwatch_polls_total counter\n") && !plain.contains("# EOF"), "{plain}");
    assert!(plain.contains("# TYPE pglockwatch_build_info gauge\n"), "{plain}");
    let process = process_page(Format::Prometheus, ProcessMetrics { cpu_seconds: 0.25, ..ProcessMetrics::default() });
    assert!(process.contains("\nprocess_cpu_seconds_total 0.25\n") && !process.contains("max_fds"), "{process}");
}

#[test]
fn hostile_names_leave_nothing_raw_in_a_page_and_make_no_series_twice() {
    let hostile = "a\n# EOF\r\u{0}\u{1b}[31m\u{7f}\u{85}\u{2028}\u{202e}\u{FFFD}\"\\}{";
    let mut report = leaky();
    report.locks.extend((0..2).map(|place| {
        let mut named = lock(key(50 + place, Some(hostile)), holder(6_000, hostile), &["carried-lock"]);
        let database = if place == 0 { "line\nbreak" } else { "line\\nbreak" };
        named.key = KeyReport { database: Some(database.into()), ..KeyReport::clone(&named.key) }.into();
        named
    }));
    report.pools.push(PoolReport { application: hostile.into(), user: Some(hostile.into()), ..PoolReport::default() });
    let mut metrics = TargetMetrics::new(Identity {
        target: hostile.to_owned(),
        labels: [("env".to_owned(), hostile.to_owned())].into(),
        interval: Duration::from_secs(5),
        pool_clients: true,
    });
    observe(&mut metrics, report, NOW);
    let own = Own { version: "1.2.3", config_reload_success: true, dictionary_reload_success: true };
    for format in Format::ALL {
        let page = Gathered::of(own, [&metrics], NOW).encode(format);
        let raw = page.chars().find(|c| c.is_control() && *c != '\n' || "\u{2028}\u{202e}".contains(*c));
        assert_eq!(raw, None, "{page}");
        let series: Vec<&str> =
            page.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap().0).collect();
        let different: std::collections::BTreeSet<&str> = series.iter().copied().collect();
        assert_eq!(different.len(), series.len(), "{page}");
        let carried = page.lines().find(|line| line.starts_with("pglockwatch_carried_locks{") && line.contains("line"));
        assert!(
            carried.is_some_and(|line| line.contains("datname=\"line\\\\nbreak\"") && line.ends_with(" 2")),
            "{page}"
        );
    }
}

#[test]
fn open_metrics_goes_to_who_asks_for_it() {
    let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                        text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    for (accept, format) in [
        (prometheus_2, Format::OpenMetrics),
        ("application/openmetrics-text; version=0.0.1", Format::OpenMetrics),
        ("application/openmetrics-text;version=2.0.0, text/plain;q=0.5", Format::Prometheus),
        ("application/openmetrics-text;q=0.1, text/plain", Format::Prometheus),
        ("application/openmetrics-text;q=0", Format::Prometheus),
        ("*/*", Format::Prometheus),
        ("", Format::Prometheus),
        ("text/html,;q=,,=", Format::Prometheus),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept}");
    }
}

#[test]
fn a_full_lock_table_is_a_failed_poll_that_still_counts() {
    let failure = Failure { kind: FailureKind::LockTableFull, message: "full".to_owned(), hints: Vec::new() };
    let page = text(&[seen(TargetReport { failure: Some(failure), ..leaky() })], NOW);
    assert_eq!(lines(&page, "pglockwatch_up"), ["pglockwatch_up 0"]);
    assert!(
        lines(&page, "pglockwatch_polls_total")
            .contains(&"pglockwatch_polls_total{result=\"lock_table_full\"} 1".to_owned())
    );
    assert!(lines(&page, "pglockwatch_findings").is_empty());
}
