//! From what is known and found to the Report that front ends show.
//!
//! Pure, and it decides nothing: it copies facts to where they are shown, puts the worst first, and words nothing but
//! what [`rules`](crate::rules) hand over.

mod findings;
mod locks;

use crate::analysis::report::{
    Counts, LeaseReport, LeaseTableReport, PoolerReport, ServerReport, Severity, TargetReport, WaitReport,
};
use crate::analysis::{HolderRef, Observed};
use crate::keys::key;
use crate::model::{LeaseRead, LockObject, Pid, Pooler, age};
use crate::rules::{Context, hidden_holders, lease_overdue};
pub use findings::{Found, Judged, findings};
pub(crate) use locks::holder_report;
use locks::{is_long_idle, locks};

/// Lists of keys are cut here; counts never are.
pub const MOST_KEYS: usize = 1_000;

/// The report of a poll, but for its findings.
pub fn report_of(context: &Context<'_>, found: &[Found]) -> TargetReport {
    let observed = context.observed;
    let snapshot = &observed.snapshot;
    TargetReport {
        target: observed.target.clone(),
        failure: None,
        server: Some(server(context)),
        sampled_at: Some(snapshot.sampled_at),
        polls: observed.polls,
        observed: observed.observed,
        poll_duration: snapshot.poll_duration,
        locks: locks(context, found),
        pools: observed.pools.iter().map(|(pool, _)| pool.clone()).collect(),
        leases: context.observed.snapshot.leases.iter().map(|read| leases(context, read)).collect(),
        findings: Vec::new(),
        counts: counts(context),
        waits: observed.waiting.keys().filter_map(|&pid| wait(observed, pid)).collect(),
        only_key: None,
        ended: Vec::new(),
        poolers: snapshot.poolers.iter().map(pooler).collect(),
        behind_pooler: snapshot.behind_pooler,
    }
}

fn pooler(pooler: &Pooler) -> PoolerReport {
    PoolerReport {
        name: pooler.name.clone(),
        version: pooler.said.as_ref().ok().and_then(|said| said.version.clone()),
        problem: pooler.said.as_ref().err().cloned(),
    }
}

fn server(context: &Context<'_>) -> ServerReport {
    let server = &context.observed.snapshot.server;
    let slots = server.nominal_lock_slots().max(1);
    ServerReport {
        version: server.version.clone(),
        in_recovery: server.in_recovery,
        started_at: server.started_at,
        restarted: context.observed.restarted,
        role: server.role.clone(),
        sees_all_sessions: server.sees_all_sessions,
        can_signal: server.can_signal,
        lock_table_ratio: context.observed.holds.len() as f64 / slots as f64,
        hidden_holders: hidden_holders(context).len(),
    }
}

fn counts(context: &Context<'_>) -> Counts {
    let observed = context.observed;
    let queued = || observed.waiting.values().filter(|wait| wait.key().is_some());
    let idle = |holder: &HolderRef| {
        let HolderRef::Session(pid) = *holder else { return false };
        context.backend(pid).is_some_and(|backend| is_long_idle(context, backend))
    };
    Counts {
        locks: observed.holds.len(),
        holders: observed.holders().count(),
        waiters: queued().count(),
        idle_held: observed.holders().filter(idle).map(|holder| observed.places_of(holder).len()).sum(),
        expected_holders: observed
            .holders()
            .filter(|&holder| observed.holds_of(holder).all(|hold| hold.expected))
            .count(),
        longest_wait: queued().map(|wait| wait.waited.duration).max().unwrap_or_default(),
    }
}

fn leases(context: &Context<'_>, read: &LeaseRead) -> LeaseTableReport {
    let mut report = LeaseTableReport {
        lease: read.lease.clone(),
        table: read.table.clone(),
        database: None,
        problem: None,
        total: 0,
        overdue: 0,
        leases: Vec::new(),
    };
    match &read.outcome {
        Ok(leases) => {
            let lease = |lease: &crate::model::Lease| LeaseReport {
                name: lease.name.clone(),
                holder: lease.holder.clone(),
                taken: lease.taken,
                held_for: lease.taken.map(|taken| age(leases.at, taken)),
                expires: lease.expires,
                expires_in: lease.expires.filter(|expires| *expires > leases.at).map(|expires| age(expires, leases.at)),
                expired_for: lease_overdue::expired_for(leases, lease),
                overdue: lease_overdue::is_overdue(leases, lease, context.thresholds.wait),
            };
            report.database = Some(leases.database.clone());
            report.total = leases.total;
            report.overdue = leases.overdue;
            report.leases = leases.rows.iter().map(lease).collect();
        }
        Err(problem) => report.problem = Some(format!("The table {} {}.", read.table, problem.what)),
    }
    report
}

fn wait(observed: &Observed, pid: Pid) -> Option<WaitReport> {
    let wait = observed.waiting.get(&pid)?;
    Some(WaitReport {
        pid,
        object: match &wait.object {
            LockObject::Advisory(lock) => key::text(lock.numbers),
            LockObject::Other { locktype, .. } => locktype.clone(),
        },
        advisory: wait.key().is_some(),
        mode: wait.mode.name(),
        waited: wait.waited,
        blocked_by: pids(&wait.blocked_by),
        roots: pids(&wait.roots),
    })
}

/// The sessions among these; a prepared transaction has no pid.
fn pids(holders: &[HolderRef]) -> Vec<Pid> {
    holders
        .iter()
        .filter_map(|holder| match holder {
            HolderRef::Session(pid) => Some(*pid),
            HolderRef::Prepared(_) => None,
        })
        .collect()
}

/// The worst severity that counts: silenced findings and mere information do not.
pub fn worst(report: &TargetReport) -> Option<Severity> {
    let counted = report.findings.iter().filter(|finding| finding.silenced.is_none());
    counted.map(|finding| finding.severity).filter(|severity| *severity > Severity::Info).max()
}
