//! The log: to stderr, as logfmt or JSON, one event per line.
//!
//! It knows how an event is written. What is logged, and that no password is in it, is the business of whoever logs.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::cli::{LogFormat, LogLevel};
use crate::render::style;

/// From now on events go to stderr. Called once; a second call changes nothing.
pub fn init(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    // Libraries below us may log what we would not: queries, addresses.
    let only_ours = Targets::new().with_target("pglockwatch", level);
    let layer = tracing_subscriber::fmt::layer().with_writer(|| Stderr).with_ansi(false);
    let registry = tracing_subscriber::registry();
    // Only a second call can fail.
    let _ = match format {
        LogFormat::Logfmt => registry.with(layer.event_format(Logfmt).with_filter(only_ours)).try_init(),
        LogFormat::Json => {
            registry.with(layer.json().flatten_event(true).with_target(false).with_filter(only_ours)).try_init()
        }
    };
}

/// More bytes are not kept while the log is held back.
const MOST_HELD: usize = 64 * 1024;

/// What is held back; nothing while the log goes out as it comes.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Keeps the log back until it is dropped, for as long as something else has the terminal that stderr is.
#[derive(Debug)]
pub struct Hold(());

impl Hold {
    /// Keeps the log back from now on. A log that goes into a file or a pipe needs no keeping.
    pub fn back() -> Self {
        if io::stderr().is_terminal() {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        }
        Self(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If stderr is closed there is nobody to tell.
        let _ = io::stderr().lock().write_all(&held.unwrap_or_default());
    }
}

/// Standard error, or what is kept back for it.
struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match HELD.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(held) if held.len() + bytes.len() > MOST_HELD => Ok(bytes.len()),
            Some(held) => held.write(bytes),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// `ts=... level=warn msg="..." target=orders`
struct Logfmt;

impl<S, N> FormatEvent<S, N> for Logfmt
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let level = event.metadata().level().as_str().to_lowercase();
        let mut fields = Fields::default();
        event.record(&mut fields);
        writeln!(writer, "ts={now} level={level}{}", fields.text)
    }
}

/// The event's own fields, in order.
#[derive(Default)]
struct Fields {
    text: String,
}

impl Fields {
    fn push(&mut self, field: &Field, value: &str) {
        let name = if field.name() == "message" { "msg" } else { field.name() };
        let _ = write!(self.text, " {name}={}", quoted(value));
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, &format!("{value:?}"));
    }
}

/// A value as logfmt has it: bare if it is one plain word, else in double quotes with escapes.
fn quoted(value: &str) -> String {
    let bare = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || "\"=\\".contains(c));
    if bare && style::safe(value) == value {
        return value.to_owned();
    }
    format!("\"{}\"", style::safe(&value.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_values_stay_on_their_line() {
        assert_eq!(quoted("orders"), "orders");
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(quoted("a b"), "\"a b\"");
        assert_eq!(quoted("a\"\n\u{1b}[31m\\"), "\"a\\\"\\n\\u{1b}[31m\\\\\"");
    }
}
