//! Situations, poll by poll, and what is said of them.

use std::sync::Arc;

use super::Guard;
use crate::analysis::Grouping;
use crate::analysis::report::{GuardReport, HowLeft};
use crate::keys::{Dictionary, KeyBook};
use crate::model::testing::{DATABASE, World, at, key};
use crate::model::{AdvisoryKey, BackendState, KeyNumbers, Pid};

/// Seconds from one poll to the next.
const STEP: f64 = 0.1;

/// A server and a guard that polls it. The first poll has been.
pub(super) struct Scene {
    world: World,
    guard: Guard,
    now: f64,
}

impl Scene {
    pub(super) fn new(dictionary: &str) -> Self {
        Self::over(World::new(), dictionary)
    }

    /// With what is there before the command.
    fn over(world: World, dictionary: &str) -> Self {
        let book = Arc::new(KeyBook::new(&[Dictionary::parse("keys.toml", dictionary).unwrap()]));
        let guard = Guard::new("t".to_owned(), "app".to_owned(), book, Grouping::default());
        let mut scene = Self { world, guard, now: 0.0 };
        scene.poll();
        scene
    }

    /// A session that begins now, 10 ms after the last poll.
    pub(super) fn session(&mut self, pid: Pid) -> &mut Self {
        self.world.to(self.now - STEP + 0.01).connect(pid, "pytest");
        self.world.backend(pid).backend_start = Some(at(self.now - STEP + 0.01));
        self
    }

    pub(super) fn lock(&mut self, pid: Pid, number: u32) -> &mut Self {
        self.world.to(self.now - STEP + 0.02).begin(pid, "SELECT pg_advisory_lock(1)").hold(pid, key(number)).end(pid);
        self
    }

    /// Statements that a session runs between two polls, the last one ending this long before the next poll.
    fn run(&mut self, pid: Pid, before: f64, query: &str) -> &mut Self {
        self.world.to(self.now - before).run(pid, query);
        self
    }

    fn unlock(&mut self, pid: Pid) -> &mut Self {
        self.run(pid, 0.01, "SELECT pg_advisory_unlock(1)");
        self.world.release(pid);
        self
    }

    /// The session ends, with all its locks.
    fn disconnect(&mut self, pid: Pid) -> &mut Self {
        self.world.release(pid);
        self.world.snapshot.backends.retain(|backend| backend.pid != pid);
        self
    }

    fn poll(&mut self) -> &mut Self {
        let snapshot = self.world.to(self.now).poll();
        self.guard.observe(snapshot);
        self.now += STEP;
        self
    }

    pub(super) fn polls(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.poll();
        }
        self
    }

    pub(super) fn finish(&mut self) -> GuardReport {
        self.guard.finish(true)
    }
}

fn hows(report: &GuardReport) -> Vec<(&str, HowLeft)> {
    report.left.iter().map(|left| (&*left.key.text, left.how)).collect()
}

fn is_clean(report: &GuardReport) -> bool {
    report.left.is_empty() && report.blind.is_empty() && report.not_judged == 0
}

#[test]
fn a_lock_that_an_idle_session_still_holds_at_the_end() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 612001).polls(3);
    scene.run(20, 0.05, "SELECT 1").polls(1);
    let report = scene.finish();
    assert_eq!(hows(&report), [("612001", HowLeft::StillHeld)]);
    let left = &report.left[0];
    assert_eq!(left.first_seen.as_ref().unwrap().query.as_deref(), Some("SELECT pg_advisory_lock(1)"));
    assert!(left.first_seen.as_ref().unwrap().certain);
    assert_eq!(left.holder.query.as_deref(), Some("SELECT 1"));
    assert_eq!((report.sessions, report.locks, report.polls), (1, 1, 5));
    assert_eq!((report.target.as_str(), report.database.as_str()), ("t", "app"));
}

#[test]
fn a_lock_that_vanishes_with_its_session_after_a_rest() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).polls(4).disconnect(20).polls(5);
    assert_eq!(hows(&scene.finish()), [("1", HowLeft::EndedWithSession)]);
}

