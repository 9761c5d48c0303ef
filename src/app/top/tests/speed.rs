//! Ten thousand locks. The bounds hold in a build without optimisation; the ones that are promised are a tenth.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::time::{ClockId, clock_gettime};

use super::world::World;
use crate::app::top::event::Key;
use crate::app::top::theme::Theme;
use crate::app::top::view;
use crate::render::fixture;

/// A frame at 10,000 locks: 10 ms; a key press: 50 ms. Unoptimised code is about ten times slower.
const SLACK: u32 = if cfg!(debug_assertions) { 10 } else { 1 };

/// What this thread has worked: a machine that is busy with other tests makes no frame dearer.
fn worked() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn fastest(mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let began = worked();
        work();
        worked().saturating_sub(began)
    };
    (0..5).map(once).min().unwrap()
}

#[test]
fn ten_thousand_locks_are_drawn_and_moved_through_in_time() {
    let mut report = fixture::target("primary");
    report.locks = (0..10_000)
        .map(|number| {
            let pid = i32::try_from(number % 500).unwrap() + 1;
            let mut lock = fixture::lock(fixture::key(number, Some("some-job")), fixture::holder(pid, "worker"), &[]);
            if number % 10 == 0 {
                lock.rules = ["idle-holder"].into();
            }
            lock
        })
        .collect();
    let findings = report.locks.iter().step_by(10);
    report.findings = findings
        .map(|lock| {
            let mut finding = fixture::finding("idle-holder", crate::analysis::report::Severity::Warning, lock);
            finding.id = lock.key.text.to_string();
            finding
        })
        .collect();
    let mut world = World::new((250, 80));
    world.report(0, report);
    let mut buffer = Buffer::empty(Rect::new(0, 0, 250, 80));
    for key in ['1', '2', '5'] {
        world.keys(&key.to_string());
        let frame = fastest(|| {
            buffer.reset();
            view::draw(&world.state, Theme { color: true }, &mut buffer);
        });
        assert!(frame < Duration::from_millis(10) * SLACK, "view {key}: a frame took {frame:?}");
        // Moving only moves; each letter of a filter makes the rows anew, and so does leaving it.
        for press in [Key::Down, Key::Char('/'), Key::Char('7'), Key::Esc, Key::Char('>'), Key::Char('r')] {
            let once = |_| {
                let began = worked();
                world.key(press);
                view::draw(&world.state, Theme { color: true }, &mut buffer);
                worked().saturating_sub(began)
            };
            let pressed = (0..3).map(once).min().unwrap();
            world.key(Key::Esc);
            assert!(pressed < Duration::from_millis(50) * SLACK, "view {key}: {press:?} took {pressed:?}");
        }
    }
}
