//! Leases as the plain tables show them, beside the locks.

use comfy_table::{Cell, ContentArrangement, Table};

use super::style::{self, Screen};
use crate::analysis::report::{LeaseReport, LeaseTableReport, TargetReport};

/// `3 leases, 1 overdue`; nothing where no lease table is named.
pub fn totals(reports: &[&TargetReport]) -> Option<String> {
    let tables = || reports.iter().flat_map(|report| &report.leases);
    tables().next()?;
    let sum = |number: fn(&LeaseTableReport) -> u64| tables().map(number).sum::<u64>();
    let total = style::count(usize::try_from(sum(|table| table.total)).unwrap_or(usize::MAX), "lease");
    Some(match sum(|table| table.overdue) {
        0 => total,
        overdue => format!("{total}, {overdue} overdue"),
    })
}

/// A row per lease, those that expire first before the others, at most so many lines.
pub(super) fn table(report: &TargetReport, most: usize, screen: Screen) -> Vec<String> {
    let rows: Vec<[String; 5]> =
        report.leases.iter().flat_map(|table| table.leases.iter().map(move |lease| row(table, lease))).collect();
    if rows.is_empty() || most < 3 {
        return Vec::new();
    }
    let header = ["LEASE", "HOLDER", "HELD", "EXPIRES", "FINDING"].map(str::to_owned);
    // The header and the line that says how many are missing need rows themselves.
    let shown = if rows.len() > most - 1 { most - 2 } else { rows.len() };
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    let room = screen.width.map_or(usize::MAX, |width| (width / 3).max(12));
    let cut = |cells: [String; 5]| cells.map(|cell| style::cut(&cell, room).into_owned()).map(Cell::new);
    table.set_header(cut(header));
    table.add_rows(rows.iter().take(shown).cloned().map(cut));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    if shown < rows.len() {
        lines.push(format!("... and {}", style::count(rows.len() - shown, "more lease")));
    }
    lines
        .iter()
        .map(|line| screen.width.map_or_else(|| line.clone(), |width| style::cut(line, width).into_owned()))
        .collect()
}

/// `"nightly" (background work)`. Raw: its texts are a stranger's.
pub fn title(table: &LeaseTableReport, lease: &LeaseReport) -> String {
    format!("\"{}\" ({})", lease.name.as_deref().unwrap_or_default(), table.lease)
}

/// `expires in 3m10s`, `expired 10s ago`, `never expires`.
pub fn expires(lease: &LeaseReport) -> String {
    match (lease.expires, lease.expired_for) {
        (None, _) => "never expires".to_owned(),
        (Some(_), None) => format!("expires {}", when(lease)),
        (Some(_), Some(_)) => format!("expired {}", when(lease)),
    }
}

fn when(lease: &LeaseReport) -> String {
    match (lease.expires_in, lease.expired_for) {
        (Some(left), _) => format!("in {}", style::duration(left)),
        (None, Some(past)) => format!("{} ago", style::duration(past)),
        (None, None) => "never".to_owned(),
    }
}

fn row(table: &LeaseTableReport, lease: &LeaseReport) -> [String; 5] {
    let database = table.database.as_deref().unwrap_or_default();
    [
        format!("{} in {}", style::safe(&title(table, lease)), style::safe(database)),
        style::safe(lease.holder.as_deref().unwrap_or("nobody")).into_owned(),
        lease.held_for.map_or_else(|| "-".to_owned(), style::duration),
        when(lease),
        if lease.overdue { "lease-overdue".to_owned() } else { String::new() },
    ]
}
