//! What can happen to the screen, and what the screen may ask for.
//!
//! Plain values: no terminal, no clock. A moment is a [`Duration`] on this process's monotonic clock, and comes with
//! each event.

use std::sync::Arc;
use std::time::Duration;

use crate::analysis::report::{Failure, TargetReport};

/// A key, as far as the screen tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character, with shift already in it.
    Char(char),
    /// A character with Ctrl held down.
    Ctrl(char),
    /// Enter
    Enter,
    /// Esc
    Esc,
    /// Tab
    Tab,
    /// Shift and Tab
    BackTab,
    /// Backspace
    Backspace,
    /// Arrow up
    Up,
    /// Arrow down
    Down,
    /// Arrow left
    Left,
    /// Arrow right
    Right,
    /// Page up
    PageUp,
    /// Page down
    PageDown,
    /// Home
    Home,
    /// End
    End,
}

/// What a mouse did, at a column and row counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mouse {
    /// The left button went down.
    Click {
        /// The column.
        column: u16,
        /// The row.
        row: u16,
    },
    /// The wheel turned up.
    WheelUp,
    /// The wheel turned down.
    WheelDown,
}

/// Something happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A key was pressed.
    Key(Key),
    /// Text was pasted.
    Paste(String),
    /// The mouse was used.
    Mouse(Mouse),
    /// The terminal has so many columns and rows now.
    Resize(u16, u16),
    /// Time has passed.
    Tick,
    /// A target was polled well.
    Report {
        /// Its place.
        target: usize,
        /// What was seen.
        report: Arc<TargetReport>,
        /// The interval that is kept instead of the wanted one, because polls are expensive.
        stretched_to: Option<Duration>,
    },
    /// A target could not be polled, or its answer is overdue.
    Failed {
        /// Its place.
        target: usize,
        /// Why.
        failure: Failure,
        /// When the next try begins.
        retry_in: Duration,
    },
    /// Saving has ended: where the file is, or why there is none.
    Saved(Result<String, String>),
    /// A signal, or the terminal's end: it is over.
    Quit,
}

/// What the screen asks of whoever runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// End.
    Quit,
    /// Give the terminal back, stop, and take it again afterwards.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Hand this to the terminal's clipboard.
    Copy(String),
    /// Leave the screen and print this as plain text, so that a mouse can select it.
    ShowPlain(String),
    /// Come back from the plain text.
    LeavePlain,
    /// Write this into a new file in the current folder.
    Save {
        /// The file's name, without `.md`.
        stem: String,
        /// Markdown.
        text: String,
    },
    /// Poll these targets now.
    Refresh(Option<usize>),
    /// Poll all targets at this interval.
    SetInterval(Duration),
}
