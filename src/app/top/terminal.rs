//! The terminal while the screen has it: raw, on its other page, with the mouse. Given back whatever happens.
//!
//! It knows the terminal and nothing of what is drawn.

use std::io::{self, Stdout, Write as _};
use std::mem::ManuallyDrop;
use std::sync::Once;

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::error::{Error, Result};
use crate::render::style::safe;

/// Has the terminal until it is dropped.
pub struct Screen {
    // Never dropped: it would show the cursor, as we do, and panic where the terminal is gone and standard error with it.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
}

impl Screen {
    /// Takes the terminal that standard input and output are.
    ///
    /// # Errors
    /// It cannot be set up: it is gone, or is none.
    pub fn take() -> Result<Self> {
        restore_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).map_err(unusable)?;
        // Made first: should setting up fail half-way, what was done is undone.
        let mut screen = Self { terminal: ManuallyDrop::new(terminal) };
        screen.set_up()?;
        Ok(screen)
    }

    fn set_up(&mut self) -> Result<()> {
        enable_raw_mode().map_err(unusable)?;
        let out = self.terminal.backend_mut();
        execute!(out, EnterAlternateScreen, EnableMouseCapture, EnableBracketedPaste, Hide).map_err(unusable)
    }

    /// Columns and rows.
    pub fn size(&self) -> (u16, u16) {
        self.terminal.size().map_or((80, 24), |size| (size.width, size.height))
    }

    /// Draws a frame; only what has changed is written.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Buffer)) -> Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate).map_err(Error::output)?;
        self.terminal.draw(|frame| draw(frame.buffer_mut())).map_err(Error::output)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate).map_err(Error::output)
    }

    /// Forgets what is on the terminal, so that the next frame is drawn whole.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn forget(&mut self) -> Result<()> {
        // Not `clear`: that asks the terminal where its cursor is, and the thread that reads keys would take the answer.
        let (width, height) = self.size();
        // The next frame ends it: an empty screen would flicker.
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate).map_err(Error::output)?;
        self.terminal.resize(Rect { x: 0, y: 0, width, height }).map_err(Error::output)
    }

    /// Takes the terminal again after it was given back, or after somebody else may have changed it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn retake(&mut self) -> Result<()> {
        // Whoever had it meanwhile may have left other modes: raw mode is set anew, not believed in.
        disable_raw_mode().map_err(unusable)?;
        self.set_up()?;
        self.forget()
    }

    /// Gives the terminal back and stops this process and its group, as Ctrl-Z does. Returns when they go on; false if
    /// there is no shell that could make them go on, and nothing was done.
    ///
    /// # Errors
    /// The terminal is gone, or nobody may be stopped.
    #[cfg(unix)]
    pub fn suspend(&mut self) -> Result<bool> {
        use rustix::process::{Signal, getpgrp, getsid, kill_current_process_group};
        // A shell with jobs gives each a group of its own. The session's first group has nobody above it.
        if getsid(None).is_ok_and(|session| session == getpgrp()) {
            return Ok(false);
        }
        restore();
        let stopped = kill_current_process_group(Signal::STOP);
        self.retake()?;
        stopped.map(|()| true).map_err(|error| Error::failure("cannot suspend").caused_by(io::Error::from(error)))
    }

    /// There is nothing to suspend to.
    ///
    /// # Errors
    /// Never.
    #[cfg(not(unix))]
    pub fn suspend(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Hands a text to the terminal's clipboard (OSC 52). Whether it takes it, it does not say.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn copy(&mut self, text: &str) -> Result<()> {
        execute!(self.terminal.backend_mut(), CopyToClipboard::to_clipboard_from(text)).map_err(Error::output)
    }

    /// Leaves the other page and prints a text as it is, so that a mouse can select it and it stays when we end. Keys
    /// still come to us one by one.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show_plain(&mut self, text: &str) -> Result<()> {
        let out = self.terminal.backend_mut();
        queue!(&mut *out, DisableMouseCapture, LeaveAlternateScreen, Show).map_err(Error::output)?;
        let lines = text.lines().fold(String::new(), |lines, line| lines + &safe(line) + "\r\n");
        let page = format!("\r\n{lines}\r\n-- any key: back to pglockwatch\r\n");
        out.write_all(page.as_bytes()).and_then(|()| out.flush()).map_err(Error::output)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn unusable(error: io::Error) -> Error {
    Error::failure("cannot use this terminal").caused_by(error).hint("Without a screen: pglockwatch top --once")
}

/// Gives the terminal back. A terminal that is gone needs nothing back.
fn restore() {
    let _ = execute!(
        io::stdout(),
        EndSynchronizedUpdate,
        DisableBracketedPaste,
        DisableMouseCapture,
        LeaveAlternateScreen,
        Show
    );
    let _ = disable_raw_mode();
}

/// A panic's message must be readable, and the shell behind it usable.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;

    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    use super::*;

    const CHILD: &str = "PGLOCKWATCH_TEST_PANIC_ON_SCREEN";

    /// Does nothing but in the process that the test below starts.
    #[test]
    fn child_that_panics_with_the_screen_open() {
        if std::env::var_os(CHILD).is_some() {
            let mut screen = Screen::take().unwrap();
            screen.draw(|buffer| buffer.set_string(0, 0, "drawn", ratatui::style::Style::new())).unwrap();
            panic!("on purpose");
        }
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_told() {
        let pair = native_pty_system().openpty(PtySize::default()).unwrap();
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--nocapture", "app::top::terminal::tests::child_that_panics_with_the_screen_open"]);
        command.env(CHILD, "1");
        let before = pair.master.get_termios().unwrap();
        let mut child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let read = std::thread::spawn(move || {
            let mut output = Vec::new();
            // The end of a terminal is an error on Linux.
            let _ = reader.read_to_end(&mut output);
            String::from_utf8_lossy(&output).into_owned()
        });
        child.wait().unwrap();
        assert_eq!(pair.master.get_termios().unwrap(), before);
        drop(pair);
        let output = read.join().unwrap();
        let place = |text: &str| output.find(text).unwrap_or_else(|| panic!("no {text:?}: {output:?}"));
        assert!(place("drawn") < place("\u{1b}[?1049l") && place("\u{1b}[?1049l") < place("on purpose"));
        assert!(place("\u{1b}[?1000h") < place("\u{1b}[?1000l") && place("\u{1b}[?25l") < place("\u{1b}[?25h"));
    }
}
