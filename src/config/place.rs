//! Where in the config something is wrong: line, column and a caret, and never a value that may hold a password.

use std::ops::Range;

use crate::error::Error;

/// The text of a config file and how to call it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// `pglockwatch.toml:12:7: sentence`, with the line and a caret below it.
    pub fn error(self, span: Option<Range<usize>>, sentence: &str) -> Error {
        let Some(span) = span else {
            return Error::usage(format!("{}: {sentence}", self.name));
        };
        let start = self.floor(span.start);
        let before = &self.text[..start];
        let number = before.matches('\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[line_start..].lines().next().unwrap_or("");
        let column = self.text[line_start..start].chars().count() + 1;
        let length = self.text[start..self.floor(span.end.max(start))].lines().next().unwrap_or("").chars().count();
        let (shown, hidden) = without_secrets(line);
        let mut error = Error::usage(format!("{}:{number}:{column}: {sentence}", self.name));
        // A caret under what is not shown would point at nothing.
        if !hidden || column <= shown.chars().count() {
            let carets = length.clamp(1, (shown.chars().count() + 2).saturating_sub(column).max(1));
            let margin = number.to_string().len();
            error = error.excerpt(format!(
                "{:margin$} |\n{number} | {shown}\n{:margin$} | {:>width$}",
                "",
                "",
                "^".repeat(carets),
                width = column - 1 + carets
            ));
        }
        error
    }

    fn floor(self, at: usize) -> usize {
        let at = at.min(self.text.len());
        (0..=at).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0)
    }
}

/// Keys whose values are no secrets. Any other value is left out: it may be a DSN under a mistyped name, or part of a
/// text of several lines.
const HARMLESS: &[&str] = &[
    "interval",
    "timeout",
    "keys",
    "application_group",
    "idle",
    "wait",
    "hoard",
    "critical_after",
    "name",
    "password_file",
    "labels",
];

/// A line as far as it may be shown, and whether something was left out. Tabs become blanks, so that carets fit.
fn without_secrets(line: &str) -> (String, bool) {
    let line = line.replace('\t', " ");
    let harmless = match line.split_once('=') {
        _ if line.trim_start().starts_with('[') => !line.contains('='),
        Some((key, value)) => HARMLESS.contains(&key.trim()) && !value.contains("://") && !value.contains("password="),
        None => false,
    };
    if harmless {
        return (line, false);
    }
    match line.split_once('=') {
        Some((key, _)) if key.trim().chars().all(|c| c.is_ascii_alphanumeric() || "_-. \"'".contains(c)) => {
            (format!("{key}= ..."), true)
        }
        _ => ("...".to_owned(), true),
    }
}

/// serde's sentences in the words of TOML, whoever writes it need not know Rust. They quote a text that stands where
/// something else belongs: it may be a DSN.
pub(super) fn plain_sentence(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let found = match found.split_once(": ") {
        Some((error @ ("invalid type" | "invalid value"), found)) => {
            let kind = found.split(' ').next().unwrap_or_default();
            let found = match kind {
                "string" => "string",
                "map" => "table",
                "sequence" => "array",
                _ => found,
            };
            format!("{error}: {found}")
        }
        _ => found.to_owned(),
    };
    let expected = match expected {
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "a sequence" => "an array, as [...] or of [[...]]",
        "a map" => "a table",
        "a boolean" => "true or false",
        other => other,
    };
    format!("{found}, expected {expected}")
}
