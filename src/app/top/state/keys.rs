//! What each key does, by what is on the screen.

use std::time::Duration;

use super::{Overlay, State, View};
use crate::app::top::event::{Effect, Key};

/// The intervals that `+` and `-` go through.
const INTERVALS: [Duration; 10] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// A longer filter finds nothing.
const LONGEST_FILTER: usize = 200;

pub(super) fn press(state: &mut State, key: Key) -> Vec<Effect> {
    if let Some(Overlay::Plain(below)) = &mut state.overlay {
        state.overlay = below.take().map(|below| *below);
        state.rebuild();
        let after = match key {
            Key::Ctrl('c') => return vec![Effect::Quit],
            Key::Ctrl('z') => Some(Effect::Suspend),
            _ => None,
        };
        return std::iter::once(Effect::LeavePlain).chain(after).collect();
    }
    match key {
        Key::Ctrl('c') => return vec![Effect::Quit],
        Key::Ctrl('z') => return vec![Effect::Suspend],
        Key::Ctrl('l') => return vec![Effect::Redraw],
        _ => {}
    }
    if state.typing {
        typed(state, key);
        return Vec::new();
    }
    state.notice = None;
    if let Some(effects) = anywhere(state, key) {
        return effects;
    }
    match state.overlay {
        None => in_list(state, key),
        Some(Overlay::Picker { position }) => in_picker(state, key, position),
        Some(Overlay::Detail(_)) => in_detail(state, key),
        Some(Overlay::Help { .. } | Overlay::Plain(_)) => in_text(state, key),
    }
    Vec::new()
}

/// Pasted text belongs into the filter, and nowhere else.
pub(super) fn paste(state: &mut State, text: &str) {
    if state.typing {
        let line = text.lines().next().unwrap_or_default();
        state.filter.extend(line.chars().filter(|c| !c.is_control()).take(LONGEST_FILTER));
        state.rebuild();
    }
}

fn typed(state: &mut State, key: Key) {
    match key {
        Key::Enter | Key::Tab => state.typing = false,
        Key::Esc => {
            state.typing = false;
            state.filter.clear();
        }
        Key::Backspace | Key::Ctrl('h') if state.filter.is_empty() => state.typing = false,
        Key::Backspace | Key::Ctrl('h') => drop(state.filter.pop()),
        Key::Ctrl('u') => state.filter.clear(),
        Key::Ctrl('w') => {
            let kept = state.filter.trim_end().rfind(' ').map_or(0, |blank| blank + 1);
            state.filter.truncate(kept);
        }
        Key::Up => return state.step(-1),
        Key::Down => return state.step(1),
        Key::Char(c) if state.filter.chars().count() < LONGEST_FILTER => state.filter.push(c),
        _ => return,
    }
    state.rebuild();
}

/// Keys that mean the same on every screen.
fn anywhere(state: &mut State, key: Key) -> Option<Vec<Effect>> {
    let effects = match key {
        Key::Char('q') => vec![Effect::Quit],
        Key::Char('R') => {
            state.say("asking now");
            vec![Effect::Refresh(state.chosen)]
        }
        Key::Char('+' | '=') => change_interval(state, true),
        Key::Char('-' | '_') => change_interval(state, false),
        Key::Char(' ') => {
            state.toggle_pause();
            Vec::new()
        }
        Key::Char('y') => copy(state),
        Key::Char('v') => show_plain(state),
        Key::Char('s') => save(state),
        Key::Char('?') => {
            state.overlay = match state.overlay {
                Some(Overlay::Help { .. }) => None,
                _ => Some(Overlay::Help { scroll: 0 }),
            };
            Vec::new()
        }
        Key::Char('t') => {
            if state.targets.len() > 1 {
                state.overlay = Some(Overlay::Picker { position: state.chosen.map_or(0, |chosen| chosen + 1) });
            } else {
                state.say("there is one target only");
            }
            Vec::new()
        }
        Key::Char(digit @ '1'..='6') => {
            let place = digit.to_digit(10).map_or(0, |digit| digit as usize - 1);
            state.open(View::ALL[place]);
            Vec::new()
        }
        Key::Tab => {
            state.open(neighbour(state.view, 1));
            Vec::new()
        }
        Key::BackTab => {
            state.open(neighbour(state.view, View::ALL.len() - 1));
            Vec::new()
        }
        _ => return None,
    };
    Some(effects)
}

fn neighbour(view: View, by: usize) -> View {
    View::ALL[(view.place() + by) % View::ALL.len()]
}

fn change_interval(state: &mut State, faster: bool) -> Vec<Effect> {
    let now = state.interval;
    let next = if faster {
        INTERVALS.iter().rev().find(|interval| **interval < now)
    } else {
        INTERVALS.iter().find(|interval| **interval > now)
    };
    let Some(&next) = next else {
        state.say(if faster { "this is as fast as it goes" } else { "this is as slow as it goes" });
        return Vec::new();
    };
    state.interval = next;
    for target in &mut state.targets {
        target.interval = next;
        target.stretched_to = None;
    }
    state.say(format!("asking every {}", humantime::format_duration(next)));
    vec![Effect::SetInterval(next)]
}

fn copy(state: &mut State) -> Vec<Effect> {
    let Some(sql) = statement(state) else { return Vec::new() };
    state.say("copied, if your terminal allows it (OSC 52); v shows it as plain text for the mouse");
    vec![Effect::Copy(sql)]
}

