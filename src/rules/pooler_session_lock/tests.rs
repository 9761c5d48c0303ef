//! What is a leak behind a pooler, what it takes over, and what is no leak.

use std::sync::Arc;
use std::time::Duration;

use super::client_label;
use crate::analysis::report::{Action, Finding, Severity, TargetReport};
use crate::analysis::{Grouping, Thresholds};
use crate::keys::{Dictionary, KeyBook};
use crate::model::testing::{World, key};
use crate::model::{PoolMode, Pooler, PoolerClient, PoolerSaid, PoolerServer};
use crate::monitor::Monitor;

const RULE: &str = "pooler-session-lock";

/// The backend 7 holds a session lock and serves a pool of this mode.
fn world(pool_mode: PoolMode) -> World {
    let mut world = World::new();
    world.connect(7, "api").hold(7, key(612_001)).to(1.0);
    pool(&mut world, pool_mode, None);
    world
}

fn pool(world: &mut World, pool_mode: PoolMode, client: Option<PoolerClient>) {
    let server = PoolerServer {
        database: "o\"rders".to_owned(),
        server_database: Some("app".to_owned()),
        user: "app".to_owned(),
        pool_mode,
        remote_pid: Some(7),
        local_addr: Some("10.0.0.7".to_owned()),
        local_port: Some(50_007),
        resets: false,
        close_needed: false,
        client,
    };
    let said = Ok(PoolerSaid { version: Some("1.18.0".to_owned()), servers: vec![server] });
    let name = "pgb:6432".to_owned();
    world.snapshot.poolers = vec![Pooler { name, said, shared_between_targets: false }];
}

fn monitor(dictionary: &str) -> Monitor {
    let dictionaries = [Dictionary::parse("keys.toml", dictionary).unwrap()];
    let thresholds = Thresholds { idle: Duration::from_secs(60), ..Thresholds::default() };
    Monitor::new("t".to_owned(), thresholds, Arc::new(KeyBook::new(&dictionaries)), Grouping::default(), false)
}

fn look(world: &mut World) -> TargetReport {
    monitor("").observe(world.poll())
}

fn rules(report: &TargetReport) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.rule).collect()
}

fn only(report: &TargetReport) -> &Finding {
    assert_eq!(rules(report), [RULE]);
    &report.findings[0]
}

#[test]
fn there_is_no_threshold_and_the_advice_fits_the_console() {
    let report = look(&mut world(PoolMode::Transaction));
    let finding = only(&report);
    assert_eq!((finding.severity, finding.advice.action), (Severity::Warning, Action::ReconnectPooler));
    let steps = finding.advice.steps.join("\n");
    assert!(steps.lines().any(|line| line == "RECONNECT \"o\"\"rders\";"), "{steps}");
    for word in ["KILL", "PAUSE", "SHUTDOWN"] {
        assert!(!steps.contains(word), "{steps}");
    }
    assert!(finding.advice.sql.as_deref().unwrap().contains("pid = 7"));
    assert!(finding.detail.join(" ").contains("(api) and query belong to the last borrower, not to whoever took"));
    let pooler = report.locks[0].holder.pooler.as_ref().unwrap();
    assert_eq!((pooler.database.as_str(), pooler.linked), ("o\"rders", false));
    assert_eq!(rules(&look(&mut world(PoolMode::Statement))), [RULE]);
}

#[test]
fn a_session_pool_is_judged_by_the_ordinary_rules() {
    let mut world = world(PoolMode::Session);
    assert!(rules(&look(&mut world)).is_empty());
    assert_eq!(rules(&look(world.to(100.0))), ["idle-holder"]);
}

#[test]
fn a_lock_that_is_not_proved_to_be_a_sessions_is_silent() {
    let mut world = World::new();
    world.connect(7, "api").begin(7, "SELECT pg_advisory_xact_lock(1)").hold(7, key(1)).to(1.0);
    pool(&mut world, PoolMode::Transaction, None);
    assert!(rules(&look(&mut world)).is_empty());
}

#[test]
fn it_takes_over_the_waiters_before_the_idle_threshold() {
    let mut world = world(PoolMode::Transaction);
    world.connect(8, "batch").wait(8, key(612_001)).to(20.0);
    let report = look(&mut world);
    let finding = only(&report);
    assert_eq!((finding.severity, finding.waiters.as_slice()), (Severity::Critical, &[8][..]));
    world.snapshot.poolers.clear();
    assert_eq!(rules(&look(&mut world)), ["blocked-waiters", "shared-key"]);
}

