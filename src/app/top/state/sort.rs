//! Rows in the order of a column: the greatest number first, texts by their letters.

use std::cmp::Reverse;
use std::time::Duration;

use super::rows::{Item, Row};
use super::{State, View};
use crate::analysis::report::{Finding, LeaseReport, LockReport};
use crate::app::top::cells;
use crate::app::top::columns::Column;

/// What rows are compared by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    /// Greater is first.
    Number(Reverse<u128>),
    /// By letters.
    Text(String),
}

pub(super) fn sort(state: &State, rows: &mut [Row]) {
    if state.view == View::Waits {
        return;
    }
    let list = state.list();
    if let Some(column) = list.sort {
        // The sort is stable: what is equal keeps the order of urgency.
        rows.sort_by_cached_key(|row| by(state, row, column));
    }
    if list.reversed {
        rows.reverse();
    }
}

fn by(state: &State, row: &Row, column: Column) -> By {
    let number = match row.item {
        Item::Finding(_) => state.finding(row).and_then(|finding| of_finding(finding, column)),
        Item::Lock(_) => state.lock(row).and_then(|lock| of_lock(lock, column)),
        Item::Lease(..) => state.lease(row).and_then(|(_, lease)| of_lease(lease, column)),
        Item::Pool(place) => state
            .report(row.target)
            .and_then(|report| report.pools.get(place))
            .and_then(|pool| cells::pool_number(pool, column))
            .map(|number| number as u128),
        Item::Key(place) => state.key_rows.get(place).and_then(|key| match column {
            Column::Holders => Some(key.holders as u128),
            Column::Held => Some(nanoseconds(key.held.map(|held| held.at_least))),
            Column::LongestHold => Some(nanoseconds(key.longest)),
            Column::Waiting => Some(key.waiting as u128),
            Column::Longest => Some(nanoseconds(key.longest_wait.map(|waited| waited.duration))),
            _ => None,
        }),
        Item::Event(number) => (column == Column::Time).then_some(u128::from(number)),
        Item::Branch(_) => None,
    };
    match number {
        Some(number) => By::Number(Reverse(number)),
        None => By::Text(cells::cell(state, row, column).text.to_lowercase()),
    }
}

/// Nothing sorts below zero.
fn nanoseconds(duration: Option<Duration>) -> u128 {
    duration.map_or(0, |duration| duration.as_nanos() + 1)
}

fn of_finding(finding: &Finding, column: Column) -> Option<u128> {
    Some(match column {
        Column::Severity => u128::from(finding.silenced.is_none()) * 10 + finding.severity as u128,
        Column::Held => nanoseconds(finding.held.map(|held| held.at_least)),
        Column::Waiting => finding.waiters.len() as u128,
        Column::Longest => nanoseconds(finding.longest_wait.map(|waited| waited.duration)),
        _ => return None,
    })
}

fn of_lock(lock: &LockReport, column: Column) -> Option<u128> {
    Some(match column {
        Column::Held => lock.past.held.at_least.as_nanos(),
        Column::State => nanoseconds(lock.holder.state_for),
        Column::Waiting => lock.waiters.len() as u128,
        Column::Longest => nanoseconds(lock.waiters.iter().map(|waiter| waiter.waited.duration).max()),
        _ => return None,
    })
}

/// Nobody is seen to wait for a lease.
fn of_lease(lease: Option<&LeaseReport>, column: Column) -> Option<u128> {
    Some(match column {
        Column::Held => nanoseconds(lease.and_then(|lease| lease.held_for)),
        Column::State => nanoseconds(lease.and_then(|lease| lease.expired_for)),
        Column::Waiting | Column::Longest => 0,
        _ => return None,
    })
}
