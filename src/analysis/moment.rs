//! What is remembered of one poll itself: its moment, and what each backend was doing.
//!
//! Knows one poll at a time and nothing of locks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tracker::is_plausible;
use crate::model::{Backend, BackendState, Time};

/// One poll's moment, on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moment {
    /// Our own monotonic clock when the poll began.
    pub began: Duration,
    /// And when it had ended: somewhere between the two the locks were read.
    pub ended: Duration,
    /// The server's clock.
    pub server: Time,
}

impl Moment {
    /// Whether it can be one of ours: it may come from a file.
    pub(super) fn is_sane(&self) -> bool {
        self.began <= self.ended && is_plausible(self.ended)
    }
}

/// What one backend was seen doing at the last poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BackendMemory {
    pub start: Option<Time>,
    pub query_start: Option<Time>,
    pub xact_start: Option<Time>,
    pub state_change: Option<Time>,
    pub idle: Option<bool>,
    /// The statement had begun before the locks were read: what was held then belongs to it or to an earlier one.
    pub settled: bool,
}

impl BackendMemory {
    pub(super) fn of(backend: &Backend, before_locks: Time) -> Self {
        Self {
            settled: backend.query_start.is_some_and(|start| start < before_locks),
            start: backend.backend_start,
            query_start: backend.query_start,
            xact_start: backend.xact_start,
            state_change: backend.state_change,
            idle: backend.state.map(BackendState::is_idle),
        }
    }

    /// Whether the backend surely began no statement between the two polls.
    pub(super) fn began_no_statement(&self, now: &Self) -> bool {
        self.start == now.start
            && self.settled
            && self.query_start == now.query_start
            && match (self.idle, now.idle) {
                // One statement may commit inside and take its locks anew (a procedure): same query_start.
                (Some(false), Some(false)) => self.xact_start == now.xact_start,
                (Some(true), Some(true)) => self.state_change == now.state_change,
                (Some(_), Some(_)) => true,
                _ => false,
            }
    }
}
