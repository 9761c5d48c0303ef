//! States after events.

use std::time::Duration;

use super::world::{SQL, World, example, expected, freed, lease, lease_table, with_leases};
use crate::app::top::columns::Column;
use crate::app::top::event::{Effect, Event, Key, Mouse};
use crate::app::top::state::{Overlay, View};
use crate::render::fixture;

const SIZE: (u16, u16) = (80, 24);

fn selected_key(world: &World) -> String {
    let row = world.state.selected().expect("nothing is selected");
    world.state.lock(row).map(|lock| lock.key.text.to_string()).expect("no lock is selected")
}

#[test]
fn the_selection_stays_on_top_until_somebody_moves_it_and_then_follows_its_row() {
    let mut world = World::example(SIZE);
    world.keys("2");
    assert_eq!(selected_key(&world), "8675309");
    let mut worse = example();
    let mut lock = fixture::lock(fixture::key(99, None), fixture::holder(9999, "z"), &["carried-lock"]);
    lock.waiters = (1..=5).map(|pid| fixture::waiter(pid, 5)).collect();
    worse.locks.push(lock);
    world.report(0, worse.clone());
    assert_eq!(selected_key(&world), "99", "nobody has moved the selection");
    world.key(Key::Down);
    assert_eq!(selected_key(&world), "8675309");
    world.report(0, example());
    assert_eq!((selected_key(&world).as_str(), world.state.list().position), ("8675309", 0));
    world.report(0, worse);
    assert_eq!((selected_key(&world).as_str(), world.state.list().position), ("8675309", 1));
}

#[test]
fn a_row_that_goes_hands_the_selection_to_its_place() {
    let mut world = World::example(SIZE);
    world.keys("2jj");
    let gone = selected_key(&world);
    let mut report = example();
    report.locks.retain(|lock| *lock.key.text != *gone);
    world.report(0, report);
    assert_eq!(world.state.list().position, 2);
    assert_ne!(selected_key(&world), gone);
    world.key(Key::End);
    let mut report = example();
    report.locks.truncate(1);
    world.report(0, report);
    assert_eq!(world.state.list().position, 0);
}

#[test]
fn the_filter_works_as_it_is_typed_and_esc_clears_it_and_never_quits() {
    let mut world = World::example(SIZE);
    world.keys("2/schema");
    assert_eq!(world.state.rows.len(), 1);
    world.key(Key::Backspace);
    world.key(Key::Ctrl('u'));
    assert_eq!(world.state.rows.len(), 4);
    for (filter, rows) in [("4711", 1), ("APP", 4), ("report idle", 1), ("10.0.0.7", 3), ("billing", 3), ("zzz", 0)] {
        world.key(Key::Ctrl('u'));
        world.keys(filter);
        assert_eq!(world.state.rows.len(), rows, "{filter}");
    }
    // Letters are text while a filter is typed.
    world.key(Key::Ctrl('u'));
    assert_eq!(world.key(Key::Char('q')), []);
    assert_eq!(world.state.filter, "q");
    world.key(Key::Enter);
    assert!(!world.state.typing && world.state.filter == "q");
    assert_eq!(world.key(Key::Esc), []);
    assert_eq!((world.state.filter.as_str(), world.state.rows.len()), ("", 4));
    assert_eq!(world.key(Key::Esc), []);
    assert_eq!(world.key(Key::Char('q')), [Effect::Quit]);
    assert_eq!(world.key(Key::Ctrl('c')), [Effect::Quit]);
}

#[test]
fn a_filter_is_ended_by_backspace_and_takes_pasted_text() {
    let mut world = World::example(SIZE);
    world.event(Event::Paste("ignored".to_owned()));
    world.keys("/");
    world.event(Event::Paste("sche\u{1b}ma\nsecond line".to_owned()));
    assert_eq!(world.state.filter, "schema");
    world.key(Key::Ctrl('w'));
    assert!(world.state.typing);
    world.key(Key::Backspace);
    assert!(!world.state.typing);
}

#[test]
fn the_tree_is_filtered_as_a_whole() {
    let mut world = World::example(SIZE);
    world.keys("3/5012");
    assert_eq!(world.state.rows.len(), 5);
    world.keys("9");
    assert_eq!(world.state.rows.len(), 0);
}

