//! The locks of sessions that began after the first poll, and what became of each.
//!
//! Knows one poll after the other, as the tracker understood it. A lock that is there no more was unlocked, or ended
//! with its transaction, or it vanished with its session: which of these is said only where polls show it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{CARRIED, CARRIED_POLLS};
use crate::analysis::report::{FirstSeen, GuardReport, HolderReport, HowLeft, LeftBehind, ReportedKey, Severity};
use crate::analysis::{Hold, HoldScope, HolderRef, Observed, Quiet};
use crate::model::{AdvisoryKey, Backend, BackendState, LockMode, Oid, Pid, Time};
use crate::report_of::holder_report;
use crate::rules::{Context, Draft, Subject, words};
use crate::silences::silenced;

/// A session across polls.
type SessionId = (Pid, Time);

/// A lock of a session. One session may hold a key in two modes.
type HoldId = (SessionId, AdvisoryKey, LockMode);

/// What the first poll said.
#[derive(Debug)]
struct Baseline {
    /// The server's clock: sessions that began later are the command's, or at least began while it ran.
    since: Time,
    /// The server has the database that is to be watched.
    has_database: bool,
    /// Sessions that were there, for those whose beginning we may not see.
    pids: BTreeSet<Pid>,
}

/// A lock as the last poll showed it.
#[derive(Debug)]
struct Sight {
    key: ReportedKey,
    mode: &'static str,
    holder: HolderReport,
    first_seen: Option<FirstSeen>,
    at: Time,
    /// The session rested outside a transaction, surely with the lock.
    at_rest: bool,
    /// How long the lock had surely been held: where the session rested, at least for as long as it did.
    held: Duration,
    quiet: Quiet,
    /// An expected holder's, or silenced.
    declared: bool,
    /// What the session was doing: equal if it has begun no statement since.
    doing: (Option<Time>, Option<Time>),
}

/// The memory.
#[derive(Debug, Default)]
pub struct Ledger {
    database: String,
    baseline: Option<Baseline>,
    held: BTreeMap<HoldId, Sight>,
    left: BTreeMap<(SessionId, AdvisoryKey), LeftBehind>,
    declared: BTreeSet<(SessionId, AdvisoryKey)>,
    not_judged: BTreeSet<(SessionId, AdvisoryKey)>,
    sessions: BTreeSet<SessionId>,
    locks: BTreeSet<(SessionId, AdvisoryKey)>,
    hidden: BTreeSet<Pid>,
    blind: Vec<String>,
    polls: u64,
    observed: Duration,
    last_poll: Duration,
    longest_gap: Duration,
}

impl Ledger {
    /// An empty one, for the database of this name.
    pub fn new(database: String) -> Self {
        Self { database, ..Self::default() }
    }

    /// Takes in one poll.
    pub fn observe(&mut self, context: &Context<'_>) {
        let observed = context.observed;
        let now = observed.snapshot.monotonic;
        let gap = if self.polls == 0 { Duration::ZERO } else { now.saturating_sub(self.last_poll) };
        self.polls += 1;
        self.observed = observed.observed;
        self.last_poll = now;
        self.longest_gap = self.longest_gap.max(gap);
        if self.baseline.is_none() {
            self.baseline = Some(Baseline::of(observed, &self.database));
            return;
        }
        let current = self.current(context);
        if observed.restarted {
            self.lose();
        } else {
            let gone: Vec<HoldId> = self.held.keys().filter(|id| !current.contains_key(*id)).copied().collect();
            for id in gone {
                if let Some(sight) = self.held.remove(&id) {
                    self.settle(id, sight, observed, gap);
                }
            }
        }
        self.locks.extend(current.keys().map(|(session, key, _)| (*session, *key)));
        self.held = current;
    }

    /// Why nothing can be watched, after the first poll.
    pub(super) fn obstacle(&self) -> Option<String> {
        let baseline = self.baseline.as_ref()?;
        (!baseline.has_database).then(|| {
            format!("the server has no database {}: a pooler gives it another name, so connect past it", self.database)
        })
    }

    /// The locks of new sessions that this poll shows.
    fn current(&mut self, context: &Context<'_>) -> BTreeMap<HoldId, Sight> {
        let mut current = BTreeMap::new();
        let Some(baseline) = &self.baseline else { return current };
        let observed = context.observed;
        // Anew each time: a suite may drop it and make another one of that name.
        let Some(database) = database_of(observed, &self.database) else { return current };
        let is_ours = |backend: &&Backend| backend.is_client() && backend.datid == Some(database);
        for backend in observed.snapshot.backends.iter().filter(is_ours) {
            if let Some(start) = backend.backend_start.filter(|start| *start > baseline.since) {
                self.sessions.insert((backend.pid, start));
            }
        }
        for (place, hold) in observed.holds.iter().enumerate() {
            let HolderRef::Session(pid) = hold.holder else { continue };
            if hold.key.database != database || hold.key.numbers.is_extension() {
                continue;
            }
            let Some(backend) = observed.backend(pid) else { continue };
            let began_before = match backend.backend_start {
                Some(start) => start <= baseline.since,
                None => baseline.pids.contains(&pid),
            };
            if began_before {
                continue;
            }
            let (Some(start), false) = (backend.backend_start, backend.is_hidden()) else {
                self.hidden.insert(pid);
                continue;
            };
            if backend.is_client() {
                current.insert(((pid, start), hold.key, hold.mode), Sight::of(context, place, backend));
            }
        }
        current
    }

