//! The bottom line: the filter being typed, what has just been done, or what can be done here.

use unicode_width::UnicodeWidthStr as _;

use super::Canvas;
use crate::app::top::layout::Areas;
use crate::app::top::state::{Overlay, State};
use crate::app::top::theme::{BOLD, PLAIN, SELECTED};
use crate::render::style::{cut, safe};

/// A key and what it does. The last ones go first where there is no room.
type Hint = (&'static str, &'static str);

const LIST: &[Hint] = &[
    ("enter", "details"),
    ("/", "filter"),
    ("?", "help"),
    ("q", "quit"),
    ("y", "copy SQL"),
    ("< >", "sort"),
    ("space", "pause"),
    ("e", "expected"),
    ("s", "save"),
    ("+ -", "faster, slower"),
    ("R", "poll now"),
];

const SEVERAL: &[Hint] = &[("t", "target")];

const DETAIL: &[Hint] = &[
    ("esc", "back"),
    ("y", "copy SQL"),
    ("v", "plain SQL"),
    ("s", "save"),
    ("↑ ↓", "scroll"),
    ("← →", "other rows"),
    ("q", "quit"),
];

const TEXT: &[Hint] = &[("esc", "back"), ("↑ ↓", "scroll"), ("q", "quit")];

const PICKER: &[Hint] = &[("enter", "choose"), ("esc", "back"), ("↑ ↓", "move"), ("q", "quit")];

pub(super) fn draw(state: &State, areas: &Areas, below: usize, canvas: &mut Canvas<'_>) {
    let y = areas.footer;
    let mut end = areas.width;
    if below > 0 {
        let more = format!(" {below} more below ");
        end = end.saturating_sub(u16::try_from(more.len()).unwrap_or(0) + 1);
        canvas.put(end, y, &more, SELECTED);
    }
    if state.typing {
        return prompt(state, y, canvas);
    }
    if let Some(notice) = &state.notice {
        let room = usize::from(end).saturating_sub(2);
        canvas.put(1, y, &cut(&safe(&notice.text), room), BOLD);
        return;
    }
    let hints: Vec<Hint> = match &state.overlay {
        Some(Overlay::Detail(_)) => DETAIL.to_vec(),
        Some(Overlay::Help { .. } | Overlay::Plain(_)) => TEXT.to_vec(),
        Some(Overlay::Picker { .. }) => PICKER.to_vec(),
        None if state.several() || state.chosen.is_some() => [&LIST[..4], SEVERAL, &LIST[4..]].concat(),
        None => LIST.to_vec(),
    };
    let mut x = 1;
    for (key, words) in hints {
        let width = u16::try_from(key.width() + 1 + words.width()).unwrap_or(u16::MAX);
        if x + width >= end {
            break;
        }
        x = canvas.put(x, y, key, canvas.theme.key());
        x = canvas.put(x + 1, y, words, PLAIN) + 2;
    }
}

fn prompt(state: &State, y: u16, canvas: &mut Canvas<'_>) {
    let filter = safe(&state.filter);
    let hint = "enter keeps it, esc clears it";
    let room = usize::from(canvas.width).saturating_sub(4);
    // What is typed stands at the end.
    let skipped = filter.width().saturating_sub(room);
    let mut seen = 0;
    let shown: String = filter
        .chars()
        .skip_while(|c| {
            let skip = seen < skipped;
            seen += unicode_width::UnicodeWidthChar::width(*c).unwrap_or(0);
            skip
        })
        .collect();
    let mut x = canvas.put(1, y, "/", canvas.theme.key());
    x = canvas.put(x, y, &shown, BOLD);
    x = canvas.put(x, y, " ", SELECTED);
    let width = u16::try_from(hint.len()).unwrap_or(u16::MAX);
    if x + 3 + width < canvas.width {
        canvas.put(canvas.width - width - 1, y, hint, PLAIN);
    }
}
