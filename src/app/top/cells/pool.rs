//! Cells of a pool, and its bars.

use super::{Cell, Tone, waiting};
use crate::analysis::report::PoolReport;
use crate::app::top::columns::Column;
use crate::render::style::safe;

pub(super) fn cell(pool: &PoolReport, column: Column) -> Cell {
    match column {
        Column::Pool => Cell::plain(name(pool)),
        Column::Waiting => waiting(pool.waiting),
        Column::Holding if pool.holding > 0 => Cell::new(pool.holding.to_string(), Tone::Strong),
        // Bars are drawn.
        Column::LockBar | Column::StateBar => Cell::default(),
        _ => match number(pool, column) {
            Some(0) => Cell::none(),
            Some(number) => Cell::plain(number.to_string()),
            None => Cell::default(),
        },
    }
}

/// `api@10.0.0.7 as app in shop`
pub fn name(pool: &PoolReport) -> String {
    let mut text =
        if pool.application.is_empty() { "(no name)".to_owned() } else { safe(&pool.application).into_owned() };
    for (joint, part) in [("@", &pool.client_addr), (" as ", &pool.user), (" in ", &pool.database)] {
        if let Some(part) = part {
            text = format!("{text}{joint}{}", safe(part));
        }
    }
    text
}

/// The number in a column.
pub fn number(pool: &PoolReport, column: Column) -> Option<usize> {
    Some(match column {
        Column::Sessions => pool.sessions,
        Column::Holding => pool.holding,
        Column::Waiting => pool.waiting,
        Column::Working => working(pool),
        Column::InTransaction => pool.idle_in_transaction,
        Column::Idle => pool.idle,
        Column::LockBar => pool.holding + pool.waiting,
        Column::StateBar => working(pool) + pool.idle_in_transaction,
        _ => return None,
    })
}

/// Who waits runs a statement, but does no work.
fn working(pool: &PoolReport) -> usize {
    pool.active.saturating_sub(pool.waiting)
}

/// What a part of a bar stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bar {
    /// Sessions that hold.
    Holding,
    /// Sessions that wait.
    Waiting,
    /// Sessions that work.
    Working,
    /// Sessions that are idle in a transaction.
    InTransaction,
    /// All others.
    Rest,
}

impl Bar {
    /// What it is drawn with: not by colour alone.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Holding => "#",
            Self::Waiting => "=",
            Self::Working => "+",
            Self::InTransaction => ":",
            Self::Rest => "·",
        }
    }
}

/// The parts of a bar that is so many columns wide. Whoever is there at all gets a column.
pub fn bar(pool: &PoolReport, column: Column, width: usize) -> Vec<(Bar, usize)> {
    let parts = match column {
        Column::LockBar => vec![(Bar::Holding, pool.holding), (Bar::Waiting, pool.waiting)],
        _ => vec![(Bar::Working, working(pool)), (Bar::InTransaction, pool.idle_in_transaction)],
    };
    let all = pool.sessions.max(1);
    let mut left = width;
    let mut bar = Vec::new();
    for (part, number) in parts {
        let columns = if number == 0 { 0 } else { (number * width / all).max(1).min(left) };
        left -= columns;
        bar.push((part, columns));
    }
    bar.push((Bar::Rest, left));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_wide_as_asked_and_hides_nobody() {
        let pool = PoolReport { sessions: 200, holding: 1, waiting: 199, active: 199, ..PoolReport::default() };
        let parts = bar(&pool, Column::LockBar, 20);
        assert_eq!(parts, [(Bar::Holding, 1), (Bar::Waiting, 19), (Bar::Rest, 0)]);
        let both = PoolReport { sessions: 2, holding: 2, waiting: 2, active: 2, ..PoolReport::default() };
        assert_eq!(bar(&both, Column::LockBar, 10).iter().map(|(_, columns)| columns).sum::<usize>(), 10);
        assert_eq!(bar(&PoolReport::default(), Column::StateBar, 7).last(), Some(&(Bar::Rest, 7)));
    }
}
