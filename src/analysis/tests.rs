//! What polls may and may not conclude.

use std::time::Duration;

use super::{Grouping, Hold, HoldScope, HolderRef, Observed, TargetNames, Tracker};
use crate::keys::{Dictionary, KeyBook};
use crate::model::testing::{World, at, key};
use crate::model::{BackendState, LockMode, LockRow, Snapshot};

/// A tracker with all that it is given from poll to poll.
#[derive(Default)]
pub(super) struct Eyes {
    pub tracker: Tracker,
    pub book: KeyBook,
    pub grouping: Grouping,
}

impl Eyes {
    pub fn see(&mut self, snapshot: Snapshot) -> Observed {
        let names = TargetNames { target: "t", book: &self.book, grouping: &self.grouping };
        let observed = self.tracker.observe(snapshot, names);
        expect_in_order(&observed);
        observed
    }
}

/// What lies apart for each hold belongs together.
fn expect_in_order(observed: &Observed) {
    let ids = observed.holds.iter().map(|hold| (hold.holder, hold.key, hold.mode));
    assert!(ids.is_sorted(), "{:?}", observed.holds);
    let named = |place: &usize| !observed.holds[*place].names.is_empty();
    assert_eq!(observed.named, (0..observed.holds.len()).filter(named).collect::<Vec<_>>());
    for (place, hold) in observed.holds.iter().enumerate() {
        let reported = observed.reported_key(place);
        assert_eq!(reported.numbers, hold.key.numbers);
        assert!(reported.names.iter().map(|name| &name.label).eq(hold.names.iter().map(|name| &name.label)));
    }
}

fn hold(observed: &Observed, pid: i32) -> &Hold {
    observed.holds_of(HolderRef::Session(pid)).next().unwrap()
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn near(duration: Duration, expected: f64) -> bool {
    (seconds(duration) - expected).abs() < 0.01
}

#[test]
fn an_idle_session_has_held_since_it_became_idle() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(1)).to(61.0);
    let observed = eyes.see(world.poll());
    let hold = hold(&observed, 10);
    assert!(near(hold.past.held.at_least, 61.0));
    assert!(near(hold.past.held.at_most.unwrap(), 1_061.0));
    assert_eq!(hold.past.scope, HoldScope::Session);
    assert_eq!(hold.past.first_seen, None, "a single look does not know when it first appeared");
}

#[test]
fn a_worker_seen_in_every_poll_is_not_continuous() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "worker");
    let mut last = None;
    for round in 0..20 {
        world.to(f64::from(round)).release(10).run(10, "SELECT pg_advisory_lock(1)").hold(10, key(1));
        world.to(f64::from(round) + 0.3);
        last = Some(eyes.see(world.poll()));
    }
    let observed = last.unwrap();
    let hold = hold(&observed, 10);
    assert!(near(hold.past.held.at_least, 0.3));
    assert!(near(hold.past.unbroken, 0.0));
    assert_eq!(hold.past.quiet.polls, 0);
    assert!(!hold.past.ended_other_statement);
}

#[test]
fn a_waiter_proves_that_a_busy_session_kept_its_lock() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").connect(20, "migrator").run(10, "SELECT pg_advisory_lock(1)").hold(10, key(1));
    world.wait(20, key(1));
    let mut last = None;
    for round in 1..=8 {
        world.to(f64::from(round)).run(10, "SELECT 'a request'").to(f64::from(round) + 0.1);
        last = Some(eyes.see(world.poll()));
    }
    let observed = last.unwrap();
    let hold = hold(&observed, 10);
    assert!(near(hold.past.unbroken, 7.0));
    // The waiter had queued before the statement of the first poll began, so the lock is older than that statement.
    assert!(near(hold.past.held.at_least, 7.1), "{:?}", hold.past.held);
    assert!(hold.past.ended_other_statement);
    assert_eq!(hold.past.scope, HoldScope::Session);
    assert_eq!(*hold.waiters, [20]);
}

