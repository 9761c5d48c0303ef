//! What is wrong in a file, with its place and an excerpt.
//!
//! It knows texts and byte offsets. It opens no file: who calls hands in the file's name and its text.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The file does not mean anything: it stops every command.
    Error,
    /// The file can be used; only `keys lint` speaks of it.
    Lint,
}

impl Level {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Lint => "lint",
        }
    }
}

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file's name as it was given.
    pub file: Arc<str>,
    /// Its line, from 1.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
    /// How much it matters.
    pub level: Level,
    /// One sentence.
    pub message: String,
    /// That line, fit for a terminal.
    pub excerpt: String,
    /// Where the caret begins below the excerpt, in columns of a terminal, and how wide it is.
    pub caret: (usize, usize),
}

/// `keys.toml:12:7: message`, and the line with a caret below.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let (before, width) = self.caret;
        writeln!(f, "{}:{}:{}: {}", printable(&self.file), self.line, self.column, self.message)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {}", self.excerpt)?;
        write!(f, "{margin} | {}{}", " ".repeat(before), "^".repeat(width))
    }
}

/// The text of a file, and where its lines begin.
#[derive(Debug, Clone)]
pub struct SourceText {
    name: Arc<str>,
    text: Arc<str>,
    /// Made when the first problem asks for it: most files have none.
    lines: OnceLock<Vec<usize>>,
    /// Whether it may hold secrets: found out once, for a file may have many problems.
    secrets: OnceLock<bool>,
}

impl SourceText {
    /// A file's name and its text.
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into(), lines: OnceLock::new(), secrets: OnceLock::new() }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line of a byte, from 1.
    pub fn line(&self, byte: usize) -> usize {
        self.lines().partition_point(|&begin| begin <= byte).max(1)
    }

    fn lines(&self) -> &[usize] {
        let begins = || std::iter::once(0).chain(self.text.match_indices('\n').map(|(place, _)| place + 1)).collect();
        self.lines.get_or_init(begins)
    }

    /// Whether the text speaks of connections, as a dictionary has no reason to.
    fn may_hold_secrets(&self) -> bool {
        *self.secrets.get_or_init(|| {
            let text = self.text.to_ascii_lowercase();
            ["password", "dsn", "postgres://", "postgresql://"].iter().any(|word| text.contains(word))
        })
    }

    /// A problem at that place.
    pub fn problem(&self, level: Level, span: Range<usize>, message: impl AsRef<str>) -> Problem {
        let line = self.line(span.start);
        let begin = self.lines().get(line - 1).copied().unwrap_or_default();
        let text = self.text.get(begin..).unwrap_or_default();
        let text = text.split('\n').next().unwrap_or_default();
        let text = text.strip_suffix('\r').unwrap_or(text);
        let place = |byte: usize| {
            let most = byte.saturating_sub(begin).min(text.len());
            (0..=most).rev().find(|&byte| text.is_char_boundary(byte)).unwrap_or_default()
        };
        let (from, to) = (place(span.start), place(span.end));
        let kept = if self.may_hold_secrets() { text.find('=').map_or(0, |place| place + 1) } else { text.len() };
        let (excerpt, caret) = if kept < text.len() {
            // A config file or a DSN in a dictionary's place: what stands behind a name is nobody's business.
            let (mut line, caret) = excerpt(text.get(..kept).unwrap_or_default(), from.min(kept), to.min(kept));
            line.push_str(if line.is_empty() { "..." } else { " ..." });
            (line, caret)
        } else {
            excerpt(text, from, to.max(from))
        };
        Problem {
            file: Arc::clone(&self.name),
            line,
            column: text.get(..from).unwrap_or_default().chars().count() + 1,
            level,
            message: printable(message.as_ref()),
            excerpt,
            caret,
        }
    }
}

/// Columns of a terminal that an excerpt may take, and how many of them stand before the caret in a longer line.
const WIDEST: usize = 100;
const BEFORE_CARET: usize = 40;

