//! `check --format json`, schema 1: from a Report to the structs of [`schema`].

pub mod guard;
mod schema;

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use schema::{
    AdviceObject, Bounds, Document, FindingObject, FirstSeenObject, Holder, Key, LeaseObject, LeaseTableObject, Lock,
    Name, Pool, PoolerObject, Server, Target, TargetError, Waiter,
};

use super::{Status, style};
use crate::analysis::report::{
    Advice, Failure, Finding, FirstSeen, HeldFor, HolderPooler, HolderReport, KeyReport, LeaseReport, LeaseTableReport,
    LockReport, NameReport, PoolReport, ServerReport, TargetReport, Waited, WaiterReport,
};
use crate::keys::{Source, key};
use crate::model::Time;

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
pub(crate) fn escape_invisible(text: String) -> String {
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

/// RFC 3339, UTC, always six digits: the terminate guard compares to the microsecond.
pub(crate) fn time(time: Time) -> String {
    time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

/// Seconds to the microsecond, as the server counts.
fn seconds(duration: Duration) -> f64 {
    let whole = duration.as_secs() as f64;
    // Added at the end, the fraction of a long duration does not grow digits that nobody measured.
    ((whole * 1e6) + f64::from(duration.subsec_micros())) / 1e6
}

fn waited(waited: Waited) -> Option<f64> {
    (!waited.unknown).then(|| seconds(waited.duration))
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
            leases: report.leases.iter().map(LeaseTableObject::from).collect(),
            findings: report.findings.iter().map(FindingObject::from).collect(),
            notes: report.notes(),
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
            key: Key::from(&*lock.key),
            mode: lock.mode.name(),
            scope: lock.past.scope.name(),
            hold_expected: lock.hold_expected,
            held_seconds: Bounds::from(lock.past.held),
            first_seen: lock.past.first_seen.as_ref().map(FirstSeenObject::from),
            holder: Holder::from(&*lock.holder),
            waiters: lock.waiters.iter().map(Waiter::from).collect(),
            rules: &lock.rules,
        }
    }
}

impl<'a> From<&'a KeyReport> for Key<'a> {
    fn from(report: &'a KeyReport) -> Self {
        Self {
            text: &report.text,
            space: key::space(report.numbers),
            database: report.database.as_deref(),
            classid: report.numbers.classid,
            objid: report.numbers.objid,
            objsubid: report.numbers.objsubid,
            names: report.names.iter().map(Name::from).collect(),
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
            client_port: holder.client_port.filter(|port| *port > 0),
            state: holder.state,
            state_seconds: holder.state_for.map(seconds),
            transaction_seconds: holder.transaction_for.map(seconds),
            query: holder.query.as_deref(),
            pooler: holder.pooler.as_ref().map(PoolerObject::from),
        }
    }
}

impl<'a> From<&'a HolderPooler> for PoolerObject<'a> {
    fn from(pooler: &'a HolderPooler) -> Self {
        Self {
            kind: "pgbouncer",
            database: &pooler.database,
            pool_mode: pooler.pool_mode.name(),
            linked: pooler.linked,
        }
    }
}

impl<'a> From<&'a WaiterReport> for Waiter<'a> {
    fn from(waiter: &'a WaiterReport) -> Self {
        Self {
            pid: waiter.pid,
            wait_seconds: waited(waiter.waited),
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

impl<'a> From<&'a LeaseTableReport> for LeaseTableObject<'a> {
    fn from(table: &'a LeaseTableReport) -> Self {
        Self {
            lease: &table.lease,
            table: &table.table,
            database: table.database.as_deref(),
            error: table.problem.as_deref(),
            count: table.total,
            overdue_count: table.overdue,
            truncated: u64::try_from(table.leases.len()).unwrap_or(u64::MAX) < table.total,
            rows: table.leases.iter().map(LeaseObject::from).collect(),
        }
    }
}

impl<'a> From<&'a LeaseReport> for LeaseObject<'a> {
    fn from(lease: &'a LeaseReport) -> Self {
        Self {
            name: lease.name.as_deref(),
            holder: lease.holder.as_deref(),
            taken_at: lease.taken.map(time),
            held_seconds: lease.held_for.map(seconds),
            expires_at: lease.expires.map(time),
            expires_in_seconds: lease.expires_in.map(seconds),
            expired_seconds: lease.expired_for.map(seconds),
            overdue: lease.overdue,
        }
    }
}

impl<'a> From<&'a Finding> for FindingObject<'a> {
    fn from(finding: &'a Finding) -> Self {
        let keys: Vec<&str> = finding.keys().take(LIST_LIMIT).collect();
        Self {
            id: &finding.id,
            since: finding.since.map(time),
            silenced: finding.silenced.as_deref(),
            rule: finding.rule,
            severity: finding.severity.name(),
            summary: &finding.summary,
            detail: &finding.detail,
            truncated: keys.len() < finding.key_count,
            keys,
            key_count: finding.key_count,
            database: finding.database.as_deref(),
            pids: &finding.pids,
            gid: finding.gid.as_deref(),
            waiters: &finding.waiters,
            longest_wait_seconds: finding.longest_wait.and_then(waited),
            held_seconds: finding.held.map(Bounds::from),
            advice: AdviceObject::from(&*finding.advice),
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
