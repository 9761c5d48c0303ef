//! How findings end: what the next poll shows of the sessions and locks that a finding was about.
//!
//! Pure. It remembers the subjects of the last poll's findings and nothing older. It judges no lock; whether there is a
//! finding is [`rules`](crate::rules)' business.

use crate::analysis::report::{Ended, Ending, Shared};
use crate::analysis::{HoldScope, HolderRef, Numbered, Observed};
use crate::model::{AdvisoryKey, Pid, Time};
use crate::report_of::Found;
use crate::rules::Context;

/// What the last poll's findings were about.
#[derive(Debug, Default)]
pub struct Endings {
    subjects: Numbered<String, Subject>,
}

/// Enough of a finding to recognise in the next poll what became of it.
#[derive(Debug)]
struct Subject {
    sessions: Vec<Session>,
    gid: Option<String>,
    keys: Shared<AdvisoryKey>,
    /// One of its holds is proved to be session scope: the end of a transaction does not end it.
    session_scope: bool,
}

#[derive(Debug)]
struct Session {
    pid: Pid,
    backend_start: Option<Time>,
    xact_start: Option<Time>,
}

impl Endings {
    /// Takes in a poll's findings and says which of the last poll's are over, and how.
    pub fn observe(&mut self, context: &Context<'_>, found: &[Found]) -> Vec<Ended> {
        let restarted = context.observed.restarted;
        let now: Numbered<String, Subject> =
            found.iter().map(|found| (found.id.clone(), Subject::of(context, found))).collect();
        let before = std::mem::replace(&mut self.subjects, now);
        let over = before.into_iter().filter(|(id, _)| !self.subjects.contains_key(id));
        let ended = over.map(|(id, subject)| {
            let how = if restarted { Ending::ServerRestarted } else { subject.ending(context.observed) };
            Ended { id, how }
        });
        let mut ended: Vec<Ended> = ended.collect();
        ended.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        ended
    }
}

impl Subject {
    fn of(context: &Context<'_>, found: &Found) -> Self {
        let (draft, mut places) = (&found.draft, found.places.iter().copied());
        let session = |pid: &Pid| {
            let backend = context.backend(*pid);
            Session {
                pid: *pid,
                backend_start: backend.and_then(|backend| backend.backend_start),
                xact_start: backend.and_then(|backend| backend.xact_start),
            }
        };
        Self {
            sessions: draft.pids.iter().map(session).collect(),
            gid: draft.gid.clone(),
            keys: draft.keys.clone(),
            session_scope: places.any(|place| context.observed.holds[place].past.scope == HoldScope::Session),
        }
    }

    fn ending(&self, observed: &Observed) -> Ending {
        if let Some(gid) = &self.gid {
            return if observed.prepared_by_gid(gid).is_some() { Ending::Unseen } else { Ending::TransactionEnded };
        }
        if self.sessions.is_empty() || self.keys.is_empty() {
            return Ending::Unseen;
        }
        let alive = self.sessions.iter().filter_map(|session| {
            let backend = observed.backend(session.pid)?;
            (backend.backend_start == session.backend_start).then_some((session, backend))
        });
        let alive: Vec<_> = alive.collect();
        if alive.is_empty() {
            return Ending::SessionEnded;
        }
        let holds =
            |pid| observed.holds_of(HolderRef::Session(pid)).any(|hold| self.keys.binary_search(&hold.key).is_ok());
        if alive.iter().any(|(session, _)| holds(session.pid)) {
            return Ending::Unseen;
        }
        let transaction_over = |(session, backend): &(&Session, &crate::model::Backend)| {
            session.xact_start.is_some() && session.xact_start != backend.xact_start
        };
        if !self.session_scope && alive.iter().any(transaction_over) {
            return Ending::TransactionEnded;
        }
        Ending::Unlocked
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::analysis::{Grouping, Thresholds};
    use crate::keys::KeyBook;
    use crate::model::Locks;
    use crate::model::testing::{World, at, key};
    use crate::monitor::Monitor;

    fn monitor() -> Monitor {
        let book = Arc::new(KeyBook::default());
        Monitor::new("t".to_owned(), Thresholds::default(), book, Grouping::default(), false)
    }

    /// A finding that is there at second 70 ends in this way when this happens until second 75.
    fn ends(plant: impl FnOnce(&mut World), change: impl FnOnce(&mut World)) -> Vec<Ending> {
        let (mut monitor, mut world) = (monitor(), World::new());
        plant(&mut world);
        monitor.observe(world.to(1.0).poll());
        let report = monitor.observe(world.to(70.0).poll());
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        assert!(report.ended.is_empty());
        change(world.to(72.0));
        let report = monitor.observe(world.to(75.0).poll());
        let ended: Vec<Ending> = report.ended.iter().map(|ended| ended.how).collect();
        assert!(monitor.observe(world.to(80.0).poll()).ended.is_empty(), "told twice");
        ended
    }

    fn leak(world: &mut World) {
        world.connect(7, "api").hold(7, key(1));
    }

    #[test]
    fn a_freed_lock_a_gone_session_and_a_restart_are_told_apart() {
        assert_eq!(ends(leak, |world| drop(world.release(7).run(7, "SELECT 2").poll())), [Ending::Unlocked]);
        let gone = |world: &mut World| world.release(7).snapshot.backends.clear();
        assert_eq!(ends(leak, gone), [Ending::SessionEnded]);
        let reused = |world: &mut World| world.release(7).backend(7).backend_start = Some(at(71.0));
        assert_eq!(ends(leak, reused), [Ending::SessionEnded]);
        let restarted = |world: &mut World| {
            world.release(7).snapshot.server.started_at = at(71.0);
        };
        assert_eq!(ends(leak, restarted), [Ending::ServerRestarted]);
    }

    #[test]
    fn work_on_a_leaked_lock_is_not_its_end() {
        assert_eq!(ends(leak, |world| drop(world.run(7, "SELECT 2").poll())), [Ending::Unseen]);
        assert!(ends(leak, |_| ()).is_empty());
    }

    #[test]
    fn transactions_end() {
        let prepare = |world: &mut World| drop(world.prepare(1, "gid", key(1)).poll());
        let finish = |world: &mut World| {
            world.snapshot.prepared.clear();
            world.snapshot.locks = Locks::default();
        };
        assert_eq!(ends(prepare, finish), [Ending::TransactionEnded]);
        let in_transaction = |world: &mut World| {
            world.connect(7, "api").begin(7, "SELECT 1").hold(7, key(1));
            world.backend(7).state = Some(crate::model::BackendState::IdleInTransaction);
        };
        let commit = |world: &mut World| drop(world.release(7).end(7).poll());
        assert_eq!(ends(in_transaction, commit), [Ending::TransactionEnded]);
    }
}
