//! What is counted over a target's life: it survives reconnects, and failed polls do not touch it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use super::families::{Families, TargetLabels, Type, Value};
use super::labels;
use crate::analysis::report::{FailureKind, HolderReport, TargetReport};
use crate::model::{Pid, Time};
use crate::rules;

/// Upper bounds of the buckets of a poll's duration, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0, f64::INFINITY];

/// The failures that have a series. A target whose settings cannot be used is never polled.
const FAILURES: [FailureKind; 6] = [
    FailureKind::Connect,
    FailureKind::Auth,
    FailureKind::Tls,
    FailureKind::Timeout,
    FailureKind::LockTableFull,
    FailureKind::Query,
];

/// So many pairs of database and declared name are counted one by one. Databases may come and go for ever.
const MOST_PAIRS: usize = 1_000;

/// Who holds, as far as it can be told apart from another holder.
type HolderIdentity = (Option<Pid>, Option<Time>, Option<String>);

/// The counters of one target.
#[derive(Debug, Default)]
pub(super) struct Counters {
    ok: u64,
    failed: [u64; FAILURES.len()],
    durations: [u64; BUCKETS.len()],
    duration_sum: f64,
    restarts: u64,
    begun: BTreeMap<&'static str, u64>,
    /// Ids of the findings of the last good poll.
    present: HashSet<String>,
    /// By database and declared name: changes, and the last holders there were.
    holders: BTreeMap<[String; 2], (u64, HashSet<HolderIdentity>)>,
}

impl Counters {
    pub fn fail(&mut self, kind: FailureKind) {
        if let Some(place) = FAILURES.iter().position(|known| *known == kind) {
            self.failed[place] += 1;
        }
    }

    pub fn observe(&mut self, report: &TargetReport) {
        if let Some(failure) = &report.failure {
            self.fail(failure.kind);
        } else {
            self.ok += 1;
            self.observe_duration(report.poll_duration.as_secs_f64());
        }
        // Nothing was seen: what was there before is not over.
        let Some(server) = &report.server else { return };
        self.observe_findings(report);
        self.restarts += u64::from(server.restarted);
        self.observe_holders(report);
    }

    fn observe_duration(&mut self, seconds: f64) {
        self.duration_sum += seconds;
        if let Some(place) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.durations[place] += 1;
        }
    }

    /// A silenced finding counts as nothing.
    fn observe_findings(&mut self, report: &TargetReport) {
        let counted = || report.findings.iter().filter(|finding| finding.silenced.is_none());
        for finding in counted().filter(|finding| !self.present.contains(&finding.id)) {
            *self.begun.entry(finding.rule).or_default() += 1;
        }
        self.present = counted().map(|finding| finding.id.clone()).collect();
    }

    /// A change is a holder that was not among the last ones. A lock that nobody holds for a while has not changed.
    fn observe_holders(&mut self, report: &TargetReport) {
        let mut now: BTreeMap<[String; 2], HashSet<HolderIdentity>> = BTreeMap::new();
        for lock in &report.locks {
            if let Some(name) = labels::declared_name(lock) {
                let pair = [labels::database(lock), name].map(Cow::into_owned);
                now.entry(pair).or_default().insert(identity(&lock.holder));
            }
        }
        for (pair, holders) in now {
            if let Some((changes, before)) = self.holders.get_mut(&pair) {
                *changes += holders.difference(before).count() as u64;
                *before = holders;
            } else if self.holders.len() < MOST_PAIRS {
                self.holders.insert(pair, (0, holders));
            }
        }
    }
}

fn identity(holder: &HolderReport) -> HolderIdentity {
    (holder.pid, holder.backend_start, holder.gid.clone())
}

/// The families of what is counted, for all targets.
pub(super) fn add(families: &mut Families, targets: &[(TargetLabels, &Counters)]) {
    let polls = families.add("pglockwatch_polls", "Polls of the target, by how they ended", Type::Counter);
    for (target, counters) in targets {
        polls.series(target, &[("result", "ok")], counters.ok);
        for (kind, count) in FAILURES.iter().zip(counters.failed) {
            polls.series(target, &[("result", kind.name())], count);
        }
    }
    let durations =
        families.add("pglockwatch_poll_duration_seconds", "How long good polls of the target took", Type::Histogram);
    for (target, counters) in targets {
        let buckets = BUCKETS.into_iter().zip(counters.durations).collect();
        durations.series(target, &[], Value::Histogram(counters.duration_sum, counters.ok, buckets));
    }
    let restarts = families.add(
        "pglockwatch_server_restarts",
        "Starts of the server that were noticed: a restart or failover loses all advisory locks",
        Type::Counter,
    );
    for (target, counters) in targets {
        restarts.series(target, &[], counters.restarts);
    }
    let begun = families.add("pglockwatch_findings_begun", "Findings that began, by rule", Type::Counter);
    for (target, counters) in targets {
        for rule in rules::ALL {
            let count = counters.begun.get(rule.name()).copied().unwrap_or_default();
            begun.series(target, &[("rule", rule.name())], count);
        }
    }
    let changes = families.add(
        "pglockwatch_holder_changes",
        "How often a lock with a declared name was taken by another holder than before",
        Type::Counter,
    );
    for (target, counters) in targets {
        for ([database, name], (count, _)) in &counters.holders {
            changes.series(target, &[("datname", database), ("lock", name)], *count);
        }
    }
}
