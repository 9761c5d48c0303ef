//! What the mouse does: the wheel moves, a click selects, a click on what is selected opens it.

use super::{Overlay, State, View, keys};
use crate::app::top::columns;
use crate::app::top::event::{Key, Mouse};

/// So many rows per turn of the wheel.
const WHEEL: isize = 3;

pub(super) fn use_mouse(state: &mut State, mouse: Mouse) {
    match mouse {
        Mouse::WheelUp => wheel(state, -WHEEL),
        Mouse::WheelDown => wheel(state, WHEEL),
        Mouse::Click { column, row } => click(state, column, row),
    }
}

fn wheel(state: &mut State, by: isize) {
    match &state.overlay {
        None => state.step(by),
        Some(_) => state.scroll_overlay(by),
    }
}

fn click(state: &mut State, column: u16, row: u16) {
    let areas = state.areas();
    if let Some(view) = areas.tab_at(column, row) {
        state.typing = false;
        return state.open(view);
    }
    match &mut state.overlay {
        None => {}
        Some(Overlay::Picker { position }) => {
            if let Some(line) = usize::from(row).checked_sub(usize::from(areas.title) + 1)
                && line <= state.targets.len()
            {
                *position = line;
                drop(keys::press(state, Key::Enter));
            }
            return;
        }
        Some(_) => return,
    }
    if row == areas.head && state.view != View::Waits {
        let placed = columns::placed(state.view, state.size.0, state.several());
        let here = placed.iter().find(|placed| (placed.x..placed.x + placed.width).contains(&column));
        if let Some(here) = here.map(|placed| placed.column) {
            if state.list().sort == Some(here) {
                state.reverse();
            } else {
                state.sort_by(Some(here));
            }
        }
        return;
    }
    let Some(line) = areas.row_at(row) else { return };
    let position = state.list().offset + line;
    if position >= state.rows.len() {
        return;
    }
    if position == state.list().position && !state.typing {
        state.open_detail();
    } else {
        state.select(position);
    }
}
