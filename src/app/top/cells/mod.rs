//! From a row and a column to the words in the cell. Pure, and every stranger's text is made safe here.

mod branch;
mod finding;
mod key;
mod lease;
mod lock;
mod pool;

use std::borrow::Cow;

use super::columns::Column;
use super::state::{Entry, Item, Row, State};
use crate::analysis::report::{Finding, HeldFor, HolderReport, KeyReport, Severity, Waited};
use crate::model::Pid;
use crate::render::style::{self, safe};
use crate::render::table::place;

pub use pool::{Bar, bar, name as pool_name, number as pool_number};

/// How a cell looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As everything.
    #[default]
    Plain,
    /// Steps back.
    Faint,
    /// Stands out.
    Strong,
    /// A severity's word.
    Badge(Severity),
    /// Somebody waits.
    Waiting,
}

/// What stands in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cell {
    /// The text, safe for a terminal.
    pub text: String,
    /// What may stand there instead where the text does not fit, the longest first.
    pub shorter: Vec<String>,
    /// How it looks.
    pub tone: Tone,
}

impl Cell {
    fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), shorter: Vec::new(), tone }
    }

    /// A text with shorter forms.
    fn of_forms(forms: Vec<String>) -> Self {
        let mut forms = forms.into_iter();
        Self { text: forms.next().unwrap_or_default(), shorter: forms.collect(), tone: Tone::Plain }
    }

    fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Tone::Plain)
    }

    /// What is not there.
    fn none() -> Self {
        Self::new("-", Tone::Faint)
    }
}

/// The cell of a row in a column.
pub fn cell(state: &State, row: &Row, column: Column) -> Cell {
    if column == Column::Target {
        return Cell::plain(state.targets.get(row.target).map_or(Cow::Borrowed(""), |target| safe(&target.name)));
    }
    let Some(report) = state.report(row.target) else {
        return match row.item {
            Item::Event(_) => state.event(row).map(|entry| event(entry, column)).unwrap_or_default(),
            Item::Key(place) => state.key_rows.get(place).map(|key| key::cell(state, key, column)).unwrap_or_default(),
            _ => Cell::default(),
        };
    };
    let cell = match row.item {
        Item::Finding(_) => state.finding(row).map(|one| finding::cell(report, one, column)),
        Item::Lock(_) => state.lock(row).map(|one| lock::cell(report, one, column)),
        Item::Lease(..) => state.lease(row).map(|(table, one)| lease::cell(report, table, one, column)),
        Item::Branch(place) => Some(branch::cell(state, report, place, column)),
        Item::Pool(place) => report.pools.get(place).map(|one| pool::cell(one, column)),
        Item::Key(place) => state.key_rows.get(place).map(|one| key::cell(state, one, column)),
        Item::Event(_) => state.event(row).map(|entry| event(entry, column)),
    };
    cell.unwrap_or_default()
}

fn event(entry: &Entry, column: Column) -> Cell {
    match column {
        Column::Time => match entry.at {
            Some(at) => Cell::plain(at.format("%H:%M:%S").to_string()),
            None => Cell::none(),
        },
        Column::What => match entry.severity {
            Some(_) => Cell::new(entry.what.word(), Tone::Strong),
            None => Cell::plain(entry.what.word()),
        },
        Column::Subject => Cell::plain(safe(&entry.subject)),
        Column::Who => Cell::plain(safe(&entry.who)),
        Column::Text => Cell::plain(safe(&entry.text)),
        _ => Cell::default(),
    }
}

/// The rule of the finding about a row, if there is one.
fn rule(finding: Option<&Finding>) -> Option<Cell> {
    finding.map(|finding| match finding.silenced {
        Some(_) => Cell::new(format!("({})", finding.rule), Tone::Faint),
        None => Cell::new(finding.rule, Tone::Badge(finding.severity)),
    })
}

/// `612001 nightly-report`: whom to ask stands in the details.
pub fn short_key(key: &KeyReport) -> String {
    let names: Vec<String> = key
        .names
        .iter()
        .map(|name| format!("{}{}", if name.may_be { "may be " } else { "" }, safe(&name.label)))
        .collect();
    let text = safe(&key.text);
    if names.is_empty() { text.into_owned() } else { format!("{text} {}", names.join(" or ")) }
}

/// Where number and name do not fit together, the name says more.
fn key_forms(key: &KeyReport) -> Vec<String> {
    let mut forms = vec![short_key(key)];
    forms.extend(key.names.first().map(|name| safe(&name.label).into_owned()));
    forms
}

/// `4711  api@10.0.0.7 as app`, and without the user, and without the address: the pid first, it is never cut off.
fn holder_forms(holder: &HolderReport) -> Vec<String> {
    let bare = HolderReport { user: None, ..holder.clone() };
    let mut forms = vec![holder_text(holder), holder_text(&bare)];
    if bare.application.as_ref().is_some_and(|application| !application.is_empty()) {
        forms.push(holder_text(&HolderReport { client_addr: None, ..bare }));
    }
    forms
}

/// `4711  api@10.0.0.7 as app`
pub fn holder_text(holder: &HolderReport) -> String {
    let subject = match (holder.pid, &holder.gid) {
        (Some(pid), _) => format!("{pid:<5}"),
        (None, Some(gid)) => format!("prepared {}", safe(gid)),
        (None, None) => "prepared".to_owned(),
    };
    session(&subject, &place(holder), holder.user.as_deref())
}

fn session(subject: &str, place: &str, user: Option<&str>) -> String {
    let mut text = subject.to_owned();
    if !place.is_empty() {
        text = format!("{text} {}", safe(place));
    }
    if let Some(user) = user {
        text = format!("{text} as {}", safe(user));
    }
    text.trim_end().to_owned()
}

fn waiter_text(pid: Pid, application: Option<&str>, address: Option<&str>, user: Option<&str>) -> String {
    let application = application.filter(|name| !name.is_empty());
    let place = match (application, address) {
        (Some(application), Some(address)) => format!("{application}@{address}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => String::new(),
    };
    session(&format!("pid {pid}"), &place, user)
}

/// `idle 14m`
pub fn state_text(holder: &HolderReport) -> String {
    let state = match holder.state {
        Some("idle in transaction") => "in tx",
        Some("idle in transaction (aborted)") => "aborted",
        Some("fastpath function call") => "fastpath",
        Some(state) => state,
        None if holder.gid.is_some() => "prepared",
        None => "not visible",
    };
    match holder.state_for.or(if holder.gid.is_some() { holder.transaction_for } else { None }) {
        Some(since) => format!("{state} {}", style::duration(since)),
        None => state.to_owned(),
    }
}

fn held_text(held: HeldFor) -> String {
    style::held(held).replace(' ', "")
}

fn waited_text(waited: Waited) -> String {
    style::waited(waited).replace(' ', "")
}

fn waiting(number: usize) -> Cell {
    if number == 0 { Cell::none() } else { Cell::new(number.to_string(), Tone::Waiting) }
}

fn longest(waited: Option<Waited>) -> Cell {
    waited.map_or_else(Cell::none, |waited| Cell::new(waited_text(waited), Tone::Waiting))
}
