//! A memory that goes through a file between any two polls says what an unbroken one says, or less.

use std::time::Duration;

use super::{Tracker, TrackerState};
use crate::analysis::{Grouping, Hold, HolderRef, Observed, TargetNames};
use crate::keys::KeyBook;
use crate::model::testing::{World, at, key};
use crate::model::{BackendState, Snapshot};

fn see(tracker: &mut Tracker, snapshot: Snapshot) -> Observed {
    let (book, grouping) = (KeyBook::default(), Grouping::default());
    tracker.observe(snapshot, TargetNames { target: "t", book: &book, grouping: &grouping })
}

fn text_of(tracker: &Tracker) -> String {
    serde_json::to_string(&tracker.state().unwrap()).unwrap()
}

/// Another process goes on: its clock began just now.
fn see_elsewhere(text: &str, mut snapshot: Snapshot) -> (Tracker, Observed) {
    let state: TrackerState = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&state).unwrap().len(), text.len(), "nothing is lost on the way");
    let mut tracker = Tracker::resuming(state);
    snapshot.monotonic = Duration::from_millis(40);
    let observed = see(&mut tracker, snapshot);
    (tracker, observed)
}

fn hold(observed: &Observed, pid: i32) -> &Hold {
    observed.holds_of(HolderRef::Session(pid)).next().unwrap()
}

/// A pooled leak that serves requests, and one who waits for it.
fn busy_leak() -> World {
    let mut world = World::new();
    world.connect(10, "api").hold(10, key(1)).connect(11, "migrator").to(1.0).wait(11, key(1)).to(2.0);
    world
}

#[test]
fn a_busy_leak_is_proved_over_two_looks() {
    let mut world = busy_leak();
    let mut first = Tracker::default();
    see(&mut first, world.poll());
    let text = text_of(&first);
    world.to(30.0).run(10, "SELECT 1").to(62.0);
    let (_, observed) = see_elsewhere(&text, world.poll());
    let hold = hold(&observed, 10);
    assert_eq!(observed.polls, 2);
    assert!(hold.past.ended_other_statement);
    // It was seen at 2.0 and at 62.0, and the queue proves that it was taken before 2.0.
    assert!(
        hold.past.unbroken <= Duration::from_secs(60) && hold.past.unbroken > Duration::from_millis(59_990),
        "{hold:?}"
    );
    assert_eq!(hold.past.first_seen.as_ref().map(|seen| (seen.at, seen.query.clone())), Some((at(2.001), None)));
}

#[test]
fn what_was_seen_is_no_proof_once_a_statement_has_begun() {
    let mut world = World::new();
    world.connect(10, "worker").hold(10, key(1)).to(2.0);
    let mut first = Tracker::default();
    see(&mut first, world.poll());
    world.to(30.0).run(10, "SELECT 1").to(62.0);
    let (_, observed) = see_elsewhere(&text_of(&first), world.poll());
    assert!(hold(&observed, 10).past.unbroken < Duration::from_secs(1));
}

#[test]
fn another_server_or_another_hour_is_a_beginning() {
    let mut first = Tracker::default();
    see(&mut first, busy_leak().poll());
    let text = text_of(&first);
    let mut restarted = busy_leak();
    restarted.snapshot.server.started_at = at(-1.0);
    let mut late = busy_leak();
    late.to(2.0 + 3_601.0);
    let mut set_back = busy_leak();
    set_back.to(-1.0);
    for (mut world, what) in [(restarted, "another start"), (late, "an hour later"), (set_back, "an earlier clock")] {
        let (_, observed) = see_elsewhere(&text, world.poll());
        assert_eq!((observed.polls, observed.restarted), (1, false), "{what}");
        assert_eq!(hold(&observed, 10).past.first_seen, None, "{what}");
    }
    let mut in_time = busy_leak();
    in_time.to(3_500.0);
    assert_eq!(see_elsewhere(&text, in_time.poll()).1.polls, 2);
}