/// The part of a line around a place, and where the caret stands below it.
fn excerpt(text: &str, from: usize, to: usize) -> (String, (usize, usize)) {
    let mut before = shown(text.get(..from).unwrap_or_default());
    let marked = shown(text.get(from..to).unwrap_or_default());
    let after = shown(text.get(to..).unwrap_or_default());
    if before.width() > WIDEST - BEFORE_CARET {
        let mut kept = 0;
        let tail: Vec<char> = before
            .chars()
            .rev()
            .take_while(|c| {
                kept += c.width().unwrap_or_default();
                kept <= BEFORE_CARET
            })
            .collect();
        before = std::iter::once('…').chain(tail.into_iter().rev()).collect();
    }
    let begin = before.width();
    let width = marked.width().min(WIDEST.saturating_sub(begin)).max(1);
    let mut used = 0;
    let whole = before + &marked + &after;
    let mut line: String = whole
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or_default();
            used <= WIDEST
        })
        .collect();
    if line.len() < whole.len() {
        line.push('…');
    }
    (line.trim_end().to_owned(), (begin, width))
}

/// A text whose every character takes the columns it seems to take.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c == '\t' { ' ' } else { safe(c) }).collect()
}

/// A text that is safe to print on a line: without control characters.
pub fn printable(text: &str) -> String {
    text.chars().map(safe).collect()
}

fn safe(c: char) -> char {
    if crate::quote::is_unsafe(c) { '\u{FFFD}' } else { c }
}

/// The text of a file's bytes.
///
/// # Errors
/// The place of the first byte that is not UTF-8.
pub fn utf8<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Box<Problem>> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let text = String::from_utf8_lossy(good);
        let end = text.len();
        let message = "the file is not UTF-8 from here on: save it as UTF-8";
        Box::new(SourceText::new(file, &text).problem(Level::Error, end..end, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_file_line_column_and_a_caret() {
        let text = "[[key]]\n# x\nkey = 612001\n";
        let source = SourceText::new("keys.toml", text);
        let problem = source.problem(Level::Error, text.find("612").unwrap()..text.len() - 1, "`612001` is wrong");
        assert_eq!((problem.line, problem.column), (3, 7));
        assert_eq!(problem.to_string(), "keys.toml:3:7: `612001` is wrong\n  |\n3 | key = 612001\n  |       ^^^^^^");
    }

    #[test]
    fn a_place_at_the_end_of_the_file_or_beyond_has_a_caret_too() {
        for text in ["", "a", "a\n", "a\r\n"] {
            let source = SourceText::new("f", text);
            for place in [text.len(), text.len() + 9] {
                let shown = source.problem(Level::Error, place..place, "end").to_string();
                assert!(shown.ends_with('^'), "{shown}");
            }
        }
        let problem = SourceText::new("f", "ab\r\ncd").problem(Level::Error, 1..6, "over the end of a line");
        assert_eq!((problem.line, problem.column, problem.caret), (1, 2, (1, 1)));
        assert_eq!(problem.excerpt, "ab");
    }

    #[test]
    fn hostile_and_long_lines_keep_the_caret_in_place() {
        let text = format!("\tx = \"\u{1b}[31m日本\" # {}", "y".repeat(5000));
        let source = SourceText::new("a\u{1b}b", &text);
        let at = text.find('本').unwrap();
        let problem = source.problem(Level::Error, at..at + 3, "bad\nthing");
        assert!(!problem.to_string().contains('\u{1b}') && problem.message == "bad\u{fffd}thing");
        assert_eq!(problem.to_string().lines().count(), 4);
        assert_eq!(problem.caret, (" x = \"?[31m日".width(), 2));
        assert!(problem.excerpt.width() <= WIDEST + 1);

        let text = format!("{}= 5", "z".repeat(300));
        let problem = SourceText::new("f", &text).problem(Level::Error, 302..303, "five");
        assert_eq!(problem.column, 303);
        let under = problem.excerpt.chars().nth(problem.caret.0);
        assert_eq!(under, Some('5'));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_told_with_their_place() {
        assert_eq!(utf8("f", b"abc").unwrap(), "abc");
        let problem = utf8("f", b"ab\ncd\xff").unwrap_err();
        assert_eq!((problem.line, problem.column), (2, 3));
    }
}
