//! The tree of waits.

use super::world::{World, example, wait};
use crate::app::top::event::Key;

fn tree(waits: Vec<crate::analysis::report::WaitReport>) -> Vec<String> {
    let mut world = World::new((160, 40));
    let mut report = example();
    report.waits = waits;
    world.report(0, report);
    world.key(Key::Char('3'));
    let screen = world.screen();
    let lines = screen.lines().skip_while(|line| !line.contains("WHO WAITS")).skip(1);
    lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn sessions_in_a_circle_are_shown_and_said_to_be_in_one() {
    let mut world = World::new((160, 40));
    let mut report = example();
    report.waits = vec![wait(1, 20, "612001", &[2], &[]), wait(2, 10, "8675309", &[1], &[])];
    world.report(0, report);
    world.key(Key::Char('3'));
    let screen = world.screen();
    assert_eq!(screen.matches("in a circle").count(), 2, "{screen}");
}

#[test]
fn every_waiter_stands_in_the_tree_exactly_once() {
    let waits = vec![
        wait(10, 50, "8675309", &[4711], &[4711]),
        wait(11, 40, "8675309", &[4711, 10], &[4711]),
        wait(12, 30, "relation", &[11], &[4711]),
        wait(13, 20, "relation", &[11, 12], &[4711]),
        wait(14, 10, "612001", &[4802], &[4802]),
        // Blocked by a prepared transaction, which has no pid, and behind such a waiter.
        wait(15, 9, "77", &[], &[]),
        wait(16, 8, "77", &[15], &[]),
        wait(17, 7, "virtualxid", &[18], &[]),
        wait(18, 6, "virtualxid", &[17], &[]),
    ];
    let lines = tree(waits);
    for pid in 10..=18 {
        let text = format!("pid {pid}");
        let here = lines.iter().filter(|line| line.contains(&text));
        assert_eq!(here.count(), 1, "{pid}: {lines:#?}");
    }
    assert!(lines.iter().any(|line| line.contains("prepared transaction")), "{lines:#?}");
}
