//! `check --key`: a Report narrowed to one key, in whichever database.
//!
//! Pure: the facts are the Report's, only fewer.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::analysis::Grouping;
use crate::analysis::report::{Counts, Finding, LockReport, PoolReport, TargetReport, WaiterReport};
use crate::keys::key;
use crate::model::KeyNumbers;

/// Leaves the locks, findings and pools of this key, and counts the locks anew.
pub(super) fn narrow(report: &mut TargetReport, wanted: KeyNumbers, idle: Duration, grouping: &Grouping) {
    report.locks.retain(|lock| lock.key.numbers == wanted);
    let text = key::text(wanted);
    let TargetReport { locks, findings, .. } = report;
    findings.retain(|finding| names(finding, &text, locks));
    report.leases.clear();
    report.counts = counts(&report.locks, idle);
    let involved: BTreeSet<_> = report
        .locks
        .iter()
        .flat_map(|lock| lock.holder.pid.into_iter().chain(lock.waiters.iter().map(|waiter| waiter.pid)))
        .collect();
    report.waits.retain(|wait| involved.contains(&wait.pid));
    report.pools.retain(|pool| report.locks.iter().any(|lock| has_a_part(pool, lock, grouping)));
    report.only_key = Some(text);
}

/// Whether the lock's holder or one of its waiters is of this pool.
fn has_a_part(pool: &PoolReport, lock: &LockReport, grouping: &Grouping) -> bool {
    // A node-wide key has no database; its sessions have.
    let is_of_database = lock.key.database.is_none() || lock.key.database.as_deref() == pool.database.as_deref();
    let holder = &lock.holder;
    let holds = holder.pid.is_some()
        && (&holder.user, &holder.client_addr) == (&pool.user, &pool.client_addr)
        && holder.application_group == pool.application;
    let waits = |waiter: &WaiterReport| {
        (&waiter.user, &waiter.client_addr) == (&pool.user, &pool.client_addr)
            && *grouping.group(waiter.application.as_deref().unwrap_or_default()) == *pool.application
    };
    is_of_database && (holds || lock.waiters.iter().any(waits))
}

/// Whether a finding is about the key. Its own list may be cut; then the lock of one of its sessions tells.
fn names(finding: &Finding, text: &str, locks: &[LockReport]) -> bool {
    finding.keys().any(|key| key == text)
        || (finding.listed_keys() < finding.key_count
            && locks.iter().any(|lock| {
                lock.rules.contains(&finding.rule) && lock.holder.pid.is_some_and(|pid| finding.pids.contains(&pid))
            }))
}

fn counts(locks: &[LockReport], idle: Duration) -> Counts {
    let holder = |lock: &LockReport| (lock.holder.pid, lock.holder.gid.clone());
    let waiters = || locks.iter().flat_map(|lock| lock.waiters.iter());
    let holders: BTreeSet<_> = locks.iter().map(holder).collect();
    let unexpected: BTreeSet<_> = locks.iter().filter(|lock| !lock.hold_expected).map(holder).collect();
    let idles = |lock: &&LockReport| {
        lock.holder.state == Some("idle") && lock.holder.state_for.is_some_and(|lasted| lasted >= idle)
    };
    Counts {
        locks: locks.len(),
        holders: holders.len(),
        waiters: waiters().map(|waiter| waiter.pid).collect::<BTreeSet<_>>().len(),
        idle_held: locks.iter().filter(idles).count(),
        expected_holders: holders.len() - unexpected.len(),
        longest_wait: waiters().map(|waiter| waiter.waited.duration).max().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::report::Severity;
    use crate::render::fixture::{self, example, finding};

    #[test]
    fn only_the_key_is_left_and_counted() {
        let mut report = example();
        narrow(&mut report, key::from_bigint(8_675_309), Duration::from_secs(60), &Grouping::default());
        assert_eq!(report.locks.len(), 1);
        assert_eq!(report.findings.len(), 1);
        assert_eq!(report.findings[0].rule, "carried-lock");
        assert_eq!((report.counts.locks, report.counts.holders, report.counts.waiters), (1, 1, 2));
        assert_eq!((report.counts.idle_held, report.counts.longest_wait), (1, Duration::from_secs(178)));
        narrow(&mut report, key::from_bigint(7), Duration::from_secs(60), &Grouping::default());
        assert!(report.locks.is_empty() && report.findings.is_empty());
        assert_eq!(report.counts, Counts::default());
    }

    #[test]
    fn only_the_pools_of_its_holder_and_waiters_are_left() {
        let mut report = example();
        let of = |application: &str, sessions| PoolReport {
            database: report.locks[0].key.database.clone(),
            user: report.locks[0].holder.user.clone(),
            application: application.into(),
            client_addr: report.locks[0].holder.client_addr.clone(),
            sessions,
            active: 0,
            idle: sessions,
            idle_in_transaction: 0,
            holding: 1,
            waiting: 0,
        };
        let holder = of(&report.locks[0].holder.application_group, 4);
        let pools = vec![holder.clone(), of("nobody of these", 2)];
        let wanted = report.locks[0].key.numbers;
        report.pools = pools;
        narrow(&mut report, wanted, Duration::from_secs(60), &Grouping::default());
        assert_eq!(report.pools, [holder]);
    }

    #[test]
    fn a_finding_whose_list_of_keys_is_cut_is_found_by_its_session() {
        let mut report = example();
        report.locks[1].rules = ["key-hoard"].into();
        let mut hoard = finding("key-hoard", Severity::Warning, &report.locks[1]);
        hoard.key_reports = [fixture::key(1, None)].into_iter().collect();
        hoard.key_count = 5_000;
        report.findings = vec![hoard];
        narrow(&mut report, key::from_bigint(612_001), Duration::from_secs(60), &Grouping::default());
        assert_eq!(report.findings.len(), 1);
    }
}