#[test]
fn what_was_there_before_is_nothing_new() {
    let mut world = World::new();
    world.to(-5.0).connect(10, "leader").begin(10, "SELECT pg_advisory_lock(1)").hold(10, key(1)).end(10);
    world.connect(11, "old pool");
    let mut scene = Scene::over(world, "");
    // Neither the lock that was there nor a new one of a session that was there.
    scene.lock(11, 2).polls(5).disconnect(10).polls(2);
    let report = scene.finish();
    assert!(is_clean(&report), "{report:?}");
    assert_eq!((report.sessions, report.locks), (0, 0));
}

#[test]
fn a_pid_that_was_there_before_may_belong_to_a_new_session() {
    let mut world = World::new();
    world.to(-5.0).connect(20, "old");
    let mut scene = Scene::over(world, "");
    scene.disconnect(20).polls(1);
    scene.session(20).lock(20, 1).polls(3);
    assert_eq!(hows(&scene.finish()), [("1", HowLeft::StillHeld)]);
}

#[test]
fn an_unlock_is_no_leak_whether_or_not_the_session_goes_on() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).session(21).lock(21, 2).polls(5);
    scene.unlock(20).unlock(21).polls(1).disconnect(21).polls(2);
    assert!(is_clean(&scene.finish()));
}

#[test]
fn who_rests_for_a_moment_only_is_not_judged() {
    let mut scene = Scene::new("");
    // Locked 80 ms before the poll that saw it; then unlocked and closed within the next 100 ms, or just closed.
    scene.session(20).lock(20, 1).polls(1).disconnect(20).polls(3);
    let report = scene.finish();
    assert!(report.left.is_empty() && report.blind.is_empty());
    assert_eq!(report.not_judged, 1);
}

#[test]
fn the_longer_nobody_looks_the_longer_must_be_the_rest() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).polls(4).disconnect(20);
    scene.now += 2.0;
    scene.polls(2);
    let report = scene.finish();
    assert_eq!((report.left.len(), report.not_judged), (0, 1));
    assert!(report.longest_gap.as_secs_f64() > 2.0);
}

#[test]
fn a_session_that_ends_loses_its_locks_before_its_entry() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).polls(1);
    // Its locks are gone, and it has begun no statement that could have unlocked them.
    scene.world.release(20);
    scene.polls(1).disconnect(20).polls(1);
    assert_eq!(hows(&scene.finish()), [("1", HowLeft::EndedWithSession)]);
}

#[test]
fn a_lock_carried_over_other_statements_needs_no_rest() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).polls(1);
    for _ in 0..12 {
        scene.run(20, 0.01, "SELECT * FROM carts").polls(1);
    }
    scene.disconnect(20).polls(2);
    assert_eq!(hows(&scene.finish()), [("1", HowLeft::EndedWithSession)]);
    // One that locks and unlocks for each of its jobs looks the same but for its statements.
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).polls(1);
    for _ in 0..12 {
        scene.run(20, 0.01, "SELECT pg_advisory_lock(1)").polls(1);
    }
    scene.disconnect(20).polls(2);
    assert_eq!(scene.finish().left.len(), 0);
}

#[test]
fn locks_of_transactions_never_count() {
    let mut scene = Scene::new("");
    scene.session(20).session(21).session(22);
    for (pid, number) in [(20, 1), (21, 2), (22, 3)] {
        scene.world.to(0.02).begin(pid, "SELECT pg_advisory_xact_lock(1)").hold(pid, key(number));
        let backend = scene.world.backend(pid);
        backend.state = Some(BackendState::IdleInTransaction);
    }
    // One commits, one vanishes, one is still in its transaction at the end.
    scene.polls(5);
    scene.run(20, 0.01, "COMMIT");
    scene.world.release(20);
    scene.disconnect(21).polls(3);
    let report = scene.finish();
    assert!(is_clean(&report), "{report:?}");
    assert_eq!(report.at_work, 1);
}

#[test]
fn a_session_that_ends_at_work_is_not_judged_a_leak() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).polls(3);
    scene.world.to(scene.now - 0.05).begin(20, "SELECT pg_sleep(60)");
    scene.polls(3).disconnect(20).polls(2);
    assert!(is_clean(&scene.finish()));
}

