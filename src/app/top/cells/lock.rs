//! Cells of a lock.

use super::{Cell, Tone, held_text, holder_forms, key_forms, longest, state_text, waiting};
use crate::analysis::report::{LockReport, TargetReport};
use crate::app::top::columns::Column;
use crate::render::style::safe;
use crate::render::top::worst_finding;

pub(super) fn cell(report: &TargetReport, lock: &LockReport, column: Column) -> Cell {
    match column {
        Column::Key => Cell::of_forms(key_forms(&lock.key)),
        Column::Database => lock.key.database.as_deref().map_or_else(Cell::none, |name| Cell::plain(safe(name))),
        Column::Holder => Cell::of_forms(holder_forms(&lock.holder)),
        Column::Held => Cell::plain(held_text(lock.past.held)),
        Column::State => Cell::plain(state_text(&lock.holder)),
        Column::Mode => Cell::plain(lock.mode.name().trim_end_matches("Lock")),
        Column::Scope => Cell::plain(lock.past.scope.name()),
        Column::Waiting => waiting(lock.waiters.len()),
        Column::Longest => {
            longest(lock.waiters.iter().map(|waiter| waiter.waited).max_by_key(|waited| waited.duration))
        }
        Column::Rule => rule(report, lock),
        _ => Cell::default(),
    }
}

fn rule(report: &TargetReport, lock: &LockReport) -> Cell {
    let expected = || if lock.hold_expected { Cell::new("expected", Tone::Faint) } else { Cell::none() };
    super::rule(worst_finding(report, lock)).unwrap_or_else(expected)
}
