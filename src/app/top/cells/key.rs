//! Cells of a key.

use super::{Cell, Tone, held_text, key_forms, longest, waiting};
use crate::app::top::columns::Column;
use crate::app::top::state::{KeyRow, State};
use crate::render::style::{self, safe};

pub(super) fn cell(state: &State, row: &KeyRow, column: Column) -> Cell {
    let declared = row.declared.and_then(|place| state.targets[row.target].declared.get(place));
    let cell = match column {
        Column::Key => match (&row.key, declared) {
            (Some(key), _) => Cell::of_forms(key_forms(key)),
            (None, Some(declared)) => Cell::of_forms(vec![
                format!("{} {}", safe(&declared.keys), safe(&declared.name)),
                safe(&declared.name).into_owned(),
            ]),
            (None, None) => Cell::default(),
        },
        Column::Database => {
            let database = row.key.as_ref().and_then(|key| key.database.as_deref());
            database.map_or_else(Cell::none, |name| Cell::plain(safe(name)))
        }
        Column::Kind => {
            let named = row.key.as_ref().and_then(|key| key.names.first());
            match named.map(|name| name.kind.name()).or(declared.map(|declared| declared.kind)) {
                Some(kind) => Cell::plain(kind),
                None => Cell::none(),
            }
        }
        Column::Holders if row.locks.is_empty() => Cell::new("free", Tone::Faint),
        Column::Holders => Cell::plain(row.holders.to_string()),
        Column::Held => row.held.map_or_else(Cell::none, |held| Cell::plain(held_text(held))),
        Column::LongestHold => {
            row.longest.map_or_else(Cell::none, |longest| Cell::plain(format!(">={}", style::duration(longest))))
        }
        Column::Waiting => waiting(row.waiting),
        Column::Longest => longest(row.longest_wait),
        _ => Cell::default(),
    };
    if row.locks.is_empty() { Cell { tone: Tone::Faint, ..cell } } else { cell }
}
