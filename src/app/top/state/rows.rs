//! The rows of the open view: which there are, without the words in them.
//!
//! A row is a place in the data and an id. Words are made when it is drawn, searched or sorted by: a server may have
//! ten thousand locks, and a screen shows forty.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use super::tree::{self, Node};
use super::{State, View, filter, keylist, leases, sort};
use crate::analysis::report::{Finding, HolderReport, LockReport, Severity, TargetReport};

/// What a row is about: a place in the target's report, or in the state's own lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// Of `findings`.
    Finding(usize),
    /// Of `locks`.
    Lock(usize),
    /// A row of one of `leases`; nothing for a table that could not be read.
    Lease(usize, Option<usize>),
    /// Of [`State::branches`].
    Branch(usize),
    /// Of `pools`.
    Pool(usize),
    /// Of [`State::key_rows`].
    Key(usize),
    /// The number of an entry of the history.
    Event(u64),
}

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The same as long as it is about the same thing.
    pub id: u64,
    /// The target's place.
    pub target: usize,
    /// What it is about.
    pub item: Item,
}

/// An id from what identifies a thing.
pub(super) fn id(parts: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

fn holder_id(holder: &HolderReport) -> impl std::hash::Hash + '_ {
    (holder.pid, holder.backend_start, holder.gid.as_deref())
}

impl State {
    /// Makes the rows of the open view.
    pub(super) fn collect_rows(&mut self) {
        self.hidden = 0;
        let mut rows = match self.view {
            View::Findings => self.findings(),
            View::Locks => self.locks(),
            View::Waits => self.waits(),
            View::Pools => self.pools(),
            View::Keys => self.keys(),
            View::History => self.events(),
        };
        self.unfiltered = rows.len();
        filter::keep(self, &mut rows);
        sort::sort(self, &mut rows);
        self.rows = rows;
    }

    fn reports(&self) -> impl Iterator<Item = (usize, &TargetReport)> {
        self.shown_targets().filter_map(|target| Some((target, self.report(target)?)))
    }

    /// Worst first; within a severity the findings of a rule stand together.
    fn findings(&self) -> Vec<Row> {
        let all = || {
            self.reports().flat_map(|(target, report)| {
                report.findings.iter().enumerate().map(move |(place, finding)| (target, place, finding))
            })
        };
        let grade = |finding: &Finding| (finding.silenced.is_some(), Reverse(finding.severity));
        let mut first: HashMap<((bool, Reverse<Severity>), &str), usize> = HashMap::new();
        for (number, (_, _, finding)) in all().enumerate() {
            first.entry((grade(finding), finding.rule)).or_insert(number);
        }
        let mut found: Vec<_> = all().collect();
        found.sort_by_key(|(_, _, finding)| (grade(finding), first.get(&(grade(finding), finding.rule)).copied()));
        found
            .into_iter()
            .map(|(target, place, finding)| Row {
                id: id(("finding", target, &finding.id)),
                target,
                item: Item::Finding(place),
            })
            .collect()
    }

    /// Worst first.
    fn locks(&mut self) -> Vec<Row> {
        let mut hidden = 0;
        let mut found = Vec::new();
        for (target, report) in self.reports() {
            let mut severities: HashMap<&str, Severity> = HashMap::new();
            for finding in report.findings.iter().filter(|finding| finding.silenced.is_none()) {
                let severity = severities.entry(finding.rule).or_insert(finding.severity);
                *severity = finding.severity.max(*severity);
            }
            for (place, lock) in report.locks.iter().enumerate() {
                if lock.hold_expected && lock.rules.is_empty() && !self.show_expected {
                    hidden += 1;
                    continue;
                }
                let worst = lock.rules.iter().filter_map(|rule| severities.get(rule)).max();
                let urgency = (Reverse(worst.copied()), Reverse(lock.waiters.len()));
                found.push((urgency, Row { id: lock_id(target, lock), target, item: Item::Lock(place) }));
            }
            let leases = leases::rows(target, report).into_iter();
            found.extend(leases.map(|(severity, row)| ((Reverse(severity), Reverse(0)), row)));
        }
        // Equal ones stay in the Report's order: by holder, then leases by their expiry.
        found.sort_by_key(|(urgency, _)| *urgency);
        self.hidden = hidden;
        found.into_iter().map(|(_, row)| row).collect()
    }

