//! Whole screens, compared with files. `PGLOCKWATCH_BLESS=1 cargo test` writes them anew: look at what has changed.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::world::{World, freed, lease, lease_table, screen_in, with_leases};
use crate::app::top::event::{Event, Key};
use crate::app::top::theme::Theme;
use crate::app::top::view;
use crate::render::fixture;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (60, 15)];

fn expect(name: &str, world: &World) {
    let (columns, rows) = world.state.size;
    let file = format!("src/app/top/snapshots/{name}-{columns}x{rows}.txt");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
    let screen = world.screen();
    assert_eq!(screen.lines().count(), usize::from(rows));
    if std::env::var_os("PGLOCKWATCH_BLESS").is_some() {
        std::fs::write(&path, &screen).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(screen == wanted, "{file} should be:\n{wanted}\nand is:\n{screen}");
}

#[test]
fn every_view_at_every_size() {
    for size in SIZES {
        let mut world = World::example(size);
        world.pass(1);
        for (key, name) in ["findings", "locks", "waits", "pools", "keys", "history"].iter().enumerate() {
            if *name == "history" {
                world.report(0, freed());
                world.pass(1);
            }
            world.key(Key::Char(char::from(b'1' + u8::try_from(key).unwrap())));
            expect(name, &world);
        }
    }
}

#[test]
fn details_help_and_picker() {
    for size in SIZES {
        let mut world = World::example(size);
        world.key(Key::Enter);
        expect("detail-finding", &world);
        world.key(Key::Esc);
        for (view, name) in [('2', "detail-lock"), ('3', "detail-wait"), ('4', "detail-pool"), ('5', "detail-key")] {
            world.key(Key::Char(view));
            world.key(Key::Down);
            world.key(Key::Enter);
            expect(name, &world);
            world.key(Key::Esc);
        }
        world.keys("?");
        expect("help", &world);
        let mut world = World::of(&["orders", "billing", "a-target-with-a-name-that-is-much-too-long"], size);
        world.report(0, super::world::example());
        world.fail(1, 4);
        expect("several", &world);
        world.keys("tj");
        expect("picker", &world);
    }
}

#[test]
fn leases_stand_beside_the_locks() {
    for size in SIZES {
        let mut world = World::new(size);
        world.report(0, with_leases());
        expect("leases-findings", &world);
        world.keys("2");
        expect("leases", &world);
        world.keys("/nightly");
        world.key(Key::Enter);
        world.key(Key::Enter);
        expect("detail-lease", &world);
    }
}

#[test]
fn filter_pause_and_silence() {
    for size in SIZES {
        let mut world = World::example(size);
        world.keys("2/sch");
        expect("filter", &world);
        world.key(Key::Esc);
        world.keys(" ");
        world.pass(3);
        expect("paused", &world);
        world.keys(" 1");
        world.pass(9).fail(0, 4);
        expect("no-answer", &world);
        let mut world = World::new(size);
        world.fail(0, 4);
        expect("never-answered", &world);
        let mut world = World::new(size);
        world.report(0, fixture::target("primary"));
        expect("nothing-wrong", &world);
    }
}

#[test]
fn hostile_names_stay_in_their_cells() {
    for size in SIZES {
        let mut world = World::new(size);
        let mut report = fixture::hostile();
        let evil = report.target.clone();
        report.leases = vec![lease_table(&evil, vec![lease(&evil, Some(&evil), -95)])];
        report.leases[0].table.clone_from(&evil);
        world.report(0, report);
        for key in "123456".chars() {
            world.keys(&key.to_string());
            world.key(Key::Enter);
            let detail = world.screen();
            world.key(Key::Esc);
            // The lease is the last of the locks.
            world.keys("G");
            world.key(Key::Enter);
            let last = world.screen();
            world.key(Key::Esc);
            for screen in [detail, last, world.screen()] {
                assert!(screen.chars().all(|c| c == '\n' || !c.is_control()), "{screen:?}");
                assert!(!screen.contains('\u{202e}'), "{screen:?}");
                assert_eq!(screen.lines().count(), usize::from(size.1));
            }
        }
    }
}

#[test]
fn without_colour_there_is_none_and_with_it_only_named_ones() {
    let named = [
        Color::Reset,
        Color::Black,
        Color::Red,
        Color::Green,
        Color::Yellow,
        Color::Blue,
        Color::Magenta,
        Color::Cyan,
        Color::White,
    ];
    for color in [false, true] {
        let mut world = World::example((120, 40));
        for key in "123456?".chars() {
            world.keys(&key.to_string());
            let (columns, rows) = world.state.size;
            let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
            terminal.draw(|frame| view::draw(&world.state, Theme { color }, frame.buffer_mut())).unwrap();
            for cell in terminal.backend().buffer().content() {
                for used in [cell.fg, cell.bg] {
                    assert!(if color { named.contains(&used) } else { used == Color::Reset }, "{used:?}");
                }
            }
        }
        // Colour says nothing that is not there without it.
        assert_eq!(screen_in(&world.state, Theme { color }), world.screen());
    }
}

#[test]
fn a_size_between_all_sizes_draws_something_readable() {
    let mut world = World::example((60, 15));
    for size in [(60, 15), (61, 16), (99, 17), (100, 30), (139, 18), (140, 24), (250, 80), (30, 5)] {
        world.event(Event::Resize(size.0, size.1));
        for key in "123456".chars() {
            world.keys(&key.to_string());
            assert_eq!(world.screen().lines().count(), usize::from(size.1));
        }
    }
    assert!(world.screen().contains("too small"));
}
