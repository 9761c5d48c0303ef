//! `pglockwatch.toml`: from its text to values, strictly. An unknown field, a duplicate or a wrong type is an error with
//! line and column.
//!
//! It knows the file's format. It must not open any file but those that the text names by path only; it reads no
//! environment, and what wins over what is [`settings`](crate::settings)' business.
//!
//! The fields are those of the example in the README. `application_group` is a regular expression that replaces the
//! built-in rule for application groups: the group is what its first capture group matches, or the whole match where
//! it has none; a name that it does not match is its own group.

mod lease;
mod place;
mod raw;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;
use secrecy::SecretString;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::DeTable;

use crate::cli::exporter::ExporterArgs;
use crate::cli::{parse_interval, parse_timeout};
use crate::error::{Error, Result};
use crate::keys::{Dictionary, dictionary};
use crate::model::LeaseTable;
use crate::units::parse_duration;
use place::{Source, plain_sentence};

/// What a config file says. Nothing means: not said.
#[derive(Debug, Default)]
pub struct Config {
    /// Pause between two polls.
    pub interval: Option<Duration>,
    /// The most that connecting, and each poll, may take.
    pub timeout: Option<Duration>,
    /// Dictionaries for all targets.
    pub keys: Vec<PathBuf>,
    /// Thresholds for all targets.
    pub thresholds: PartialThresholds,
    /// Replaces the built-in rule for application groups.
    pub application_group: Option<Regex>,
    /// `[web]`: the options of the exporter's pages.
    pub web: ExporterArgs,
    /// What to look at.
    pub targets: Vec<TargetConfig>,
    /// There are `[[key]]`, `[[holder]]` or `[[silence]]` tables.
    pub has_dictionary: bool,
    /// What these tables say.
    pub dictionary: Option<Dictionary>,
}

/// What may stand at the top of the file beside the tables of a dictionary.
pub const FIELDS: &[&str] = &["interval", "timeout", "keys", "thresholds", "application_group", "target"];

/// Thresholds as far as they are said.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct PartialThresholds {
    /// `idle`
    pub idle: Option<Duration>,
    /// `wait`
    pub wait: Option<Duration>,
    /// `hoard`
    pub hoard: Option<usize>,
    /// `critical_after`
    pub critical_after: Option<Duration>,
}

impl PartialThresholds {
    /// What is said here, else what is said there.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            idle: self.idle.or(other.idle),
            wait: self.wait.or(other.wait),
            hoard: self.hoard.or(other.hoard),
            critical_after: self.critical_after.or(other.critical_after),
        }
    }
}

/// One `[[target]]`.
#[derive(Debug)]
pub struct TargetConfig {
    /// Its name; unique.
    pub name: Option<String>,
    /// Where to connect.
    pub dsn: SecretString,
    /// A file whose first line is the password.
    pub password_file: Option<PathBuf>,
    /// Dictionaries, added to the common ones.
    pub keys: Vec<PathBuf>,
    /// Labels that the metrics of this target get.
    pub labels: BTreeMap<String, String>,
    /// Its own thresholds.
    pub thresholds: PartialThresholds,
    /// The PgBouncers before it.
    pub poolers: Vec<PoolerConfig>,
    /// Its lease tables.
    pub leases: Vec<LeaseTable>,
}

/// One `[[target.pgbouncer]]`.
#[derive(Debug)]
pub struct PoolerConfig {
    /// Where its console is.
    pub dsn: SecretString,
    /// A file whose first line is the password.
    pub password_file: Option<PathBuf>,
}

/// Labels that our metrics have themselves, and those that Prometheus keeps for itself.
const OWN_LABELS: &[&str] = &[
    "target",
    "datname",
    "usename",
    "application_name",
    "client_addr",
    "lock",
    "mode",
    "scope",
    "state",
    "rule",
    "severity",
    "lease",
    "result",
    "version",
    "le",
    "job",
    "instance",
];

/// Reads a config's text. Paths in it are relative to `folder`; `name` is how errors call the file.
///
/// # Errors
/// The first thing that is wrong, with line and column.
pub fn parse(text: &str, name: &str, folder: &Path) -> Result<Config> {
    let source = Source { name, text };
    let mut config = parse_without_dictionary(text, name, folder)?;
    if config.has_dictionary {
        let table = DeTable::parse(text).map_err(|error| of_toml(source, &error))?;
        let dictionary = Dictionary::parse_tables(name, text, table.get_ref()).map_err(Error::problems)?;
        config.dictionary = Some(dictionary);
    }
    Ok(config)
}

