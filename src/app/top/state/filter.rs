//! Which rows the filter keeps: all its words must be in them, in capitals or not.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Deref;

use super::rows::{Item, Row, holder_of};
use super::tree::{self, Node};
use super::{Entry, State};
use crate::analysis::report::{
    Finding, HolderReport, KeyReport, LeaseReport, LeaseTableReport, LockReport, PoolReport, TargetReport,
};
use crate::model::Pid;

pub(super) fn keep(state: &State, rows: &mut Vec<Row>) {
    let words: Vec<String> = state.filter.to_lowercase().split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return;
    }
    let mut text = String::new();
    let mut fits = |row: &Row| {
        text.clear();
        describe(state, row, &mut text);
        let text = text.to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    // A line of a tree says nothing without the others.
    let tree_of = |row: &Row| match row.item {
        Item::Branch(place) => state.branches.get(place).map(|branch| (row.target, branch.tree)),
        _ => None,
    };
    let trees: HashSet<(usize, usize)> = rows.iter().filter(|row| fits(row)).filter_map(tree_of).collect();
    rows.retain(|row| match tree_of(row) {
        Some(tree) => trees.contains(&tree),
        None => fits(row),
    });
}

/// Everything in a row that people search for: key, name, application, pid, user, database, rule, target.
fn describe(state: &State, row: &Row, text: &mut String) {
    if let Some(target) = state.targets.get(row.target) {
        word(text, &target.name);
    }
    let report = state.report(row.target);
    match row.item {
        Item::Finding(_) => {
            if let Some((report, finding)) = report.zip(state.finding(row)) {
                describe_finding(report, finding, text);
            }
        }
        Item::Lock(_) => {
            if let Some(lock) = state.lock(row) {
                describe_lock(lock, text);
            }
        }
        Item::Lease(..) => {
            if let Some((report, (table, lease))) = report.zip(state.lease(row)) {
                describe_lease(report, table, lease, text);
            }
        }
        Item::Branch(place) => {
            if let Some((report, branch)) = report.zip(state.branches.get(place)) {
                describe_branch(report, branch.node, text);
            }
        }
        Item::Pool(place) => {
            if let Some(pool) = report.and_then(|report| report.pools.get(place)) {
                describe_pool(pool, text);
            }
        }
        Item::Key(place) => describe_key_row(state, place, text),
        Item::Event(_) => {
            if let Some(Entry { subject, who, text: details, what, .. }) = state.event(row) {
                for part in [subject, who, details, what.word()] {
                    word(text, part);
                }
            }
        }
    }
}

fn word(text: &mut String, part: &str) {
    text.push_str(part);
    // Words of the filter hold no blank, so that none is found across two parts.
    text.push(' ');
}

fn words<'a, T: Deref<Target = str> + 'a>(text: &mut String, parts: impl IntoIterator<Item = &'a Option<T>>) {
    parts.into_iter().flatten().for_each(|part| word(text, part));
}

fn pid(text: &mut String, pid: Pid) {
    let _ = write!(text, "{pid} ");
}

fn describe_key(key: &KeyReport, text: &mut String) {
    word(text, &key.text);
    key.database.iter().for_each(|database| word(text, database));
    for name in &key.names {
        word(text, &name.label);
        words(text, [&name.owner, &name.team]);
    }
}

fn describe_holder(holder: &HolderReport, text: &mut String) {
    if let Some(number) = holder.pid {
        pid(text, number);
    }
    words(text, [&holder.gid]);
    words(text, [&holder.user, &holder.application, &holder.client_addr]);
    word(text, holder.state.unwrap_or_default());
}

fn describe_finding(report: &TargetReport, finding: &Finding, text: &mut String) {
    word(text, finding.rule);
    word(text, finding.severity.name());
    finding.key_reports.iter().for_each(|key| describe_key(key, text));
    finding.key_texts.iter().for_each(|key| word(text, key));
    if let Some(lease) = &finding.lease {
        word(text, &lease.lease);
    }
    words(text, [&finding.database]);
    words(text, [&finding.gid]);
    finding.pids.iter().chain(&finding.waiters).for_each(|number| pid(text, *number));
    match holder_of(report, finding) {
        Some(holder) => describe_holder(holder, text),
        // A pool or a cycle: the sentence names it.
        None => word(text, &finding.summary),
    }
}

fn describe_lock(lock: &LockReport, text: &mut String) {
    describe_key(&lock.key, text);
    describe_holder(&lock.holder, text);
    word(text, lock.mode.name());
    lock.rules.iter().for_each(|rule| word(text, rule));
    lock.waiters.iter().for_each(|waiter| pid(text, waiter.pid));
}

fn describe_lease(report: &TargetReport, table: &LeaseTableReport, lease: Option<&LeaseReport>, text: &mut String) {
    word(text, "lease");
    word(text, &table.lease);
    word(text, &table.table);
    words(text, [&table.database, &table.problem]);
    words(text, lease.into_iter().flat_map(|lease| [&lease.name, &lease.holder]));
    word(text, table.finding(lease, &report.findings).map_or("", |finding| finding.rule));
}

fn describe_branch(report: &TargetReport, node: Node, text: &mut String) {
    match node {
        Node::Object(place) => word(text, &report.waits[place].object),
        Node::Root(number, lock) => {
            if let Some(number) = number {
                pid(text, number);
            }
            if let Some(lock) = lock.and_then(|lock| report.locks.get(lock)) {
                describe_key(&lock.key, text);
                describe_holder(&lock.holder, text);
            }
        }
        Node::Waiter(place) => {
            let wait = &report.waits[place];
            pid(text, wait.pid);
            word(text, &wait.object);
            if let Some(waiter) = tree::waiter(report, wait.pid) {
                words(text, [&waiter.user, &waiter.application, &waiter.client_addr]);
            }
        }
    }
}

fn describe_pool(pool: &PoolReport, text: &mut String) {
    words(text, [&pool.database, &pool.user, &pool.client_addr]);
    word(text, &pool.application);
}

fn describe_key_row(state: &State, place: usize, text: &mut String) {
    let Some(row) = state.key_rows.get(place) else { return };
    if let Some(key) = &row.key {
        describe_key(key, text);
    }
    if let Some(declared) = row.declared.and_then(|place| state.targets[row.target].declared.get(place)) {
        word(text, &declared.name);
        word(text, &declared.keys);
        declared.facts.iter().for_each(|fact| word(text, fact));
    }
    let locks = row.locks.iter().filter_map(|&lock| state.report(row.target)?.locks.get(lock));
    locks.for_each(|lock| describe_holder(&lock.holder, text));
}
