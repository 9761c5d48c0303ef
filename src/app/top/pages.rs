//! Texts that fill the screen below the header: the details of a row, and the help. As lines of spans, wrapped for a
//! width. Strangers' texts are made safe here.

use ratatui::text::{Line, Span};

use super::state::{Detail, Doc};
use super::theme::{BOLD, DIM};
use crate::render::runbook_facts::{Body, Section};
use crate::render::style::{safe, wrap};

/// The titles' column.
const LABEL: usize = 16;

/// On narrower screens titles have lines of their own.
const ROOM_FOR_LABELS: u16 = 90;

/// Longer lines are hard to read.
const WIDEST: usize = 130;

/// How lines are laid out.
struct Page {
    lines: Vec<Line<'static>>,
    width: usize,
    label: usize,
}

impl Page {
    fn new(width: u16) -> Self {
        let label = if width >= ROOM_FOR_LABELS { LABEL } else { 2 };
        Self { lines: Vec::new(), width: usize::from(width).saturating_sub(2).min(WIDEST), label }
    }

    fn room(&self) -> usize {
        self.width.saturating_sub(self.label).max(10)
    }

    fn blank(&mut self) {
        self.lines.push(Line::default());
    }

    /// A line with a title before it, or above it where there is no room beside.
    fn push(&mut self, title: &str, text: String) {
        let label = self.label;
        if label < LABEL && !title.is_empty() {
            self.lines.push(Line::from(Span::styled(format!(" {title}"), BOLD)));
        }
        let title = if label < LABEL { "" } else { title };
        self.lines.push(Line::from(vec![Span::styled(format!(" {title:label$}"), BOLD), Span::raw(text)]));
    }

    fn section(&mut self, section: &Section) {
        self.blank();
        let room = self.room();
        let mut title = section.title;
        let mut push_all = |page: &mut Self, lines: Vec<String>| {
            for line in lines {
                page.push(std::mem::take(&mut title), line);
            }
        };
        match &section.body {
            Body::Prose(sentences) => {
                push_all(self, wrap(&safe(&sentences.join(" ")), room));
            }
            Body::List(items) => {
                for item in items {
                    push_all(self, hang(item, "", room));
                }
            }
            Body::Steps(steps, sql) => {
                for (place, step) in steps.iter().enumerate() {
                    let mark = format!("{}. ", place + 1);
                    push_all(self, hang(&step.text, &mark, room));
                    for command in &step.commands {
                        push_all(self, verbatim(command, room));
                    }
                }
                for line in sql.iter().flat_map(|sql| sql.lines()) {
                    push_all(self, verbatim(line, room));
                }
            }
            Body::Commands(commands) => {
                for command in commands {
                    push_all(self, verbatim(command, room));
                }
            }
        }
    }
}

/// One item; its further lines stand in below its text.
fn hang(item: &str, mark: &str, room: usize) -> Vec<String> {
    let indent = if mark.is_empty() { 2 } else { mark.len() };
    let lines = wrap(&safe(item), room.saturating_sub(indent));
    let first = |place: usize| if place == 0 { mark.to_owned() } else { " ".repeat(indent) };
    lines.into_iter().enumerate().map(|(place, line)| format!("{}{line}", first(place))).collect()
}

/// What is to be typed, with a bar before it. What does not fit goes on below, further in.
fn verbatim(line: &str, room: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let text = safe(line.trim_start());
    let mut lines = Vec::new();
    for (place, part) in wrap(&text, room.saturating_sub(2 + indent + 2)).into_iter().enumerate() {
        let further = if place == 0 { 0 } else { 2 };
        lines.push(format!("│ {:indent$}{:further$}{part}", "", ""));
    }
    lines
}

/// The title of a detail: what it is, and where.
pub fn detail_title(doc: &Doc) -> (String, String) {
    (safe(&doc.title).into_owned(), safe(&doc.place).into_owned())
}

