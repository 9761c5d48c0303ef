//! The memory of waits: since when each waiting session has surely queued, and whether it is still the same wait.
//!
//! PostgreSQL 14 and later say it in `waitstart`; before that, polls have to remember.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::moment::Moment;
use super::report::Waited;
use super::waits::Waits;
use crate::analysis::Numbered;
use crate::model::{LockMode, LockObject, Pid, Snapshot, Time, age};

/// PostgreSQL 14 brought `pg_locks.waitstart`.
const WAITSTART_SINCE: u32 = 140_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeenWait {
    object: LockObject,
    mode: LockMode,
    backend_start: Option<Time>,
    query_start: Option<Time>,
    #[serde(default)]
    xact_start: Option<Time>,
    waitstart: Option<Time>,
    /// The first poll that saw this statement waiting.
    first_seen: Moment,
    /// The first poll that saw it in this queue.
    queued_seen: Moment,
    at_first_poll: bool,
    /// The same wait at the poll before this one.
    continued: bool,
}

/// The waits of the last poll.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitMemory {
    waits: Numbered<Pid, SeenWait>,
}

impl WaitMemory {
    /// Takes in this poll's waits and says how long each has lasted.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        graph: &Waits<'_>,
        backends: &Numbered<Pid, usize>,
        now: Moment,
        first_poll: bool,
    ) -> Numbered<Pid, Waited> {
        let has_waitstart = snapshot.server.version_num >= WAITSTART_SINCE;
        let mut waits = Numbered::default();
        let mut waited = Numbered::default();
        for (&pid, wait) in &graph.waits {
            let Some(backend) = backends.get(&pid).map(|&place| &snapshot.backends[place]) else { continue };
            let before = self.waits.remove(&pid).filter(|before| before.backend_start == backend.backend_start);
            // A procedure that commits may have had the lock and given it back within one statement.
            let same_statement = |before: &SeenWait| {
                before.query_start == backend.query_start && before.xact_start == backend.xact_start
            };
            let same_queue = |before: &SeenWait| before.object == *wait.object && before.mode == wait.mode;
            let continued = before.as_ref().is_some_and(|before| {
                same_queue(before)
                    && if has_waitstart {
                        wait.waitstart.is_some() && before.waitstart == wait.waitstart
                    } else {
                        before.query_start.is_some() && same_statement(before)
                    }
            });
            let queued_seen = before.as_ref().filter(|_| continued).map_or(now, |before| before.queued_seen);
            let earlier = before.filter(same_statement);
            let seen = SeenWait {
                object: wait.object.clone(),
                mode: wait.mode,
                backend_start: backend.backend_start,
                query_start: backend.query_start,
                xact_start: backend.xact_start,
                waitstart: wait.waitstart,
                queued_seen,
                first_seen: earlier.as_ref().map_or(now, |earlier| earlier.first_seen),
                at_first_poll: earlier.map_or(first_poll, |earlier| earlier.at_first_poll),
                continued,
            };
            waited.insert(pid, seen.waited(has_waitstart, now));
            waits.insert(pid, seen);
        }
        self.waits = waits;
        waited
    }

    /// Whether it can be one of ours: it may come from a file.
    pub(super) fn is_sane(&self) -> bool {
        self.waits.values().all(|wait| wait.first_seen.is_sane() && wait.queued_seen.is_sane())
    }

    /// Whether this session has waited for the same lock all the time since the last poll.
    pub(super) fn continued(&self, pid: Pid) -> bool {
        self.waits.get(&pid).is_some_and(|wait| wait.continued)
    }

    /// A moment on the server's clock at which this session surely was in the queue already.
    pub(super) fn queued_by(&self, pid: Pid) -> Option<Time> {
        let wait = self.waits.get(&pid)?;
        wait.waitstart.or_else(|| wait.continued.then_some(wait.queued_seen.server))
    }
}

impl SeenWait {
    fn waited(&self, has_waitstart: bool, now: Moment) -> Waited {
        if has_waitstart {
            let duration = self.waitstart.map_or(Duration::ZERO, |start| age(now.server, start));
            return Waited { duration, ..Waited::default() };
        }
        match self.query_start {
            Some(start) if self.at_first_poll => {
                Waited { duration: age(now.server, start), upper_bound: true, unknown: false }
            }
            start => {
                let duration = now.began.saturating_sub(self.first_seen.ended);
                Waited { duration, unknown: start.is_none() && duration.is_zero(), ..Waited::default() }
            }
        }
    }
}
