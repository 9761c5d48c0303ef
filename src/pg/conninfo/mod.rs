//! Connection strings as libpq reads them, completed as psql completes them.
//!
//! [`ConnInfo`] is what was written, [`ConnSettings`] what it means together with the environment. psql is the judge
//! of every rule here. This module opens no connection. It never shows a connection string: not in an error, and not
//! by `Debug`.

mod environment;
mod error;
mod keyvalue;
mod keyword;
mod options;
mod service;
mod settings;
mod tls_settings;
mod uri;

pub use environment::{Environment, FixedEnvironment, ProcessEnvironment};
pub use error::ConnInfoError;
pub use settings::ConnSettings;
pub(crate) use settings::{Address, ChannelBinding, Endpoint, Keepalives, SessionAttrs};
pub(crate) use tls_settings::{RootCerts, TlsMode, TlsSettings, TlsVersion};

use secrecy::SecretString;

use keyword::{KEYWORDS, Keyword};
use options::Options;

/// A connection string, parsed: what was written, and nothing else.
#[derive(Debug, Clone, Default)]
pub struct ConnInfo {
    options: Options,
    password_in_text: bool,
}

impl ConnInfo {
    /// Parses a URI (`postgres://` or `postgresql://`) or a key=value string; an empty one leaves all to the
    /// environment.
    ///
    /// # Errors
    /// If it cannot be understood, or has an option that we do not know or do not support. The error names the option
    /// and quotes nothing else.
    pub fn parse(text: &str) -> Result<Self, ConnInfoError> {
        // A file ends with a line break, and a URI holds no space.
        let trimmed = text.trim();
        let options = match uri::without_scheme(trimmed) {
            Some(rest) => uri::parse(rest)?,
            None => keyvalue::parse(text)?,
        };
        let password_in_text = options.secret("password").is_some();
        Ok(Self { options, password_in_text })
    }

    /// Whether a password stands in the text itself: others can read it there.
    pub fn has_password(&self) -> bool {
        self.password_in_text
    }

    /// The same with this role, in place of any that the text names: for variables that give it apart.
    ///
    /// # Errors
    /// If the name holds a zero byte.
    pub fn with_user(mut self, user: &str) -> Result<Self, ConnInfoError> {
        if let Some(keyword) = Keyword::find("user") {
            self.options.set(keyword, user.to_owned(), "(given apart)")?;
        }
        Ok(self)
    }

    /// The same with this password, in place of any that the text holds: for files and variables that give it apart.
    #[must_use]
    pub fn with_password(mut self, password: SecretString) -> Self {
        self.options.set_password(password);
        self
    }

    /// The same with this database, in place of any that the text names.
    ///
    /// # Errors
    /// If the name holds a zero byte.
    pub fn with_dbname(mut self, dbname: &str) -> Result<Self, ConnInfoError> {
        if let Some(keyword) = Keyword::find("dbname") {
            self.options.set(keyword, dbname.to_owned(), "(given apart)")?;
        }
        Ok(self)
    }

    /// Whether the text has `options` for the start of a session.
    pub fn has_startup_options(&self) -> bool {
        self.options.filled("options").is_some()
    }

    /// What the text says in key=value form, but for passwords: to be shown.
    pub fn without_secrets(&self) -> String {
        self.options.without_secrets()
    }

    /// The database that the text names, if it names one.
    pub fn dbname(&self) -> Option<&str> {
        self.options.filled("dbname")
    }

    /// Fills what the text leaves out: from the service file, the PG* variables, and defaults, in this order, as libpq
    /// does; and checks every value.
    ///
    /// # Errors
    /// If a value is not one that its option can have, in the text or in the environment, or a named service or its
    /// file is not there.
    pub fn complete(&self, environment: &dyn Environment) -> Result<ConnSettings, ConnInfoError> {
        let mut options = self.options.clone();
        service::fill(&mut options, environment)?;
        for keyword in KEYWORDS {
            fill_from_variable(&mut options, keyword, environment)?;
        }
        if let (false, Some(old)) = (options.has("sslmode"), environment.var("PGREQUIRESSL")) {
            options.set_old("requiressl", &old);
        }
        ConnSettings::resolve(&options, environment)
    }
}

fn fill_from_variable(
    options: &mut Options,
    keyword: &'static Keyword,
    environment: &dyn Environment,
) -> Result<(), ConnInfoError> {
    let Some(variable) = keyword.variable else { return Ok(()) };
    if options.has(keyword.name) {
        return Ok(());
    }
    match environment.var(variable) {
        Some(value) => options.set(keyword, value, &format!("(from {variable})")),
        None => Ok(()),
    }
}

/// The error for an option that libpq does not know either. A name that is no word at all is not shown.
fn unknown_option(name: &str, place: &str) -> ConnInfoError {
    let word = !name.is_empty() && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !word {
        return ConnInfoError::new(format!("there is something {place} that is not an option"))
            .hint("In a URI write special characters percent-encoded; in key=value form put values between quotes.");
    }
    let error = ConnInfoError::new(format!("there is no option {name} {place}"));
    match KEYWORDS.iter().find(|keyword| is_close(keyword.name, name)) {
        Some(close) => error.hint(format!("Is {} meant?", close.name)),
        None => error.hint("libpq's manual lists all options in section 34.1.2."),
    }
}

/// Equal but for letter case, underscores, or one exchanged or missing letter.
fn is_close(known: &str, written: &str) -> bool {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let (known, written) = (plain(known), plain(written));
    if known == written || matches!((known.as_str(), written.as_str()), ("dbname", "database") | ("user", "username")) {
        return true;
    }
    let (known, written) = (known.as_bytes(), written.as_bytes());
    let same = known.iter().zip(written).take_while(|(a, b)| a == b).count();
    let (known_rest, written_rest) = (&known[same..], &written[same..]);
    let tail = |text: &'_ [u8], count: usize| text.get(count..).map(<[u8]>::to_vec);
    tail(known_rest, 1) == tail(written_rest, 1)
        || tail(known_rest, 1).as_deref() == Some(written_rest)
        || tail(written_rest, 1).as_deref() == Some(known_rest)
        || (tail(known_rest, 2) == tail(written_rest, 2) && known_rest.len() >= 2 && known_rest[0] == written_rest[1])
}

#[cfg(test)]
mod tests;