    /// What became of a lock that this poll does not show.
    fn settle(&mut self, id: HoldId, sight: Sight, observed: &Observed, gap: Duration) {
        let (session, key, _) = id;
        // A session lock can only go by a statement of its session, or with the session.
        if !sight.at_rest {
            return;
        }
        let alive = observed.backend(session.0).filter(|backend| backend.backend_start == Some(session.1));
        let never_unlocked = match alive {
            // No statement since: it is just ending, and its locks go before its entry.
            Some(backend) => doing(backend) == sight.doing,
            None => sight.outlasts(gap),
        };
        if never_unlocked {
            self.leave(session, key, sight, HowLeft::EndedWithSession);
        } else if alive.is_none() && !sight.declared {
            self.not_judged.insert((session, key));
        }
    }

    fn leave(&mut self, session: SessionId, key: AdvisoryKey, sight: Sight, how: HowLeft) {
        if sight.declared {
            self.declared.insert((session, key));
            return;
        }
        let Sight { key: report, mode, holder, first_seen, at, .. } = sight;
        let left = LeftBehind { key: report.alone(), mode, holder, first_seen, last_seen: at, how };
        self.left.entry((session, key)).or_insert(left);
    }

    /// All sessions were lost with the server: nobody can tell what they would have unlocked.
    fn lose(&mut self) {
        self.blind.push(
            "The server was restarted, or recovered from a crash, while the command ran: all locks were lost, and \
             what would have been left behind until then is not known."
                .to_owned(),
        );
        let rested = self.held.iter().filter(|(_, sight)| sight.at_rest && !sight.declared);
        self.not_judged.extend(rested.map(|((session, key, _), _)| (*session, *key)));
        self.held.clear();
    }

    /// The outcome. Without a poll after the command's end, what was held last is not judged.
    pub(super) fn finish(mut self, seen_after: bool) -> GuardReport {
        let mut at_work = BTreeSet::new();
        for ((session, key, _), sight) in std::mem::take(&mut self.held) {
            match (sight.at_rest, seen_after) {
                (true, true) => self.leave(session, key, sight, HowLeft::StillHeld),
                (false, true) => drop(at_work.insert((session, key))),
                (true, false) if !sight.declared => drop(self.not_judged.insert((session, key))),
                (_, false) => {}
            }
        }
        if !self.hidden.is_empty() {
            self.blind.push(format!(
                "{} advisory locks and cannot be judged: its state is hidden from this role, or track_activities is \
                 off. Grant this role pg_monitor, or watch as the role that the command uses.",
                words::count(
                    self.hidden.len(),
                    "session that began meanwhile holds",
                    "sessions that began meanwhile hold"
                ),
            ));
        }
        let mut left: Vec<LeftBehind> = self.left.into_values().collect();
        left.sort_by_key(|left| (left.first_seen.as_ref().map(|first| first.at), left.holder.pid));
        GuardReport {
            target: String::new(),
            database: self.database,
            polls: self.polls,
            observed: self.observed,
            longest_gap: self.longest_gap,
            sessions: self.sessions.len(),
            locks: self.locks.len(),
            left,
            declared: self.declared.len(),
            at_work: at_work.len(),
            not_judged: self.not_judged.len(),
            blind: self.blind,
        }
    }
}

impl Baseline {
    fn of(observed: &Observed, database: &str) -> Self {
        let snapshot = &observed.snapshot;
        Self {
            since: snapshot.before_locks,
            has_database: database_of(observed, database).is_some(),
            pids: snapshot.backends.iter().map(|backend| backend.pid).collect(),
        }
    }
}

impl Sight {
    fn of(context: &Context<'_>, place: usize, backend: &Backend) -> Self {
        let observed = context.observed;
        let hold = &observed.holds[place];
        // Local id 0 also shows in the instant of a COMMIT: only a session that rested since before the locks were
        // read surely rested with this lock.
        let rested_before = backend.state_change.is_some_and(|change| change < observed.snapshot.before_locks);
        let at_rest = backend.state == Some(BackendState::Idle)
            && hold.past.local_zero
            && hold.past.scope == HoldScope::Session
            && rested_before;
        Self {
            key: observed.reported_key(place),
            mode: hold.mode.name(),
            holder: holder_report(context, hold.holder),
            first_seen: hold.past.first_seen.clone(),
            at: observed.snapshot.sampled_at,
            at_rest,
            held: hold.past.held.at_least,
            quiet: hold.past.quiet,
            declared: hold.expected || is_silenced(context, hold),
            doing: doing(backend),
        }
    }

    /// Whether the lock had been left lying for longer than nobody looked: a lock that is taken, used and unlocked
    /// just before its connection is closed must not be taken for one that was left.
    fn outlasts(&self, gap: Duration) -> bool {
        let carried =
            self.quiet.session_scope && self.quiet.polls >= CARRIED_POLLS && self.quiet.lasted >= gap.max(CARRIED);
        self.held >= gap || carried
    }
}

/// The database of this name.
fn database_of(observed: &Observed, name: &str) -> Option<Oid> {
    observed.snapshot.server.databases.iter().find(|(_, known)| known == name).map(|(oid, _)| *oid)
}

/// What changes with every statement that a session begins or ends.
fn doing(backend: &Backend) -> (Option<Time>, Option<Time>) {
    (backend.query_start, backend.state_change)
}

/// To a silence it is what `check` would call an idle holder.
fn is_silenced(context: &Context<'_>, hold: &Hold) -> bool {
    let draft = Draft::new(
        "idle-holder",
        Subject::Holder(hold.holder),
        Severity::Warning,
        crate::analysis::report::Action::None,
    )
    .with_holds(&[hold])
    .with_holder(context, hold.holder);
    silenced(context, &draft, &|_: &AdvisoryKey| &*hold.names).is_some()
}