/// The same, but the dictionary's tables are not looked into.
///
/// # Errors
/// The first thing that is wrong, with line and column.
pub fn parse_without_dictionary(text: &str, name: &str, folder: &Path) -> Result<Config> {
    let source = Source { name, text };
    let mut table = DeTable::parse(text).map_err(|error| of_toml(source, &error))?;
    let mut has_dictionary = false;
    for name in dictionary::TABLES {
        has_dictionary |= table.get_mut().remove(name).is_some();
    }
    let raw = raw::Config::deserialize(toml::Deserializer::from(table)).map_err(|error| of_toml(source, &error))?;
    Ok(Config { has_dictionary, ..read(source, folder, raw)? })
}

fn of_toml(source: Source<'_>, error: &toml::de::Error) -> Error {
    source.error(error.span(), &plain_sentence(error.message()))
}

fn read(source: Source<'_>, folder: &Path, raw: raw::Config) -> Result<Config> {
    let mut names: Vec<String> = Vec::new();
    let mut targets = Vec::with_capacity(raw.target.len());
    for target in raw.target {
        if let Some(name) = &target.name {
            check_name(source, name, &names)?;
            names.push(name.get_ref().clone());
        }
        targets.push(read_target(source, folder, target)?);
    }
    Ok(Config {
        interval: raw.interval.map(|text| value(source, &text, parse_interval)).transpose()?,
        timeout: raw.timeout.map(|text| value(source, &text, parse_timeout)).transpose()?,
        keys: paths(folder, raw.keys),
        thresholds: read_thresholds(source, raw.thresholds)?,
        application_group: raw.application_group.map(|text| value(source, &text, parse_regex)).transpose()?,
        web: read_web(folder, raw.web),
        targets,
        has_dictionary: false,
        dictionary: None,
    })
}

fn read_web(folder: &Path, raw: raw::Web) -> ExporterArgs {
    ExporterArgs {
        listen_address: raw.listen_address,
        telemetry_path: raw.telemetry_path,
        config_file: raw.config_file.map(|path| folder.join(path)),
        systemd_socket: raw.systemd_socket,
        show_queries: raw.show_queries,
        pool_clients: raw.pool_clients,
        external_url: raw.external_url,
        no_pages: raw.no_pages,
        pages_without_auth: raw.pages_without_auth,
    }
}

fn read_target(source: Source<'_>, folder: &Path, raw: raw::Target) -> Result<TargetConfig> {
    for label in raw.labels.keys() {
        let sentence = if OWN_LABELS.contains(&label.get_ref().as_str()) {
            "the metrics have this label themselves: choose another name"
        } else if !is_label(label.get_ref()) {
            "a label's name is made of letters, digits and _, and does not begin with a digit or __"
        } else {
            continue;
        };
        return Err(source.error(Some(label.span()), sentence));
    }
    Ok(TargetConfig {
        name: raw.name.map(Spanned::into_inner),
        dsn: raw.dsn,
        password_file: raw.password_file.map(|path| folder.join(path)),
        keys: paths(folder, raw.keys),
        labels: raw.labels.into_iter().map(|(label, value)| (label.into_inner(), value)).collect(),
        thresholds: read_thresholds(source, raw.thresholds)?,
        poolers: raw
            .pgbouncer
            .into_iter()
            .map(|pooler| PoolerConfig {
                dsn: pooler.dsn,
                password_file: pooler.password_file.map(|path| folder.join(path)),
            })
            .collect(),
        leases: lease::read(source, raw.lease)?,
    })
}

fn check_name(source: Source<'_>, name: &Spanned<String>, others: &[String]) -> Result<()> {
    if name.get_ref().trim().is_empty() {
        return Err(source.error(Some(name.span()), "a target's name must not be empty"));
    }
    if others.contains(name.get_ref()) {
        return Err(source.error(Some(name.span()), "two targets have this name: names must be unique"));
    }
    Ok(())
}

fn read_thresholds(source: Source<'_>, raw: raw::Thresholds) -> Result<PartialThresholds> {
    let duration = |text: Option<Spanned<String>>| text.map(|text| value(source, &text, parse_duration)).transpose();
    Ok(PartialThresholds {
        idle: duration(raw.idle)?,
        wait: duration(raw.wait)?,
        hoard: raw.hoard.map(|hoard| hoard.get() as usize),
        critical_after: duration(raw.critical_after)?,
    })
}

/// A text as a value; what is wrong with it is said at its place.
fn value<T>(source: Source<'_>, text: &Spanned<String>, read: fn(&str) -> Result<T, String>) -> Result<T> {
    read(text.get_ref()).map_err(|sentence| source.error(Some(text.span()), &sentence))
}

fn parse_regex(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        // regex's own text has several lines, the last of which says what is wrong.
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        format!("this is not a regular expression: {reason}")
    })
}

fn paths(folder: &Path, paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().map(|path| folder.join(path)).collect()
}

/// Prometheus' rule for label names; `__` is reserved.
fn is_label(name: &str) -> bool {
    !name.starts_with("__")
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests;
