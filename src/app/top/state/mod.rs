//! What the screen knows and shows, as plain data, and what becomes of it when something happens.
//!
//! A pure reducer: state and event in, state and wishes out. It knows no terminal, no server and no clock: moments come
//! in with events. What it shows is the Report's; it decides nothing about locks.

mod detail;
mod documents;
mod filter;
mod history;
mod keylist;
mod keys;
mod leases;
mod list;
mod mouse;
mod rows;
mod seen;
mod sort;
mod target;
mod tree;

use std::sync::Arc;
use std::time::Duration;

use super::event::{Effect, Event};
use super::layout;
use crate::analysis::report::{Failure, TargetReport};
use crate::model::Time;

pub use detail::{Detail, Doc};
pub use history::{Entry, History};
pub use keylist::KeyRow;
pub use list::List;
pub use rows::{Item, Row, holder_of};
pub use target::{Declared, Failing, Received, Silence, Target};
pub use tree::{Branch, Node, waiter};

/// A notice stays for so long.
const NOTICE: Duration = Duration::from_secs(8);

/// One of the six views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    /// What is wrong, worst first.
    Findings,
    /// Every lock, and every lease.
    Locks,
    /// Who waits for whom.
    Waits,
    /// Client pools.
    Pools,
    /// Keys, declared and seen.
    Keys,
    /// What has happened.
    History,
}

impl View {
    /// All views, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Findings, Self::Locks, Self::Waits, Self::Pools, Self::Keys, Self::History];

    /// Its place, from 0.
    pub fn place(self) -> usize {
        Self::ALL.iter().position(|view| *view == self).unwrap_or(0)
    }

    /// Its name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Findings => "Findings",
            Self::Locks => "Locks",
            Self::Waits => "Waits",
            Self::Pools => "Pools",
            Self::Keys => "Keys",
            Self::History => "History",
        }
    }
}

/// What lies over the list.
#[derive(Debug, Clone)]
pub enum Overlay {
    /// What each key does.
    Help {
        /// The first line shown.
        scroll: usize,
    },
    /// The choice of a target; 0 is all.
    Picker {
        /// The line chosen.
        position: usize,
    },
    /// Everything about a row.
    Detail(Box<Detail>),
    /// The screen was left: a statement stands on the terminal as plain text. With what was open before.
    Plain(Option<Box<Overlay>>),
}

/// A sentence for the bottom line.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The sentence.
    pub text: String,
    /// Until when it stays.
    until: Duration,
}

/// Everything.
#[derive(Debug, Clone)]
pub struct State {
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// This process's monotonic clock at the last event.
    pub now: Duration,
    /// The targets.
    pub targets: Vec<Target>,
    /// The target that was picked; nothing means all.
    pub chosen: Option<usize>,
    /// The open view.
    pub view: View,
    /// Selection and order of each view.
    pub lists: [List; 6],
    /// What rows are searched for.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// What lies over the list.
    pub overlay: Option<Overlay>,
    /// Since when it is paused, and the number that the next entry of the history had then.
    pub paused: Option<(Duration, u64)>,
    /// Whether locks that are held on purpose are in the list.
    pub show_expected: bool,
    /// The interval that is asked for.
    pub interval: Duration,
    /// A sentence for the bottom line.
    pub notice: Option<Notice>,
    /// What has happened.
    pub history: History,
    /// The rows of the open view, filtered and in order.
    pub rows: Vec<Row>,
    /// How many rows there are without the filter.
    pub unfiltered: usize,
    /// How many rows are hidden because they are expected.
    pub hidden: usize,
    /// The tree of waits, for the rows that are lines of it.
    pub branches: Vec<Branch>,
    /// Keys, for the rows that are keys.
    pub key_rows: Vec<KeyRow>,
}

impl State {
    /// A screen that has seen nothing yet.
    pub fn new(targets: Vec<Target>, interval: Duration, size: (u16, u16)) -> Self {
        Self {
            size,
            now: Duration::ZERO,
            targets,
            chosen: None,
            view: View::Findings,
            lists: std::array::from_fn(|_| List::default()),
            filter: String::new(),
            typing: false,
            overlay: None,
            paused: None,
            show_expected: true,
            interval,
            notice: None,
            history: History::default(),
            rows: Vec::new(),
            unfiltered: 0,
            hidden: 0,
            branches: Vec::new(),
            key_rows: Vec::new(),
        }
    }

