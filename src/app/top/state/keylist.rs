//! Keys with what is known of them: held now, seen since the screen opened, declared in the dictionary.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::seen::KeyId;
use super::target::Target;
use crate::analysis::report::{HeldFor, KeyReport, ReportedKey, Waited};

/// A line of the view of keys.
#[derive(Debug, Clone)]
pub struct KeyRow {
    /// The target's place.
    pub target: usize,
    /// The key, where it is one that was seen.
    pub key: Option<ReportedKey>,
    /// The dictionary's entry (its place), where it is one that was not.
    pub declared: Option<usize>,
    /// The places of its locks in the report.
    pub locks: Vec<usize>,
    /// How many sessions and prepared transactions hold it.
    pub holders: usize,
    /// The longest hold now.
    pub held: Option<HeldFor>,
    /// The longest hold since the screen opened.
    pub longest: Option<Duration>,
    /// How many sessions queue for it.
    pub waiting: usize,
    /// The longest of them.
    pub longest_wait: Option<Waited>,
}

/// All keys of a target: those that are waited for first, then those that are held, then the others.
pub(super) fn key_rows(place: usize, target: &Target, show_expected: bool) -> Vec<KeyRow> {
    let mut rows = held_now(place, target, show_expected);
    let held: HashSet<KeyId> = rows.iter().filter_map(|row| row.key.as_deref()).map(id).collect();
    let hidden = |key: &KeyId| {
        !show_expected && target.report().is_some_and(|report| report.locks.iter().any(|lock| id(&lock.key) == *key))
    };
    let mut free: Vec<KeyRow> = target
        .seen
        .iter()
        .filter(|(key, _)| !held.contains(*key) && !hidden(key))
        .map(|(_, seen)| KeyRow { key: Some(seen.key.clone()), longest: Some(seen.longest), ..empty(place) })
        .collect();
    free.sort_by(|left, right| order(left).cmp(&order(right)));
    rows.extend(free);
    let seen: HashSet<&str> =
        target.seen.iter().flat_map(|(_, seen)| &seen.key.names).map(|name| name.name.as_str()).collect();
    let unseen = target.declared.iter().enumerate().filter(|(_, declared)| !seen.contains(declared.name.as_str()));
    rows.extend(unseen.map(|(declared, _)| KeyRow { declared: Some(declared), ..empty(place) }));
    rows
}

fn empty(target: usize) -> KeyRow {
    KeyRow {
        target,
        key: None,
        declared: None,
        locks: Vec::new(),
        holders: 0,
        held: None,
        longest: None,
        waiting: 0,
        longest_wait: None,
    }
}

fn id(key: &KeyReport) -> KeyId {
    (key.numbers, key.database.clone())
}

fn order(row: &KeyRow) -> Option<(u32, u32, u16, Option<&str>)> {
    let key = row.key.as_ref()?;
    Some((key.numbers.classid, key.numbers.objid, key.numbers.objsubid, key.database.as_deref()))
}

fn held_now(place: usize, target: &Target, show_expected: bool) -> Vec<KeyRow> {
    let Some(report) = target.report() else { return Vec::new() };
    let mut rows: Vec<KeyRow> = Vec::new();
    let mut places: HashMap<KeyId, usize> = HashMap::new();
    for (lock_place, lock) in report.locks.iter().enumerate() {
        if lock.hold_expected && lock.rules.is_empty() && !show_expected {
            continue;
        }
        let at = *places.entry(id(&lock.key)).or_insert_with(|| {
            let longest = target.seen.get(&id(&lock.key)).map(|seen| seen.longest);
            rows.push(KeyRow { key: Some(lock.key.clone()), longest, ..empty(place) });
            rows.len() - 1
        });
        let row = &mut rows[at];
        // A holder may hold a key in two modes.
        let known = row.locks.iter().any(|&other| Arc::ptr_eq(&report.locks[other].holder, &lock.holder));
        row.holders += usize::from(!known);
        row.locks.push(lock_place);
        let longer = row.held.is_none_or(|held| lock.past.held.at_least > held.at_least);
        row.held = if longer { Some(lock.past.held) } else { row.held };
        // Who is blocked by several holders stands with each of them.
        row.waiting = row.waiting.max(lock.waiters.len());
        let longest = lock.waiters.iter().map(|waiter| waiter.waited).chain(row.longest_wait);
        row.longest_wait = longest.max_by_key(|waited| waited.duration);
    }
    rows.sort_by(|left, right| {
        let urgency = |row: &KeyRow| std::cmp::Reverse(row.waiting);
        (urgency(left), order(left)).cmp(&(urgency(right), order(right)))
    });
    rows
}
