//! `check --format json`, schema 1. The structs below are the schema: names and order of the fields are a promise.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use serde::Serialize;

use super::{Status, style};
use crate::analysis::report::{
    Advice, Failure, Finding, FirstSeen, HeldFor, HolderReport, KeyReport, LockReport, NameReport, PoolReport,
    ServerReport, TargetReport, WaiterReport,
};
use crate::keys::Source;
use crate::model::{Pid, Time};

/// The schema's number: it changes when a program that reads the old one would break.
pub const SCHEMA: u32 = 1;

/// So many locks per target and keys per finding are listed; counts are never cut.
pub const LIST_LIMIT: usize = 1_000;

/// One object and a line break.
///
/// # Errors
/// A value cannot be written as JSON; none of the values below is such.
pub fn render(reports: &[TargetReport], version: &str) -> io::Result<String> {
    let document = Document {
        schema: SCHEMA,
        version,
        status: Status::of(reports).name(),
        targets: reports.iter().map(Target::from).collect(),
    };
    let mut text = escape_invisible(serde_json::to_string_pretty(&document)?);
    text.push('\n');
    Ok(text)
}

/// JSON allows C1 control characters and direction marks as they are, terminals obey them. They can only stand in
/// strings, so they may be escaped in the finished text.
fn escape_invisible(text: String) -> String {
    let harmful = |c: char| c != '\n' && style::is_unsafe(c);
    if !text.contains(harmful) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if harmful(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'a str,
    status: &'static str,
    targets: Vec<Target<'a>>,
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the schema's names")]
struct Target<'a> {
    target: &'a str,
    error: Option<TargetError<'a>>,
    server: Option<Server<'a>>,
    sampled_at: Option<String>,
    polls: u64,
    observed_seconds: f64,
    poll_seconds: f64,
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    locks: Vec<Lock<'a>>,
    pools: Vec<Pool<'a>>,
    findings: Vec<FindingObject<'a>>,
}

#[derive(Serialize)]
struct TargetError<'a> {
    kind: &'static str,
    message: &'a str,
}

#[derive(Serialize)]
struct Server<'a> {
    version: &'a str,
    in_recovery: bool,
    started_at: String,
    role: &'a str,
    sees_all_sessions: bool,
    can_signal: bool,
}

#[derive(Serialize)]
struct Lock<'a> {
    key: Key<'a>,
    mode: &'static str,
    scope: &'static str,
    hold_expected: bool,
    held_seconds: Bounds,
    first_seen: Option<FirstSeenObject<'a>>,
    holder: Holder<'a>,
    waiters: Vec<Waiter<'a>>,
    rules: &'a [&'static str],
}

#[derive(Serialize)]
struct Key<'a> {
    text: &'a str,
    space: &'static str,
    database: Option<&'a str>,
    classid: u32,
    objid: u32,
    objsubid: u16,
    names: Vec<Name<'a>>,
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
    source: &'static str,
    kind: &'static str,
    owner: Option<&'a str>,
    team: Option<&'a str>,
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct Bounds {
    at_least: f64,
    at_most: Option<f64>,
}

#[derive(Serialize)]
struct FirstSeenObject<'a> {
    at: String,
    query: Option<&'a str>,
    certain: bool,
}

#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the schema's names")]
struct Holder<'a> {
    kind: &'static str,
    pid: Option<Pid>,
    gid: Option<&'a str>,
    backend_type: Option<&'a str>,
    backend_start: Option<String>,
    user: Option<&'a str>,
    application: Option<&'a str>,
    client_addr: Option<&'a str>,
    client_port: Option<i32>,
    state: Option<&'static str>,
    state_seconds: Option<f64>,
    transaction_seconds: Option<f64>,
    query: Option<&'a str>,
    /// Always null: this release asks no pooler.
    pooler: (),
}

#[derive(Serialize)]
struct Waiter<'a> {
    pid: Pid,
    wait_seconds: f64,
    mode: &'static str,
    blocked_by: &'a [Pid],
    user: Option<&'a str>,
    application: Option<&'a str>,
    backend_type: Option<&'a str>,
}

