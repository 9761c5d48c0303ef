//! From the state to a frame. Only what shows is made into words and drawn.
//!
//! It knows the screen's buffer and colours. It changes nothing and knows no terminal.

mod footer;
mod header;
mod list;
mod overlay;
mod preview;

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr as _;

use super::state::{Overlay, State};
use super::theme::{BOLD, DIM, Theme};
use crate::render::style;

/// The least that makes sense.
const LEAST: (u16, u16) = (40, 10);

/// Draws the whole screen.
pub fn draw(state: &State, theme: Theme, buffer: &mut Buffer) {
    let area = *buffer.area();
    let mut canvas = Canvas { buffer, width: area.width, height: area.height, theme };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.put(0, 0, "too small: 60x15 or more", DIM);
        return;
    }
    let areas = super::layout::areas((area.width, area.height), state.view);
    header::draw(state, &areas, &mut canvas);
    let below = match &state.overlay {
        Some(Overlay::Detail(detail)) => overlay::detail(detail, &areas, &mut canvas),
        Some(Overlay::Help { scroll }) => overlay::help(*scroll, &areas, &mut canvas),
        Some(Overlay::Picker { position }) => {
            overlay::picker(state, *position, &areas, &mut canvas);
            0
        }
        Some(Overlay::Plain(_)) | None => {
            list::draw(state, &areas, &mut canvas);
            preview::draw(state, &areas, &mut canvas);
            0
        }
    };
    footer::draw(state, &areas, below, &mut canvas);
}

/// What is drawn on.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    width: u16,
    height: u16,
    theme: Theme,
}

impl Canvas<'_> {
    /// Puts a safe text there; what does not fit on the line is cut off. Returns the column behind it.
    fn put(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        if y >= self.height || x >= self.width {
            return x;
        }
        self.buffer.set_stringn(x, y, text, usize::from(self.width - x), style).0
    }

    /// Puts a safe text into a column of this width, cut in the middle where it is too long.
    fn put_in(&mut self, x: u16, y: u16, width: u16, text: &str, to_the_right: bool, style: Style) {
        let cut = style::cut(text, usize::from(width));
        let used = u16::try_from(cut.width()).unwrap_or(width).min(width);
        let x = if to_the_right { x + (width - used) } else { x };
        self.put(x, y, &cut, style);
    }

    /// Puts the beginning of a safe text into a column of this width.
    fn put_beginning(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let end = self.buffer.set_stringn(x, y, text, usize::from(width.saturating_sub(1)), style).0;
        self.put(end, y, "…", style);
    }

    /// A rule across the screen with words on its left and right.
    fn rule(&mut self, y: u16, left: &[(&str, Style)], right: &str) {
        self.put(0, y, &"─".repeat(usize::from(self.width)), DIM);
        let mut x = 2;
        for (text, style) in left.iter().filter(|(text, _)| !text.is_empty()) {
            let room = usize::from(self.width.saturating_sub(x + 4));
            let text = style::cut(text, room).into_owned();
            x = self.put(x, y, &format!(" {text} "), *style);
        }
        let used = u16::try_from(right.width() + 2).unwrap_or(self.width);
        if !right.is_empty() && x + 1 + used + 2 <= self.width {
            self.put(self.width - used - 2, y, &format!(" {right} "), BOLD);
        }
    }

    /// Changes the style of a whole line.
    fn style_line(&mut self, y: u16, style: Style) {
        self.buffer.set_style(ratatui::layout::Rect { x: 0, y, width: self.width, height: 1 }, style);
    }
}
