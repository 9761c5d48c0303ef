//! What there is to read about a finding, a lock, a wait, a pool, a key, an event.

use std::fmt::Write as _;

use super::detail::Doc;
use super::history::Entry;
use super::keylist::KeyRow;
use super::target::Target;
use super::tree;
use crate::analysis::report::{Finding, LockReport, PoolReport, TargetReport, WaitReport, WaiterReport};
use crate::model::{Pid, SharedText};
use crate::render::runbook_facts::{self, Body, Index, Section};
use crate::render::style;
use crate::render::table::place;
use crate::render::top::worst_finding;

/// More of a kind are counted instead of shown.
const SHOWN: usize = 20;

/// Sections that a finding has and a lock words itself.
const OF_THE_LOCK: [&str; 3] = ["Holder", "Also holds", "Waiting"];

pub(super) fn doc(report: &TargetReport, title: &str, database: Option<&str>) -> Doc {
    let place = match database {
        Some(database) => format!("{} / {database}", report.target),
        None => report.target.clone(),
    };
    Doc { target: 0, severity: None, title: title.to_owned(), place, head: Vec::new(), sections: Vec::new(), sql: None }
}

pub(super) fn list(title: &'static str, items: Vec<String>) -> Option<Section> {
    (!items.is_empty()).then_some(Section { title, body: Body::List(items) })
}

/// So many of them, and how many more there are.
fn some<T>(all: &[T], word: impl Fn(&T) -> String) -> Vec<String> {
    let mut items: Vec<String> = all.iter().take(SHOWN).map(word).collect();
    if all.len() > items.len() {
        items.push(format!("and {} more", all.len() - items.len()));
    }
    items
}

pub(super) fn finding(report: &TargetReport, finding: &Finding) -> Doc {
    let mut head = runbook_facts::keys(finding);
    if let Some(reason) = &finding.silenced {
        head.push(format!("Silenced, not counted: {reason}"));
    }
    if let Some(since) = finding.since {
        head.push(format!("since {} UTC", since.format("%H:%M:%S")));
    }
    Doc {
        severity: finding.silenced.is_none().then_some(finding.severity),
        head,
        sections: runbook_facts::sections(&Index::new(report), finding),
        sql: finding.advice.sql.clone(),
        ..doc(report, finding.rule, finding.database.as_deref())
    }
}

pub(super) fn lock(report: &TargetReport, lock: &LockReport) -> Doc {
    let mut doc = doc(report, "lock", lock.key.database.as_deref());
    doc.head = vec![runbook_facts::key_line(&lock.key)];
    doc.head.extend(about_names(lock));
    let mut holder = vec![runbook_facts::session(report, &lock.holder)];
    if lock.holder.gid.is_some() {
        holder = vec![runbook_facts::prepared(&lock.holder)];
    }
    holder.extend(runbook_facts::state(&lock.holder));
    if let Some(since) = lock.holder.transaction_for.filter(|_| lock.holder.pid.is_some()) {
        holder.push(format!("in a transaction for {}", style::duration(since)));
    }
    if let Some(query) = lock.holder.query.as_deref().filter(|query| !query.is_empty()) {
        let what = if lock.holder.state == Some("active") { "runs now" } else { "last statement" };
        holder.push(format!("{what}: {}", runbook_facts::statement(query)));
    }
    let sections = [
        list("Held", held(lock)),
        list("Holder", holder),
        list("Also holds", also_holds(report, lock)),
        list("Waiting", some(&lock.waiters, waiter_line)),
    ];
    doc.sections = sections.into_iter().flatten().collect();
    with_finding(report, doc, worst_finding(report, lock))
}

/// What the finding adds to what has been said.
pub(super) fn with_finding(report: &TargetReport, mut doc: Doc, finding: Option<&Finding>) -> Doc {
    let Some(finding) = finding else { return doc };
    doc.severity = finding.silenced.is_none().then_some(finding.severity);
    doc.title = format!("{}, {}", doc.title, finding.rule);
    let sections = runbook_facts::sections(&Index::new(report), finding);
    doc.sections.extend(sections.into_iter().filter(|section| !OF_THE_LOCK.contains(&section.title)));
    doc.sql.clone_from(&finding.advice.sql);
    doc
}

