//! Options by name, as they were written: what the parsers fill and what the environment completes.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret as _, SecretString};

use super::ConnInfoError;
use super::keyword::Keyword;

/// Options and their values. Secrets are kept apart, so that the rest may be shown by `Debug`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    texts: BTreeMap<&'static str, String>,
    secrets: BTreeMap<&'static str, SecretString>,
}

/// Options whose values are shown, by us or in what a server answers.
const SHOWN: [&str; 5] = ["dbname", "host", "hostaddr", "service", "user"];

/// Whether a value can only have come into the place of a name by mistake, with a password in it: libpq would look for
/// a database or a host of that name, and say so.
fn holds_connection_string(value: &str) -> bool {
    value.contains("://") || value.to_ascii_lowercase().contains("password=")
}

impl Options {
    /// Sets an option; the last one counts, as in libpq.
    pub(crate) fn set(&mut self, keyword: &'static Keyword, value: String, place: &str) -> Result<(), ConnInfoError> {
        if value.contains('\0') {
            let name = keyword.name;
            return Err(ConnInfoError::new(format!("the option {name} {place} holds a zero byte")));
        }
        keyword.check(&value, place)?;
        if SHOWN.contains(&keyword.name) && holds_connection_string(&value) {
            let name = keyword.name;
            return Err(ConnInfoError::new(format!("the option {name} {place} is a whole connection string"))
                .hint("Give that as --dsn, or in a file with --dsn-file."));
        }
        if keyword.is_secret() {
            self.secrets.insert(keyword.name, SecretString::from(value));
        } else {
            self.texts.insert(keyword.name, value);
        }
        Ok(())
    }

    /// Sets the password.
    pub(crate) fn set_password(&mut self, password: SecretString) {
        self.secrets.insert("password", password);
    }

    /// Sets the option that libpq once had in place of `sslmode`, and still understands; whether it is that one.
    pub(crate) fn set_old(&mut self, name: &str, value: &str) -> bool {
        if name == "requiressl" {
            let mode = if value.starts_with('1') { "require" } else { "prefer" };
            self.texts.insert("sslmode", mode.to_owned());
        }
        name == "requiressl"
    }

    /// Whether the option was given, be it empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.texts.contains_key(name) || self.secrets.contains_key(name)
    }

    /// The option's value, if it was given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// The option's value, if it was given and is not empty: where libpq takes an empty value for none.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// What was given in key=value form, but for the secrets.
    pub(crate) fn without_secrets(&self) -> String {
        let plain =
            |value: &str| !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || "'\\".contains(c));
        let written = self.texts.iter().map(|(name, value)| {
            if plain(value) {
                format!("{name}={value}")
            } else {
                format!("{name}='{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
            }
        });
        written.collect::<Vec<_>>().join(" ")
    }

    /// A secret, if it was given and is not empty.
    pub(crate) fn secret(&self, name: &str) -> Option<&SecretString> {
        self.secrets.get(name).filter(|secret| !secret.expose_secret().is_empty())
    }
}
