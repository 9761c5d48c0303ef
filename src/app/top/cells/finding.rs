//! Cells of a finding.

use super::{Cell, Tone, holder_forms, key_forms, longest, short_key, state_text, waiting};
use crate::analysis::report::{Finding, TargetReport};
use crate::app::top::columns::Column;
use crate::app::top::state::holder_of;
use crate::render::style::{self, safe};

pub(super) fn cell(report: &TargetReport, finding: &Finding, column: Column) -> Cell {
    let cell = match column {
        Column::Severity => return severity(finding),
        Column::Rule => Cell::new(finding.rule, Tone::Strong),
        Column::Key => keys(finding),
        Column::Holder => subject(report, finding),
        Column::Held => finding.held.map_or_else(Cell::none, |held| Cell::plain(super::held_text(held))),
        Column::State => holder_of(report, finding).map_or_else(Cell::none, |holder| Cell::plain(state_text(holder))),
        Column::Waiting => waiting(finding.waiters.len()),
        Column::Longest => longest(finding.longest_wait),
        _ => Cell::default(),
    };
    if finding.silenced.is_some() { Cell { tone: Tone::Faint, ..cell } } else { cell }
}

/// The word; its first four letters are enough where there is no room.
fn severity(finding: &Finding) -> Cell {
    if finding.silenced.is_some() {
        return Cell::new("SILENCED", Tone::Faint);
    }
    Cell::new(finding.severity.name().to_uppercase(), Tone::Badge(finding.severity))
}

fn keys(finding: &Finding) -> Cell {
    if let Some(lease) = &finding.lease {
        let table = format!("({})", safe(&lease.lease));
        return match &lease.row {
            Some((name, _)) => {
                Cell::of_forms(vec![format!("\"{}\" {table}", safe(name)), format!("\"{}\"", safe(name))])
            }
            None => Cell::plain(format!("leases {table}")),
        };
    }
    let named = |place: usize| match finding.key_reports.get(place) {
        Some(key) => short_key(key),
        None => finding.keys().nth(place).map(|key| safe(key).into_owned()).unwrap_or_default(),
    };
    match (finding.key_count, finding.key_reports.get(0)) {
        (0, _) => Cell::none(),
        (1, Some(key)) => Cell::of_forms(key_forms(key)),
        (1, None) => Cell::plain(named(0)),
        (count, _) => {
            let texts: Vec<String> = (0..count.min(3)).map(named).collect();
            let more = if count > texts.len() { ", ..." } else { "" };
            let forms = [
                format!("{count} keys: {}{more}", texts.join(", ")),
                format!("{count} keys: {}, ...", texts[0]),
                format!("{count} keys"),
            ];
            Cell::of_forms(forms.to_vec())
        }
    }
}

fn subject(report: &TargetReport, finding: &Finding) -> Cell {
    if let Some(holder) = holder_of(report, finding) {
        return Cell::of_forms(holder_forms(holder));
    }
    if let Some((_, holder)) = finding.lease.as_ref().and_then(|lease| lease.row.as_ref()) {
        return if holder.is_empty() { Cell::new("nobody", Tone::Faint) } else { Cell::plain(safe(holder)) };
    }
    match (finding.pids.as_slice(), &finding.gid) {
        ([], Some(gid)) => Cell::plain(format!("prepared {}", safe(gid))),
        ([], None) => Cell::none(),
        ([pid], _) => Cell::plain(pid.to_string()),
        (pids, _) => {
            let listed: Vec<String> = pids.iter().take(3).map(ToString::to_string).collect();
            let more = if pids.len() > listed.len() { ", ..." } else { "" };
            let number = style::count(pids.len(), "session");
            Cell::of_forms(vec![format!("{number}: {}{more}", listed.join(", ")), number])
        }
    }
}