#[derive(Serialize)]
struct Pool<'a> {
    database: Option<&'a str>,
    user: Option<&'a str>,
    application: &'a str,
    client_addr: Option<&'a str>,
    sessions: usize,
    active: usize,
    idle: usize,
    idle_in_transaction: usize,
    holding: usize,
    waiting: usize,
}

#[derive(Serialize)]
struct FindingObject<'a> {
    id: &'a str,
    since: Option<String>,
    silenced: Option<&'a str>,
    rule: &'static str,
    severity: &'static str,
    summary: &'a str,
    detail: &'a [String],
    keys: &'a [String],
    key_count: usize,
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    database: Option<&'a str>,
    pids: &'a [Pid],
    gid: Option<&'a str>,
    waiters: &'a [Pid],
    longest_wait_seconds: Option<f64>,
    held_seconds: Option<Bounds>,
    advice: AdviceObject<'a>,
}

#[derive(Serialize)]
struct AdviceObject<'a> {
    action: &'static str,
    steps: &'a [String],
    sql: Option<&'a str>,
    caveats: &'a [String],
    prevent: &'a [String],
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// RFC 3339, UTC, always six digits: the terminate guard compares to the microsecond.
fn time(time: Time) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

/// Seconds to the microsecond, as the server counts.
fn seconds(duration: Duration) -> f64 {
    let whole = duration.as_secs() as f64;
    // Added at the end, the fraction of a long duration does not grow digits that nobody measured.
    ((whole * 1e6) + f64::from(duration.subsec_micros())) / 1e6
}

impl<'a> From<&'a TargetReport> for Target<'a> {
    fn from(report: &'a TargetReport) -> Self {
        // A stable sort by one flag: those in findings first, else in the Report's order.
        let (named, others): (Vec<_>, Vec<_>) = report.locks.iter().partition(|lock| !lock.rules.is_empty());
        Self {
            target: &report.target,
            error: report.failure.as_ref().map(TargetError::from),
            server: report.server.as_ref().map(Server::from),
            sampled_at: report.sampled_at.map(time),
            polls: report.polls,
            observed_seconds: seconds(report.observed),
            poll_seconds: seconds(report.poll_duration),
            truncated: report.counts.locks.max(report.locks.len()) > LIST_LIMIT,
            locks: named.into_iter().chain(others).take(LIST_LIMIT).map(Lock::from).collect(),
            pools: report.pools.iter().map(Pool::from).collect(),
            findings: report.findings.iter().map(FindingObject::from).collect(),
        }
    }
}

impl<'a> From<&'a Failure> for TargetError<'a> {
    fn from(failure: &'a Failure) -> Self {
        Self { kind: failure.kind.name(), message: &failure.message }
    }
}

impl<'a> From<&'a ServerReport> for Server<'a> {
    fn from(server: &'a ServerReport) -> Self {
        Self {
            version: &server.version,
            in_recovery: server.in_recovery,
            started_at: time(server.started_at),
            role: &server.role,
            sees_all_sessions: server.sees_all_sessions,
            can_signal: server.can_signal,
        }
    }
}

impl<'a> From<&'a LockReport> for Lock<'a> {
    fn from(lock: &'a LockReport) -> Self {
        Self {
            key: Key::from(&lock.key),
            mode: lock.mode,
            scope: lock.scope.name(),
            hold_expected: lock.hold_expected,
            held_seconds: Bounds::from(lock.held),
            first_seen: lock.first_seen.as_ref().map(FirstSeenObject::from),
            holder: Holder::from(&*lock.holder),
            waiters: lock.waiters.iter().map(Waiter::from).collect(),
            rules: &lock.rules,
        }
    }
}

impl<'a> From<&'a KeyReport> for Key<'a> {
    fn from(key: &'a KeyReport) -> Self {
        let space = match key.numbers.objsubid {
            1 => "bigint",
            2 => "int4-pair",
            _ => "extension",
        };
        Self {
            text: &key.text,
            space,
            database: key.database.as_deref(),
            classid: key.numbers.classid,
            objid: key.numbers.objid,
            objsubid: key.numbers.objsubid,
            names: key.names.iter().map(Name::from).collect(),
        }
    }
}