#[test]
fn expected_and_silenced_holders_are_declared() {
    let dictionary = "
        [[key]]
        name = 'leader'
        key = 1
        long_lived = true
        [[silence]]
        keys = [2]
        reason = 'known'
        [[silence]]
        rules = ['idle-holder']
        keys = [3]
        reason = 'known'
        [[silence]]
        rules = ['key-hoard']
        keys = [4]
        reason = 'another rule'
    ";
    let mut scene = Scene::new(dictionary);
    scene.session(20);
    for number in 1..=4 {
        scene.lock(20, number);
    }
    scene.polls(4).disconnect(20).polls(2);
    let report = scene.finish();
    assert_eq!(hows(&report), [("4", HowLeft::EndedWithSession)]);
    assert_eq!(report.declared, 3);
}

#[test]
fn names_come_from_the_dictionary() {
    let mut scene = Scene::new("[[key]]\nname = 'nightly-report'\nkey = 1\nowner = 'billing'\n");
    scene.session(20).lock(20, 1).polls(3);
    assert_eq!(scene.finish().left[0].key.names[0].label, "nightly-report");
}

#[test]
fn extensions_other_databases_and_prepared_transactions_are_not_ours() {
    let mut scene = Scene::new("");
    scene.session(20).polls(1);
    let extension = AdvisoryKey { database: DATABASE, numbers: KeyNumbers { classid: 1, objid: 2, objsubid: 4 } };
    let elsewhere = AdvisoryKey { database: DATABASE + 1, ..key(7) };
    scene.world.hold(20, extension).hold(20, elsewhere).prepare(3, "gid", key(8));
    scene.polls(4);
    let report = scene.finish();
    assert!(is_clean(&report), "{report:?}");
    assert_eq!(report.locks, 0);
}

#[test]
fn a_restart_loses_what_was_held_and_is_told() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).polls(3).disconnect(20);
    scene.world.snapshot.server.started_at = at(scene.now);
    scene.polls(1);
    // What comes after it is watched as before.
    scene.session(30).lock(30, 2).polls(3);
    let report = scene.finish();
    assert_eq!(hows(&report), [("2", HowLeft::StillHeld)]);
    assert_eq!((report.not_judged, report.blind.len()), (1, 1));
}

#[test]
fn holders_whose_state_is_hidden_are_told() {
    let mut world = World::new();
    world.to(-5.0).connect(10, "");
    world.hold(10, key(9));
    world.backend(10).backend_start = None;
    let mut scene = Scene::over(world, "");
    // Hidden, but there before.
    scene.polls(2);
    scene.session(20).lock(20, 1);
    scene.world.backend(20).backend_start = None;
    scene.polls(2);
    let report = scene.finish();
    assert!(report.left.is_empty());
    assert!(report.blind.len() == 1 && report.blind[0].contains("1 session that"), "{:?}", report.blind);
}

#[test]
fn without_a_look_after_the_end_nothing_is_known_of_what_was_held() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1).polls(3);
    let report = scene.guard.finish(false);
    assert_eq!((report.left.len(), report.not_judged), (0, 1));
}

#[test]
fn a_key_held_in_two_modes_counts_once() {
    let mut scene = Scene::new("");
    scene.session(20).lock(20, 1);
    scene.world.hold_in(20, key(1), crate::model::LockMode::Share);
    scene.polls(3);
    let report = scene.finish();
    assert_eq!((report.left.len(), report.locks), (1, 1));
}

#[test]
fn a_database_that_the_suite_makes_anew_is_still_watched() {
    let mut scene = Scene::new("");
    let anew = DATABASE + 5;
    scene.world.snapshot.server.databases = vec![(anew, "app".into())];
    scene.session(20).lock(20, 1);
    scene.world.backend(20).datid = Some(anew);
    scene.world.release(20).hold(20, AdvisoryKey { database: anew, ..key(1) });
    scene.polls(3);
    let report = scene.finish();
    assert_eq!((report.left.len(), report.sessions), (1, 1), "{report:?}");
}

#[test]
fn a_database_that_the_server_does_not_have_is_an_obstacle() {
    let mut guard = Guard::new("t".to_owned(), "pooled".to_owned(), Arc::new(KeyBook::default()), Grouping::default());
    guard.observe(World::new().poll());
    assert!(guard.obstacle().unwrap().contains("pooled"));
    let mut scene = Scene::new("");
    assert_eq!(scene.polls(1).guard.obstacle(), None);
}
