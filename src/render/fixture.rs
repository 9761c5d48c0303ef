//! Reports for the tests of renderers, built up by hand.

use std::time::Duration;

use chrono::{TimeZone as _, Utc};

use crate::analysis::report::{
    Action, Advice, Counts, Failure, FailureKind, Finding, HeldFor, HoldScope, HolderReport, KeyReport, LockReport,
    NameReport, Past, ReportedKey, ServerReport, Severity, TargetReport, Waited, WaiterReport,
};
use crate::keys::key::KeyText;
use crate::keys::{Kind, Source, key};
use crate::model::{LockMode, Pid, Time};

pub fn time() -> Time {
    Utc.with_ymd_and_hms(2026, 11, 29, 14, 3, 7).unwrap() + Duration::from_micros(83)
}

pub fn held(seconds: u64) -> HeldFor {
    HeldFor { at_least: Duration::from_secs(seconds), at_most: None }
}

/// A healthy server that holds nothing.
pub fn target(name: &str) -> TargetReport {
    TargetReport {
        failure: None,
        server: Some(ServerReport {
            version: "15.18".to_owned(),
            in_recovery: false,
            started_at: time(),
            restarted: false,
            role: "mon".to_owned(),
            sees_all_sessions: true,
            can_signal: false,
            lock_table_ratio: 0.0,
            hidden_holders: 0,
        }),
        sampled_at: Some(time()),
        polls: 1,
        poll_duration: Duration::from_micros(2_100),
        ..TargetReport::failed(
            name.to_owned(),
            Failure { kind: FailureKind::Connect, message: String::new(), hints: Vec::new() },
        )
    }
}

pub fn failed(name: &str) -> TargetReport {
    let failure = Failure {
        kind: FailureKind::Connect,
        message: "cannot connect to 10.0.0.5:5432 (primary): connection refused".to_owned(),
        hints: vec!["Is PostgreSQL running there, and does it listen on that address?".to_owned()],
    };
    TargetReport::failed(name.to_owned(), failure)
}

pub fn key(number: i64, name: Option<&str>) -> ReportedKey {
    let numbers = key::from_bigint(number);
    let names = name.map(|name| NameReport {
        name: name.to_owned(),
        label: name.to_owned(),
        source: Source::Dictionary,
        kind: Kind::Job,
        owner: Some("billing".to_owned()),
        team: Some("payments".to_owned()),
        contact: None,
        note: None,
        runbook: None,
        may_be: false,
    });
    KeyReport { text: KeyText::of(numbers), numbers, database: Some("app".into()), names: names.into_iter().collect() }
        .into()
}

pub fn holder(pid: Pid, application: &str) -> HolderReport {
    HolderReport {
        pid: Some(pid),
        gid: None,
        backend_type: Some("client backend".into()),
        backend_start: Some(time()),
        user: Some("app".into()),
        application: Some(application.into()),
        client_addr: Some("10.0.0.7".into()),
        client_port: Some(51_234),
        state: Some("idle"),
        state_for: Some(Duration::from_secs(61)),
        transaction_for: None,
        query: Some("SELECT 1".into()),
        application_group: application.into(),
        long_idle: true,
        pooler: None,
    }
}

pub fn lock(key: ReportedKey, holder: HolderReport, rules: &[&'static str]) -> LockReport {
    LockReport {
        key,
        mode: LockMode::Exclusive,
        hold_expected: false,
        past: Past { scope: HoldScope::Session, held: held(192), ..Past::default() }.into(),
        holder: holder.into(),
        waiters: [].into(),
        rules: rules.to_vec().into(),
    }
}

pub fn waiter(pid: Pid, seconds: u64) -> WaiterReport {
    WaiterReport {
        pid,
        waited: Waited { duration: Duration::from_secs(seconds), ..Waited::default() },
        mode: LockMode::Exclusive.name(),
        blocked_by: vec![4711],
        user: Some("app".into()),
        application: Some("migrator".into()),
        client_addr: None,
        backend_type: Some("client backend".into()),
    }
}

pub fn finding(rule: &'static str, severity: Severity, lock: &LockReport) -> Finding {
    Finding {
        id: "9f2c".to_owned(),
        since: None,
        silenced: None,
        rule,
        severity,
        summary: format!("pid {} holds {}.", lock.holder.pid.unwrap_or_default(), lock.key.text),
        detail: vec!["Held for at least 3m12s.".to_owned(), "A leak on a pooled connection.".to_owned()],
        key_reports: [lock.key.clone()].into_iter().collect(),
        key_texts: Vec::new(),
        key_count: 1,
        database: Some("app".into()),
        pids: lock.holder.pid.into_iter().collect(),
        gid: None,
        entry: None,
        lease: None,
        waiters: lock.waiters.iter().map(|waiter| waiter.pid).collect(),
        longest_wait: lock.waiters.first().map(|waiter| waiter.waited),
        held: Some(lock.past.held),
        advice: Advice {
            action: Action::Investigate,
            steps: Vec::new(),
            sql: None,
            caveats: Vec::new(),
            prevent: Vec::new(),
        }
        .into(),
    }
}

/// The example of the documentation: a leak that blocks two sessions, and one that blocks nobody.
pub fn example() -> TargetReport {
    let mut carried = lock(key(8_675_309, Some("schema-migrations")), holder(4711, "api"), &["carried-lock"]);
    carried.waiters = [waiter(4990, 178), waiter(5012, 62)].into();
    let idle = lock(key(612_001, None), holder(4802, "report-worker"), &["idle-holder"]);
    let mut idle_finding = finding("idle-holder", Severity::Warning, &idle);
    idle_finding.advice.action = Action::Terminate;
    let findings = vec![finding("carried-lock", Severity::Critical, &carried), idle_finding];
    TargetReport {
        counts: Counts {
            locks: 4,
            holders: 3,
            waiters: 2,
            idle_held: 1,
            expected_holders: 1,
            longest_wait: Duration::from_secs(178),
        },
        locks: vec![carried, idle],
        findings,
        ..target("primary")
    }
}

/// Every name is made to break something.
pub fn hostile() -> TargetReport {
    let evil = "\u{1b}[31mev'il\"|\nname\u{202e}表表表表表表表表表表表表表表表表表表表表表表表表表";
    let mut report = example();
    report.target = evil.to_owned();
    for lock in &mut report.locks {
        let names = key(1, Some(evil)).names.clone();
        lock.key = KeyReport { names, database: Some(evil.into()), ..KeyReport::clone(&lock.key) }.into();
        let mut holder = holder(4711, evil);
        holder.user = Some(evil.into());
        holder.query = Some(evil.into());
        lock.holder = holder.into();
    }
    for finding in &mut report.findings {
        finding.summary = format!("pid 4711 ({evil}) holds it.");
        finding.detail = vec![evil.to_owned()];
        finding.key_reports = key_reports(evil).into_iter().collect();
        finding.database = Some(evil.into());
        finding.pids = vec![4711];
        finding.silenced = Some(evil.to_owned());
    }
    report.findings[0].silenced = None;
    report
}

fn key_reports(name: &str) -> Vec<ReportedKey> {
    vec![key(612_001, Some(name))]
}
