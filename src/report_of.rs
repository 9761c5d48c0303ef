//! From what is known and found to the Report that front ends show.
//!
//! Pure, and it decides nothing: it copies facts to where they are shown, puts the worst first, and words nothing but
//! what [`rules`](crate::rules) hand over.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::analysis::report::{
    Counts, Finding, HolderPooler, HolderReport, KeyReport, LeaseReport, LeaseSubject, LeaseTableReport, LockReport,
    NameReport, PoolerReport, ScopeReport, ServerReport, Severity, TargetReport, WaitReport, WaiterReport,
};
use crate::analysis::{Hold, HoldScope, HolderRef, Observed};
use crate::keys::{Name, key};
use crate::model::{AdvisoryKey, Backend, BackendState, LeaseRead, LockObject, Pid, Pooler, age};
use crate::rules::{Context, Draft, Subject, advice, hidden_holders, lease_overdue};
use crate::silences::silenced;

/// Lists of keys are cut here; counts never are.
pub const MOST_KEYS: usize = 1_000;

/// The report of a poll.
pub fn report_of(context: &Context<'_>, drafts: &[Draft]) -> TargetReport {
    let observed = context.observed;
    let snapshot = &observed.snapshot;
    let mut findings: Vec<Finding> = drafts.iter().map(|draft| finding(context, draft)).collect();
    findings.sort_by_key(|finding| {
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
        locks: locks(context, drafts),
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
    let idle = |hold: &&Hold| {
        let HolderRef::Session(pid) = hold.holder else { return false };
        context.backend(pid).is_some_and(|backend| is_long_idle(context, backend))
    };
    Counts {
        locks: observed.holds.len(),
        holders: observed.holders().count(),
        waiters: queued().count(),
        idle_held: observed.holds.iter().filter(idle).count(),
        expected_holders: observed
            .holders()
            .filter(|&holder| observed.holds_of(holder).all(|hold| hold.expected))
            .count(),
        longest_wait: queued().map(|wait| wait.waited.duration).max().unwrap_or_default(),
    }
}

fn is_long_idle(context: &Context<'_>, backend: &Backend) -> bool {
    backend.state == Some(BackendState::Idle)
        && context.observed.state_for(backend).is_some_and(|lasted| lasted >= context.thresholds.idle)
}

fn locks(context: &Context<'_>, drafts: &[Draft]) -> Vec<LockReport> {
    let observed = context.observed;
    // The rules that name a lock, and the number of keys of the smallest finding that does.
    let mut named: HashMap<(AdvisoryKey, HolderRef), (Vec<&'static str>, usize)> = HashMap::new();
    for draft in drafts {
        for hold in context.holds_of_draft(draft) {
            let (rules, keys) = named.entry((hold.key, hold.holder)).or_insert((Vec::new(), usize::MAX));
            *keys = draft.keys.len().min(*keys);
            if !rules.contains(&draft.rule) {
                rules.push(draft.rule);
            }
        }
    }
    let mut holders: BTreeMap<HolderRef, Arc<HolderReport>> = BTreeMap::new();
    let mut locks: Vec<(usize, LockReport)> = observed
        .holds
        .iter()
        .map(|hold| {
            let (rules, keys) = named.get(&(hold.key, hold.holder)).cloned().unwrap_or((Vec::new(), usize::MAX));
            let holder = holders.entry(hold.holder).or_insert_with(|| Arc::new(holder_report(context, hold.holder)));
            let lock = LockReport {
                key: key_report(observed, hold.key, &hold.names),
                mode: hold.mode.name(),
                scope: match hold.scope {
                    HoldScope::Session => ScopeReport::Session,
                    HoldScope::Transaction => ScopeReport::Transaction,
                    HoldScope::Unknown => ScopeReport::Unknown,
                },
                hold_expected: hold.expected,
                held: hold.held,
                first_seen: hold.first_seen.clone(),
                holder: Arc::clone(holder),
                waiters: hold.waiters.iter().filter_map(|&pid| waiter(observed, pid)).collect(),
                rules,
            };
            (keys, lock)
        })
        .collect();
    // Those in findings first, and of a hoard's thousands the least: the list may be cut behind.
    locks.sort_by_key(|(keys, lock)| (*keys, std::cmp::Reverse(lock.waiters.len())));
    locks.into_iter().map(|(_, lock)| lock).collect()
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

/// A session or a prepared transaction.
pub(crate) fn holder_report(context: &Context<'_>, holder: HolderRef) -> HolderReport {
    let observed = context.observed;
    let none = HolderReport {
        pid: None,
        gid: None,
        backend_type: None,
        backend_start: None,
        user: None,
        application: None,
        client_addr: None,
        client_port: None,
        state: None,
        state_for: None,
        transaction_for: None,
        query: None,
        application_group: String::new(),
        long_idle: false,
        pooler: None,
    };
    match holder {
        HolderRef::Session(pid) => match observed.backend(pid) {
            Some(backend) => session_report(context, backend),
            None => HolderReport { pid: Some(pid), ..none },
        },
        HolderRef::Prepared(id) => match observed.prepared(id) {
            Some(prepared) => HolderReport {
                gid: Some(prepared.gid.clone()),
                user: Some(prepared.owner.clone()),
                transaction_for: Some(age(observed.snapshot.sampled_at, prepared.prepared)),
                ..none
            },
            None => none,
        },
    }
}

fn session_report(context: &Context<'_>, backend: &Backend) -> HolderReport {
    let observed = context.observed;
    let since = |time| age(observed.snapshot.sampled_at, time);
    HolderReport {
        pid: Some(backend.pid),
        gid: None,
        backend_type: Some(backend.backend_type.clone()).filter(|kind| !kind.is_empty()),
        backend_start: backend.backend_start,
        user: backend.user.clone(),
        application: Some(backend.application.clone()),
        client_addr: backend.client_addr.clone(),
        client_port: backend.client_port,
        state: backend.state.map(BackendState::name),
        state_for: backend.state_change.map(since),
        transaction_for: backend.xact_start.map(since),
        query: backend.query.clone(),
        application_group: observed.group(backend).to_owned(),
        long_idle: is_long_idle(context, backend),
        pooler: observed.pooled.get(&backend.pid).map(|pooled| HolderPooler {
            database: pooled.database.clone(),
            pool_mode: pooled.pool_mode,
            linked: pooled.client.is_some(),
        }),
    }
}

fn waiter(observed: &Observed, pid: Pid) -> Option<WaiterReport> {
    let wait = observed.waiting.get(&pid)?;
    let backend = observed.backend(pid);
    Some(WaiterReport {
        pid,
        waited: wait.waited,
        mode: wait.mode.name(),
        blocked_by: pids(&wait.blocked_by),
        user: backend.and_then(|backend| backend.user.clone()),
        application: backend.map(|backend| backend.application.clone()),
        client_addr: backend.and_then(|backend| backend.client_addr.clone()),
        backend_type: backend.map(|backend| backend.backend_type.clone()),
    })
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

/// A key with its names.
pub(crate) fn key_report(observed: &Observed, lock: AdvisoryKey, names: &[Name]) -> KeyReport {
    KeyReport {
        text: key::text(lock.numbers),
        numbers: lock.numbers,
        database: observed.snapshot.server.database_name(lock.database).map(str::to_owned),
        names: names.iter().map(name_report).collect(),
    }
}

fn name_report(name: &Name) -> NameReport {
    let entry = name.entry.as_ref();
    NameReport {
        name: name.name.clone(),
        label: name.label.clone(),
        source: name.source,
        kind: name.kind,
        owner: entry.and_then(|entry| entry.owner.clone()),
        team: entry.and_then(|entry| entry.team.clone()),
        contact: entry.and_then(|entry| entry.contact.clone()),
        note: name.note.clone(),
        runbook: entry.and_then(|entry| entry.runbook.clone()),
        may_be: name.may_be,
    }
}

fn finding(context: &Context<'_>, draft: &Draft) -> Finding {
    let observed = context.observed;
    let names: HashMap<AdvisoryKey, &[Name]> =
        context.holds_of_draft(draft).into_iter().map(|hold| (hold.key, hold.names.as_slice())).collect();
    let any_names = |lock: &AdvisoryKey| {
        let others = || observed.holds_on(*lock).first().map_or(&[][..], |hold| &hold.names);
        names.get(lock).copied().unwrap_or_else(others)
    };
    let key_reports: Vec<KeyReport> =
        draft.keys.iter().take(MOST_KEYS).map(|lock| key_report(observed, *lock, any_names(lock))).collect();
    let mut keys: Vec<String> = key_reports.iter().map(|report| report.text.clone()).collect();
    keys.extend(draft.key_texts.iter().cloned());
    let longest = draft.waiters.iter().filter_map(|pid| observed.waiting.get(pid)).map(|wait| wait.waited);
    let all_names: Vec<&[Name]> = draft.keys.iter().map(any_names).collect();
    Finding {
        id: id(context, draft),
        since: None,
        silenced: silenced(context, draft, &all_names),
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
        advice: advice::advise(context, draft),
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
