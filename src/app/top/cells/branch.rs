//! Cells of a line in the tree of waits.

use super::{Cell, Tone, held_text, holder_forms, key_forms, short_key, state_text, waited_text, waiter_text};
use crate::analysis::report::{TargetReport, WaitReport, WaiterReport};
use crate::app::top::columns::Column;
use crate::app::top::state::{Branch, Node, State, waiter};
use crate::keys::key;
use crate::model::SharedText;
use crate::render::style::{self, safe};
use crate::render::top::worst_finding;

pub(super) fn cell(state: &State, report: &TargetReport, place: usize, column: Column) -> Cell {
    let Some(branch) = state.branches.get(place) else { return Cell::default() };
    match column {
        Column::Tree => who(state, report, place, branch),
        Column::Longest => how_long(report, branch),
        Column::Text => how(state, report, place, branch),
        _ => Cell::default(),
    }
}

/// The key of the root's lock: the next line knows it.
fn key_of(state: &State, report: &TargetReport, place: usize, wait: &WaitReport) -> Vec<String> {
    let below = state.branches.get(place + 1).map(|below| below.node);
    let lock = if let Some(Node::Root(_, Some(lock))) = below {
        report.locks.get(lock)
    } else {
        let numbers = key::parse(&wait.object).ok().filter(|_| wait.advisory);
        numbers.and_then(|numbers| report.locks.iter().find(|lock| lock.key.numbers == numbers))
    };
    match lock {
        Some(lock) => {
            let database = lock.key.database.as_ref().map(|name| format!(" in {}", safe(name))).unwrap_or_default();
            let mut forms = key_forms(&lock.key);
            forms.insert(0, format!("{}{database}", short_key(&lock.key)));
            forms
        }
        None if wait.advisory => vec![safe(&wait.object).into_owned()],
        None => vec![format!("a lock on a {}", safe(&wait.object))],
    }
}

fn who(state: &State, report: &TargetReport, place: usize, branch: &Branch) -> Cell {
    match branch.node {
        Node::Object(wait) => {
            let forms = key_of(state, report, place, &report.waits[wait]);
            Cell { tone: Tone::Strong, ..Cell::of_forms(forms) }
        }
        Node::Root(pid, lock) => {
            let holder = match lock.and_then(|lock| report.locks.get(lock)) {
                Some(lock) => Some(&lock.holder),
                None => report.locks.iter().map(|lock| &lock.holder).find(|holder| pid.is_some() && holder.pid == pid),
            };
            let forms = match (holder, pid) {
                (Some(holder), _) => holder_forms(holder).iter().map(|form| one_blank(form, pid.is_some())).collect(),
                (None, Some(pid)) => vec![format!("pid {pid}")],
                (None, None) => vec!["a prepared transaction".to_owned()],
            };
            led(branch, forms)
        }
        Node::Waiter(wait) => {
            let wait = &report.waits[wait];
            let known = waiter(report, wait.pid);
            let part =
                |field: fn(&WaiterReport) -> &Option<SharedText>| known.and_then(|known| field(known).as_deref());
            let (application, address) = (part(|known| &known.application), part(|known| &known.client_addr));
            let user = part(|known| &known.user);
            let forms = [(address, user), (address, None), (None, None)];
            led(branch, forms.map(|(address, user)| waiter_text(wait.pid, application, address, user)).to_vec())
        }
    }
}

/// Behind the lines that lead there.
fn led(branch: &Branch, forms: Vec<String>) -> Cell {
    Cell::of_forms(forms.into_iter().map(|form| format!("{}{form}", branch.lead)).collect())
}

/// In a tree nothing stands in columns.
fn one_blank(holder: &str, has_pid: bool) -> String {
    let words = holder.split_whitespace().collect::<Vec<_>>().join(" ");
    if has_pid { format!("pid {words}") } else { words }
}

fn how_long(report: &TargetReport, branch: &Branch) -> Cell {
    match branch.node {
        Node::Object(_) => Cell::default(),
        Node::Root(_, lock) => match lock.and_then(|lock| report.locks.get(lock)) {
            Some(lock) => Cell::plain(format!("holds {:>8}", held_text(lock.past.held))),
            None => Cell::plain("blocks"),
        },
        Node::Waiter(wait) => Cell::new(format!("waits {:>8}", waited_text(report.waits[wait].waited)), Tone::Waiting),
    }
}

fn how(state: &State, report: &TargetReport, place: usize, branch: &Branch) -> Cell {
    match branch.node {
        Node::Object(_) => {
            let lines = state.branches[place..]
                .iter()
                .skip(1)
                .take_while(|line| line.tree == branch.tree && !matches!(line.node, Node::Object(_)));
            let number = lines.filter(|line| matches!(line.node, Node::Waiter(_))).count();
            let verb = if number == 1 { "waits" } else { "wait" };
            Cell::plain(format!("{} {verb}", style::count(number, "session")))
        }
        Node::Root(_, lock) => {
            let Some(lock) = lock.and_then(|lock| report.locks.get(lock)) else {
                return Cell::plain("outside advisory locks");
            };
            let state = state_text(&lock.holder);
            match worst_finding(report, lock) {
                Some(finding) => Cell::new(format!("{state}, {}", finding.rule), Tone::Strong),
                None => Cell::plain(state),
            }
        }
        Node::Waiter(wait) => waiter_words(state, report, place, branch, &report.waits[wait]),
    }
}

fn waiter_words(state: &State, report: &TargetReport, place: usize, branch: &Branch, wait: &WaitReport) -> Cell {
    let mut text = wait.mode.to_owned();
    let object = state.branches[..place].iter().rev().find_map(|line| match line.node {
        Node::Object(first) => report.waits.get(first),
        _ => None,
    });
    if object.is_none_or(|object| (object.advisory, &object.object) != (wait.advisory, &wait.object)) {
        text = format!("for {}, {text}", safe(&wait.object));
    }
    if !branch.also_behind.is_empty() {
        let pids: Vec<String> = branch.also_behind.iter().take(5).map(ToString::to_string).collect();
        let more = if branch.also_behind.len() > pids.len() { ", ..." } else { "" };
        text = format!("{text}, behind {}{more}", pids.join(", "));
    }
    if branch.in_cycle {
        return Cell::new(format!("in a circle, {text}"), Tone::Strong);
    }
    Cell::plain(text)
}