/// All lines of a detail.
pub fn detail(detail: &Detail, width: u16) -> Vec<Line<'static>> {
    let mut page = Page::new(width);
    if let Some(at) = detail.gone {
        let at = at.format("%H:%M:%S");
        let text =
            format!("This was gone at {at} UTC. What stands below is the last that was seen of it: do not act on it.");
        for line in wrap(&text, page.width) {
            page.lines.push(Line::from(Span::styled(format!(" {line}"), BOLD)));
        }
        page.blank();
    }
    for head in &detail.doc.head {
        for line in wrap(&safe(head), page.width) {
            page.lines.push(Line::from(format!(" {line}")));
        }
    }
    for section in &detail.doc.sections {
        page.section(section);
    }
    page.lines
}

/// What each key does.
const KEYS: &[(&str, &[(&str, &str)])] = &[
    (
        "Move",
        &[
            ("up down, k j", "one row"),
            ("PgUp PgDn, ^B ^F", "one screen; ^U ^D half of one"),
            ("Home End, g G", "first and last row"),
            ("wheel, click", "move, select; click again to open"),
        ],
    ),
    (
        "Views",
        &[
            ("1 to 6", "Findings, Locks, Waits, Pools, Keys, History"),
            ("Tab, left right, h l", "the next or the one before"),
            ("t", "choose a target, where there are several"),
        ],
    ),
    (
        "A row",
        &[
            ("Enter", "everything known, what to do, the statement"),
            ("left right in it", "the row before, the next"),
            ("y", "copy the statement to the clipboard (OSC 52)"),
            ("v", "show the statement as plain text, for the mouse"),
            ("s", "save the runbook as a file in this folder"),
        ],
    ),
    (
        "Which rows",
        &[
            ("/", "filter by key, name, application, pid, user, database"),
            ("< >", "sort by the column to the left or right"),
            ("r", "the other way round"),
            ("e", "show or hide expected holders"),
        ],
    ),
    ("Polls", &[("space", "pause what is shown, and go on"), ("+ -", "poll faster, slower"), ("R", "poll now")]),
    (
        "Leave",
        &[
            ("Esc", "details, help, filter; never the program"),
            ("q, ^C", "end"),
            ("^Z", "suspend; ^L draws everything anew"),
        ],
    ),
];

/// Words and signs on the screen.
const SIGNS: &[(&str, &str)] = &[
    (">=3m12s", "surely at least so long: PostgreSQL keeps no grant time"),
    ("<=12s", "at most so long: the wait was there at the first poll, before PostgreSQL 14"),
    ("(rule)", "silenced in the dictionary: shown, never counted"),
    ("SCOPE", "session only where it was proved; unknown says just that; a lease is a row of a lease table"),
];

/// All lines of the help.
pub fn help(width: u16) -> Vec<Line<'static>> {
    let mut page = Page::new(width);
    let column = 22;
    let room = page.width.saturating_sub(column + 2).max(10);
    let table = |page: &mut Page, title: &str, rows: &[(&str, &str)]| {
        if !page.lines.is_empty() {
            page.blank();
        }
        page.lines.push(Line::from(Span::styled(format!(" {title}"), BOLD)));
        for (key, meaning) in rows {
            for (place, line) in wrap(meaning, room).into_iter().enumerate() {
                let key = if place == 0 { *key } else { "" };
                page.lines.push(Line::from(vec![Span::raw(format!("   {key:column$}")), Span::raw(line)]));
            }
        }
    };
    for (title, rows) in KEYS {
        table(&mut page, title, rows);
    }
    table(&mut page, "Words", SIGNS);
    page.blank();
    let promise = "pglockwatch only reads: it takes no lock, ends no session and runs none of the statements it shows.";
    for line in wrap(promise, page.width) {
        page.lines.push(Line::from(Span::styled(format!(" {line}"), DIM)));
    }
    page.lines
}
