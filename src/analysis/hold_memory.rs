//! The memory of one hold: its bounds, whether it is unbroken, what was proved of its scope.
//!
//! PostgreSQL keeps no grant time. Two samples alone prove nothing: a worker that takes and frees its key for each job
//! is seen holding it in every poll. So a hold counts as unbroken between two polls only if the holder began no
//! statement in between, or if one conflicting session waited for it all the time.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::moment::Moment;
use super::observed::Waiting;
use super::report::{FirstSeen, HeldFor, HoldScope, Past, Quiet};
use super::tracker::{is_plausible, is_plausible_count};
use crate::model::{Backend, BackendState, LockMode, Time, age};

/// So many names of a session's are told apart.
const MOST_APPLICATIONS: usize = 10;

/// What one poll shows of one hold, or of several that it shows alike.
pub(super) struct Sight<'a> {
    /// Nothing is compared with it where nobody queues.
    pub mode: LockMode,
    /// Whether the row's local transaction id is 0.
    pub local_zero: bool,
    /// Nothing for a prepared transaction.
    pub backend: Option<&'a Backend>,
    /// The backend surely began no statement since the last poll.
    pub began_no_statement: bool,
    /// Its application's name without digits, in a list that its holds share.
    pub application: Option<&'a Arc<[Box<str>]>>,
    /// How long ago the transaction was prepared, if it is one.
    pub prepared: Option<Duration>,
    /// How long the backend has rested; zero while it works.
    pub rested: Duration,
    /// How long ago the backend connected.
    pub connected: Option<Duration>,
    pub before_locks: Time,
    pub now: Moment,
    /// Who queues for the key.
    pub queue: &'a [Queued<'a>],
}

/// A session that queues for a key.
pub(super) struct Queued<'a> {
    pub wait: &'a Waiting,
    /// See [`WaitMemory::continued`](super::wait_memory::WaitMemory::continued).
    pub continued: bool,
    /// See [`WaitMemory::queued_by`](super::wait_memory::WaitMemory::queued_by).
    pub since: Option<Time>,
}

impl Sight<'_> {
    /// Sessions that queue for the key in a mode that conflicts with this hold.
    fn conflicting(&self) -> impl Iterator<Item = &Queued<'_>> {
        self.queue
            .iter()
            .filter(|queued| queued.wait.mode.conflicts_with(self.mode))
            .filter(|queued| self.backend.is_none_or(|backend| backend.pid != queued.wait.pid))
    }

    fn is_unbroken(&self) -> bool {
        self.backend.is_none() || self.began_no_statement || self.conflicting().any(|queued| queued.continued)
    }

    /// Proof in this very poll that the lock is session scope: no transaction, and not in the instant of a COMMIT,
    /// for the session has rested since before the locks were read.
    fn proves_session_scope(&self) -> bool {
        self.local_zero
            && self.backend.is_some_and(|backend| {
                matches!(backend.state, Some(BackendState::Idle | BackendState::IdleInTransactionAborted))
                    && backend.state_change.is_some_and(|change| change < self.before_locks)
            })
    }

    /// How long the lock has surely been held, by what this poll alone shows.
    fn shown_held(&self) -> Duration {
        if let Some(prepared) = self.prepared {
            return prepared;
        }
        let Some(backend) = self.backend else { return Duration::ZERO };
        // The queue is served in order: a statement that began after a conflicting session had queued did not take
        // the lock.
        let earlier_statement = backend
            .query_start
            .filter(|&start| self.conflicting().any(|queued| queued.since.is_some_and(|since| since < start)));
        self.rested.max(earlier_statement.map_or(Duration::ZERO, |start| age(self.now.server, start)))
    }

    fn may_call_session_function(&self) -> bool {
        self.backend.is_some_and(Backend::may_call_session_advisory)
    }
}

/// What is remembered of a hold, or of several of one holder that every poll showed alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HoldMemory {
    #[serde(with = "first_seen")]
    first_seen: FirstSeen,
    /// The last poll without it.
    last_without: Option<Duration>,
    /// What the times between processes may have been longer than they are counted.
    uncounted: Duration,
    /// The first poll from which the hold is unbroken.
    unbroken_since: Moment,
    /// The largest length that one poll has proved, and our clock when that poll had ended.
    proved: (Duration, Duration),
    proved_session: bool,
    /// The statement that was current when the unbroken hold was first seen, then a later one.
    first_statement: Option<Time>,
    other_statement: Option<Time>,
    ended_other_statement: bool,
    /// Names of its session, without digits.
    applications: Arc<[Box<str>]>,
    quiet_since: Option<Duration>,
    quiet_polls: u64,
    quiet_session_scope: bool,
    fresh: bool,
}

impl HoldMemory {
    /// A lock that the last poll did not show, and its session's statement.
    pub(super) fn new(
        now: Moment,
        last: Option<Moment>,
        backend: Option<&Backend>,
        statement: Option<Arc<str>>,
    ) -> Self {
        let certain = match (last, backend.and_then(|backend| backend.query_start)) {
            (Some(last), Some(start)) => start > last.server,
            _ => false,
        };
        Self {
            first_seen: FirstSeen { at: now.server, query: statement, certain },
            last_without: last.map(|last| last.began),
            uncounted: Duration::ZERO,
            unbroken_since: now,
            proved: (Duration::ZERO, now.ended),
            proved_session: false,
            first_statement: None,
            other_statement: None,
            ended_other_statement: false,
            applications: Arc::default(),
            quiet_since: None,
            quiet_polls: 0,
            quiet_session_scope: false,
            fresh: true,
        }
    }

