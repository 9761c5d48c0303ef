//! argv, the config file, the environment and whether there is a terminal become [`Settings`]. The only reader of them.
//!
//! Precedence: argument, environment, config file, default. This module opens no connection, and it never shows a DSN.

mod again;
mod files;
mod lint;
mod poolers;
mod process;
mod sources;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::analysis::{Grouping, Thresholds};
use crate::cli::exporter::ExporterArgs;
use crate::cli::{ColorChoice, GlobalArgs, LogFormat, LogLevel};
use crate::config::{self, Config, PartialThresholds};
use crate::error::{Error, Result};
use crate::keys::{Dictionary, KeyBook};
use crate::model::LeaseTable;
use crate::pg::{ConnInfo, ConnInfoError, ConnSettings, Environment};
use crate::pgbouncer::PoolerSpec;
use crate::render::style::Screen;
use files::NamedFile;
pub use lint::{LintFile, LintFiles};
pub use process::{Process, arguments};
use sources::Source;

/// The most that connecting, and each poll, may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is around the process.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Variables, the user's name and home, small files.
    pub environment: &'a dyn Environment,
    /// Columns and rows of the terminal that standard output is, if it is one.
    pub terminal: Option<(u16, u16)>,
}

/// Everything that the commands need to know.
#[derive(Debug)]
pub struct Settings {
    /// What standard output can show.
    pub screen: Screen,
    /// Standard output is a terminal.
    pub is_terminal: bool,
    /// From which level on to log.
    pub log_level: LogLevel,
    /// How to write the log.
    pub log_format: LogFormat,
    /// What should be mended, one sentence each; logged once.
    pub warnings: Vec<String>,
    /// The dictionaries for all targets.
    pub dictionaries: Vec<Dictionary>,
    /// The names made of them and of these further files: many targets share them.
    books: RefCell<BTreeMap<Vec<PathBuf>, Arc<KeyBook>>>,
    args: GlobalArgs,
    config: Config,
    config_file: Option<NamedFile>,
    grouping: Grouping,
}

/// One target, ready to be watched.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name: unique, and the same as long as the process lives.
    pub name: String,
    /// How to connect.
    pub conninfo: ConnSettings,
    /// The PgBouncers before it.
    pub poolers: Vec<PoolerSpec>,
    /// The pause between two polls.
    pub interval: Duration,
    /// The most that connecting, and each poll, may take.
    pub timeout: Duration,
    /// When a situation becomes a finding.
    pub thresholds: Thresholds,
    /// The names of its keys.
    pub book: Arc<KeyBook>,
    /// How application names are grouped.
    pub grouping: Grouping,
    /// Labels of its metrics.
    pub labels: BTreeMap<String, String>,
    /// Its lease tables.
    pub leases: Arc<[LeaseTable]>,
    /// The options with which another command looks at it as this one does, each after a blank. No password is there.
    pub again: String,
}

/// How a command watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// The pause between two polls where nobody says another.
    pub interval: Duration,
    /// It lives long enough for others to read its command line.
    pub long_running: bool,
}

impl Settings {
    /// Reads the config file and the dictionaries, if any are named, and what is around.
    ///
    /// # Errors
    /// A file cannot be read, or what is in it is wrong.
    pub fn new(args: GlobalArgs, around: Surroundings<'_>) -> Result<Self> {
        let environment = around.environment;
        let (config, config_file) = match &args.config {
            Some(path) => read_config(path, environment)?,
            None => (Config::default(), None),
        };
        let mut dictionaries = files::dictionaries(args.dictionaries.iter().chain(&config.keys), environment)?;
        dictionaries.extend(config.dictionary.clone());
        Ok(Self {
            screen: screen(args.color, around),
            is_terminal: around.terminal.is_some(),
            log_level: args.log_level.unwrap_or(LogLevel::Warn),
            log_format: args.log_format.unwrap_or(LogFormat::Logfmt),
            warnings: Vec::new(),
            dictionaries,
            books: RefCell::default(),
            grouping: config.application_group.clone().map(Grouping::by_regex).unwrap_or_default(),
            args,
            config,
            config_file,
        })
    }

    /// All targets. There is at least one: without any DSN it is what the PG* variables and defaults name.
    ///
    /// # Errors
    /// A DSN cannot be used, a file cannot be read, or two targets would have one name.
    pub fn targets(&mut self, around: Surroundings<'_>, habits: Habits) -> Result<Vec<Target>> {
        if let Some(name) = around.environment.unreadable() {
            return Err(Error::usage(format!("the value of {name} is not UTF-8")).hint("Set it anew, or unset it."));
        }
        let sources = sources::find(&self.args, &self.config, self.config_file.as_ref(), around.environment)?;
        let mut targets = Vec::with_capacity(sources.len());
        for source in &sources {
            targets.push(self.target(source, sources.len() > 1, around.environment, habits)?);
        }
        name(&mut targets, &sources)?;
        Ok(targets)
    }

