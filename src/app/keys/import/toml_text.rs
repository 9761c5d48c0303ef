//! Texts that strangers chose, as TOML that is one line and safe on a terminal.
//!
//! The `toml` crate writes a text with line breaks on several lines, which cannot be made a comment, and leaves
//! invisible characters as they are.

use std::fmt::Write as _;

use crate::quote::is_unsafe;

/// A basic string of TOML ("String" in its specification).
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            // All of them are in the basic multilingual plane.
            // Writing to a String cannot fail.
            c if is_unsafe(c) => drop(write!(quoted, "\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// The glob that matches this text only.
pub(super) fn glob_of(text: &str) -> String {
    let special = |c| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\');
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}