#[test]
fn rows_are_sorted_by_any_column_and_both_ways() {
    let mut world = World::example((140, 24));
    world.keys("2");
    let order = |world: &World| -> Vec<String> {
        world.state.rows.iter().map(|row| world.state.lock(row).unwrap().key.text.to_string()).collect()
    };
    let urgent = order(&world);
    world.keys(">");
    assert_eq!(world.state.list().sort, Some(Column::Key));
    assert_eq!(order(&world), ["-5", "28319", "612001", "8675309"]);
    world.keys("r");
    assert_eq!(order(&world), ["8675309", "612001", "28319", "-5"]);
    world.keys("<");
    assert_eq!((world.state.list().sort, order(&world)), (None, urgent));
    world.keys("<");
    assert_eq!(world.state.list().sort, Some(Column::Rule));
    let mut report = example();
    std::sync::Arc::make_mut(&mut report.locks[2].past).held = fixture::held(5_000);
    world.report(0, report);
    while world.state.list().sort != Some(Column::Held) {
        world.keys(">");
    }
    assert_eq!(order(&world)[0], "28319");
}

#[test]
fn expected_holders_are_hidden_and_shown() {
    let mut world = World::example(SIZE);
    world.keys("2e");
    assert_eq!((world.state.rows.len(), world.state.hidden), (3, 1));
    let mut report = example();
    report.locks = vec![expected(1)];
    world.report(0, report);
    assert!(world.screen().contains("1 lock is held on purpose, and hidden; e shows it"), "{}", world.screen());
    world.keys("e");
    assert_eq!((world.state.rows.len(), world.state.hidden), (1, 0));
}

#[test]
fn a_pause_keeps_the_rows_and_goes_on_with_the_newest() {
    let mut world = World::example(SIZE);
    world.keys("6 ");
    let events = world.state.rows.len();
    world.report(0, freed());
    assert_eq!(world.state.rows.len(), events);
    world.keys("1");
    assert_eq!(world.state.rows.len(), 2);
    assert!(world.screen().contains("paused"));
    world.keys(" ");
    assert_eq!(world.state.rows.len(), 1);
    world.keys("6");
    assert!(world.state.rows.len() > events);
}

#[test]
fn the_interval_goes_through_steps_and_ends_at_both_ends() {
    let mut world = World::example(SIZE);
    assert_eq!(world.key(Key::Char('+')), [Effect::SetInterval(Duration::from_secs(1))]);
    assert_eq!(world.key(Key::Char('-')), [Effect::SetInterval(Duration::from_secs(2))]);
    for _ in 0..20 {
        world.key(Key::Char('+'));
    }
    assert_eq!(world.state.interval, Duration::from_millis(100));
    assert_eq!(world.key(Key::Char('+')), []);
    assert_eq!(world.key(Key::Char('R')), [Effect::Refresh(None)]);
}

#[test]
fn the_statement_is_copied_shown_plain_and_never_made_up() {
    let mut world = World::example(SIZE);
    assert_eq!(world.key(Key::Char('y')), [Effect::Copy(SQL.to_owned())]);
    world.key(Key::Enter);
    assert_eq!(world.key(Key::Char('y')), [Effect::Copy(SQL.to_owned())]);
    assert_eq!(world.key(Key::Char('v')), [Effect::ShowPlain(SQL.to_owned())]);
    assert_eq!(world.event(Event::Resize(SIZE.0, SIZE.1)), [], "the page is the terminal's own");
    // Any key comes back, and does nothing else.
    assert_eq!(world.key(Key::Char('q')), [Effect::LeavePlain]);
    assert_eq!(world.event(Event::Resize(SIZE.0, SIZE.1)), [Effect::Redraw]);
    assert!(matches!(world.state.overlay, Some(Overlay::Detail(_))), "what was open before is open again");
    world.key(Key::Esc);
    world.key(Key::Down);
    assert_eq!(world.key(Key::Char('y')), []);
    assert!(world.state.notice.as_ref().is_some_and(|notice| notice.text.contains("no statement")));
    // The lock of a finding has its statement too.
    world.keys("2");
    world.key(Key::Home);
    assert_eq!(world.key(Key::Char('y')), [Effect::Copy(SQL.to_owned())]);
}