    fn target(
        &mut self,
        source: &Source,
        several: bool,
        environment: &dyn Environment,
        habits: Habits,
    ) -> Result<Target> {
        let of_dsn = |error: ConnInfoError| {
            error.hints().into_iter().fold(Error::usage(format!("{}: {}", source.origin, error.message())), Error::hint)
        };
        let mut written = ConnInfo::parse(source.text()).map_err(of_dsn)?;
        self.warn_of_password(source, &written, habits);
        let again = again::words(&self.args, source, &written);
        if let Some(path) = &source.password_file {
            written = written.with_password(self.read_password(path, environment)?);
        }
        let conninfo = written.complete(environment).map_err(of_dsn)?;
        let thresholds = self.thresholds(source.thresholds);
        let overdue_after = thresholds.wait;
        let leases = source.leases.iter().cloned().map(|lease| LeaseTable { overdue_after, ..lease });
        Ok(Target {
            name: source.name.clone().unwrap_or_else(|| conninfo.target_name()),
            conninfo,
            poolers: self.poolers(source, several, environment, habits)?,
            interval: self.args.interval.or(self.config.interval).unwrap_or(habits.interval),
            timeout: self.timeout(),
            thresholds,
            book: self.book(&source.keys, environment)?,
            grouping: self.grouping.clone(),
            labels: source.labels.clone(),
            leases: leases.collect(),
            again,
        })
    }

    /// The most that connecting, and each poll, may take.
    pub fn timeout(&self) -> Duration {
        self.args.timeout.or(self.config.timeout).unwrap_or(TIMEOUT)
    }

    /// The names from the dictionaries of all targets together.
    ///
    /// # Errors
    /// A dictionary of a target cannot be read or is wrong.
    pub fn whole_book(&self, around: Surroundings<'_>) -> Result<Arc<KeyBook>> {
        let own: Vec<PathBuf> = self.config.targets.iter().flat_map(|target| target.keys.clone()).collect();
        self.book(&own, around.environment)
    }

    /// The names from all dictionaries, and from these as well.
    fn book(&self, own: &[PathBuf], environment: &dyn Environment) -> Result<Arc<KeyBook>> {
        if let Some(book) = self.books.borrow().get(own) {
            return Ok(Arc::clone(book));
        }
        let more = files::dictionaries(own, environment)?;
        let book = KeyBook::new(self.dictionaries.iter().chain(&more));
        let book = Arc::new(if self.args.no_well_known { book.without_well_known() } else { book });
        self.books.borrow_mut().insert(own.to_vec(), Arc::clone(&book));
        Ok(book)
    }

    /// An option or the config says which server is meant, not only the environment.
    pub fn names_a_server(&self) -> bool {
        !self.args.dsn.is_empty() || self.args.dsn_file.is_some() || !self.config.targets.is_empty()
    }

    /// The config's `[web]`.
    pub fn web(&self) -> ExporterArgs {
        self.config.web.clone()
    }

    fn thresholds(&self, own: PartialThresholds) -> Thresholds {
        let typed = PartialThresholds {
            idle: self.args.idle_threshold,
            wait: self.args.wait_threshold,
            hoard: self.args.hoard_threshold.map(|keys| keys as usize),
            critical_after: self.args.critical_after,
        };
        let said = typed.or(own).or(self.config.thresholds);
        let default = Thresholds::default();
        Thresholds {
            idle: said.idle.unwrap_or(default.idle),
            wait: said.wait.unwrap_or(default.wait),
            hoard: said.hoard.unwrap_or(default.hoard),
            critical_after: said.critical_after.or(default.critical_after),
        }
    }

    fn warn_of_password(&mut self, source: &Source, written: &ConnInfo, habits: Habits) {
        if !written.has_password() {
            return;
        }
        match &source.file {
            Some(file) => self.warn(file.warning()),
            None if source.is_argument && habits.long_running => self.warn(Some(
                "other users of this machine can see the password in --dsn: use --dsn-file, or a password file"
                    .to_owned(),
            )),
            None => {}
        }
    }

    /// Adds a warning, once.
    fn warn(&mut self, warning: Option<String>) {
        self.warnings.extend(warning.filter(|warning| !self.warnings.contains(warning)));
    }

    fn read_password(&mut self, path: &Path, environment: &dyn Environment) -> Result<SecretString> {
        let (text, file) = files::read(path, environment)?;
        self.warn(file.warning());
        match text.lines().next() {
            Some(line) if !line.is_empty() => Ok(SecretString::from(line)),
            _ => Err(Error::usage(format!("{} has no password in its first line", path.display()))),
        }
    }
}

fn read_config(path: &Path, environment: &dyn Environment) -> Result<(Config, Option<NamedFile>)> {
    let (text, file) = files::read(path, environment)?;
    Ok((config::parse(&text, &path.display().to_string(), &folder(path))?, Some(file)))
}

/// Where the paths in a config begin.
fn folder(config: &Path) -> PathBuf {
    config.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn screen(choice: Option<ColorChoice>, around: Surroundings<'_>) -> Screen {
    let color = match choice.unwrap_or(ColorChoice::Auto) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        // no-color.org: set to anything but the empty text.
        ColorChoice::Auto => {
            let no_color = around.environment.var("NO_COLOR").is_some_and(|value| !value.is_empty());
            let dumb = around.environment.var("TERM").is_some_and(|term| term == "dumb");
            around.terminal.is_some() && !no_color && !dumb
        }
    };
    let size = around.terminal.map(|(columns, rows)| (usize::from(columns), usize::from(rows)));
    Screen { color, width: size.map(|size| size.0), height: size.map(|size| size.1) }
}

/// Adds the database where two names would be equal. Names from the config stay as they are.
fn name(targets: &mut [Target], sources: &[Source]) -> Result<()> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for target in targets.iter() {
        *seen.entry(target.name.clone()).or_default() += 1;
    }
    for (target, source) in targets.iter_mut().zip(sources) {
        if source.name.is_none() && seen[&target.name] > 1 {
            target.name = format!("{}/{}", target.name, target.conninfo.dbname());
        }
    }
    let mut names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::usage(format!("{} is given twice", pair[0]))
            .hint("Leave one of them out, or give both a name as [[target]] in the config file.")),
        None => Ok(()),
    }
}
