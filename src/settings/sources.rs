//! Where connection strings come from: the first of the places that has one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};

use super::files::{self, NamedFile};
use crate::cli::GlobalArgs;
use crate::config::{Config, PartialThresholds};
use crate::error::{Error, Result};
use crate::model::LeaseTable;
use crate::pg::Environment;

/// A connection string, not understood yet, and what belongs to it.
#[derive(Debug)]
pub(super) struct Source {
    text: SecretString,
    /// How errors call it: they must not quote it.
    pub origin: String,
    /// It was typed on the command line.
    pub is_argument: bool,
    /// The file that it stands in.
    pub file: Option<NamedFile>,
    /// Its name in the config.
    pub name: Option<String>,
    pub password_file: Option<PathBuf>,
    /// Its own dictionaries.
    pub keys: Vec<PathBuf>,
    pub labels: BTreeMap<String, String>,
    pub thresholds: PartialThresholds,
    /// Its consoles of PgBouncer, each with its password file.
    pub poolers: Vec<(SecretString, Option<PathBuf>)>,
    pub leases: Vec<LeaseTable>,
}

impl Source {
    fn new(text: SecretString, origin: impl Into<String>) -> Self {
        Self {
            text,
            origin: origin.into(),
            is_argument: false,
            file: None,
            name: None,
            password_file: None,
            keys: Vec::new(),
            labels: BTreeMap::new(),
            thresholds: PartialThresholds::default(),
            poolers: Vec::new(),
            leases: Vec::new(),
        }
    }

    /// The connection string: for the parser only.
    pub fn text(&self) -> &str {
        self.text.expose_secret()
    }
}

/// All connection strings of the first place that has any; an empty one if none has.
pub(super) fn find(
    args: &GlobalArgs,
    config: &Config,
    config_file: Option<&NamedFile>,
    environment: &dyn Environment,
) -> Result<Vec<Source>> {
    let typed = if args.dsn.is_empty() { args.dsn_file.as_ref().map(|_| "--dsn-file") } else { Some("--dsn") };
    if let (Some(option), false) = (typed, config.targets.is_empty()) {
        return Err(Error::usage(format!("{option} and the [[target]]s of the config file exclude each other"))
            .hint(format!("Leave out {option}, or use a config file without targets.")));
    }
    if !args.dsn.is_empty() {
        return Ok(arguments(args));
    }
    if let Some(path) = &args.dsn_file {
        return Ok(vec![from_file(path, environment)?]);
    }
    if !config.targets.is_empty() {
        return Ok(targets(config, config_file));
    }
    Ok(vec![
        from_environment(environment)?
            .unwrap_or_else(|| Source::new(SecretString::default(), "the PG* environment variables")),
    ])
}

fn arguments(args: &GlobalArgs) -> Vec<Source> {
    let dsn = |(place, dsn): (usize, &String)| {
        let origin = if args.dsn.len() == 1 { "--dsn".to_owned() } else { format!("--dsn number {}", place + 1) };
        Source { is_argument: true, ..Source::new(SecretString::from(dsn.as_str()), origin) }
    };
    args.dsn.iter().enumerate().map(dsn).collect()
}

fn targets(config: &Config, file: Option<&NamedFile>) -> Vec<Source> {
    let target = |(place, target): (usize, &crate::config::TargetConfig)| {
        let which = match &target.name {
            Some(name) => format!("the target {name}"),
            None => format!("[[target]] number {}", place + 1),
        };
        Source {
            file: file.cloned(),
            name: target.name.clone(),
            password_file: target.password_file.clone(),
            keys: target.keys.clone(),
            labels: target.labels.clone(),
            thresholds: target.thresholds,
            poolers: target.poolers.iter().map(|pooler| (pooler.dsn.clone(), pooler.password_file.clone())).collect(),
            leases: target.leases.clone(),
            ..Source::new(target.dsn.clone(), which)
        }
    };
    config.targets.iter().enumerate().map(target).collect()
}

fn from_file(path: &Path, environment: &dyn Environment) -> Result<Source> {
    let (text, file) = files::read(path, environment)?;
    if text.trim().is_empty() {
        return Err(Error::usage(format!("{} is empty: it should hold a DSN", path.display())));
    }
    Ok(Source { file: Some(file), ..Source::new(SecretString::from(text), format!("the DSN in {}", path.display())) })
}

/// `PGLOCKWATCH_DSN`, then what postgres_exporter knows, each also with `_FILE`.
fn from_environment(environment: &dyn Environment) -> Result<Option<Source>> {
    for name in ["PGLOCKWATCH_DSN", "DATA_SOURCE_NAME"] {
        if let Some(source) = variable(environment, name)? {
            return Ok(Some(source));
        }
    }
    let Some(uri) = variable(environment, "DATA_SOURCE_URI")? else { return Ok(None) };
    let user = variable(environment, "DATA_SOURCE_USER")?;
    let password = variable(environment, "DATA_SOURCE_PASS")?;
    let text =
        SecretString::from(assemble(uri.text(), user.as_ref().map(Source::text), password.as_ref().map(Source::text)));
    Ok(Some(Source { text, ..uri }))
}

/// `postgres://user:password@` and then the URI, which has no scheme.
fn assemble(uri: &str, user: Option<&str>, password: Option<&str>) -> String {
    let uri = uri.trim();
    let bare = ["postgres://", "postgresql://"].iter().find_map(|scheme| uri.strip_prefix(scheme)).unwrap_or(uri);
    let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    match (user, password) {
        (Some(user), Some(password)) => format!("postgres://{}:{}@{bare}", encode(user), encode(password)),
        (Some(user), None) => format!("postgres://{}@{bare}", encode(user)),
        // The name comes from PGUSER or the system then.
        (None, Some(password)) => format!("postgres://:{}@{bare}", encode(password)),
        (None, None) => format!("postgres://{bare}"),
    }
}

/// A variable, or the content of the file that its sister with `_FILE` names. Empty counts as not set.
fn variable(environment: &dyn Environment, name: &str) -> Result<Option<Source>> {
    if let Some(value) = environment.var(name).filter(|value| !value.is_empty()) {
        return Ok(Some(Source::new(SecretString::from(value), name)));
    }
    let sister = format!("{name}_FILE");
    let Some(path) = environment.var(&sister).filter(|path| !path.is_empty()) else { return Ok(None) };
    let (text, file) = files::read(Path::new(&path), environment)?;
    // Editors end a file with a line break; no DSN, user or password ends with one.
    let text = SecretString::from(text.trim_end_matches(['\n', '\r']));
    Ok(Some(Source { file: Some(file), ..Source::new(text, sister) }))
}
