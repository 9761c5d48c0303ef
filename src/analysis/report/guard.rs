//! What a command's sessions left behind.

use std::time::Duration;

use super::{FirstSeen, HolderReport, ReportedKey};
use crate::model::Time;

/// Everything that `guard` tells.
#[derive(Debug, Clone, Default)]
pub struct GuardReport {
    /// The target's name.
    pub target: String,
    /// The database whose locks were watched.
    pub database: String,
    /// How many good polls there were.
    pub polls: u64,
    /// From the first good poll to the last.
    pub observed: Duration,
    /// The longest time from one good poll to the next: what came and went in between was not seen.
    pub longest_gap: Duration,
    /// Sessions that were seen and had begun after the first poll.
    pub sessions: usize,
    /// Locks of theirs that were seen: one key in one session counts once.
    pub locks: usize,
    /// What they left behind, in the order in which it appeared.
    pub left: Vec<LeftBehind>,
    /// Locks that were left behind too, but by expected holders, or a silence covers them.
    pub declared: usize,
    /// Locks that were still held when the command had ended, by sessions that were not at rest.
    pub at_work: usize,
    /// Locks that vanished with their sessions, which had rested too briefly to tell whether they were unlocked first.
    pub not_judged: usize,
    /// Why the server could not be watched all the time, one sentence each; empty if it could.
    pub blind: Vec<String>,
}

/// A lock that its session never unlocked.
#[derive(Debug, Clone)]
pub struct LeftBehind {
    /// Key and names.
    pub key: ReportedKey,
    /// As `ExclusiveLock`.
    pub mode: &'static str,
    /// The session as it was when it was last seen with the lock; its query is the last one.
    pub holder: HolderReport,
    /// The statement that was current when the lock first appeared.
    pub first_seen: Option<FirstSeen>,
    /// The server's clock at the last poll that saw it.
    pub last_seen: Time,
    /// How it ended.
    pub how: HowLeft,
}

/// How a lock was left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HowLeft {
    /// An idle session still held it when the command had ended.
    StillHeld,
    /// It vanished together with its session.
    EndedWithSession,
}

impl HowLeft {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::StillHeld => "still-held",
            Self::EndedWithSession => "ended-with-session",
        }
    }
}
