//! What to type so that another command looks at the same target with the same judgement.
//!
//! Pure: words from what was given. A password is never among them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::Source;
use crate::cli::GlobalArgs;
use crate::pg::ConnInfo;
use crate::quote;

/// The options, each after a blank; nothing if the environment alone says where the server is.
pub(super) fn words(args: &GlobalArgs, source: &Source, written: &ConnInfo) -> String {
    let mut words = Words::default();
    words.path("--config", args.config.as_deref());
    if source.is_argument {
        words.text("-d", &written.without_secrets());
    }
    words.path("--dsn-file", args.dsn_file.as_deref().filter(|_| !source.is_argument));
    for dictionary in &args.dictionaries {
        words.path("--keys", Some(dictionary));
    }
    if args.no_well_known {
        words.0.push_str(" --no-well-known");
    }
    words.duration("--idle-threshold", args.idle_threshold);
    words.duration("--wait-threshold", args.wait_threshold);
    words.duration("--critical-after", args.critical_after);
    if let Some(keys) = args.hoard_threshold {
        let _ = write!(words.0, " --hoard-threshold {keys}");
    }
    words.0
}

#[derive(Default)]
struct Words(String);

impl Words {
    fn path(&mut self, option: &str, path: Option<&Path>) {
        // A name that is no text cannot be shown so that it could be typed.
        if let Some(path) = path.and_then(Path::to_str) {
            self.text(option, path);
        }
    }

    fn text(&mut self, option: &str, text: &str) {
        if !text.is_empty() && !text.contains(quote::is_unsafe) {
            let _ = write!(self.0, " {option} {}", shell_word(text));
        }
    }

    fn duration(&mut self, option: &str, duration: Option<Duration>) {
        if let Some(duration) = duration {
            let milliseconds = duration.as_millis();
            if milliseconds.is_multiple_of(1_000) {
                let _ = write!(self.0, " {option} {}s", milliseconds / 1_000);
            } else {
                let _ = write!(self.0, " {option} {milliseconds}ms");
            }
        }
    }
}

/// One word of a POSIX shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,+@%".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_one_word_in_a_shell() {
        assert_eq!(shell_word("/etc/pglockwatch/orders.dsn"), "/etc/pglockwatch/orders.dsn");
        assert_eq!(shell_word("host=db1 user=mon"), "'host=db1 user=mon'");
        assert_eq!(shell_word("it's; rm $x"), "'it'\\''s; rm $x'");
    }
}
