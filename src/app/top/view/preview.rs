//! What the selected finding means, below the list, where there is room.

use ratatui::style::Style;

use super::Canvas;
use crate::app::top::layout::Areas;
use crate::app::top::state::State;
use crate::app::top::theme::{BOLD, PLAIN};
use crate::render::style::{safe, wrap};
use crate::rules::advice::VERIFY;

pub(super) fn draw(state: &State, areas: &Areas, canvas: &mut Canvas<'_>) {
    let Some((first, rows)) = areas.preview else { return };
    canvas.rule(first, &[], "");
    let Some(finding) = state.selected().and_then(|row| state.finding(row)) else { return };
    let room = usize::from(areas.width).saturating_sub(2);
    let shown = usize::from(rows.saturating_sub(1));
    // The evidence says what the row does not.
    let text = match finding.detail.first() {
        Some(evidence) => format!("{} {evidence}", finding.summary),
        None => finding.summary.clone(),
    };
    let step = finding.advice.steps.iter().find(|step| !step.starts_with(VERIFY)).and_then(|step| step.lines().next());
    let mut lines: Vec<(String, Style)> = Vec::new();
    // What to do keeps one line at least.
    let kept = usize::from(step.is_some() && shown > 2);
    lines.extend(beginning(&text, room, shown - kept).into_iter().map(|line| (line, PLAIN)));
    if let Some(step) = step {
        let left = shown - lines.len().min(shown);
        lines.extend(beginning(&format!("Do: {step}"), room, left).into_iter().map(|line| (line, BOLD)));
    }
    for (y, (line, style)) in (first + 1..).zip(lines) {
        canvas.put(1, y, &line, style);
    }
}

/// The first lines of a text; that there are more is shown.
fn beginning(text: &str, room: usize, most: usize) -> Vec<String> {
    let mut lines = wrap(&safe(text), room);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = format!("{} …", wrap(last, room.saturating_sub(2)).first().map_or("", String::as_str));
        }
    }
    lines
}