impl<'a> From<&'a NameReport> for Name<'a> {
    fn from(name: &'a NameReport) -> Self {
        let source = match name.source {
            Source::Dictionary => "dictionary",
            Source::WellKnown => "well-known",
        };
        Self {
            name: &name.name,
            source,
            kind: name.kind.name(),
            owner: name.owner.as_deref(),
            team: name.team.as_deref(),
            note: name.note.as_deref(),
        }
    }
}

impl From<HeldFor> for Bounds {
    fn from(held: HeldFor) -> Self {
        Self { at_least: seconds(held.at_least), at_most: held.at_most.map(seconds) }
    }
}

impl<'a> From<&'a FirstSeen> for FirstSeenObject<'a> {
    fn from(first: &'a FirstSeen) -> Self {
        Self { at: time(first.at), query: first.query.as_deref(), certain: first.certain }
    }
}

impl<'a> From<&'a HolderReport> for Holder<'a> {
    fn from(holder: &'a HolderReport) -> Self {
        Self {
            kind: if holder.pid.is_some() { "session" } else { "prepared" },
            pid: holder.pid,
            gid: holder.gid.as_deref(),
            backend_type: holder.backend_type.as_deref(),
            backend_start: holder.backend_start.map(time),
            user: holder.user.as_deref(),
            application: holder.application.as_deref(),
            client_addr: holder.client_addr.as_deref(),
            client_port: holder.client_port,
            state: holder.state,
            state_seconds: holder.state_for.map(seconds),
            transaction_seconds: holder.transaction_for.map(seconds),
            query: holder.query.as_deref(),
            pooler: (),
        }
    }
}

impl<'a> From<&'a WaiterReport> for Waiter<'a> {
    fn from(waiter: &'a WaiterReport) -> Self {
        Self {
            pid: waiter.pid,
            wait_seconds: seconds(waiter.waited.duration),
            mode: waiter.mode,
            blocked_by: &waiter.blocked_by,
            user: waiter.user.as_deref(),
            application: waiter.application.as_deref(),
            backend_type: waiter.backend_type.as_deref(),
        }
    }
}

impl<'a> From<&'a PoolReport> for Pool<'a> {
    fn from(pool: &'a PoolReport) -> Self {
        Self {
            database: pool.database.as_deref(),
            user: pool.user.as_deref(),
            application: &pool.application,
            client_addr: pool.client_addr.as_deref(),
            sessions: pool.sessions,
            active: pool.active,
            idle: pool.idle,
            idle_in_transaction: pool.idle_in_transaction,
            holding: pool.holding,
            waiting: pool.waiting,
        }
    }
}

impl<'a> From<&'a Finding> for FindingObject<'a> {
    fn from(finding: &'a Finding) -> Self {
        let keys = &finding.keys[..finding.keys.len().min(LIST_LIMIT)];
        Self {
            id: &finding.id,
            since: finding.since.map(time),
            silenced: finding.silenced.as_deref(),
            rule: finding.rule,
            severity: finding.severity.name(),
            summary: &finding.summary,
            detail: &finding.detail,
            keys,
            key_count: finding.key_count,
            truncated: keys.len() < finding.key_count,
            database: finding.database.as_deref(),
            pids: &finding.pids,
            gid: finding.gid.as_deref(),
            waiters: &finding.waiters,
            longest_wait_seconds: finding.longest_wait.map(|waited| seconds(waited.duration)),
            held_seconds: finding.held.map(Bounds::from),
            advice: AdviceObject::from(&finding.advice),
        }
    }
}

impl<'a> From<&'a Advice> for AdviceObject<'a> {
    fn from(advice: &'a Advice) -> Self {
        Self {
            action: advice.action.name(),
            steps: &advice.steps,
            sql: advice.sql.as_deref(),
            caveats: &advice.caveats,
            prevent: &advice.prevent,
        }
    }
}