#[test]
fn fifty_looks_are_fifty_polls() {
    let mut world = World::new();
    world.connect(10, "api").hold(10, key(1));
    let mut tracker = Tracker::default();
    let mut observed = see(&mut tracker, world.poll());
    for minute in 1..50 {
        world.to(f64::from(minute) * 60.0 - 1.0).run(10, "SELECT 1").to(f64::from(minute) * 60.0);
        (tracker, observed) = see_elsewhere(&text_of(&tracker), world.poll());
    }
    let quiet = hold(&observed, 10).past.quiet;
    assert_eq!(quiet.polls, 50);
    assert!(quiet.session_scope);
    assert!(
        quiet.lasted <= Duration::from_secs(49 * 60) && quiet.lasted > Duration::from_secs(49 * 60 - 1),
        "{quiet:?}"
    );
}

#[test]
fn numbers_that_nobody_has_measured_are_not_believed() {
    let mut first = Tracker::default();
    see(&mut first, busy_leak().poll());
    let text = text_of(&first);
    let huge = u64::MAX.to_string();
    for (name, found) in [("polls", "\"polls\":1"), ("quiet_polls", "\"quiet_polls\":1"), ("secs", "\"secs\":100002")] {
        assert!(text.contains(found), "{text}");
        let hostile = text.replace(found, &format!("\"{name}\":{huge}"));
        let mut world = busy_leak();
        let mut tracker = Tracker::resuming(serde_json::from_str(&hostile).unwrap());
        assert_eq!(see(&mut tracker, world.to(3.0).poll()).polls, 1, "{name}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// However polls are spread over processes: no hold is older than one process would have it, none surely younger.
    #[test]
    fn processes_know_no_more_than_one_would(steps in proptest::collection::vec((0_u8..6, 1_u8..50, proptest::bool::ANY), 1..25)) {
        let mut world = World::new();
        world.connect(10, "api").hold(10, key(1)).connect(11, "migrator");
        let (mut whole, mut split) = (Tracker::default(), Tracker::default());
        let (mut now, mut waits) = (0.0, false);
        // Where the clock of the process that goes on began.
        let mut epoch = Duration::ZERO;
        for (what, seconds, elsewhere) in steps {
            now += f64::from(seconds);
            world.to(now - 0.5);
            match what {
                0 => drop(world.run(10, "SELECT 1")),
                1 => drop(world.begin(10, "SELECT pg_sleep(9)")),
                2 if world.backend(10).state == Some(BackendState::Active) => drop(world.end(10)),
                3 if !waits => { world.wait(11, key(1)); waits = true; }
                4 if waits => { world.release(11).end(11); waits = false; }
                5 => { world.release(10).run(10, "SELECT pg_advisory_lock(1)").hold(10, key(1)); }
                _ => {}
            }
            world.to(now);
            let snapshot = world.poll();
            let one = see(&mut whole, snapshot.clone());
            let other = if elsewhere && split.state().is_some() {
                epoch = snapshot.monotonic.saturating_sub(Duration::from_millis(40));
                let (tracker, observed) = see_elsewhere(&text_of(&split), snapshot);
                split = tracker;
                observed
            } else {
                let monotonic = snapshot.monotonic.saturating_sub(epoch);
                see(&mut split, Snapshot { monotonic, ..snapshot })
            };
            let (one, other) = (hold(&one, 10), hold(&other, 10));
            proptest::prop_assert!(other.past.held.at_least <= one.past.held.at_least);
            proptest::prop_assert!(other.past.unbroken <= one.past.unbroken);
            proptest::prop_assert!(other.past.quiet.lasted <= one.past.quiet.lasted && other.past.quiet.polls == one.past.quiet.polls);
            proptest::prop_assert!(other.past.held.at_most >= one.past.held.at_most);
            proptest::prop_assert_eq!((other.past.scope, other.past.ended_other_statement), (one.past.scope, one.past.ended_other_statement));
            // And little less: what a poll takes, for each change of process.
            let lost = one.past.held.at_least.saturating_sub(other.past.held.at_least);
            proptest::prop_assert!(lost < Duration::from_millis(200), "{:?}", lost);
        }
    }
}