#[test]
fn a_statement_that_still_runs_is_not_another_statement_that_ended() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "m").connect(20, "m").run(10, "SELECT pg_advisory_lock(1)").hold(10, key(1)).wait(20, key(1));
    world.to(0.5);
    eyes.see(world.poll());
    world.to(1.0).begin(10, "ALTER TABLE big ...");
    for round in 2..10 {
        world.to(f64::from(round));
        let observed = eyes.see(world.poll());
        assert!(!hold(&observed, 10).past.ended_other_statement);
    }
}

#[test]
fn a_transaction_lock_in_every_transaction_is_not_session_scope() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api");
    for round in 0..10 {
        world.to(f64::from(round)).release(10).begin(10, "BEGIN; SELECT pg_advisory_xact_lock(1)").hold(10, key(1));
        world.to(f64::from(round) + 0.5);
        let observed = eyes.see(world.poll());
        assert_eq!(hold(&observed, 10).past.scope, HoldScope::Unknown);
    }
}

#[test]
fn in_the_instant_of_a_commit_local_id_zero_proves_nothing() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(1)).to(5.0);
    // Idle only since after the locks were read.
    world.backend(10).state_change = Some(at(5.0005));
    let observed = eyes.see(world.poll());
    assert_eq!(hold(&observed, 10).past.scope, HoldScope::Unknown);
}

#[test]
fn a_transaction_that_began_after_the_locks_were_read_proves_nothing() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").connect(20, "b").begin(10, "SELECT pg_advisory_xact_lock(1)").hold(10, key(1));
    world.wait(20, key(1)).to(1.0);
    eyes.see(world.poll());
    world.to(2.0);
    let mut snapshot = world.poll();
    let backend = snapshot.backends.iter_mut().find(|backend| backend.pid == 10).unwrap();
    backend.xact_start = Some(at(2.0005));
    backend.query_start = Some(at(2.0005));
    let observed = eyes.see(snapshot);
    assert_eq!(hold(&observed, 10).past.scope, HoldScope::Unknown);
}

#[test]
fn a_reused_pid_inherits_nothing() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(1)).to(100.0);
    eyes.see(world.poll());
    world.to(200.0);
    let backend = world.backend(10);
    backend.backend_start = Some(at(150.0));
    backend.state_change = Some(at(199.0));
    backend.query_start = Some(at(199.0));
    let observed = eyes.see(world.poll());
    let hold = hold(&observed, 10);
    assert!(near(hold.past.held.at_least, 1.0), "{:?}", hold.past.held);
    assert!(seconds(hold.past.held.at_most.unwrap()) < 51.0);
    assert!(hold.past.first_seen.as_ref().unwrap().certain);
}

#[test]
fn the_upper_bound_is_the_last_poll_without_the_lock() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").to(10.0);
    eyes.see(world.poll());
    world.to(12.0).run(10, "SELECT pg_advisory_lock(1)").hold(10, key(1)).to(15.0);
    let observed = eyes.see(world.poll());
    let hold = hold(&observed, 10);
    assert!(near(hold.past.held.at_most.unwrap(), 5.0));
    let first = hold.past.first_seen.clone().unwrap();
    assert!(first.certain);
    assert_eq!(first.query.as_deref(), Some("SELECT pg_advisory_lock(1)"));
}

#[test]
fn a_soft_blocked_waiter_belongs_to_the_holder() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(1, "a").connect(2, "b").connect(3, "c").hold_in(1, key(9), LockMode::Share);
    world.to(1.0).wait(2, key(9)).to(2.0).wait_in(3, key(9), LockMode::Share).to(5.0);
    let observed = eyes.see(world.poll());
    assert_eq!(observed.waiters_of(HolderRef::Session(1)), [2, 3]);
    assert_eq!(observed.waiting[&3].blocked_by, [HolderRef::Session(2)]);
    assert_eq!(*hold(&observed, 1).waiters, [2, 3]);
}

#[test]
fn one_who_holds_and_wants_more_is_ahead_in_the_queue() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    for pid in 1..=3 {
        world.connect(pid, "a");
    }
    world.hold_in(1, key(9), LockMode::Share).hold_in(3, key(9), LockMode::Share);
    world.to(1.0).wait(2, key(9)).to(2.0).wait(1, key(9)).to(5.0);
    let observed = eyes.see(world.poll());
    assert!(observed.cycles.is_empty(), "{:?}", observed.cycles);
    assert_eq!(observed.waiters_of(HolderRef::Session(3)), [1, 2]);
}

