//! Keys that were seen since the screen opened, with the longest hold of each: what a key does when all is well.

use std::collections::HashMap;
use std::time::Duration;

use crate::analysis::report::{ReportedKey, TargetReport};
use crate::model::{KeyNumbers, SharedText, Time};

/// More keys are not remembered: queues that lock a key per job have no end of them.
const MOST: usize = 2_000;

/// A key within a target.
pub type KeyId = (KeyNumbers, Option<SharedText>);

/// What was seen of a key.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The key and its names.
    pub key: ReportedKey,
    /// The longest lower bound of a hold.
    pub longest: Duration,
    /// The most sessions that held it in one poll.
    pub most_holders: usize,
    /// The last poll that saw it held.
    pub last: Option<Time>,
}

/// The keys of a target.
#[derive(Debug, Clone, Default)]
pub struct SeenKeys {
    keys: HashMap<KeyId, Seen>,
}

impl SeenKeys {
    /// Takes in a report.
    pub fn take(&mut self, report: &TargetReport) {
        let mut holders: HashMap<KeyId, usize> = HashMap::new();
        let mut full = false;
        for lock in &report.locks {
            let id = (lock.key.numbers, lock.key.database.clone());
            if self.keys.len() >= MOST && !self.keys.contains_key(&id) {
                full = full || !self.forget_oldest(report.sampled_at);
                if full {
                    continue;
                }
            }
            let number = holders.entry(id.clone()).or_default();
            *number += 1;
            let seen = self.keys.entry(id).or_insert_with(|| Seen {
                key: lock.key.alone(),
                longest: Duration::ZERO,
                most_holders: 0,
                last: None,
            });
            seen.longest = seen.longest.max(lock.past.held.at_least);
            seen.most_holders = seen.most_holders.max(*number);
            seen.last = report.sampled_at;
        }
    }

    /// Makes room: the keys that have been free for the longest time go. Those of this poll stay.
    fn forget_oldest(&mut self, now: Option<Time>) -> bool {
        let Some(oldest) = self.keys.values().map(|seen| seen.last).min().filter(|oldest| *oldest < now) else {
            return false;
        };
        self.keys.retain(|_, seen| seen.last != oldest);
        true
    }

    /// What was seen of this key.
    pub fn get(&self, id: &KeyId) -> Option<&Seen> {
        self.keys.get(id)
    }

    /// All keys.
    pub fn iter(&self) -> impl Iterator<Item = (&KeyId, &Seen)> {
        self.keys.iter()
    }
}
