//! What the sessions of a command leave behind: Snapshot -> Tracker -> [`Ledger`] -> Report.
//!
//! Pure: it knows what the poller hands in and what the command's end means for it. It starts no command, and it
//! does not know which exit code follows.

mod ledger;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::analysis::report::{GuardReport, TargetReport};
use crate::analysis::{Grouping, TargetNames, Thresholds, Tracker};
use crate::keys::KeyBook;
use crate::model::Snapshot;
use crate::report_of::report_of;
use crate::rules::Context;
pub use ledger::Ledger;

/// The memory of one watch over one database.
#[derive(Debug)]
pub struct Guard {
    target: String,
    book: Arc<KeyBook>,
    grouping: Grouping,
    thresholds: Thresholds,
    tracker: Tracker,
    ledger: Ledger,
}

impl Guard {
    /// A guard that has seen nothing yet, of this target and the database of this name.
    pub fn new(target: String, database: String, book: Arc<KeyBook>, grouping: Grouping) -> Self {
        Self {
            target,
            book,
            grouping,
            thresholds: Thresholds::default(),
            tracker: Tracker::default(),
            ledger: Ledger::new(database),
        }
    }

    /// Takes in one poll. The first one says what was there before. The report has no findings: rules judge
    /// situations of seconds and minutes.
    pub fn observe(&mut self, snapshot: Snapshot) -> TargetReport {
        let names = TargetNames { target: &self.target, book: &self.book, grouping: &self.grouping };
        let observed = self.tracker.observe(snapshot, names);
        let context =
            Context { observed: &observed, thresholds: &self.thresholds, book: &self.book, short_observation: true };
        self.ledger.observe(&context);
        report_of(&context, &[])
    }

    /// Why nothing can be watched, after the first poll; nothing if all is well.
    pub fn obstacle(&self) -> Option<String> {
        self.ledger.obstacle()
    }

    /// What is to be told now that the command has ended. `seen_after` says whether a poll has begun since.
    /// Afterwards it has forgotten what it saw.
    pub fn finish(&mut self, seen_after: bool) -> GuardReport {
        let report = std::mem::take(&mut self.ledger).finish(seen_after);
        GuardReport { target: self.target.clone(), ..report }
    }
}

/// A lock that vanished with its session is judged by what it did for so long before, at least: a session that carried
/// it over other statements is as good a proof as one that rested.
const CARRIED: Duration = Duration::from_secs(1);
/// And in so many polls.
const CARRIED_POLLS: u64 = 10;
