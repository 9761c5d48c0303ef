//! Small pieces of sentences: lists of pids, names of strangers, commands.
//!
//! Pure text. What a stranger chose stays one line and keeps its end visible; front ends make it safe for their medium.

use crate::model::{Backend, Pid};
use crate::quote;

/// More than this many things of a list are counted instead of named.
pub const NAMED: usize = 10;

/// `pid 4711`, `pids 1, 2 and 3`, `pids 1, 2, ... and 12 more`.
pub fn pids(pids: &[Pid]) -> String {
    let texts: Vec<String> = pids.iter().take(NAMED).map(ToString::to_string).collect();
    format!("{} {}", if pids.len() == 1 { "pid" } else { "pids" }, list_of(&texts, pids.len()))
}

/// A list in prose, cut with a count.
pub fn list(items: &[String]) -> String {
    list_of(items, items.len())
}

/// A list in prose of so many, of which at least the first [`NAMED`] are given.
pub fn list_of(items: &[String], count: usize) -> String {
    if count > NAMED {
        let named = items.get(..NAMED).unwrap_or_default();
        return format!("{} and {} more", named.join(", "), count - NAMED);
    }
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A name that a stranger chose, as part of a sentence: bare if it is a plain word, else quoted with escapes.
pub fn name(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_.:/#@+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if quote::is_unsafe(c) => quoted.extend(c.escape_default()),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// An application by name, or the session by pid where it gives none.
pub fn application(backend: &Backend) -> String {
    if backend.application.is_empty() {
        format!("the client of pid {}", backend.pid)
    } else {
        name(&backend.application)
    }
}

/// A text of the dictionary, kept on one line.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if quote::is_unsafe(c) { ' ' } else { c }).collect()
}

/// The command that looks at one key again. Key texts are digits, signs, commas, slashes and parentheses; the shell
/// would read the parentheses.
pub fn check_key(key: &str) -> String {
    if key.contains('(') {
        format!("pglockwatch check --key '{key}'")
    } else {
        format!("pglockwatch check --key {key}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_with_a_count() {
        assert_eq!(pids(&[4711]), "pid 4711");
        assert_eq!(pids(&[1, 2, 3]), "pids 1, 2 and 3");
        assert!(pids(&(1..=12).collect::<Vec<_>>()).ends_with("9, 10 and 2 more"));
    }

    #[test]
    fn names_of_strangers_stay_one_line() {
        assert_eq!(name("report-worker"), "report-worker");
        assert_eq!(name(""), "\"\"");
        assert_eq!(name("a\nb\u{1b}[31m\""), "\"a\\nb\\u{1b}[31m\\\"\"");
    }

    #[test]
    fn pairs_are_quoted_for_the_shell() {
        assert_eq!(check_key("-5"), "pglockwatch check --key -5");
        assert_eq!(check_key("(1,42)"), "pglockwatch check --key '(1,42)'");
    }
}
