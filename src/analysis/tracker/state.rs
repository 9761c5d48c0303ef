//! What a tracker remembers as plain data, so that another process can go on where this one ended.
//!
//! The monotonic clock of a process means nothing to the next. Between the last poll of one and the first of the other
//! the server's clock counts: from after the old locks were read to before the new ones are, so that no length is ever
//! more than was seen. A file may hold anything: what comes from one is checked before it is believed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::memory::{HolderMemory, Remembered};
use super::{HolderId, Tracker};
use crate::analysis::hold_memory::HoldMemory;
use crate::analysis::moment::{BackendMemory, Moment};
use crate::analysis::wait_memory::WaitMemory;
use crate::model::{AdvisoryKey, LockMode, Pid, Snapshot, Time};

/// A memory that is older says nothing of now.
const OLDEST: Duration = Duration::from_secs(60 * 60);
/// Nobody has watched for longer: such a number was not written by us, and sums of it could overflow.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The same for what is counted.
const MOST: u64 = 1 << 48;

/// The memory of a [`Tracker`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrackerState {
    polls: u64,
    first: Duration,
    last: Moment,
    server_started: Time,
    checkpointer_started: Option<Time>,
    holds: Vec<(AdvisoryKey, LockMode, HolderId, HoldMemory)>,
    backends: BTreeMap<Pid, BackendMemory>,
    waits: WaitMemory,
    mismatches: BTreeMap<String, Duration>,
}

/// Whether a length of time can be one that was seen.
pub(in crate::analysis) fn is_plausible(length: Duration) -> bool {
    length < LONGEST
}

/// Whether a count can be one of polls.
pub(in crate::analysis) fn is_plausible_count(count: u64) -> bool {
    count < MOST
}

impl TrackerState {
    fn is_sane(&self) -> bool {
        is_plausible_count(self.polls)
            && self.polls > 0
            && is_plausible(self.first)
            && self.last.is_sane()
            && self.holds.iter().all(|(.., memory)| memory.is_sane())
            && self.waits.is_sane()
            && self.mismatches.values().copied().all(is_plausible)
    }

    /// How long after the last poll the snapshot was taken, if the memory is of the same server and young enough.
    fn gap(&self, snapshot: &Snapshot) -> Option<Duration> {
        let gap = (snapshot.before_locks - self.last.server).to_std().ok()?;
        (self.is_sane() && self.server_started == snapshot.server.started_at && gap <= OLDEST).then_some(gap)
    }
}

impl Tracker {
    /// A tracker that goes on from a memory, unless its first poll shows another server, or the same one too late.
    pub fn resuming(state: TrackerState) -> Self {
        Self { resumes: Some(Box::new(state)), ..Self::default() }
    }

    /// The memory, once there was a poll.
    pub fn state(&self) -> Option<TrackerState> {
        let of_holder = |(holder, holds): (&HolderId, &HolderMemory)| {
            let memory = |remembered: &Remembered| holds.memories.get(remembered.memory?.get()).cloned();
            let all = holds.locks.iter().filter_map(|lock| Some((lock.id.0, lock.id.1, *holder, memory(lock)?)));
            all.collect::<Vec<_>>()
        };
        let mut holds: Vec<_> = self.holds.iter().flat_map(of_holder).collect();
        holds.sort_by_key(|(key, mode, holder, _)| (*key, *mode, *holder));
        Some(TrackerState {
            polls: self.polls,
            first: self.first,
            last: self.last?,
            server_started: self.server_started?,
            checkpointer_started: self.checkpointer_started,
            holds,
            backends: self.backends.iter().map(|(pid, memory)| (*pid, *memory)).collect(),
            waits: self.waits.clone(),
            mismatches: self.mismatches.iter().map(|(name, since)| (name.clone(), *since)).collect(),
        })
    }

    /// Takes the memory over at the first poll; whether it did.
    pub(super) fn resume(&mut self, snapshot: &Snapshot) -> bool {
        let Some(state) = self.resumes.take() else { return false };
        let Some(gap) = state.gap(snapshot) else { return false };
        // Where in its poll the server's clock was read is not known: counted from the poll's beginning no length is
        // too long, and what may be missing counts for upper bounds.
        self.clock = (snapshot.monotonic, state.last.began + gap);
        let uncounted = state.last.ended.saturating_sub(state.last.began);
        self.polls = state.polls;
        self.first = state.first;
        self.last = Some(state.last);
        self.server_started = Some(state.server_started);
        self.checkpointer_started = state.checkpointer_started;
        for (key, mode, holder, mut memory) in state.holds {
            memory.allow_for(uncounted);
            self.holds.entry(holder).or_default().push((key, mode), memory);
        }
        for holds in self.holds.values_mut() {
            // A file may have them in any order.
            holds.locks.sort_by_key(|remembered| remembered.id);
        }
        self.backends = state.backends.into_iter().collect();
        self.waits = state.waits;
        self.mismatches = state.mismatches.into_iter().collect();
        true
    }
}

#[cfg(test)]
mod tests;
