//! Cells of a lease, in the columns of a lock.

use super::{Cell, Tone};
use crate::analysis::report::{LeaseReport, LeaseTableReport, TargetReport};
use crate::app::top::columns::Column;
use crate::render::leases::{expires, title};
use crate::render::style::{self, safe};

pub(super) fn cell(
    report: &TargetReport,
    table: &LeaseTableReport,
    lease: Option<&LeaseReport>,
    column: Column,
) -> Cell {
    match (column, lease) {
        (Column::Key, Some(lease)) => {
            let name = lease.name.as_deref().unwrap_or_default();
            Cell::of_forms(vec![safe(&title(table, lease)).into_owned(), format!("\"{}\"", safe(name))])
        }
        (Column::Key, None) => Cell::plain(format!("{} ({})", safe(&table.table), safe(&table.lease))),
        (Column::Database, _) => table.database.as_deref().map_or_else(Cell::none, |name| Cell::plain(safe(name))),
        (Column::Holder, Some(lease)) => match &lease.holder {
            Some(holder) => Cell::plain(safe(holder)),
            None => Cell::new("nobody", Tone::Faint),
        },
        (Column::Held, Some(lease)) => {
            lease.held_for.map_or_else(Cell::none, |held| Cell::plain(style::duration(held)))
        }
        (Column::State, Some(lease)) => {
            let text = expires(lease);
            let shorter = text.trim_end_matches(" ago").to_owned();
            Cell::of_forms(vec![text, shorter])
        }
        (Column::State, None) => Cell::plain("not read"),
        (Column::Scope, _) => Cell::plain("lease"),
        (Column::Rule, _) => super::rule(table.finding(lease, &report.findings)).unwrap_or_else(Cell::none),
        _ => Cell::none(),
    }
}