#[test]
fn a_queue_between_two_that_block_each_other_is_behind_their_cycle() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    for pid in 1..=3 {
        world.connect(pid, "a");
    }
    world.hold(1, key(1)).hold(2, key(2));
    world.to(1.0).wait(3, key(1)).to(2.0).wait(1, key(2)).wait(2, key(1)).to(9.0);
    let observed = eyes.see(world.poll());
    assert_eq!(observed.cycles, [[1, 2]]);
    assert_eq!(observed.waiters_of_cycle(0), [1, 2, 3]);
    assert!(observed.by_root.is_empty());
}

#[test]
fn chains_run_through_tables_and_end_at_one_root() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    for pid in 1..=52 {
        world.connect(pid, "a");
    }
    world.begin(1, "LOCK TABLE t").hold_table(1, "t").to(1.0).wait_table(2, "t").hold(2, key(2));
    for pid in 3..=52 {
        world.hold(pid, key(pid.cast_unsigned())).wait(pid, key(pid.cast_unsigned() - 1));
    }
    let observed = eyes.see(world.to(3.0).poll());
    assert_eq!(observed.waiters_of(HolderRef::Session(1)).len(), 50);
    assert_eq!(*observed.waiting[&52].roots, [HolderRef::Session(1)]);
}

#[test]
fn five_hundred_waiters_on_one_key_are_cheap() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(1, "a").hold(1, key(1));
    for pid in 2..=501 {
        world.connect(pid, "w").to(f64::from(pid) / 100.0).wait(pid, key(1));
    }
    let observed = eyes.see(world.to(20.0).poll());
    assert_eq!(observed.waiters_of(HolderRef::Session(1)).len(), 500);
    assert_eq!(observed.waiting[&501].blocked_by, [HolderRef::Session(1), HolderRef::Session(500)]);
}

#[test]
fn a_hidden_session_is_never_judged_by_its_state() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(1));
    let backend = world.backend(10);
    backend.state = None;
    backend.state_change = None;
    backend.backend_start = None;
    backend.query_start = None;
    backend.query = None;
    for round in 0..60 {
        let observed = eyes.see(world.to(f64::from(round) * 10.0).poll());
        let hold = hold(&observed, 10);
        assert_eq!(hold.past.scope, HoldScope::Unknown);
        assert_eq!(hold.past.held.at_least, Duration::ZERO);
        assert_eq!(hold.past.quiet.polls, 0);
    }
}

#[test]
fn before_waitstart_a_wait_seen_at_the_first_poll_is_an_upper_bound() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.snapshot.server.version_num = 120_022;
    world.connect(1, "a").connect(2, "b").connect(3, "c").hold(1, key(1)).wait(2, key(1));
    world.each_row(|row| row.waitstart = None);
    let observed = eyes.see(world.to(4.0).poll());
    assert!(observed.waiting[&2].waited.upper_bound);
    assert!(near(observed.waiting[&2].waited.duration, 4.0));
    world.to(5.0).wait(3, key(1));
    world.each_row(|row| row.waitstart = None);
    eyes.see(world.to(6.0).poll());
    let observed = eyes.see(world.to(9.0).poll());
    assert!(!observed.waiting[&3].waited.upper_bound);
    assert!(near(observed.waiting[&3].waited.duration, 3.0));
}

#[test]
fn before_waitstart_a_blind_look_knows_nothing_of_a_wait_but_that_it_is_there() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.snapshot.server.version_num = 120_022;
    world.connect(1, "a").connect(2, "b").hold(1, key(1)).wait(2, key(1));
    world.each_row(|row| row.waitstart = None);
    world.backend(2).query_start = None;
    assert!(eyes.see(world.to(4.0).poll()).waiting[&2].waited.unknown);
    let waited = eyes.see(world.to(6.0).poll()).waiting[&2].waited;
    assert!(!waited.unknown && near(waited.duration, 2.0));
}

