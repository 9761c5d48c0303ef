//! What is wrong with a connection string, said without quoting it.

/// A connection string or a setting of the environment that cannot be used.
///
/// The sentence names the option at most, never its value and never the string: a password may stand anywhere in a
/// string that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnInfoError {
    message: String,
    hint: Option<String>,
}

impl ConnInfoError {
    /// An error of one sentence, without a full stop.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it, as one or two sentences.
    pub fn hints(&self) -> Vec<String> {
        self.hint.iter().cloned().collect()
    }
}
