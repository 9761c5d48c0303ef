//! The rows of the open view.

use ratatui::style::Style;
use unicode_width::UnicodeWidthStr as _;

use super::Canvas;
use crate::app::top::cells::{self, Bar, Tone};
use crate::app::top::columns::{self, Column, Placed};
use crate::app::top::layout::Areas;
use crate::app::top::state::{Item, Row, State, View};
use crate::app::top::theme::{BOLD, DIM, PLAIN, SELECTED};
use crate::render::style::{count, safe, wrap};

pub(super) fn draw(state: &State, areas: &Areas, canvas: &mut Canvas<'_>) {
    title(state, areas, canvas);
    let placed = columns::placed(state.view, areas.width, state.several());
    if state.rows.is_empty() {
        return nothing(state, areas, canvas);
    }
    head(state, areas, &placed, canvas);
    let list = state.list();
    let rows = state.rows.iter().enumerate().skip(list.offset).take(usize::from(areas.rows));
    for (y, (place, row)) in (areas.body..).zip(rows) {
        draw_row(state, row, &placed, y, canvas);
        let silent = state.targets.get(row.target).is_some_and(|target| target.silence(state.now).is_some());
        if silent && state.view != View::History {
            canvas.style_line(y, DIM);
        }
        if place == list.position {
            canvas.style_line(y, SELECTED);
            canvas.put(0, y, "▸", SELECTED);
        }
    }
}

fn title(state: &State, areas: &Areas, canvas: &mut Canvas<'_>) {
    let mut words = state.view.title().to_owned();
    let of = |is: fn(&Item) -> bool| state.rows.iter().filter(|row| is(&row.item)).count();
    let leases = of(|item| matches!(item, Item::Lease(_, Some(_))));
    if leases > 0 && state.rows.len() == state.unfiltered {
        let locks = of(|item| matches!(item, Item::Lock(_)));
        words = format!("{words} {locks}, {} beside them", count(leases, "lease"));
    } else if state.rows.len() < state.unfiltered {
        words = format!("{words} {} of {}", state.rows.len(), state.unfiltered);
    } else if state.view != View::Waits && !state.rows.is_empty() {
        words = format!("{words} {}", state.rows.len());
    }
    let filter = if state.filter.is_empty() { String::new() } else { format!("filter: {}", safe(&state.filter)) };
    let hidden = match state.hidden {
        0 => String::new(),
        hidden => format!("{hidden} expected hidden"),
    };
    let paused = if state.paused.is_some() { "paused" } else { "" };
    let parts = [(words.as_str(), BOLD), (&filter, BOLD), (&hidden, PLAIN), (paused, BOLD)];
    let place = format!("{}/{}", state.list().position + 1, state.rows.len());
    let scrolls = state.rows.len() > usize::from(areas.rows);
    canvas.rule(areas.title, &parts, if scrolls { &place } else { "" });
}

fn head(state: &State, areas: &Areas, placed: &[Placed], canvas: &mut Canvas<'_>) {
    let list = state.list();
    for column in placed {
        let sorted = list.sort == Some(column.column);
        let sign = match (sorted, list.reversed) {
            (true, false) => "▼",
            (true, true) => "▲",
            _ => "",
        };
        let title = format!("{}{sign}", column.title);
        let style = if sorted { BOLD } else { DIM };
        canvas.put_in(column.x, areas.head, column.width, &title, column.right, style);
    }
    if list.sort.is_none() && list.reversed {
        canvas.put(0, areas.head, "▲", BOLD);
    }
}

fn draw_row(state: &State, row: &Row, placed: &[Placed], y: u16, canvas: &mut Canvas<'_>) {
    for column in placed {
        if matches!(column.column, Column::LockBar | Column::StateBar) {
            draw_bar(state, row, column, y, canvas);
            continue;
        }
        let cell = cells::cell(state, row, column.column);
        let style = tone(cell.tone, column, canvas);
        if column.column == Column::Severity {
            // The first letters are enough; a badge is as wide as its column.
            let text: String = cell.text.chars().take(usize::from(column.width)).collect();
            let width = usize::from(column.width);
            canvas.put(column.x, y, &format!("{text:width$}"), style);
            continue;
        }
        let width = usize::from(column.width);
        let forms = std::iter::once(&cell.text).chain(&cell.shorter);
        let text = forms.clone().find(|form| form.width() <= width).or(forms.last()).unwrap_or(&cell.text);
        if column.sentence && text.width() > width {
            canvas.put_beginning(column.x, y, column.width, text, style);
        } else {
            canvas.put_in(column.x, y, column.width, text, column.right, style);
        }
    }
}