    fn waits(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut branches = Vec::new();
        for (target, report) in self.reports() {
            for branch in tree::branches(report) {
                let object = |place: usize| (report.waits[place].object.clone(), report.waits[place].advisory);
                let row_id = match branch.node {
                    Node::Object(place) => id(("object", target, object(place), report.waits[place].roots.first())),
                    Node::Root(pid, lock) => id(("root", target, pid, lock.map(|lock| &report.locks[lock].key.text))),
                    Node::Waiter(place) => id(("waiter", target, report.waits[place].pid)),
                };
                rows.push(Row { id: row_id, target, item: Item::Branch(branches.len()) });
                branches.push(branch);
            }
        }
        self.branches = branches;
        rows
    }

    fn pools(&self) -> Vec<Row> {
        let mut pools: Vec<_> = self
            .reports()
            .flat_map(|(target, report)| {
                report.pools.iter().enumerate().map(move |(place, pool)| (target, place, pool))
            })
            .collect();
        pools.sort_by_key(|(_, _, pool)| (Reverse(pool.waiting), Reverse(pool.holding)));
        pools
            .into_iter()
            .map(|(target, place, pool)| Row {
                id: id(("pool", target, &pool.database, &pool.user, &pool.application, &pool.client_addr)),
                target,
                item: Item::Pool(place),
            })
            .collect()
    }

    fn keys(&mut self) -> Vec<Row> {
        let mut key_rows = Vec::new();
        for target in self.shown_targets() {
            key_rows.extend(keylist::key_rows(target, &self.targets[target], self.show_expected));
        }
        let rows = key_rows
            .iter()
            .enumerate()
            .map(|(place, row)| {
                let numbers = row.key.as_ref().map(|key| (key.numbers, &key.database));
                Row { id: id(("key", row.target, numbers, row.declared)), target: row.target, item: Item::Key(place) }
            })
            .collect();
        self.key_rows = key_rows;
        rows
    }

    fn events(&self) -> Vec<Row> {
        let before = self.paused.map_or(u64::MAX, |(_, number)| number);
        let chosen = self.chosen;
        self.history
            .entries()
            .iter()
            .filter(|entry| entry.number < before && chosen.is_none_or(|chosen| chosen == entry.target))
            .map(|entry| Row { id: id(("event", entry.number)), target: entry.target, item: Item::Event(entry.number) })
            .collect()
    }

    /// The finding of a row.
    pub fn finding(&self, row: &Row) -> Option<&Finding> {
        let Item::Finding(place) = row.item else { return None };
        self.report(row.target)?.findings.get(place)
    }

    /// The lock of a row.
    pub fn lock(&self, row: &Row) -> Option<&LockReport> {
        let Item::Lock(place) = row.item else { return None };
        self.report(row.target)?.locks.get(place)
    }

    /// The entry of the history of a row.
    pub fn event(&self, row: &Row) -> Option<&super::Entry> {
        let Item::Event(number) = row.item else { return None };
        let newest = self.history.entries().front()?.number;
        let place = usize::try_from(newest.checked_sub(number)?).ok()?;
        self.history.entries().get(place)
    }
}

fn lock_id(target: usize, lock: &LockReport) -> u64 {
    id(("lock", target, lock.key.numbers, &lock.key.database, lock.mode, holder_id(&lock.holder)))
}

/// The holder that a finding is about, where it is one that holds a lock.
pub fn holder_of<'a>(report: &'a TargetReport, finding: &Finding) -> Option<&'a HolderReport> {
    let mut holders = report.locks.iter().map(|lock| lock.holder.as_ref());
    match (finding.pids.as_slice(), &finding.gid) {
        ([pid], _) => holders.find(|holder| holder.pid == Some(*pid)),
        ([], Some(gid)) => holders.find(|holder| holder.gid.as_ref() == Some(gid)),
        _ => None,
    }
}
