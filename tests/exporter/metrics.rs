//! What real scrapers and parsers make of the metrics, and that they tell the truth.

use std::time::Duration;

use super::harness::{Exporter, have, run};
use crate::support::server;
use crate::support::session::{Identity, Session, superuser};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";
const SOON: Duration = Duration::from_secs(10);

fn application(name: &str) -> Identity {
    Identity {
        user: "postgres".to_owned(),
        database: "postgres".to_owned(),
        application_name: name.to_owned(),
        replication: false,
    }
}

fn run_sql(session: &Session, sql: &str) {
    session.run(sql, SOON).unwrap();
}

#[test]
fn both_formats_are_without_complaint() {
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    // The server keeps control characters out of application names, not out of the names of databases and roles.
    let hostile = "data \"quoted\" \\ \n# EOF\r\u{1b}[31m\u{7f}";
    let mut admin = superuser(&cluster);
    let sql = format!("CREATE DATABASE \"{0}\"; CREATE ROLE \"{0}\" SUPERUSER LOGIN", hostile.replace('"', "\"\""));
    sql.split("; ").for_each(|statement| admin.batch_execute(statement).unwrap());
    let name = hostile.to_owned();
    let who = Identity { user: name.clone(), database: name, ..application("hostile \"quoted\" \\ name") };
    let leak = Session::connect(&cluster, &who).unwrap();
    run_sql(&leak, "SELECT pg_advisory_lock(612001)");
    let mut exporter = Exporter::watching(&cluster, folder.path(), &[]).ready();
    exporter.wait(SOON, "the leak is seen", |exporter| {
        exporter.value("pglockwatch_idle_held_locks{").is_some_and(|locks| locks > 0.0)
    });
    let raw = |page: &str| page.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(raw(&exporter.metrics("").body), None);
    let plain = exporter.metrics("");
    assert!(plain.headers.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{}", plain.headers);
    assert!(plain.body.contains("process_resident_memory_bytes") && plain.body.contains("process_start_time_seconds"));
    if have("promtool", "promtool check metrics") {
        let (code, said) = run("promtool", &["check", "metrics"], &plain.body);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{}", plain.body);
    }
    let open = exporter.metrics(OPEN_METRICS);
    assert!(open.headers.contains("content-type: application/openmetrics-text; version=1.0.0"), "{}", open.headers);
    assert!(open.body.ends_with("# EOF\n"));
    let parse = "import sys\n\
                 from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics\n\
                 families = list(open_metrics(sys.stdin.read()))\n\
                 print(len(families), sum(len(family.samples) for family in families))";
    let python = std::env::var("PGLOCKWATCH_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let (code, _) = run(&python, &["-c", "import prometheus_client"], "");
    if code == Some(0) {
        let (code, said) = run(&python, &["-c", parse], &open.body);
        assert_eq!(code, Some(0), "{said}\n{}", open.body);
        assert_eq!(raw(&open.body), None);
        let families: u32 = said.split(' ').next().unwrap().parse().unwrap();
        assert!(families > 25, "{said}");
    } else {
        crate::support::say("SKIPPED: the OpenMetrics reference parser: Python's prometheus_client is not here");
    }
}

#[test]
fn a_leak_is_told_while_it_lasts_and_its_series_goes_with_it() {
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.toml"), "[[key]]\nname = \"nightly-report\"\nkey = 612001\n").unwrap();
    let mut exporter = Exporter::watching(&cluster, folder.path(), &["--keys", "keys.toml"]).ready();
    assert_eq!(exporter.value("pglockwatch_idle_held_locks{"), Some(0.0), "an explicit zero");
    let leak = Session::connect(&cluster, &application("worker 17")).unwrap();
    run_sql(&leak, "SELECT pg_advisory_lock(612001)");
    let warning = "rule=\"idle-holder\",severity=\"warning\"} 1";
    exporter.wait(SOON, "the finding", |exporter| exporter.metrics("").body.contains(warning));
    let waiter = Session::connect(&cluster, &application("api")).unwrap();
    waiter.begin("SELECT pg_advisory_lock(612001)", true);
    let critical = "rule=\"idle-holder\",severity=\"critical\"} 1";
    exporter.wait(SOON, "that it is critical", |exporter| exporter.metrics("").body.contains(critical));
    let page = exporter.metrics("").body;
    for (metric, labels) in [
        (
            "pglockwatch_idle_held_locks{",
            "datname=\"postgres\",application_name=\"worker #\",lock=\"nightly-report\"} 1",
        ),
        ("pglockwatch_waiters{", "datname=\"postgres\",lock=\"nightly-report\"} 1"),
        ("pglockwatch_holders{", "datname=\"postgres\",lock=\"nightly-report\"} 1"),
        ("pglockwatch_findings_begun_total{", "rule=\"idle-holder\"} 1"),
    ] {
        assert!(page.lines().any(|line| line.starts_with(metric) && line.contains(labels)), "{metric}{labels}\n{page}");
    }
    assert!(!page.contains("612001") && !page.contains(&leak.pid.to_string()), "{page}");
    leak.run("SELECT pg_advisory_unlock(612001)", SOON).unwrap();
    exporter.wait(SOON, "its end", |exporter| exporter.line("finding ended: unlocked").is_some());
    assert!(!exporter.metrics("").body.contains("application_name=\"worker #\",lock=\"nightly-report\""));
    let began = exporter.line("rule=idle-holder severity=warning").unwrap();
    for word in ["level=warn", "rule=idle-holder", "key=612001", "name=nightly-report", "application=\"worker 17\""] {
        assert!(began.contains(word), "no {word} in {began}");
    }
    let changed = exporter.line("finding changed").unwrap_or_default();
    assert!(changed.contains("level=warn") && changed.contains("was=warning"), "{}", exporter.log());
    assert!(!exporter.log().contains("SELECT"), "statements are not logged");
}

#[test]
fn fifty_thousand_random_keys_add_no_series() {
    let cluster = server::start(&server::any(), &["max_locks_per_transaction=2000".to_owned()]);
    let folder = tempfile::tempdir().unwrap();
    let churn = Session::connect(&cluster, &application("churn")).unwrap();
    run_sql(&churn, "SELECT pg_advisory_lock(1)");
    let mut exporter = Exporter::watching(&cluster, folder.path(), &[]).ready();
    exporter.wait(SOON, "the leak", |exporter| {
        exporter.value("pglockwatch_idle_held_locks{").is_some_and(|locks| locks > 0.0)
    });
    let names = |page: &str| page.lines().filter(|line| !line.starts_with('#')).count();
    let before = names(&exporter.metrics("").body);
    for round in 0..10 {
        let first = round * 5_000 + 1_000_000;
        let take = format!("SELECT count(pg_advisory_lock(n)) FROM generate_series({first}, {first} + 4999) n");
        run_sql(&churn, &take);
        let polls = exporter.value("pglockwatch_polls_total{").unwrap();
        exporter.wait(SOON, "two polls", |exporter| {
            exporter.value("pglockwatch_polls_total{").is_some_and(|now| now >= polls + 2.0)
        });
        let now = names(&exporter.metrics("").body);
        // What may come once: the state that a busy holder has.
        assert!(now <= before + 2, "{before} series became {now}");
        run_sql(&churn, "SELECT pg_advisory_unlock_all()");
        run_sql(&churn, "SELECT pg_advisory_lock(1)");
    }
}
