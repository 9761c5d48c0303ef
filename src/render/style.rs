//! How texts look on a screen: colours, hostile text made harmless, cutting, wrapping, durations.
//!
//! Whether there are colours, and how wide the screen is, comes in as an argument.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

pub use crate::units::{duration, held, waited};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::analysis::report::Severity;
use crate::quote;

/// What kind of screen is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Screen {
    /// Use colours.
    pub color: bool,
    /// Columns; nothing for a pipe or a file, where no line is cut or wrapped.
    pub width: Option<usize>,
    /// Rows; nothing where the output may be as long as it likes.
    pub height: Option<usize>,
}

/// What a piece of text is, as far as its colour goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Of this severity.
    Severity(Severity),
    /// All is well.
    Good,
    /// Stands out.
    Strong,
    /// Steps back: silenced, old.
    Faint,
}

impl Screen {
    /// The text in its colour. The text must be safe already.
    pub fn paint(self, paint: Paint, text: &str) -> Cow<'_, str> {
        if !self.color || text.is_empty() {
            return Cow::Borrowed(text);
        }
        let code = match paint {
            Paint::Severity(Severity::Critical) => "1;31",
            Paint::Severity(Severity::Warning) => "33",
            Paint::Severity(Severity::Unknown) => "35",
            Paint::Severity(Severity::Info) => "36",
            Paint::Good => "32",
            Paint::Strong => "1",
            Paint::Faint => "2",
        };
        Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
    }
}

/// The text with every character escaped that could do something to a terminal or to the text around it: control
/// characters (`\n`, `\u{1b}`), those that change the direction of writing, and other invisible ones.
pub fn safe(text: &str) -> Cow<'_, str> {
    if is_plain(text) || !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if is_unsafe(c) => {
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character is escaped in everything that may reach a terminal.
pub(super) fn is_unsafe(c: char) -> bool {
    // Beside what SQL must not hold as it is: the Arabic letter mark, soft hyphen, fillers and tags, all invisible.
    quote::is_unsafe(c)
        || matches!(
            c,
            '\u{AD}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{180E}' | '\u{3164}' | '\u{FFA0}' | '\u{E0000}'
                ..='\u{E007F}'
        )
}

/// How many columns a safe text takes.
pub fn width(text: &str) -> usize {
    if is_plain(text) {
        return text.len();
    }
    text.width()
}

/// Whether it is printable ASCII: nearly all text is, and of that nothing needs to be looked up.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// A safe text cut to at most this many columns, in the middle: both ends of a name tell more than its middle.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    if columns == 0 {
        return Cow::Borrowed("");
    }
    let room = columns - 1;
    let front = take_columns(text.chars(), room.div_ceil(2));
    let back: String = take_columns(text.chars().rev(), room - width(&front)).chars().rev().collect();
    Cow::Owned(format!("{front}…{back}"))
}

fn take_columns(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut taken = 0;
    chars
        .take_while(|c| {
            taken += c.width().unwrap_or(0);
            taken <= columns
        })
        .collect()
}

/// A safe text filled up with blanks to this many columns.
pub fn pad(text: &str, columns: usize) -> String {
    let blanks = columns.saturating_sub(width(text));
    format!("{text}{:blanks$}", "")
}

/// A safe text as lines of at most this many columns, broken at blanks. A longer word is broken where it must.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let needed = width(word) + usize::from(!line.is_empty());
        if !line.is_empty() && width(&line) + needed > columns {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        while width(&line) > columns {
            let head = take_columns(line.chars(), columns);
            // A single character may be wider than the whole line.
            let cut = if head.is_empty() { line.chars().next().map_or(0, char::len_utf8) } else { head.len() };
            let rest = line.split_off(cut);
            lines.push(std::mem::replace(&mut line, rest));
        }
    }
    lines.push(line);
    lines
}

/// A duration in milliseconds, for what is short: `2.1 ms`.
pub fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1_000.0)
}

/// `1 lock`, `2 locks`: with the plural's s.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_shown_and_not_obeyed() {
        assert_eq!(safe("a\nb\r\t\u{1b}[31m\u{7}"), "a\\nb\\r\\t\\u{1b}[31m\\u{7}");
        assert_eq!(safe("\u{202e}evil\u{61c}\u{e0041}"), "\\u{202e}evil\\u{61c}\\u{e0041}");
        assert_eq!(safe("\u{9b}31m"), "\\u{9b}31m");
        assert!(matches!(safe("größe 表"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_cut_keeps_both_ends_and_counts_wide_characters_twice() {
        assert_eq!(cut("nightly-report", 14), "nightly-report");
        assert_eq!(cut("nightly-report", 9), "nigh…port");
        assert_eq!(cut("表表表表表", 6), "表…表");
        assert_eq!(cut("表表表表表", 7), "表…表表");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(cut("abc", 0), "");
    }

    #[test]
    fn wrapping_never_makes_a_line_too_long_and_loses_nothing() {
        let text = "one two three aaaaaaaaaaaaaaaaaaaaaaaa 表表表表表表 end";
        for columns in 1..30 {
            let lines = wrap(text, columns);
            assert!(columns == 1 || lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:?}");
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        }
        assert_eq!(wrap("", 10), [""]);
    }
}
