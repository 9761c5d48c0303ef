//! Errors as people read them: one plain sentence, what to do about it, and the causes underneath.
//!
//! It knows how an error is worded and printed. It must not know which exit code follows (that is
//! [`exit`](crate::exit)), and it never holds a password or a DSN: whoever builds one leaves them out.

use std::fmt::Write as _;
use std::io;

use crate::analysis::report::Failure;
use crate::keys::Problem;
use crate::render::style;

/// What went wrong, as far as the exit code and the caller care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The command line, the environment, a DSN, the config or a dictionary cannot be used.
    Usage,
    /// What was asked for could not be done.
    Failure,
    /// Whoever read our output has gone: not worth a word.
    ClosedPipe,
    /// A signal ended us.
    Stopped,
}

/// An error for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Which kind.
    pub kind: ErrorKind,
    /// One sentence. A small first letter and no full stop: it follows `pglockwatch: `.
    pub message: String,
    /// Lines of a file with the place marked, printed as they are.
    pub excerpt: Option<String>,
    /// What to do about it, one sentence each.
    pub hints: Vec<String>,
    /// What caused it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What most functions of the outer layers return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), excerpt: None, hints: Vec::new(), source: None }
    }

    /// Bad usage: of the command line, a DSN, a config file or a dictionary.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Something that was asked for could not be done.
    pub fn failure(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failure, message)
    }

    /// A signal ended us before the work was done.
    pub fn stopped(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Stopped, message)
    }

    /// Writing our output failed. A closed pipe is its own kind.
    pub fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(ErrorKind::ClosedPipe, "nobody reads the output any more");
        }
        Self::failure("cannot write to standard output").caused_by(error)
    }

    /// What is wrong in a dictionary: the first problem with its place, and that there are more.
    pub fn problems(problems: impl AsRef<[Problem]>) -> Self {
        let problems = problems.as_ref();
        let Some(first) = problems.first() else { return Self::usage("a dictionary cannot be used") };
        let text = first.to_string();
        let (sentence, excerpt) = text.split_once('\n').unwrap_or((&text, ""));
        let error = Self::usage(sentence).excerpt(excerpt);
        match problems.len() {
            1 => error,
            // lint also finds what does no harm to a look, and so has a greater number.
            _ => error.hint("There is more: pglockwatch keys lint shows every problem."),
        }
    }

    /// With one more sentence that says what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With the place in a file.
    #[must_use]
    pub fn excerpt(mut self, excerpt: impl Into<String>) -> Self {
        self.excerpt = Some(excerpt.into());
        self
    }

    /// With its cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// All lines for stderr: `pglockwatch: sentence: cause`, the excerpt, and the hints indented. Safe for a terminal.
    pub fn text(&self) -> String {
        let mut sentence = self.message.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            // Nobody needs the number beside the words: `Permission denied (os error 13)`.
            let words = next.to_string();
            let words = words.split(" (os error").next().unwrap_or_default().to_owned();
            // Many libraries repeat their cause in their own text.
            if !sentence.contains(&words) {
                let _ = write!(sentence, ": {words}");
            }
            cause = next.source();
        }
        let mut text = format!("pglockwatch: {}\n", style::safe(&sentence));
        for line in self.excerpt.iter().flat_map(|excerpt| excerpt.lines()) {
            let _ = writeln!(text, "{}", style::safe(line));
        }
        for hint in &self.hints {
            let _ = writeln!(text, "  {}", style::safe(hint));
        }
        text
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self { hints: failure.hints, ..Self::failure(failure.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_its_causes_and_the_hints_are_lines_of_their_own() {
        let cause = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = Error::failure("cannot read a.toml").caused_by(cause).hint("Look at the path.");
        assert_eq!(error.text(), "pglockwatch: cannot read a.toml: no such file\n  Look at the path.\n");
    }

    #[test]
    fn hostile_text_cannot_reach_the_terminal() {
        let error = Error::usage("no key \u{1b}[31m\nred");
        assert_eq!(error.text(), "pglockwatch: no key \\u{1b}[31m\\nred\n");
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        assert_eq!(Error::output(io::ErrorKind::BrokenPipe.into()).kind, ErrorKind::ClosedPipe);
        assert_eq!(Error::output(io::ErrorKind::StorageFull.into()).kind, ErrorKind::Failure);
    }
}