#[test]
fn a_report_is_saved_under_a_name_that_stays_in_the_folder() {
    let mut world = World::of(&["../../etc/päss wd"], SIZE);
    assert_eq!(world.key(Key::Char('s')), []);
    world.report(0, example());
    let effects = world.key(Key::Char('s'));
    let [Effect::Save { stem, text }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(stem, "pglockwatch-..-..-etc-p-ss-wd-20261129T140307Z");
    assert!(text.starts_with("# pglockwatch runbook") && text.contains(SQL));
    world.event(Event::Saved(Ok("/tmp/x.md".to_owned())));
    assert!(world.screen().contains("saved /tmp/x.md"));
}

#[test]
fn a_detail_stays_when_its_row_goes_and_says_so() {
    let mut world = World::example(SIZE);
    world.key(Key::Enter);
    assert!(world.screen().contains("carried-lock"));
    world.report(0, freed());
    let screen = world.screen();
    assert!(screen.contains("This was gone at 14:03:09 UTC") && screen.contains("carried-lock"), "{screen}");
    world.key(Key::Esc);
    assert!(world.state.overlay.is_none());
}

#[test]
fn polls_leave_open_what_is_open() {
    let mut world = World::of(&["orders", "billing"], SIZE);
    world.report(0, example());
    for open in ["?", "t", "v"] {
        world.keys(open);
        let before = std::mem::discriminant(world.state.overlay.as_ref().unwrap());
        world.report(0, example()).report(1, freed()).fail(1, 3).pass(9);
        assert_eq!(world.state.overlay.as_ref().map(std::mem::discriminant), Some(before), "{open}");
        world.key(Key::Esc);
        assert!(world.state.overlay.is_none());
    }
}

#[test]
fn neighbours_are_looked_at_from_within_a_detail() {
    let mut world = World::example(SIZE);
    world.key(Key::Enter);
    world.key(Key::Right);
    assert!(world.screen().contains("idle-holder"));
    world.key(Key::Left);
    assert!(world.screen().contains("carried-lock"));
    world.key(Key::Left);
    assert!(matches!(world.state.overlay, Some(Overlay::Detail(_))));
}

#[test]
fn a_text_scrolls_to_its_end_and_no_further() {
    let mut world = World::example((60, 15));
    world.keys("?");
    world.key(Key::End);
    let Some(Overlay::Help { scroll }) = world.state.overlay else { panic!("no help") };
    world.key(Key::PageDown);
    assert!(matches!(world.state.overlay, Some(Overlay::Help { scroll: after }) if after == scroll));
    world.key(Key::Up);
    assert!(matches!(world.state.overlay, Some(Overlay::Help { scroll: after }) if after + 1 == scroll));
    world.event(Event::Resize(200, 80));
    world.key(Key::Up);
    assert!(matches!(world.state.overlay, Some(Overlay::Help { scroll: 0 })));
}

#[test]
fn history_tells_what_was_freed_changed_hands_and_ended() {
    let mut world = World::example((200, 40));
    world.keys("6");
    world.report(0, freed());
    let screen = world.screen();
    assert!(screen.contains("ended") && screen.contains("carried-lock"), "{screen}");
    assert!(
        screen.contains("new holder") && screen.contains("from pid 4711 api@10.0.0.7, who held it >= 3m12s"),
        "{screen}"
    );
    let mut report = freed();
    report.locks.clear();
    report.waits.clear();
    report.server.as_mut().unwrap().restarted = true;
    world.report(0, report);
    let screen = world.screen();
    assert!(screen.contains("restarted"), "{screen}");
    assert!(screen.contains("freed") && screen.contains("was held >= 3m12s"), "{screen}");
}

#[test]
fn a_hoard_is_one_entry_of_the_history() {
    let mut world = World::example(SIZE);
    let before = world.state.history.entries().len();
    let mut report = example();
    let holder = std::sync::Arc::new(fixture::holder(1, "hoarder"));
    for number in 0..1_000 {
        let mut lock = fixture::lock(fixture::key(number, None), fixture::holder(1, ""), &[]);
        lock.holder = std::sync::Arc::clone(&holder);
        report.locks.push(lock);
    }
    world.report(0, report);
    assert_eq!(world.state.history.entries().len(), before + 1);
    assert_eq!(world.state.history.entries()[0].subject, "1000 locks");
}

#[test]
fn silence_is_noticed_with_and_without_an_error_and_told_once() {
    let mut world = World::example(SIZE);
    world.pass(5);
    assert!(!world.screen().contains("no answer"));
    world.pass(7);
    let screen = world.screen();
    assert!(screen.contains("no answer for 12 s: the rows below are from 14:03:07 UTC"), "{screen}");
    world.fail(0, 4);
    let screen = world.screen();
    assert!(screen.contains("next try in 4 s") && screen.contains("connection refused"), "{screen}");
    world.pass(30).fail(0, 8);
    world.report(0, example());
    assert!(!world.screen().contains("no answer"));
    world.keys("6");
    let words: Vec<&str> = world.state.history.entries().iter().map(|entry| entry.what.word()).collect();
    assert_eq!(words, ["answers", "no answer", "opened"]);
}

#[test]
fn a_server_that_never_answered_says_why_and_what_to_do() {
    let mut world = World::new(SIZE);
    assert!(world.screen().contains("connecting"));
    world.fail(0, 3);
    let screen = world.screen();
    assert!(screen.contains("connection refused") && screen.contains("Is PostgreSQL running there"), "{screen}");
}

#[test]
fn several_targets_have_a_column_and_a_picker() {
    let mut world = World::of(&["orders", "billing"], (100, 24));
    world.report(0, example());
    let mut other = example();
    other.target = "billing".to_owned();
    world.report(1, other);
    assert_eq!(world.state.rows.len(), 4);
    assert!(world.screen().contains("TARGET"));
    world.keys("tjj");
    assert!(world.screen().contains("▸ billing"), "{}", world.screen());
    world.key(Key::Enter);
    assert_eq!((world.state.chosen, world.state.rows.len()), (Some(1), 2));
    assert!(!world.screen().contains("TARGET"));
    assert_eq!(world.key(Key::Char('R')), [Effect::Refresh(Some(1))]);
    world.keys("t");
    world.key(Key::Home);
    world.key(Key::Enter);
    assert_eq!(world.state.rows.len(), 4);
    world.fail(0, 9);
    assert!(world.screen().contains("orders: no answer for"), "{}", world.screen());
}

#[test]
fn the_mouse_selects_opens_scrolls_sorts_and_switches() {
    let mut world = World::example(SIZE);
    let areas = world.state.areas();
    let click = |column, row| Event::Mouse(Mouse::Click { column, row });
    world.event(click(20, areas.body + 1));
    assert_eq!(world.state.list().position, 1);
    world.event(click(20, areas.body + 1));
    assert!(matches!(world.state.overlay, Some(Overlay::Detail(_))));
    world.event(Event::Mouse(Mouse::WheelDown));
    world.key(Key::Esc);
    world.event(click(15, areas.tabs.0));
    assert_eq!(world.state.view, View::Locks);
    world.event(click(3, world.state.areas().head));
    assert_eq!(world.state.list().sort, Some(Column::Key));
    world.event(click(3, world.state.areas().head));
    assert!(world.state.list().reversed);
    world.event(Event::Mouse(Mouse::WheelDown));
    assert_eq!(world.state.list().position, 3);
    // Below the last row and on the header nothing happens.
    world.event(click(3, 20));
    world.event(click(3, 0));
    world.event(click(500, 500));
    assert_eq!(world.state.list().position, 3);
}

#[test]
fn no_key_on_no_screen_does_harm() {
    let keys: Vec<Key> = (' '..='~')
        .map(Key::Char)
        .chain("abdefghjklnoprtuvwxz".chars().map(Key::Ctrl))
        .chain([
            Key::Enter,
            Key::Esc,
            Key::Tab,
            Key::BackTab,
            Key::Backspace,
            Key::Up,
            Key::Down,
            Key::Left,
            Key::Right,
            Key::PageUp,
            Key::PageDown,
            Key::Home,
            Key::End,
        ])
        .collect();
    for empty in [true, false] {
        for size in [(1, 1), (60, 15)] {
            let mut world = if empty { World::new(size) } else { World::example(size) };
            for view in "123456".chars() {
                for (number, key) in keys.iter().enumerate() {
                    world.key(Key::Char(view));
                    if number % 3 == 0 {
                        world.key(Key::Enter);
                    }
                    world.key(*key);
                    let _ = world.screen();
                    world.key(Key::Esc);
                    world.key(Key::Esc);
                }
            }
        }
    }
}

#[test]
fn leases_are_rows_of_their_own_the_overdue_ones_first() {
    let mut world = World::new((120, 40));
    world.report(0, with_leases());
    world.keys("2");
    let names = |world: &World| -> Vec<String> {
        let leases = world.state.rows.iter().filter_map(|row| world.state.lease(row));
        leases.map(|(table, row)| row.map_or(table.lease.clone(), |row| row.name.clone().unwrap())).collect()
    };
    assert_eq!(names(&world), ["nightly", "jobs", "hourly", "registry"]);
    // What is wrong stands before what is not, lease or lock.
    let first_harmless =
        world.state.rows.iter().position(|row| world.state.lock(row).is_some_and(|lock| lock.rules.is_empty()));
    let late = world.state.rows.iter().position(|row| world.state.lease(row).is_some()).unwrap();
    assert!(late < first_harmless.unwrap());
    // A lease has no statement; what lets the table be read is one.
    let place = |world: &World, name: &str| names(world).iter().position(|known| known == name).unwrap();
    world.keys("/jobs");
    world.key(Key::Enter);
    assert_eq!((names(&world), place(&world, "jobs")), (vec!["jobs".to_owned()], 0));
    assert_eq!(world.key(Key::Char('y')), [Effect::Copy("GRANT SELECT ON ops.jobs TO mon;".to_owned())]);
    world.key(Key::Esc);
    world.keys("/hourly");
    world.key(Key::Enter);
    assert!(world.key(Key::Char('y')).is_empty());
    // Rows that nobody can tell apart are all there.
    let mut report = example();
    report.leases = vec![lease_table("work", vec![lease("a", None, -95), lease("a", None, -95)])];
    let mut world = World::new((120, 40));
    world.report(0, report);
    world.keys("2G");
    let ids: std::collections::HashSet<u64> = world.state.rows.iter().map(|row| row.id).collect();
    assert_eq!((ids.len(), names(&world).len()), (world.state.rows.len(), 2));
}
