//! What lies over the list: the details of a row, the help, the choice of a target.

use ratatui::text::Line;

use super::Canvas;
use crate::app::top::layout::Areas;
use crate::app::top::pages;
use crate::app::top::state::{Detail, State};
use crate::app::top::theme::{BOLD, PLAIN, SELECTED};
use crate::render::style::{self, safe};

/// Returns how many lines are below the screen.
pub(super) fn detail(detail: &Detail, areas: &Areas, canvas: &mut Canvas<'_>) -> usize {
    let (title, place) = pages::detail_title(&detail.doc);
    let word = detail.doc.severity.map(|severity| severity.name().to_uppercase()).unwrap_or_default();
    let badge = detail.doc.severity.map_or(PLAIN, |severity| canvas.theme.badge(severity));
    let lines = pages::detail(detail, areas.width);
    canvas.rule(areas.title, &[(&word, badge), (&title, BOLD)], &place);
    text(&lines, detail.scroll, areas, canvas)
}

/// Returns how many lines are below the screen.
pub(super) fn help(scroll: usize, areas: &Areas, canvas: &mut Canvas<'_>) -> usize {
    canvas.rule(areas.title, &[("Help", BOLD)], "");
    text(&pages::help(areas.width), scroll, areas, canvas)
}

fn text(lines: &[Line<'_>], scroll: usize, areas: &Areas, canvas: &mut Canvas<'_>) -> usize {
    let rows = areas.overlay_rows();
    let scroll = scroll.min(lines.len().saturating_sub(rows));
    for (y, line) in (areas.title + 1..areas.footer).zip(&lines[scroll..]) {
        canvas.buffer.set_line(0, y, line, canvas.width);
    }
    lines.len().saturating_sub(scroll + rows)
}

pub(super) fn picker(state: &State, position: usize, areas: &Areas, canvas: &mut Canvas<'_>) {
    canvas.rule(areas.title, &[("Choose a target", BOLD)], "");
    let rows = areas.overlay_rows();
    let first = (position + 1).saturating_sub(rows);
    let width = usize::from(areas.width) / 3;
    for (y, place) in (areas.title + 1..areas.footer).zip(first..=state.targets.len()) {
        let (name, words) = match place.checked_sub(1).and_then(|place| state.targets.get(place)) {
            None => (format!("all {} targets", state.targets.len()), String::new()),
            Some(target) => (safe(&target.name).into_owned(), about(state, target)),
        };
        canvas.put_in(2, y, u16::try_from(width).unwrap_or(u16::MAX), &name, false, BOLD);
        canvas.put(u16::try_from(width + 4).unwrap_or(u16::MAX), y, &words, PLAIN);
        if place == position {
            canvas.style_line(y, SELECTED);
            canvas.put(0, y, "▸", SELECTED);
        }
    }
}

fn about(state: &State, target: &crate::app::top::state::Target) -> String {
    if let Some(silence) = target.silence(state.now) {
        return format!("no answer for {} s", silence.lasted.as_secs());
    }
    let Some(report) = target.report() else { return "connecting ...".to_owned() };
    let counted = crate::render::counted(report).count();
    let waiting = report.counts.waiters;
    format!("{}, {}, {waiting} waiting", style::count(counted, "finding"), style::count(report.counts.locks, "lock"))
}