    /// Whether it can be one of ours: it may come from a file.
    pub(super) fn is_sane(&self) -> bool {
        let lengths =
            [Some(self.proved.0), Some(self.proved.1), self.last_without, self.quiet_since, Some(self.uncounted)];
        self.unbroken_since.is_sane()
            && lengths.into_iter().flatten().all(is_plausible)
            && is_plausible_count(self.quiet_polls)
    }

    /// The memory goes to another process, whose clock may go on this much too early.
    pub(super) fn allow_for(&mut self, uncounted: Duration) {
        self.uncounted += uncounted;
    }

    /// Takes in this poll.
    pub(super) fn see(&mut self, sight: &Sight<'_>) {
        if self.fresh || !sight.is_unbroken() {
            self.begin(sight);
        }
        self.fresh = false;
        let proof = sight.proves_session_scope();
        self.see_scope(sight, proof);
        self.see_statements(sight);
        self.see_quiet(sight, proof);
        self.see_application(sight);
        let shown = sight.shown_held();
        if shown > self.held(sight.now) {
            self.proved = (shown, sight.now.ended);
        }
    }

    fn begin(&mut self, sight: &Sight<'_>) {
        self.unbroken_since = sight.now;
        self.proved = (Duration::ZERO, sight.now.ended);
        self.proved_session = false;
        self.first_statement = sight.backend.and_then(|backend| backend.query_start);
        self.other_statement = None;
        self.ended_other_statement = false;
    }

    fn see_scope(&mut self, sight: &Sight<'_>, proof: bool) {
        // A transaction that began after the locks were read says nothing about them.
        let before_transaction = sight
            .backend
            .and_then(|backend| backend.xact_start)
            .is_some_and(|start| self.unbroken_since.server < start && start < sight.before_locks);
        self.proved_session |= proof || before_transaction;
    }

    fn see_statements(&mut self, sight: &Sight<'_>) {
        let Some(backend) = sight.backend else { return };
        let (Some(first), Some(current)) = (self.first_statement, backend.query_start) else { return };
        if self.other_statement.is_some_and(|other| other != current) {
            self.ended_other_statement = true;
        }
        if current > first {
            self.other_statement = Some(current);
            self.ended_other_statement |= backend.state.is_some_and(BackendState::is_idle);
        }
    }

    fn see_quiet(&mut self, sight: &Sight<'_>, proof: bool) {
        if sight.may_call_session_function() {
            self.quiet_since = None;
            self.quiet_polls = 0;
            self.quiet_session_scope = false;
            return;
        }
        self.quiet_since.get_or_insert(sight.now.ended);
        self.quiet_polls += 1;
        self.quiet_session_scope |= proof;
    }

    fn see_application(&mut self, sight: &Sight<'_>) {
        let Some(names) = sight.application else { return };
        if Arc::ptr_eq(&self.applications, names) {
            // As nearly always: nothing to compare.
        } else if self.applications.is_empty() {
            self.applications = Arc::clone(names);
        } else if self.applications.len() < MOST_APPLICATIONS
            && !names.iter().all(|name| self.applications.contains(name))
        {
            self.applications = self.applications.iter().chain(names.iter()).cloned().collect();
        }
    }

    /// How long the lock has surely been held.
    fn held(&self, now: Moment) -> Duration {
        self.proved.0 + now.began.saturating_sub(self.proved.1)
    }

    /// What it says now, after this poll, the one of this number, was taken in.
    pub(super) fn past(&self, sight: &Sight<'_>, polls: u64) -> Past {
        let now = sight.now;
        let at_least = self.held(now);
        let at_most = sight.backend.and_then(|_| {
            let absent = self.last_without.map(|last| now.ended.saturating_sub(last) + self.uncounted);
            match (sight.connected, absent) {
                (Some(connected), Some(absent)) => Some(connected.min(absent)),
                (one, other) => one.or(other),
            }
        });
        Past {
            scope: match (sight.prepared, self.proved_session) {
                (Some(_), _) => HoldScope::Transaction,
                (None, true) => HoldScope::Session,
                (None, false) => HoldScope::Unknown,
            },
            held: HeldFor { at_least, at_most: at_most.map(|at_most| at_most.max(at_least)) },
            unbroken: now.began.saturating_sub(self.unbroken_since.ended),
            ended_other_statement: self.ended_other_statement,
            applications: self.applications.len(),
            quiet: Quiet {
                lasted: self.quiet_since.map_or(Duration::ZERO, |since| now.began.saturating_sub(since)),
                polls: self.quiet_polls,
                session_scope: self.quiet_session_scope,
            },
            local_zero: sight.local_zero,
            first_seen: (polls > 1).then(|| self.first_seen.clone()),
        }
    }
}

/// When a lock first appeared, without the statement: queries may hold data, and do not go into files.
mod first_seen {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::FirstSeen;
    use crate::model::Time;

    pub(super) fn serialize<S: Serializer>(seen: &FirstSeen, to: S) -> Result<S::Ok, S::Error> {
        seen.at.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<FirstSeen, D::Error> {
        Ok(FirstSeen { at: Time::deserialize(from)?, query: None, certain: false })
    }
}