fn about_names(lock: &LockReport) -> Vec<String> {
    let mut lines = Vec::new();
    for name in &lock.key.names {
        let mut line = format!("\"{}\" is a {}", name.label, name.kind.name());
        if let Some(runbook) = &name.runbook {
            let _ = write!(line, ", runbook {runbook}");
        }
        lines.push(line);
    }
    lines
}

fn held(lock: &LockReport) -> Vec<String> {
    let most = lock.past.held.at_most.map(|most| format!(", at most {}", style::duration(most))).unwrap_or_default();
    let mut lines = vec![format!("{}{most}", style::held(lock.past.held))];
    let scope = match lock.past.scope {
        crate::analysis::report::HoldScope::Unknown => "scope not proved".to_owned(),
        scope => format!("{} scope", scope.name()),
    };
    let expected = if lock.hold_expected { ", held on purpose" } else { "" };
    lines.push(format!("{}, {scope}{expected}", lock.mode.name()));
    if let Some(seen) = &lock.past.first_seen {
        let mut line = format!("first seen {} UTC", seen.at.format("%H:%M:%S"));
        if let Some(query) = seen.query.as_ref().filter(|_| seen.certain) {
            let _ = write!(line, ", taken by: {}", runbook_facts::statement(query));
        }
        lines.push(line);
    }
    lines
}

fn also_holds(report: &TargetReport, lock: &LockReport) -> Vec<String> {
    let same = |other: &&LockReport| {
        std::sync::Arc::ptr_eq(&other.holder, &lock.holder) && other.key.numbers != lock.key.numbers
    };
    let others: Vec<&LockReport> = report.locks.iter().filter(same).collect();
    if others.is_empty() {
        return vec!["nothing else".to_owned()];
    }
    some(&others, |other| format!("{}  held {}", runbook_facts::key_line(&other.key), style::held(other.past.held)))
}

fn waiter_line(waiter: &WaiterReport) -> String {
    let mut text = format!("pid {}", waiter.pid);
    if let Some(application) = waiter.application.as_deref().filter(|name| !name.is_empty()) {
        let _ = write!(text, "  {application}");
    }
    if let Some(address) = &waiter.client_addr {
        let _ = write!(text, "@{address}");
    }
    if let Some(user) = &waiter.user {
        let _ = write!(text, "  user {user}");
    }
    let _ = write!(text, "  {} ({})", style::waited(waiter.waited), waiter.mode);
    if !waiter.blocked_by.is_empty() {
        let pids: Vec<String> = waiter.blocked_by.iter().take(SHOWN).map(ToString::to_string).collect();
        let _ = write!(text, ", behind {}", pids.join(", "));
    }
    text
}

pub(super) fn wait(report: &TargetReport, wait: &WaitReport) -> Doc {
    let mut doc = doc(report, "waiting session", None);
    let known = tree::waiter(report, wait.pid);
    let mut facts = vec![match known {
        Some(known) => waiter_line(known),
        None => format!("pid {}", wait.pid),
    }];
    let what =
        if wait.advisory { format!("advisory lock {}", wait.object) } else { format!("a lock on a {}", wait.object) };
    facts.push(format!("waits {} for {what}, {}", style::waited(wait.waited), wait.mode));
    let pids = |pids: &[Pid]| some(pids, |pid| session_line(report, *pid));
    let held: Vec<&LockReport> = report.locks.iter().filter(|lock| lock.holder.pid == Some(wait.pid)).collect();
    let sections = [
        list("Session", facts),
        list("Behind", pids(&wait.blocked_by)),
        list("In the end", pids(&wait.roots)),
        list("Holds", some(&held, |lock| runbook_facts::key_line(&lock.key))),
    ];
    doc.sections = sections.into_iter().flatten().collect();
    let finding =
        report.findings.iter().find(|finding| finding.waiters.contains(&wait.pid) || finding.pids.contains(&wait.pid));
    with_finding(report, doc, finding)
}

