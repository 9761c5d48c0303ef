//! The program on a terminal: keys go in, a screen comes out.

use std::ffi::OsStr;
use std::io::{Read as _, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::Parser;

const ROWS: NonZeroU16 = NonZeroU16::new(40).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(140).unwrap();

/// A program that runs on a terminal of its own.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    writer: Box<dyn Write + Send>,
    output: Arc<Mutex<Output>>,
    // Closing it hangs up.
    master: Box<dyn MasterPty + Send>,
}

struct Output {
    parser: Parser,
    raw: Vec<u8>,
}

impl Terminal {
    /// Starts pglockwatch with these arguments in an otherwise clean environment.
    pub fn start<A: AsRef<OsStr>>(
        home: &Path,
        args: impl IntoIterator<Item = A>,
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start_program(env!("CARGO_BIN_EXE_pglockwatch"), home, args, environment)
    }

    /// Starts any program.
    pub fn start_program<A: AsRef<OsStr>>(
        program: &str,
        home: &Path,
        args: impl IntoIterator<Item = A>,
        environment: &[(&str, &str)],
    ) -> Self {
        let pair = native_pty_system().openpty(size(ROWS, COLUMNS)).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.env_clear();
        command.cwd(home);
        command.env("HOME", home);
        command.env("TERM", "xterm-256color");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        let output = Arc::new(Mutex::new(Output { parser: Parser::new(ROWS, COLUMNS, 0), raw: Vec::new() }));
        let mut reader = pair.master.try_clone_reader().unwrap();
        spawn({
            let output = Arc::clone(&output);
            move || {
                let mut buffer = [0; 4096];
                // The end of a terminal is an error on Linux.
                while let Ok(length @ 1..) = reader.read(&mut buffer) {
                    let mut output = output.lock().unwrap();
                    output.parser.process(&buffer[..length]);
                    output.raw.extend_from_slice(&buffer[..length]);
                }
            }
        });
        Self { child, writer: pair.master.take_writer().unwrap(), output, master: pair.master }
    }

    /// What stands on the screen.
    pub fn screen(&self) -> String {
        self.output.lock().unwrap().parser.screen().contents()
    }

    /// Everything that was written, escape sequences and all.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap().raw).into_owned()
    }

    /// Waits until this stands on the screen.
    pub fn wait_for(&self, text: &str, at_most: Duration) {
        self.wait_until(&format!("no {text:?} on the screen"), at_most, |screen| screen.contains(text));
    }

    /// Waits until the screen is as it should be, which is wrong until then.
    pub fn wait_until(&self, wrong: &str, at_most: Duration, is_right: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_right(&self.screen()) {
            assert!(began.elapsed() < at_most, "{wrong} within {at_most:?}:\n{}", self.screen());
            sleep(Duration::from_millis(20));
        }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Waits for its end, and returns the exit code.
    pub fn wait(&mut self, at_most: Duration) -> u32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(began.elapsed() < at_most, "it did not end within {at_most:?}:\n{}", self.screen());
            sleep(Duration::from_millis(20));
        }
    }

    /// Whether the screen is as a shell wants it back: the main one, with a cursor.
    pub fn is_restored(&self) -> bool {
        let restored = || {
            let output = self.output.lock().unwrap();
            !output.parser.screen().alternate_screen() && !output.parser.screen().hide_cursor()
        };
        // What the program wrote last may still be on its way when it has ended.
        let began = Instant::now();
        while !restored() && began.elapsed() < Duration::from_secs(5) {
            sleep(Duration::from_millis(20));
        }
        restored()
    }

    /// Changes the size.
    pub fn resize(&self, rows: NonZeroU16, columns: NonZeroU16) {
        // As terminals do it: they have the new size themselves before the program hears of it.
        let mut output = self.output.lock().unwrap();
        output.parser.screen_mut().set_size(rows, columns);
        self.master.resize(size(rows, columns)).unwrap();
    }
}

fn size(rows: NonZeroU16, columns: NonZeroU16) -> PtySize {
    PtySize { rows: rows.get(), cols: columns.get(), pixel_width: 0, pixel_height: 0 }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
