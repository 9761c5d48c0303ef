//! The screen without a terminal: what a key press and a frame cost can be measured with it.

use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::event::{Event, Key};
use super::state::{State, Target};
use super::theme::Theme;
use super::view;
use crate::analysis::report::TargetReport;

/// A screen of one target.
#[derive(Debug)]
pub struct Rehearsal {
    state: State,
    buffer: Buffer,
    now: Duration,
}

impl Rehearsal {
    /// Of so many columns and rows.
    #[must_use]
    pub fn new(columns: u16, rows: u16) -> Self {
        let interval = Duration::from_secs(2);
        let target = Target::new("primary".to_owned(), interval, Vec::new());
        let state = State::new(vec![target], interval, (columns, rows));
        Self { state, buffer: Buffer::empty(Rect::new(0, 0, columns, rows)), now: Duration::ZERO }
    }

    /// A poll has ended.
    pub fn show(&mut self, report: Arc<TargetReport>) {
        self.now += Duration::from_secs(2);
        self.update(Event::Report { target: 0, report, stretched_to: None });
    }

    /// A key that is a character was pressed; escape is `\u{1b}`.
    pub fn press(&mut self, key: char) {
        self.update(Event::Key(if key == '\u{1b}' { Key::Esc } else { Key::Char(key) }));
    }

    /// Draws the whole screen into memory.
    pub fn draw(&mut self) {
        self.buffer.reset();
        view::draw(&self.state, Theme { color: true }, &mut self.buffer);
    }

    /// What the screen wishes beyond being drawn has no place here.
    fn update(&mut self, event: Event) {
        drop(self.state.update(self.now, event));
    }
}