/// What is known of a session that has to do with waits.
fn session_line(report: &TargetReport, pid: Pid) -> String {
    if let Some(lock) = report.locks.iter().find(|lock| lock.holder.pid == Some(pid)) {
        let state = runbook_facts::state(&lock.holder).map(|state| format!("  {state}")).unwrap_or_default();
        return format!("{}{state}", runbook_facts::session(report, &lock.holder));
    }
    match tree::waiter(report, pid) {
        Some(waiter) => format!("{}, waits too", waiter_line(waiter)),
        None => format!("pid {pid}"),
    }
}

pub(super) fn object(report: &TargetReport, wait: &WaitReport) -> Doc {
    let queued = |lock: &&LockReport| lock.waiters.iter().any(|waiter| waiter.pid == wait.pid);
    if let Some(found) = report.locks.iter().find(queued) {
        return lock(report, found);
    }
    self::wait(report, wait)
}

pub(super) fn root(report: &TargetReport, pid: Option<Pid>) -> Doc {
    let mut doc = doc(report, "blocking session", None);
    let behind: Vec<&WaitReport> =
        report.waits.iter().filter(|wait| pid.is_some_and(|pid| wait.blocked_by.contains(&pid))).collect();
    let who = pid.map_or_else(|| "a prepared transaction".to_owned(), |pid| session_line(report, pid));
    let lines = some(&behind, |wait| {
        format!("pid {}  {} for {} ({})", wait.pid, style::waited(wait.waited), wait.object, wait.mode)
    });
    doc.sections = [list("Session", vec![who]), list("Waiting", lines)].into_iter().flatten().collect();
    let finding = report.findings.iter().find(|finding| pid.is_some_and(|pid| finding.pids.contains(&pid)));
    with_finding(report, doc, finding)
}

pub(super) fn pool(report: &TargetReport, pool: &PoolReport) -> Doc {
    let mut doc = doc(report, "pool", pool.database.as_deref());
    doc.head = vec![crate::app::top::cells::pool_name(pool)];
    let rest = pool.sessions.saturating_sub(pool.active + pool.idle + pool.idle_in_transaction);
    let mut facts = vec![
        style::count(pool.sessions, "session"),
        format!("{} hold an advisory lock, {} wait for one", pool.holding, pool.waiting),
        format!(
            "{} run a statement (those that wait among them), {} idle, {} idle in a transaction",
            pool.active, pool.idle, pool.idle_in_transaction
        ),
    ];
    if rest > 0 {
        facts.push(format!("{rest} in a state that is not visible"));
    }
    let same =
        |user: &Option<SharedText>, address: &Option<SharedText>| *user == pool.user && *address == pool.client_addr;
    let held: Vec<&LockReport> = report
        .locks
        .iter()
        .filter(|lock| lock.holder.pid.is_some() && same(&lock.holder.user, &lock.holder.client_addr))
        .collect();
    let waiters: Vec<&WaiterReport> = report
        .locks
        .iter()
        .flat_map(|lock| lock.waiters.iter())
        .filter(|waiter| same(&waiter.user, &waiter.client_addr))
        .collect();
    let sections = [
        list("Sessions", facts),
        // The Report does not say which session is in which pool.
        list("Locks", some(&held, |lock| format!("{}  {}", holder_line(lock), runbook_facts::key_line(&lock.key)))),
        list("Waiting", some(&waiters, |waiter| waiter_line(waiter))),
    ];
    doc.sections = sections.into_iter().flatten().collect();
    if !held.is_empty() || !waiters.is_empty() {
        let note = "Locks and Waiting list all sessions of this user and address, whatever their application.";
        doc.sections.extend(list("Note", vec![note.to_owned()]));
    }
    doc
}

