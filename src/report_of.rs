//! From what is known and found to the Report that front ends show.
//!
//! Pure, and it decides nothing: it copies facts to where they are shown, puts the worst first, and words nothing but
//! what [`rules`](crate::rules) hand over.

mod locks;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::analysis::report::{
    Counts, Finding, KeyReport, LeaseReport, LeaseSubject, LeaseTableReport, PoolerReport, ServerReport, Severity,
    TargetReport, WaitReport,
};
use crate::analysis::{Hold, HolderRef, Observed};
use crate::keys::key;
use crate::model::{AdvisoryKey, LeaseRead, LockObject, Pid, Pooler, age};
use crate::rules::{Context, Draft, Subject, advice, hidden_holders, lease_overdue};
use crate::silences::silenced;
pub(crate) use locks::holder_report;
use locks::{is_long_idle, locks};

/// Lists of keys are cut here; counts never are.
pub const MOST_KEYS: usize = 1_000;

/// A draft, and what several need to know of it.
#[derive(Debug)]
pub struct Found<'a> {
    /// The draft.
    pub draft: &'a Draft,
    /// The finding's id.
    pub id: String,
    /// The places of its holds in `Observed::holds`.
    pub places: Vec<usize>,
}

impl<'a> Found<'a> {
    /// The same of each draft.
    pub fn all(context: &Context<'_>, drafts: &'a [Draft]) -> Vec<Self> {
        let found = |draft| Self { draft, id: id(context, draft), places: context.places_of_draft(draft) };
        drafts.iter().map(found).collect()
    }

    /// Its holds.
    pub fn holds<'b>(&self, observed: &'b Observed) -> impl Iterator<Item = &'b Hold> {
        self.places.iter().map(|&place| &observed.holds[place])
    }
}

/// The report of a poll.
pub fn report_of(context: &Context<'_>, found: &[Found<'_>]) -> TargetReport {
    let observed = context.observed;
    let snapshot = &observed.snapshot;
    let mut findings: Vec<Finding> = found.iter().map(|found| finding(context, found)).collect();
    findings.sort_by_cached_key(|finding| {
        let waited = finding.longest_wait.map_or(Duration::ZERO, |waited| waited.duration);
        let held = finding.held.map_or(Duration::ZERO, |held| held.at_least);
        (
            finding.silenced.is_some(),
            std::cmp::Reverse((finding.severity, waited, held)),
            finding.rule,
            finding.id.clone(),
        )
    });
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
        findings,
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

fn finding(context: &Context<'_>, found: &Found<'_>) -> Finding {
    let observed = context.observed;
    let draft = found.draft;
    let mut own: Vec<&Hold> = found.holds(observed).collect();
    own.sort_by_key(|hold| hold.key);
    // The finding's own hold of a key, else any.
    let hold_of = |lock: AdvisoryKey| {
        let own = own[..own.partition_point(|hold| hold.key <= lock)].last().filter(|hold| hold.key == lock);
        own.copied().or_else(|| observed.holds_on(lock).first())
    };
    let key_report = |lock: &AdvisoryKey| match hold_of(*lock) {
        Some(hold) => Arc::clone(&hold.report),
        None => Arc::new(KeyReport::new(
            lock.numbers,
            observed.snapshot.server.database_name(lock.database).map(Arc::from),
            &[],
        )),
    };
    let key_reports: Vec<Arc<KeyReport>> = draft.keys.iter().take(MOST_KEYS).map(key_report).collect();
    let texts = draft.key_texts.iter().map(|text| Arc::from(text.as_str()));
    let keys = key_reports.iter().map(|report| Arc::clone(&report.text)).chain(texts).collect();
    let names = |lock: &AdvisoryKey| hold_of(*lock).map_or(&[][..], |hold| &hold.names);
    let longest = draft.waiters.iter().filter_map(|pid| observed.waiting.get(pid)).map(|wait| wait.waited);
    Finding {
        id: found.id.clone(),
        since: None,
        silenced: silenced(context, draft, &names),
        rule: draft.rule,
        severity: draft.severity,
        summary: draft.summary.clone(),
        detail: draft.detail.clone(),
        key_count: draft.keys.len() + draft.key_texts.len(),
        database: database(context, draft),
        keys,
        key_reports,
        pids: draft.pids.clone(),
        gid: draft.gid.clone(),
        lease: match &draft.subject {
            Subject::Lease { lease, row } => Some(LeaseSubject { lease: lease.clone(), row: row.clone() }),
            _ => None,
        },
        waiters: draft.waiters.clone(),
        longest_wait: longest.max_by_key(|waited| waited.duration),
        held: draft.held,
        advice: advice::advise(context, draft, &own),
    }
}

/// The keys' database, where it is one; else that of the pool or of the subject's sessions.
fn database(context: &Context<'_>, draft: &Draft) -> Option<String> {
    let observed = context.observed;
    let oids: BTreeSet<_> = draft.keys.iter().map(|lock| lock.database).collect();
    if let (1, Some(&oid)) = (oids.len(), oids.first()) {
        return observed.snapshot.server.database_name(oid).map(str::to_owned);
    }
    if let Subject::Lease { lease, .. } = &draft.subject {
        let read = observed.snapshot.leases.iter().find(|read| read.lease == *lease)?;
        return read.outcome.as_ref().ok().map(|leases| leases.database.clone());
    }
    if let Subject::Pool(place) = draft.subject {
        return observed.pools[place].0.database.clone();
    }
    None
}

/// Stable while the situation lasts: made of what identifies the subject, not of what changes.
pub fn id(context: &Context<'_>, draft: &Draft) -> String {
    let observed = context.observed;
    let mut text = format!("{}\n{}\n", observed.target, draft.rule);
    let session = |text: &mut String, pid: Pid| {
        let start = observed.backend(pid).and_then(|backend| backend.backend_start);
        let _ = writeln!(text, "{pid} {}", start.map_or(0, |start| start.timestamp_micros()));
    };
    let holder = |text: &mut String, holder: HolderRef| match holder {
        HolderRef::Session(pid) => session(text, pid),
        HolderRef::Prepared(id) => {
            if let Some(prepared) = observed.prepared(id) {
                let _ = writeln!(text, "{} {}", prepared.transaction, prepared.prepared.timestamp_micros());
            }
        }
    };
    match &draft.subject {
        Subject::Holder(one) => holder(&mut text, *one),
        Subject::Roots(many) => many.iter().for_each(|one| holder(&mut text, *one)),
        Subject::Pool(place) => {
            let pool = &observed.pools[*place].0;
            let _ = writeln!(text, "{:?} {:?} {} {:?}", pool.database, pool.user, pool.application, pool.client_addr);
        }
        Subject::Cycle(pids) => pids.iter().for_each(|&pid| session(&mut text, pid)),
        Subject::HolderEntry(one, entry) => {
            holder(&mut text, *one);
            text.push_str(entry);
        }
        Subject::Entry(entry) => text.push_str(entry),
        Subject::Key(lock) => {
            let _ = writeln!(text, "{} {}", lock.database, key::text(lock.numbers));
        }
        Subject::Lease { lease, row } => {
            let _ = writeln!(text, "{lease} {row:?}");
        }
        Subject::Target => {}
    }
    let mut id = String::with_capacity(16);
    for byte in Sha256::digest(text.as_bytes()).iter().take(8) {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// The worst severity that counts: silenced findings and mere information do not.
pub fn worst(report: &TargetReport) -> Option<Severity> {
    let counted = report.findings.iter().filter(|finding| finding.silenced.is_none());
    counted.map(|finding| finding.severity).filter(|severity| *severity > Severity::Info).max()
}