fn tone(tone: Tone, column: &Placed, canvas: &Canvas<'_>) -> Style {
    match tone {
        Tone::Plain => PLAIN,
        Tone::Faint => DIM,
        Tone::Badge(severity) if column.column == Column::Severity => canvas.theme.badge(severity),
        // A rule beside a lock: the word says enough.
        Tone::Strong | Tone::Badge(_) => BOLD,
        Tone::Waiting => canvas.theme.waiting(),
    }
}

fn draw_bar(state: &State, row: &Row, column: &Placed, y: u16, canvas: &mut Canvas<'_>) {
    let Item::Pool(place) = row.item else { return };
    let Some(pool) = state.report(row.target).and_then(|report| report.pools.get(place)) else { return };
    let mut x = column.x;
    for (part, width) in cells::bar(pool, column.column, usize::from(column.width)) {
        let style = match part {
            Bar::Holding => canvas.theme.holding(),
            Bar::Waiting => canvas.theme.waiting(),
            Bar::Working => canvas.theme.working(),
            Bar::InTransaction => PLAIN,
            Bar::Rest => DIM,
        };
        x = canvas.put(x, y, &part.sign().repeat(width), style);
    }
}

/// Why there are no rows.
fn nothing(state: &State, areas: &Areas, canvas: &mut Canvas<'_>) {
    let mut lines: Vec<(String, Style)> = Vec::new();
    let missing: Vec<_> = state
        .shown_targets()
        .filter_map(|place| state.targets.get(place))
        .filter(|target| target.report().is_none())
        .collect();
    for target in &missing {
        match &target.failing {
            Some(failing) => {
                lines.push((safe(&failing.failure.message).into_owned(), BOLD));
                lines.extend(failing.failure.hints.iter().map(|hint| (safe(hint).into_owned(), PLAIN)));
            }
            None => lines.push((format!("waiting for the first answer of {}", safe(&target.name)), PLAIN)),
        }
    }
    if missing.is_empty() || state.view == View::History {
        lines.insert(0, (why_empty(state), PLAIN));
    }
    let room = usize::from(areas.width).saturating_sub(6).min(100);
    let wrapped = lines.iter().flat_map(|(text, style)| wrap(text, room).into_iter().map(move |line| (line, *style)));
    for (y, (line, style)) in (areas.body + 1..areas.body + areas.rows).zip(wrapped) {
        canvas.put(3, y, &line, style);
    }
}

fn why_empty(state: &State) -> String {
    if state.unfiltered > 0 {
        return format!("nothing matches \"{}\"; Esc shows all {}", safe(&state.filter), state.unfiltered);
    }
    if state.hidden > 0 {
        return match state.hidden {
            1 => "1 lock is held on purpose, and hidden; e shows it".to_owned(),
            hidden => format!("{hidden} locks are held on purpose, and hidden; e shows them"),
        };
    }
    let reports = state.shown_targets().filter_map(|place| state.report(place));
    let (mut locks, mut waiters) = (0, 0);
    for report in reports {
        locks += report.counts.locks;
        waiters += report.counts.waiters;
    }
    match state.view {
        View::Findings => {
            format!("Nothing is wrong: {} held, {waiters} waiting.", count(locks, "advisory lock"))
        }
        View::Locks => "No advisory lock is held.".to_owned(),
        View::Waits => "Nobody waits for a lock.".to_owned(),
        View::Pools => "No client is connected.".to_owned(),
        View::Keys => "No key is held, and the dictionary declares none.".to_owned(),
        View::History => "Nothing has happened yet.".to_owned(),
    }
}