fn holder_line(lock: &LockReport) -> String {
    let subject = match (lock.holder.pid, &lock.holder.gid) {
        (Some(pid), _) => format!("pid {pid}"),
        (None, gid) => format!("prepared {}", gid.as_deref().unwrap_or_default()),
    };
    let state = runbook_facts::state(&lock.holder).map(|state| format!("  {state}")).unwrap_or_default();
    format!("{subject}  {}{state}  held {}", place(&lock.holder), style::held(lock.past.held))
}

pub(super) fn key(target: &Target, row: &KeyRow) -> Doc {
    let database = row.key.as_ref().and_then(|key| key.database.as_deref());
    let place = database.map_or_else(|| target.name.clone(), |database| format!("{} / {database}", target.name));
    let mut head: Vec<String> = row.key.iter().map(|key| runbook_facts::key_line(key)).collect();
    let names: Vec<&str> = row.key.iter().flat_map(|key| &key.names).map(|name| name.name.as_str()).collect();
    let declared: Vec<String> = target
        .declared
        .iter()
        .enumerate()
        .filter(|(place, entry)| row.declared == Some(*place) || names.contains(&entry.name.as_str()))
        .flat_map(|(_, entry)| {
            let first = format!("\"{}\" is a {}, key {}", entry.name, entry.kind, entry.keys);
            std::iter::once(first).chain(entry.facts.iter().cloned())
        })
        .collect();
    if head.is_empty() {
        head.push("nobody has held it since the screen opened".to_owned());
    }
    let report = target.report();
    let locks: Vec<&LockReport> = row.locks.iter().filter_map(|&lock| report?.locks.get(lock)).collect();
    let seen = row.key.as_ref().and_then(|key| target.seen.get(&(key.numbers, key.database.clone())));
    let seen: Vec<String> = seen
        .map(|seen| {
            let last = seen.last.map(|at| format!(", last seen {} UTC", at.format("%H:%M:%S"))).unwrap_or_default();
            format!(
                "longest hold >= {}, at most {} at a time{last}",
                style::duration(seen.longest),
                style::count(seen.most_holders, "holder")
            )
        })
        .into_iter()
        .collect();
    let mut waiters: Vec<&WaiterReport> = locks.iter().flat_map(|lock| lock.waiters.iter()).collect();
    waiters.sort_by_key(|waiter| (std::cmp::Reverse(waiter.waited.duration), waiter.pid));
    waiters.dedup_by_key(|waiter| waiter.pid);
    let sections = [
        list("Holders", some(&locks, |lock| holder_line(lock))),
        list("Waiting", some(&waiters, |waiter| waiter_line(waiter))),
        list("Since opened", seen),
        list("Dictionary", declared),
    ];
    let sections = sections.into_iter().flatten().collect();
    let doc = Doc { target: row.target, severity: None, title: "key".to_owned(), place, head, sections, sql: None };
    let finding = report.and_then(|report| locks.iter().find_map(|lock| worst_finding(report, lock)));
    match (report, finding) {
        (Some(report), Some(finding)) => with_finding(report, doc, Some(finding)),
        _ => doc,
    }
}

pub(super) fn event(target: &str, entry: &Entry) -> Doc {
    let at = entry.at.map(|at| format!("{} UTC", at.format("%Y-%m-%d %H:%M:%S")));
    let rows = [
        list("When", at.into_iter().collect()),
        list("What", vec![entry.what.word().to_owned()]),
        list("Subject", vec![entry.subject.clone()].into_iter().filter(|text| !text.is_empty()).collect()),
        list("Who", vec![entry.who.clone()].into_iter().filter(|text| !text.is_empty()).collect()),
        list("Details", vec![entry.text.clone()].into_iter().filter(|text| !text.is_empty()).collect()),
    ];
    Doc {
        target: entry.target,
        severity: entry.severity,
        title: "history".to_owned(),
        place: target.to_owned(),
        head: Vec::new(),
        sections: rows.into_iter().flatten().collect(),
        sql: None,
    }
}