#[test]
fn it_takes_over_what_goes_by_the_last_borrower() {
    let mut world = world(PoolMode::Transaction);
    world.connect(8, "batch").wait(8, key(612_001)).to(100.0);
    let dictionary = "[[key]]\nname = \"nightly\"\nkey = 612001\napplications = [\"report-*\"]\n";
    let report = monitor(dictionary).observe(world.poll());
    let finding = only(&report);
    assert_eq!((finding.severity, finding.waiters.as_slice()), (Severity::Critical, &[8][..]));
    // Without PgBouncer these would have been said.
    world.snapshot.poolers.clear();
    let mut without =
        rules(&monitor(dictionary).observe(world.poll())).into_iter().map(str::to_owned).collect::<Vec<_>>();
    without.sort();
    assert_eq!(without, ["idle-holder", "shared-key", "unexpected-holder"]);
}

#[test]
fn an_expected_holder_is_none_behind_a_pooler() {
    let dictionary = "[[key]]\nname = \"leader\"\nkey = 612001\nlong_lived = true\n";
    let report = monitor(dictionary).observe(world(PoolMode::Transaction).poll());
    assert!(only(&report).severity == Severity::Warning && report.locks[0].hold_expected);
}

#[test]
fn a_busy_connection_does_not_make_it_come_and_go() {
    let mut world = world(PoolMode::Transaction);
    let mut monitor = monitor("");
    let first = monitor.observe(world.poll());
    world.to(2.0).begin(7, "SELECT * FROM carts");
    let client =
        PoolerClient { application: Some("cart".to_owned()), addr: Some("10.0.0.9".to_owned()), port: Some(5) };
    pool(&mut world, PoolMode::Transaction, Some(client));
    let second = monitor.observe(world.to(2.5).poll());
    assert_eq!(only(&first).id, only(&second).id);
    let detail = only(&second).detail.join(" ");
    assert!(detail.contains("A client has the connection now: cart from 10.0.0.9:5."), "{detail}");
    // The statement still waits for the borrower's rest.
    assert!(only(&second).advice.sql.as_deref().unwrap().contains("s.state IS DISTINCT FROM 'idle'"));
}

#[test]
fn where_each_borrower_is_cleaned_up_after_a_moment_is_no_leak() {
    let mut world = world(PoolMode::Transaction);
    if let Ok(said) = &mut world.snapshot.poolers[0].said {
        said.servers[0].resets = true;
    }
    assert!(rules(&look(world.to(0.5))).is_empty());
    assert_eq!(rules(&look(world.to(1.5))), [RULE]);
}

#[test]
fn a_pgbouncer_that_says_nothing_is_a_note() {
    let mut world = world(PoolMode::Transaction);
    world.snapshot.poolers[0].said = Err("PgBouncer at pgb:6432 has not answered for 3 s".to_owned());
    let report = look(&mut world);
    assert!(rules(&report).is_empty() && report.locks[0].holder.pooler.is_none());
    assert_eq!(
        report.notes(),
        ["PgBouncer at pgb:6432 has not answered for 3 s; which sessions it lends to clients is not known."]
    );
}

#[test]
fn a_name_that_changes_looks_like_a_pooler_and_is_no_finding() {
    let mut world = World::new();
    let mut monitor = monitor("");
    world.connect(7, "worker 1").hold(7, key(1)).to(1.0);
    monitor.observe(world.poll());
    world.backend(7).application = "worker 2".into();
    assert!(!monitor.observe(world.to(70.0).poll()).findings[0].detail.join(" ").contains("pooler"));
    world.backend(7).application = "api".into();
    let report = monitor.observe(world.to(80.0).poll());
    assert_eq!(rules(&report), ["idle-holder"]);
    let detail = report.findings[0].detail.join(" ");
    assert!(detail.contains("It looks like a pooler's connection: its application_name has changed once"), "{detail}");
}

#[test]
fn a_client_is_named_as_far_as_it_is_known() {
    let client = |application: Option<&str>, addr: Option<&str>, port| {
        let [application, addr] = [application, addr].map(|text| text.map(str::to_owned));
        client_label(&PoolerClient { application, addr, port })
    };
    assert_eq!(client(Some("api"), Some("10.0.0.9"), Some(5)), "api from 10.0.0.9:5");
    assert_eq!(client(None, Some("fe80::1"), Some(5)), "from [fe80::1]:5");
    assert_eq!(client(Some("api"), Some("unix(42@host)"), Some(6432)), "api over a Unix socket");
    assert!(client(None, None, None).contains("gone"));
}
