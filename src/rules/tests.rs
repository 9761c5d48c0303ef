//! Properties of all rules together, on snapshots that chance makes.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::analysis::report::TargetReport;
use crate::analysis::{Grouping, Thresholds};
use crate::keys::KeyBook;
use crate::model::testing::{World, at, key};
use crate::model::{BackendState, LockMode, LockRow, Snapshot};
use crate::monitor::Monitor;

fn monitor() -> Monitor {
    let thresholds = Thresholds {
        idle: Duration::from_secs(5),
        wait: Duration::from_secs(2),
        hoard: 4,
        critical_after: Some(Duration::from_secs(60)),
    };
    Monitor::new("t".to_owned(), thresholds, Arc::new(KeyBook::default()), Grouping::default(), false)
}

/// One thing that happens to one of six sessions.
#[derive(Debug, Clone)]
enum Event {
    Run(i32, bool),
    Begin(i32),
    State(i32, Option<BackendState>),
    Hold(i32, u32, bool),
    Wait(i32, u32, bool),
    Table(i32, bool),
    Release(i32),
    Reuse(i32),
    Hide(i32),
    Prepare(i32, u32),
    Pass(u32),
    Back(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let pid = || 1..7i32;
    let state = prop_oneof![
        Just(None),
        Just(Some(BackendState::Idle)),
        Just(Some(BackendState::Active)),
        Just(Some(BackendState::IdleInTransaction)),
        Just(Some(BackendState::IdleInTransactionAborted)),
        Just(Some(BackendState::Disabled)),
    ];
    prop_oneof![
        (pid(), any::<bool>()).prop_map(|(pid, advisory)| Event::Run(pid, advisory)),
        pid().prop_map(Event::Begin),
        (pid(), state).prop_map(|(pid, state)| Event::State(pid, state)),
        (pid(), 1..4u32, any::<bool>()).prop_map(|(pid, key, share)| Event::Hold(pid, key, share)),
        (pid(), 1..4u32, any::<bool>()).prop_map(|(pid, key, share)| Event::Wait(pid, key, share)),
        (pid(), any::<bool>()).prop_map(|(pid, granted)| Event::Table(pid, granted)),
        pid().prop_map(Event::Release),
        pid().prop_map(Event::Reuse),
        pid().prop_map(Event::Hide),
        (1..3i32, 1..4u32).prop_map(|(slot, key)| Event::Prepare(slot, key)),
        (1..20u32).prop_map(Event::Pass),
        (1..5u32).prop_map(Event::Back),
    ]
}

fn play(events: &[Vec<Event>]) -> Vec<Snapshot> {
    let mut world = World::new();
    for pid in 1..7 {
        world.connect(pid, if pid % 2 == 0 { "api" } else { "job 1" });
    }
    let mut now = 0.0;
    let mut snapshots = Vec::new();
    for round in events {
        for event in round {
            happen(&mut world, event, &mut now);
        }
        snapshots.push(world.poll());
    }
    snapshots
}

fn happen(world: &mut World, event: &Event, now: &mut f64) {
    let mode = |share: bool| if share { LockMode::Share } else { LockMode::Exclusive };
    match *event {
        Event::Run(pid, advisory) => {
            world.run(pid, if advisory { "SELECT pg_advisory_lock(1)" } else { "SELECT 1" });
        }
        Event::Begin(pid) => {
            world.begin(pid, "SELECT 2");
        }
        Event::State(pid, state) => world.backend(pid).state = state,
        Event::Hold(pid, lock, share) => {
            world.hold_in(pid, key(lock), mode(share));
        }
        Event::Wait(pid, lock, share) => {
            world.wait_in(pid, key(lock), mode(share));
        }
        Event::Table(pid, true) => {
            world.hold_table(pid, "t");
        }
        Event::Table(pid, false) => {
            world.wait_table(pid, "t");
        }
        Event::Release(pid) => {
            world.release(pid);
        }
        Event::Reuse(pid) => world.backend(pid).backend_start = Some(at(*now)),
        Event::Hide(pid) => {
            let backend = world.backend(pid);
            (backend.backend_start, backend.state, backend.state_change) = (None, None, None);
            (backend.query_start, backend.xact_start, backend.query) = (None, None, None);
        }
        Event::Prepare(slot, lock) => {
            world.prepare(slot, "gid", key(lock));
        }
        Event::Pass(seconds) => {
            *now += f64::from(seconds);
            world.to(*now);
        }
        // The server's clock may be set back.
        Event::Back(seconds) => {
            *now -= f64::from(seconds);
            world.to(*now);
        }
    }
}

/// What a report says, without what may rightly depend on nothing but the order in a list.
fn said(report: &TargetReport) -> Vec<String> {
    report
        .findings
        .iter()
        .map(|finding| {
            format!(
                "{:?}",
                (&finding.id, finding.rule, finding.severity, finding.keys().collect::<Vec<_>>(), &finding.waiters)
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_a_server_shows_makes_a_rule_panic_and_row_order_does_not_matter(
        events in vec(vec(event(), 1..8), 1..10),
    ) {
        let (mut forward, mut backward) = (monitor(), monitor());
        for snapshot in play(&events) {
            let mut reversed = snapshot.clone();
            let rows: Vec<LockRow> = snapshot.locks.rows().collect();
            reversed.locks = rows.into_iter().rev().collect();
            reversed.backends.reverse();
            let report = forward.observe(snapshot);
            prop_assert_eq!(said(&report), said(&backward.observe(reversed)));
            for lock in &report.locks {
                prop_assert!(lock.past.held.at_most.is_none_or(|most| most >= lock.past.held.at_least));
            }
            // One situation, one finding: a session gets one state rule.
            for pid in 1..7 {
                let states = report.findings.iter().filter(|finding| {
                    super::is_state_rule(finding.rule) && finding.pids == [pid]
                });
                prop_assert!(states.count() <= 1);
            }
        }
    }
}

#[test]
fn one_key_of_a_hoard_is_not_called_keys() {
    let thresholds = Thresholds { hoard: 1, ..Thresholds::default() };
    let mut monitor =
        Monitor::new("t".to_owned(), thresholds, Arc::new(KeyBook::default()), Grouping::default(), false);
    let mut world = World::new();
    world.connect(7, "api").hold(7, key(1));
    let report = monitor.observe(world.to(70.0).poll());
    let hoard = report.findings.iter().find(|finding| finding.rule == "key-hoard").unwrap();
    assert!(hoard.summary.contains(" holds 1 key; "), "{}", hoard.summary);
}
