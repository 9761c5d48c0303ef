//! One target's judgement: Snapshot -> Tracker -> rules -> Report.
//!
//! Pure: it knows what the poller hands in and reads nothing itself. It remembers what is needed to say since when a
//! finding has been there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::analysis::report::TargetReport;
use crate::analysis::{Grouping, TargetNames, Thresholds, Tracker, TrackerState};
use crate::endings::Endings;
use crate::keys::KeyBook;
use crate::model::{Snapshot, Time};
use crate::report_of::{Judged, findings, report_of};

/// Everything that decides about one target, and its memory.
#[derive(Debug)]
pub struct Monitor {
    target: String,
    thresholds: Thresholds,
    book: Arc<KeyBook>,
    grouping: Grouping,
    short_observation: bool,
    tracker: Tracker,
    /// Findings of the last poll, by id, and the poll that first showed each.
    since: HashMap<String, Time>,
    endings: Endings,
}

/// What a monitor remembers, as plain data: another process can go on from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorState {
    tracker: TrackerState,
    since: BTreeMap<String, Time>,
}

impl Monitor {
    /// A monitor that has seen nothing yet. `short_observation` says that polls will end before the idle threshold
    /// has passed: what then lasts all through counts as having lasted.
    pub fn new(
        target: String,
        thresholds: Thresholds,
        book: Arc<KeyBook>,
        grouping: Grouping,
        short_observation: bool,
    ) -> Self {
        Self {
            target,
            thresholds,
            book,
            grouping,
            short_observation,
            tracker: Tracker::default(),
            since: HashMap::new(),
            endings: Endings::default(),
        }
    }

    /// The same, going on from an earlier memory. It is forgotten again at the first poll if that shows another server,
    /// or the same one more than an hour later.
    #[must_use]
    pub fn resuming(mut self, state: MonitorState) -> Self {
        self.tracker = Tracker::resuming(state.tracker);
        self.since = state.since.into_iter().collect();
        self
    }

    /// The memory, once there was a poll.
    pub fn state(&self) -> Option<MonitorState> {
        let since = self.since.iter().map(|(id, since)| (id.clone(), *since)).collect();
        Some(MonitorState { tracker: self.tracker.state()?, since })
    }

    /// The target's name.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Takes in one poll and judges.
    pub fn observe(&mut self, snapshot: Snapshot) -> TargetReport {
        let names = TargetNames { target: &self.target, book: &self.book, grouping: &self.grouping };
        let observed = self.tracker.observe(snapshot, names);
        let book = Arc::clone(&self.book);
        let (judged, words) = Judged::new(observed, self.thresholds, book, self.short_observation);
        let judged = Arc::new(judged);
        let context = judged.context();
        let mut report = report_of(&context, judged.found());
        report.findings = findings(&judged, words);
        report.ended = self.endings.observe(&context, judged.found());
        let observed = context.observed;
        let sampled_at = observed.snapshot.sampled_at;
        if observed.polls == 1 {
            // The memory was of another server.
            self.since.clear();
        }
        let mut since = HashMap::new();
        for finding in &mut report.findings {
            let begun = self.since.get(&finding.id).copied().unwrap_or(sampled_at);
            since.insert(finding.id.clone(), begun);
            // A single look cannot say since when.
            finding.since = (observed.polls > 1).then_some(begun);
        }
        self.since = since;
        report
    }

    /// Takes a new dictionary, from the next poll on. What was learned of the locks stays.
    pub fn set_book(&mut self, book: Arc<KeyBook>) {
        self.book = book;
    }

    /// Judges by other thresholds and groups from the next poll on.
    pub fn set_rules(&mut self, thresholds: Thresholds, grouping: Grouping) {
        self.thresholds = thresholds;
        self.grouping = grouping;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LockMode;
    use crate::model::testing::{World, key};

    /// With so many holders and waiters a copy for each pair would be as many as their product, and each of those
    /// names all holders again.
    #[test]
    fn all_locks_of_a_key_share_who_queues_for_it_and_findings_share_the_key() {
        let mut world = World::new();
        for pid in 1..=30 {
            world.connect(pid, "api").hold_in(pid, key(1), LockMode::Share);
        }
        for pid in 101..=120 {
            world.connect(pid, "migrator").wait(pid, key(1));
        }
        let book = Arc::new(KeyBook::default());
        let mut monitor = Monitor::new("t".to_owned(), Thresholds::default(), book, Grouping::default(), false);
        monitor.observe(world.to(1.0).poll());
        let report = monitor.observe(world.to(100.0).poll());
        assert_eq!(report.locks.len(), 30);
        let first = &report.locks[0];
        assert_eq!(first.waiters.len(), 20);
        for lock in &report.locks {
            assert!(lock.waiters.is_same(&first.waiters), "{lock:?}");
        }
        let finding = report.findings.iter().find(|finding| !finding.key_reports.is_empty()).unwrap();
        assert!(
            report.locks.iter().any(|lock| std::ptr::eq(&raw const *lock.key, finding.key_reports.get(0).unwrap())),
            "{finding:?}"
        );
    }

    /// A worker may hold thousands: what polls have taught of them is kept once, and apart only where they differ.
    #[test]
    fn locks_of_a_session_share_their_past_until_polls_show_them_differently() {
        let mut world = World::new();
        world.connect(10, "worker").connect(11, "api");
        for number in 1..=4 {
            world.hold(10, key(number));
        }
        let book = Arc::new(KeyBook::default());
        let mut monitor = Monitor::new("t".to_owned(), Thresholds::default(), book, Grouping::default(), false);
        let mut pasts = |world: &mut World, second| {
            let report = monitor.observe(world.to(second).poll());
            let mut locks: Vec<_> =
                report.locks.iter().map(|lock| (lock.key.numbers, Arc::clone(&lock.past))).collect();
            locks.sort_by_key(|(numbers, _)| *numbers);
            locks.into_iter().map(|(_, past)| past).collect::<Vec<_>>()
        };
        pasts(&mut world, 1.0);
        let all = pasts(&mut world, 2.0);
        assert!(all.len() == 4 && all.iter().all(|past| Arc::ptr_eq(past, &all[0])), "{all:?}");
        // Somebody queues for one of them, and the session begins a statement: only that one is surely unbroken.
        world.to(2.5).wait(11, key(2));
        pasts(&mut world, 3.0);
        world.to(3.5).run(10, "SELECT 2");
        let all = pasts(&mut world, 4.0);
        assert!(all[1].unbroken > all[0].unbroken, "{all:?}");
        assert!(Arc::ptr_eq(&all[0], &all[2]) && Arc::ptr_eq(&all[0], &all[3]), "{all:?}");
    }
}
