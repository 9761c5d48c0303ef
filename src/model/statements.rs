//! What a server counted of statements that mention an advisory lock function, and its settings about leaks.

/// A row of `pg_stat_statements` that may call an advisory lock function.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementRow {
    /// Who ran it.
    pub role: String,
    /// Where.
    pub database: String,
    /// How often.
    pub calls: u64,
    /// The mean of its time, in milliseconds.
    pub mean_ms: f64,
    /// Its text, with parameters in place of constants. Longer ones are cut.
    pub query: String,
}

/// A setting, where it is set and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value with its unit, as `60s`; `0` mostly means never.
    pub value: String,
    /// Whose it is: nothing for the server's, else as `role web` or `database app`.
    pub of: Option<String>,
}

/// What a server said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerFacts {
    /// As `15.18`.
    pub version: String,
    /// Our role.
    pub role: String,
    /// We may read every role's statements.
    pub sees_all: bool,
    /// `pg_stat_statements.track`: `top` leaves out what runs inside functions.
    pub track: String,
    /// How often the least used statements were thrown away, where the server says so.
    pub dropped: Option<u64>,
    /// Statements whose text we may not read.
    pub hidden: u64,
    /// The statements that mention an advisory function.
    pub statements: Vec<StatementRow>,
    /// There were more than were read.
    pub truncated: bool,
    /// The settings that decide how a leak ends.
    pub settings: Vec<Setting>,
    /// Why the statements could not be read: a sentence, and what to do.
    pub blind: Option<(String, String)>,
}