    /// Takes in what happened at this moment of the monotonic clock.
    pub fn update(&mut self, now: Duration, event: Event) -> Vec<Effect> {
        self.now = self.now.max(now);
        if self.notice.as_ref().is_some_and(|notice| notice.until <= self.now) {
            self.notice = None;
        }
        match event {
            Event::Key(key) => return keys::press(self, key),
            Event::Mouse(mouse) => mouse::use_mouse(self, mouse),
            Event::Paste(text) => keys::paste(self, &text),
            Event::Resize(columns, rows) => {
                self.size = (columns, rows);
                self.keep_in_sight();
                // A terminal cuts off what does not fit, also when it is as large as before by the time we hear of it.
                // A plain page is not ours to draw.
                if !matches!(self.overlay, Some(Overlay::Plain(_))) {
                    return vec![Effect::Redraw];
                }
            }
            Event::Tick => self.notice_silence(),
            Event::Report { target, report, stretched_to } => self.take_report(target, report, stretched_to),
            Event::Failed { target, failure, retry_in } => self.take_failure(target, failure, retry_in),
            Event::Saved(Ok(path)) => self.say(format!("saved {path}")),
            Event::Saved(Err(why)) => self.say(why),
            Event::Quit => return vec![Effect::Quit],
        }
        Vec::new()
    }

    /// Puts a sentence into the bottom line.
    pub fn say(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), until: self.now + NOTICE });
    }

    fn take_report(&mut self, place: usize, report: Arc<TargetReport>, stretched_to: Option<Duration>) {
        let now = self.now;
        let Some(target) = self.targets.get_mut(place) else { return };
        let before = target.latest.take();
        let age = now.saturating_sub(before.as_ref().map_or(target.began, |before| before.at));
        if target.was_silent && before.is_some() {
            self.history.answers(place, &report, age);
        }
        target.was_silent = false;
        target.failing = None;
        target.stretched_to = stretched_to;
        self.history.take(place, before.as_ref().map(|before| before.report.as_ref()), &report);
        target.seen.take(&report);
        let received = Received { report, at: now };
        target.latest = Some(received.clone());
        // The first answer is shown also on a screen that was paused before it came.
        if self.paused.is_none() || target.shown.is_none() {
            target.shown = Some(received);
            self.rebuild();
        }
    }

    fn take_failure(&mut self, place: usize, failure: Failure, retry_in: Duration) {
        let next_try = self.now + retry_in;
        let Some(target) = self.targets.get_mut(place) else { return };
        if !std::mem::replace(&mut target.was_silent, true) {
            self.history.silent(place, latest_time(target), &failure.message);
        }
        target.failing = Some(Failing { failure, next_try });
        self.rebuild();
    }

    /// An answer may fail to come without a word.
    fn notice_silence(&mut self) {
        for place in 0..self.targets.len() {
            let target = &self.targets[place];
            if !target.was_silent && target.latest.is_some() && target.silence(self.now).is_some() {
                let at = latest_time(target);
                self.targets[place].was_silent = true;
                self.history.silent(place, at, "the answer is overdue");
                self.rebuild();
            }
        }
    }

    /// Stops or goes on showing what comes in.
    fn toggle_pause(&mut self) {
        if self.paused.take().is_some() {
            for target in &mut self.targets {
                target.shown.clone_from(&target.latest);
            }
        } else {
            self.paused = Some((self.now, self.history.next_number()));
        }
        self.rebuild();
    }

    /// The places of the targets that are shown.
    pub fn shown_targets(&self) -> impl Iterator<Item = usize> + use<> {
        let all = 0..self.targets.len();
        let chosen = self.chosen;
        all.filter(move |place| chosen.is_none_or(|chosen| chosen == *place))
    }

    /// Rows of several targets stand side by side.
    pub fn several(&self) -> bool {
        self.targets.len() > 1 && self.chosen.is_none()
    }

    /// The list of the open view.
    pub fn list(&self) -> &List {
        &self.lists[self.view.place()]
    }

    fn list_mut(&mut self) -> &mut List {
        &mut self.lists[self.view.place()]
    }

    /// What is on the screen of a target.
    pub fn report(&self, target: usize) -> Option<&TargetReport> {
        self.targets.get(target).and_then(Target::report)
    }

    /// The selected row.
    pub fn selected(&self) -> Option<&Row> {
        self.rows.get(self.list().position)
    }

    /// The screen's parts.
    pub fn areas(&self) -> layout::Areas {
        layout::areas(self.size, self.view)
    }
}

fn latest_time(target: &Target) -> Option<Time> {
    target.latest.as_ref().and_then(|received| received.report.sampled_at)
}
