//! Leases beside the locks: a row for each that the report lists, and for each table that could not be read.

use std::collections::HashMap;

use super::State;
use super::detail::Doc;
use super::documents::{doc, list, with_finding};
use super::rows::{Item, Row, id};
use crate::analysis::report::{LeaseReport, LeaseTableReport, Severity, TargetReport};
use crate::render::leases::{expires, title};
use crate::render::style;

/// Each row with the severity of the finding about it, where there is one that counts.
pub(super) fn rows(target: usize, report: &TargetReport) -> Vec<(Option<Severity>, Row)> {
    let mut rows = Vec::new();
    for (place, table) in report.leases.iter().enumerate() {
        let mut push = |row: Option<&LeaseReport>, number: Option<usize>, same: usize| {
            let names = row.map(|row| (&row.name, &row.holder));
            let id = id(("lease", target, &table.lease, names, same));
            let finding = table.finding(row, &report.findings).filter(|finding| finding.silenced.is_none());
            let severity = finding.map(|finding| finding.severity);
            rows.push((severity, Row { id, target, item: Item::Lease(place, number) }));
        };
        if table.problem.is_some() {
            push(None, None, 0);
        }
        // Rows that nobody can tell apart keep their order.
        let mut seen: HashMap<(&Option<String>, &Option<String>), usize> = HashMap::new();
        for (number, row) in table.leases.iter().enumerate() {
            let same = seen.entry((&row.name, &row.holder)).or_default();
            push(Some(row), Some(number), *same);
            *same += 1;
        }
    }
    rows
}

impl State {
    /// The lease of a row and its table; the table alone where it could not be read.
    pub fn lease(&self, row: &Row) -> Option<(&LeaseTableReport, Option<&LeaseReport>)> {
        let Item::Lease(table, number) = row.item else { return None };
        let table = self.report(row.target)?.leases.get(table)?;
        Some((table, number.and_then(|number| table.leases.get(number))))
    }
}

/// What there is to read about a lease, or about a table that could not be read.
pub(super) fn document(report: &TargetReport, table: &LeaseTableReport, row: Option<&LeaseReport>) -> Doc {
    let mut doc = doc(report, if row.is_some() { "lease" } else { "lease table" }, table.database.as_deref());
    doc.head = vec![match row {
        Some(row) => title(table, row),
        None => format!("{} ({})", table.table, table.lease),
    }];
    let at = |time: Option<crate::model::Time>| {
        time.map(|time| format!(", {} UTC", time.format("%Y-%m-%d %H:%M:%S"))).unwrap_or_default()
    };
    let mut all = format!("{} ({}): {} in it", table.table, table.lease, style::count(of(table.total), "lease"));
    if table.overdue > 0 {
        all = format!("{all}, {} overdue", table.overdue);
    }
    let facts = |row: &LeaseReport| {
        let held = row.held_for.map(|held| format!("for {}{}", style::duration(held), at(row.taken)));
        [
            list("Holder", vec![row.holder.clone().unwrap_or_else(|| "nobody".to_owned())]),
            list("Held", held.into_iter().collect()),
            list("Expires", vec![format!("{}{}", expires(row), at(row.expires))]),
            list("Table", vec![all.clone()]),
        ]
    };
    doc.sections = match row {
        Some(row) => facts(row).into_iter().flatten().collect(),
        None => list("Table", table.problem.clone().into_iter().collect()).into_iter().collect(),
    };
    with_finding(report, doc, table.finding(row, &report.findings))
}

fn of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
