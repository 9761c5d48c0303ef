//! Durations, numbers and keys as they are typed: those that begin with a hyphen, and what is said of a wrong number.

use std::any::TypeId;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, Command};

use crate::model::Pid;

/// How keys are called in the help.
pub(super) const KEY: &str = "KEY";

/// The line with `--timeout -5s` as `--timeout=-5s`, up to `--`, for each option that wants a duration, a number or a key.
///
/// No option of ours begins with a hyphen and a digit. clap would take it for one, and say so, instead of what is
/// wrong with the value.
pub(super) fn joined(command: &Command, line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let options = options(command);
    let mut joined: Vec<OsString> = Vec::new();
    let mut ours = true;
    for word in line {
        ours = ours && word != "--";
        let takes_it = |option: &OsString| option.to_str().is_some_and(|option| options.contains(option));
        match joined.last_mut() {
            Some(option) if ours && is_negative(&word) && takes_it(option) => {
                option.push("=");
                option.push(word);
            }
            _ => joined.push(word),
        }
    }
    joined
}

fn is_negative(word: &OsString) -> bool {
    matches!(word.as_encoded_bytes(), [b'-', first, ..] if first.is_ascii_digit() || *first == b'.')
}

/// These options of a command and of those below it, as they are typed.
fn options(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter(|arg| is_number(arg)).filter_map(Arg::get_long);
    let mut options: BTreeSet<String> = own.map(|name| format!("--{name}")).collect();
    options.extend(command.get_subcommands().flat_map(self::options));
    options
}

fn is_number(arg: &Arg) -> bool {
    let wanted = arg.get_value_parser().type_id();
    [TypeId::of::<Duration>(), TypeId::of::<u32>(), TypeId::of::<Pid>()].iter().any(|number| wanted == *number)
        || arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == KEY))
}

/// Reads how many.
pub(super) fn count(text: &str) -> Result<u32, String> {
    whole(text, u32::MAX)
}

/// Reads a backend's number.
pub(super) fn pid(text: &str) -> Result<Pid, String> {
    whole(text, Pid::MAX)
}

fn whole<N: FromStr + From<u8> + PartialOrd + Display + Copy>(text: &str, most: N) -> Result<N, String> {
    let number = text.trim().parse().ok().filter(|number| *number >= N::from(1));
    number.ok_or_else(|| format!("this is not a whole number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &[&str]) -> String {
        let line = std::iter::once("pglockwatch").chain(line.iter().copied()).map(OsString::from);
        crate::cli::parse(line).unwrap_err().to_string()
    }

    fn each_option(mut told: impl FnMut(&str, &str, bool)) -> usize {
        let mut seen = 0;
        for command in crate::cli::command().get_subcommands() {
            for arg in command.get_arguments().filter(|arg| is_number(arg)) {
                let option = format!("--{}", arg.get_long().unwrap());
                told(command.get_name(), &option, arg.get_value_names().unwrap()[0] == KEY);
                seen += 1;
            }
        }
        seen
    }

    #[test]
    fn a_negative_value_of_any_option_is_judged_as_its_value() {
        let seen = each_option(|command, option, is_key| {
            for value in ["-1s", "-1", "-.5s"].iter().filter(|_| !is_key) {
                let text = error(&[command, option, value]);
                assert!(text.contains(&format!("invalid value '{value}' for '{option} <")), "{text}");
                assert!(text.contains("write it like") || text.contains("a whole number from 1 to"), "{text}");
                assert_eq!(text, error(&[command, &format!("{option}={value}")]));
            }
        });
        assert!(seen > 50, "{seen}");
    }

    #[test]
    fn an_option_is_never_the_value_of_another() {
        each_option(|command, option, _| {
            for after in ["--color", "-d"] {
                let text = error(&[command, option, after, "always"]);
                assert!(text.contains(&format!("a value is required for '{option} <")), "{text}");
            }
        });
    }

    #[test]
    fn what_is_wrong_with_a_number_is_said() {
        for wrong in ["abc", "0", "", "1.5", "4294967296"] {
            let text = error(&["check", "--hoard-threshold", wrong]);
            assert!(text.contains("this is not a whole number from 1 to 4294967295"), "{text}");
        }
        assert!(error(&["runbook", "--pid", "-7"]).contains("from 1 to 2147483647"));
    }

    #[test]
    fn what_is_guarded_is_left_alone() {
        let line = ["pglockwatch", "guard", "--", "sleep", "--timeout", "-1"].map(OsString::from);
        assert_eq!(joined(&crate::cli::command(), line.clone()), line);
    }
}