fn show_plain(state: &mut State) -> Vec<Effect> {
    let Some(sql) = statement(state) else { return Vec::new() };
    state.overlay = Some(Overlay::Plain(state.overlay.take().map(Box::new)));
    vec![Effect::ShowPlain(sql)]
}

/// The statement for what is open or selected. Where there is none, that is said.
fn statement(state: &mut State) -> Option<String> {
    let doc = match &state.overlay {
        Some(Overlay::Detail(detail)) => Some(detail.doc.clone()),
        _ => state.doc_of_selected(),
    };
    match doc.map(|doc| doc.sql) {
        Some(Some(sql)) => return Some(sql),
        Some(None) => state.say("there is no statement to run for this one: Enter shows what is known"),
        None => state.say("nothing is selected"),
    }
    None
}

fn save(state: &mut State) -> Vec<Effect> {
    let target = match &state.overlay {
        Some(Overlay::Detail(detail)) => Some(detail.doc.target),
        _ => state.selected().map(|row| row.target).or(state.chosen),
    };
    let place = target.unwrap_or(0);
    let Some((name, report)) = state.targets.get(place).and_then(|target| Some((&target.name, target.report()?)))
    else {
        state.say("there is nothing to save yet");
        return Vec::new();
    };
    let time = report.sampled_at.map(|at| at.format("%Y%m%dT%H%M%SZ").to_string()).unwrap_or_default();
    let text = crate::render::runbook_markdown::render(
        std::slice::from_ref(report),
        &crate::render::runbook::Selection::default(),
    );
    vec![Effect::Save { stem: format!("pglockwatch-{}-{time}", file_name(name)), text }]
}

/// A target's name as part of a file's name: it cannot lead into another folder.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    name.chars().take(80).map(plain).collect()
}

fn in_list(state: &mut State, key: Key) {
    let page = isize::try_from(state.areas().rows).unwrap_or(1).max(2) - 1;
    match key {
        Key::Up | Key::Char('k') => state.step(-1),
        Key::Down | Key::Char('j') => state.step(1),
        Key::PageUp | Key::Ctrl('b') => state.step(-page),
        Key::PageDown | Key::Ctrl('f') => state.step(page),
        Key::Ctrl('u') => state.step(-page / 2),
        Key::Ctrl('d') => state.step(page / 2),
        Key::Home | Key::Char('g') => state.select(0),
        Key::End | Key::Char('G') => state.select(usize::MAX),
        Key::Left | Key::Char('h') => state.open(neighbour(state.view, View::ALL.len() - 1)),
        Key::Right | Key::Char('l') => state.open(neighbour(state.view, 1)),
        Key::Enter => state.open_detail(),
        Key::Char('/') => state.typing = true,
        Key::Char('<' | ',') => state.sort_by_neighbour(false),
        Key::Char('>' | '.') => state.sort_by_neighbour(true),
        Key::Char('r') => state.reverse(),
        Key::Char('e') => {
            state.show_expected = !state.show_expected;
            state.say(if state.show_expected { "expected holders are shown" } else { "expected holders are hidden" });
            state.rebuild();
        }
        Key::Esc => {
            state.filter.clear();
            state.rebuild();
        }
        _ => {}
    }
}

fn in_picker(state: &mut State, key: Key, position: usize) {
    let last = state.targets.len();
    let position = match key {
        Key::Up | Key::Char('k') => position.saturating_sub(1),
        Key::Down | Key::Char('j') => (position + 1).min(last),
        Key::Home | Key::PageUp | Key::Char('g') => 0,
        Key::End | Key::PageDown | Key::Char('G') => last,
        Key::Enter => {
            state.chosen = position.checked_sub(1);
            state.overlay = None;
            return state.rebuild();
        }
        Key::Esc | Key::Left | Key::Char('h') => {
            state.overlay = None;
            return;
        }
        _ => return,
    };
    state.overlay = Some(Overlay::Picker { position });
}

fn in_detail(state: &mut State, key: Key) {
    match key {
        Key::Left | Key::Char('h' | 'p') => state.detail_of_neighbour(-1),
        Key::Right | Key::Char('l' | 'n') => state.detail_of_neighbour(1),
        Key::Char('/') => {
            state.overlay = None;
            state.typing = true;
        }
        key => in_text(state, key),
    }
}

/// A text that can be scrolled and left.
fn in_text(state: &mut State, key: Key) {
    let page = isize::try_from(state.areas().overlay_rows()).unwrap_or(1).max(2) - 1;
    match key {
        Key::Up | Key::Char('k') => state.scroll_overlay(-1),
        Key::Down | Key::Char('j') => state.scroll_overlay(1),
        Key::PageUp | Key::Ctrl('b') => state.scroll_overlay(-page),
        Key::PageDown | Key::Ctrl('f') => state.scroll_overlay(page),
        Key::Ctrl('u') => state.scroll_overlay(-page / 2),
        Key::Ctrl('d') => state.scroll_overlay(page / 2),
        Key::Home | Key::Char('g') => state.scroll_overlay(isize::MIN),
        Key::End | Key::Char('G') => state.scroll_overlay(isize::MAX),
        Key::Esc | Key::Enter | Key::Left | Key::Backspace => state.overlay = None,
        _ => {}
    }
}

impl State {
    /// Sorts the other way round.
    pub(super) fn reverse(&mut self) {
        if self.view == View::Waits {
            return self.say("the tree keeps its order: the longest wait first");
        }
        let list = self.list_mut();
        list.reversed = !list.reversed;
        self.rebuild();
    }
}