#[test]
fn the_order_in_which_a_server_shows_locks_makes_no_difference() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(3)).hold(10, key(1)).hold_in(10, key(1), LockMode::Share);
    world.connect(11, "api").hold(11, key(2));
    eyes.see(world.to(1.0).poll());
    let mut rows: Vec<LockRow> = world.snapshot.locks.rows().collect();
    rows.rotate_left(1);
    world.snapshot.locks = rows.into_iter().rev().collect();
    let observed = eyes.see(world.to(5.0).poll());
    let seen = observed.holds.iter().map(|hold| (hold.key, hold.mode, near(hold.past.unbroken, 4.0)));
    let exclusive = LockMode::Exclusive;
    let expected = [(key(1), LockMode::Share, true), (key(1), exclusive, true), (key(3), exclusive, true)];
    assert!(seen.eq(expected.into_iter().chain([(key(2), exclusive, true)])), "{:?}", observed.holds);
}

#[test]
fn locks_that_come_and_go_between_others_leave_those_their_names_and_times() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    let text = "[[key]]\nname = \"two\"\nkey = 2\n[[key]]\nname = \"five\"\nkey = 5\n";
    eyes.book = KeyBook::new(&[Dictionary::parse("keys.toml", text).unwrap()]);
    world.connect(10, "api").hold(10, key(2)).hold(10, key(4)).hold(10, key(6));
    eyes.see(world.to(1.0).poll());
    world.hold(10, key(1)).hold(10, key(5)).hold(10, key(3));
    eyes.see(world.to(2.0).poll());
    let rows: Vec<LockRow> = world.snapshot.locks.rows().filter(|row| row.object.key() != Some(key(4))).collect();
    world.snapshot.locks = rows.into_iter().collect();
    let observed = eyes.see(world.to(5.0).poll());
    let seen = observed.holds.iter().map(|hold| {
        let name = hold.names.first().map(|name| name.name.as_str());
        (hold.key.numbers.objid, name, seconds(hold.past.unbroken).round())
    });
    let expected = [(1, None, 3.0), (2, Some("two"), 4.0), (3, None, 3.0), (5, Some("five"), 3.0), (6, None, 4.0)];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

/// A session may begin or end a transaction while the server reads its locks.
#[test]
fn rows_of_one_session_may_differ_in_their_transaction() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").hold(10, key(1)).hold(10, key(2));
    for poll in 1..4 {
        world.each_row(|row| row.virtualtransaction.local = u32::from(row.object.key() == Some(key(poll % 2 + 1))));
        let observed = eyes.see(world.to(f64::from(poll)).poll());
        let zero = observed.holds.iter().map(|hold| (hold.key, hold.past.local_zero));
        assert!(zero.eq([(key(1), poll % 2 == 1), (key(2), poll % 2 == 0)]), "{:?}", observed.holds);
    }
}

#[test]
fn a_restart_forgets_everything() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(10, "api").begin(10, "SELECT pg_advisory_lock(1)").hold(10, key(1));
    eyes.see(world.to(1.0).poll());
    eyes.see(world.to(50.0).poll());
    world.snapshot.server.started_at = at(60.0);
    world.backend(10).state = Some(BackendState::Active);
    let observed = eyes.see(world.to(70.0).poll());
    assert_eq!(hold(&observed, 10).past.held.at_least, Duration::ZERO);
}

#[test]
fn a_crash_of_one_process_is_a_restart_though_the_postmaster_lives_on() {
    let (mut world, mut eyes) = (World::new(), Eyes::default());
    world.connect(3, "").connect(10, "api").hold(10, key(1));
    world.backend(3).backend_type = "checkpointer".into();
    assert!(!eyes.see(world.to(1.0).poll()).restarted);
    assert!(!eyes.see(world.to(2.0).poll()).restarted);
    world.backend(3).backend_start = Some(at(2.5));
    assert!(eyes.see(world.to(3.0).poll()).restarted);
    assert!(!eyes.see(world.to(4.0).poll()).restarted);
    // Not to see it any more, for want of a right, is no restart.
    world.backend(3).backend_start = None;
    assert!(!eyes.see(world.to(5.0).poll()).restarted);
}
