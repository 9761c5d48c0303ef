//! The terminal while `top` has it: the other screen, no cursor, and all given back at the end.

use std::io::{self, Write as _};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};

use crate::error::{Error, Result};
use crate::render::style::Screen;

/// Has the terminal until it is dropped, also by a panic.
pub(super) struct Terminal {
    out: io::Stdout,
}

impl Terminal {
    /// Takes the terminal that standard output is.
    pub fn take() -> Result<Self> {
        // Made first: should the second command fail, the first is undone.
        let mut terminal = Self { out: io::stdout() };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Gives the terminal back while something else has it.
    pub fn lend(&mut self, borrower: impl FnOnce()) -> Result<()> {
        self.leave();
        borrower();
        self.enter()
    }

    fn enter(&mut self) -> Result<()> {
        execute!(self.out, EnterAlternateScreen, Hide).map_err(Error::output)
    }

    fn leave(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = execute!(self.out, Show, LeaveAlternateScreen);
    }

    /// The screen at its present size: windows are resized.
    pub fn fit(screen: Screen) -> Screen {
        match terminal::size() {
            Ok((columns, rows)) if columns > 0 && rows > 0 => {
                Screen { width: Some(usize::from(columns)), height: Some(usize::from(rows)), ..screen }
            }
            _ => screen,
        }
    }

    /// Draws over what was there, line by line, so that nothing flickers.
    pub fn draw(&mut self, text: &str) -> Result<()> {
        let mut bytes = Vec::with_capacity(text.len() + 1024);
        queue!(bytes, BeginSynchronizedUpdate, MoveTo(0, 0)).map_err(Error::output)?;
        for line in text.lines() {
            bytes.extend_from_slice(line.as_bytes());
            queue!(bytes, Clear(ClearType::UntilNewLine)).map_err(Error::output)?;
            bytes.extend_from_slice(b"\r\n");
        }
        queue!(bytes, Clear(ClearType::FromCursorDown), EndSynchronizedUpdate).map_err(Error::output)?;
        self.out.write_all(&bytes).and_then(|()| self.out.flush()).map_err(Error::output)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}
