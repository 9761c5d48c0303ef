//! What clap says about a command line, in our own form and without anything that may be a password.

use std::ffi::OsString;

use crate::app::output;
use crate::exit::{Convention, Exit};
use crate::render::style;

/// Prints help, the version, or what is wrong with the command line.
pub(super) fn tell(error: &clap::Error, args: &[OsString], convention: Convention) -> Exit {
    if !error.use_stderr() {
        // Help that is piped into `head` ends as quietly as anything else.
        let _ = error.print();
        return Exit::SUCCESS;
    }
    let text = without_dsns(&error.render().to_string(), args);
    output::warn(&sentence(&text));
    Exit::of_bad_usage(convention)
}

/// `error: ` becomes `pglockwatch: `, and every line is safe for a terminal.
fn sentence(text: &str) -> String {
    let (prefix, text) = match text.strip_prefix("error: ") {
        Some(rest) => ("pglockwatch: ", rest),
        None => ("", text),
    };
    let lines: Vec<_> = text.lines().map(style::safe).collect();
    format!("{prefix}{}\n", lines.join("\n"))
}

/// clap quotes what it does not understand: a DSN whose option was forgotten or mistyped, with its password.
fn without_dsns(text: &str, args: &[OsString]) -> String {
    let mut text = text.to_owned();
    for arg in args.iter().skip(1).map(|arg| arg.to_string_lossy()) {
        let value = arg.strip_prefix("--").and_then(|arg| arg.split_once('=')).map(|(_, value)| value);
        for part in [Some(arg.as_ref()), value].into_iter().flatten() {
            if may_hold_password(part) {
                text = text.replace(part, "...");
            }
        }
    }
    text
}

fn may_hold_password(arg: &str) -> bool {
    let arg = arg.to_ascii_lowercase();
    arg.contains("://") || arg.contains("pass") && arg.contains('=') || arg.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &[&str]) -> String {
        let args: Vec<OsString> =
            std::iter::once("pglockwatch").chain(line.iter().copied()).map(OsString::from).collect();
        let error = crate::cli::parse(args.clone()).unwrap_err();
        sentence(&without_dsns(&error.render().to_string(), &args))
    }

    #[test]
    fn a_misplaced_dsn_is_not_repeated() {
        for line in [
            &["check", "postgres://u:s3cret@h/"][..],
            &["check", "--dns", "host=h password=s3cret"],
            &["check", "--timeout=postgres://u:s3cret@h/"],
            &["check", "--timeout", "password=s3cret"],
            &["top", "--dsn-fil=postgres://u:s3cret@h/"],
            &["postgres://u:s3cret@h/"],
        ] {
            let text = told(line);
            assert!(!text.contains("s3cret"), "{text}");
            assert!(text.starts_with("pglockwatch: "), "{text}");
        }
    }

    #[test]
    fn hostile_arguments_are_shown_and_not_obeyed() {
        let text = told(&["check", "\u{1b}[31m"]);
        assert!(text.contains("\\u{1b}[31m") && !text.contains('\u{1b}'), "{text}");
    }
}
