//! What clap says about a command line, in our own form and without anything that may be a password.

use std::io::Write as _;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::app::output;
use crate::error::Error;
use crate::exit::{Convention, Exit};
use crate::render::style;

/// Prints help, the version, or what is wrong with the command line.
pub(super) fn tell(error: clap::Error, convention: Convention) -> Exit {
    if !error.use_stderr() {
        let printed = error.print().and_then(|()| std::io::stdout().flush()).map_err(Error::output);
        // Help that is piped into `head` ends as quietly as anything else.
        return printed.map_or_else(
            |error| {
                output::complain(&error);
                Exit::of_error(&error, convention)
            },
            |()| Exit::SUCCESS,
        );
    }
    output::warn(&sentence(error));
    Exit::of_bad_usage(convention)
}

/// `error: ` becomes `pglockwatch: `, and every line is safe for a terminal.
fn sentence(error: clap::Error) -> String {
    let hint = names_a_file(&error).then_some("A key dictionary is given as --keys FILE, a config as --config FILE.\n");
    let text = without_dsns(error).render().to_string();
    let (prefix, text) = match text.strip_prefix("error: ") {
        Some(rest) => ("pglockwatch: ", rest),
        None => ("", text.as_str()),
    };
    let lines: Vec<_> = text.lines().map(style::safe).collect();
    format!("{prefix}{}\n{}", lines.join("\n"), hint.unwrap_or_default())
}

/// Whether what clap has no place for looks like one of our files, given without its option.
fn names_a_file(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::UnknownArgument
        && matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(text))
            if !text.starts_with('-') && Path::new(text).extension().is_some_and(|end| end == "toml"))
}

/// clap quotes what it does not understand: a DSN whose option was forgotten or mistyped, with its password.
fn without_dsns(mut error: clap::Error) -> clap::Error {
    let quoted: Vec<(ContextKind, ContextValue)> =
        error.context().filter_map(|(kind, value)| Some((kind, harmless(value)?))).collect();
    for (kind, value) in quoted {
        error.insert(kind, value);
    }
    error
}

/// What to say in place of a value that may hold a password; nothing if it may be said.
fn harmless(value: &ContextValue) -> Option<ContextValue> {
    let hidden = || "...".to_owned();
    match value {
        ContextValue::String(text) if may_hold_password(text) => Some(ContextValue::String(hidden())),
        ContextValue::Strings(texts) if texts.iter().any(|text| may_hold_password(text)) => {
            let shown = |text: &String| if may_hold_password(text) { hidden() } else { text.clone() };
            Some(ContextValue::Strings(texts.iter().map(shown).collect()))
        }
        ContextValue::StyledStr(text) if may_hold_password(&text.to_string()) => Some(ContextValue::None),
        ContextValue::StyledStrs(texts) if texts.iter().any(|text| may_hold_password(&text.to_string())) => {
            Some(ContextValue::None)
        }
        _ => None,
    }
}

fn may_hold_password(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("://") || text.contains('@') || (text.contains("pass") && text.contains('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &[&str]) -> String {
        let args = std::iter::once("pglockwatch").chain(line.iter().copied()).map(std::ffi::OsString::from);
        sentence(crate::cli::parse(args).unwrap_err())
    }

    #[test]
    fn a_misplaced_dsn_is_not_repeated() {
        for line in [
            &["check", "postgres://u:s3cret@h/"][..],
            &["check", "--dns", "host=h password=s3cret"],
            &["check", "--timeout=postgres://u:s3cret@h/"],
            &["check", "--timeout", "password=s3cret"],
            &["top", "--dsn-fil=postgres://u:s3cret@h/"],
            &["check", "\u{1b}[31mpostgres://u:s3cret@h/"],
            &["check", "--password=s3cret"],
            &["postgres://u:s3cret@h/"],
        ] {
            let text = told(line);
            assert!(!text.contains("s3cret"), "{text}");
            assert!(text.starts_with("pglockwatch: "), "{text}");
        }
    }

    #[test]
    fn a_file_without_its_option_is_told_where_it_belongs() {
        let text = told(&["keys", "lint", "locks.toml"]);
        assert!(
            text.contains("'locks.toml'") && text.ends_with("given as --keys FILE, a config as --config FILE.\n"),
            "{text}"
        );
        assert!(!told(&["keys", "lint", "locks"]).contains("--keys FILE"));
    }

    #[test]
    fn hostile_arguments_are_shown_and_not_obeyed() {
        let text = told(&["check", "a\u{202e}b"]);
        assert!(text.contains("'a\\u{202e}b'"), "{text}");
    }
}
