//! The options that every command has, on either side of the command.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values;
use crate::units::parse_duration;

const CONNECTION: &str = "Connection";
const NAMES: &str = "Names of keys";
const JUDGEMENT: &str = "Thresholds";
const POLLING: &str = "Polling";
const OUTPUT: &str = "Output";

/// Options of every command, as they were typed. Nothing means: not given.
#[derive(Debug, Default, Clone, Args)]
pub struct GlobalArgs {
    /// Where to connect: a URI or key=value pairs, as for psql; repeatable. A password in it is visible to other
    /// users of this machine: use --dsn-file, PGPASSFILE or ~/.pgpass
    #[arg(short, long, value_name = "DSN", help_heading = CONNECTION)]
    pub dsn: Vec<String>,
    /// Read the DSN from this file
    #[arg(long, value_name = "PATH", help_heading = CONNECTION)]
    pub dsn_file: Option<PathBuf>,
    /// Read targets, thresholds and the names of keys from this file (pglockwatch.toml)
    #[arg(long, value_name = "PATH", help_heading = CONNECTION)]
    pub config: Option<PathBuf>,
    /// The console of a PgBouncer before the targets (dbname=pgbouncer), as an admin or stats user: says which sessions
    /// it lends to clients; repeatable
    #[arg(long, value_name = "DSN", help_heading = CONNECTION)]
    pub pgbouncer: Vec<String>,
    /// A key dictionary; repeatable
    // Its id is not `keys`: commands take KEYs as arguments of that name.
    #[arg(id = "dictionaries", long = "keys", value_name = "PATH", help_heading = NAMES)]
    pub dictionaries: Vec<PathBuf>,
    /// Do not name the keys of popular software
    #[arg(long, help_heading = NAMES)]
    pub no_well_known: bool,
    /// Idle, or held, for so long is a finding [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = JUDGEMENT)]
    pub idle_threshold: Option<Duration>,
    /// Waited for so long is a finding [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = JUDGEMENT)]
    pub wait_threshold: Option<Duration>,
    /// So many keys in one session are a hoard [default: 100]
    #[arg(long, value_name = "KEYS", value_parser = values::count, help_heading = JUDGEMENT)]
    pub hoard_threshold: Option<u32>,
    /// Held for so long is critical, even if nobody waits [default: off]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = JUDGEMENT)]
    pub critical_after: Option<Duration>,
    /// Pause between two polls, at least 100ms [default: top 2s, exporter 5s, check 1s, guard 100ms]
    #[arg(long, value_name = "DURATION", value_parser = parse_interval, help_heading = POLLING)]
    pub interval: Option<Duration>,
    /// The most that connecting, and each poll, may take [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout, help_heading = POLLING)]
    pub timeout: Option<Duration>,
    /// When to use colours; auto: on a terminal, unless NO_COLOR is set [default: auto]
    #[arg(long, value_name = "WHEN", value_enum, help_heading = OUTPUT)]
    pub color: Option<ColorChoice>,
    /// Log to stderr from this level on [default: warn, exporter info]
    #[arg(long = "log.level", value_name = "LEVEL", value_enum, help_heading = OUTPUT)]
    pub log_level: Option<LogLevel>,
    /// How to write the log [default: logfmt]
    #[arg(long = "log.format", value_name = "FORMAT", value_enum, help_heading = OUTPUT)]
    pub log_format: Option<LogFormat>,
}

impl GlobalArgs {
    /// Adds what was given further to the right: repeatable options add up, of the others the later one wins.
    pub fn overlay(&mut self, later: Self) {
        self.dsn.extend(later.dsn);
        self.pgbouncer.extend(later.pgbouncer);
        self.dictionaries.extend(later.dictionaries);
        self.no_well_known |= later.no_well_known;
        self.dsn_file = later.dsn_file.or(self.dsn_file.take());
        self.config = later.config.or(self.config.take());
        self.idle_threshold = later.idle_threshold.or(self.idle_threshold);
        self.wait_threshold = later.wait_threshold.or(self.wait_threshold);
        self.hoard_threshold = later.hoard_threshold.or(self.hoard_threshold);
        self.critical_after = later.critical_after.or(self.critical_after);
        self.interval = later.interval.or(self.interval);
        self.timeout = later.timeout.or(self.timeout);
        self.color = later.color.or(self.color);
        self.log_level = later.log_level.or(self.log_level);
        self.log_format = later.log_format.or(self.log_format);
    }
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// From which level on to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only errors.
    Error,
    /// And warnings.
    Warn,
    /// And what happens.
    Info,
    /// And details, queries among them.
    Debug,
    /// And everything else.
    Trace,
}

/// How to write the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// key=value pairs.
    Logfmt,
    /// One JSON object per line.
    Json,
}

/// The shortest interval: polling more often was measured to cost lock throughput.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Reads an interval.
///
/// # Errors
/// A sentence that says what to write.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < SHORTEST_INTERVAL {
        return Err("the shortest interval is 100ms".to_owned());
    }
    Ok(interval)
}

/// Reads a timeout.
///
/// # Errors
/// A sentence that says what to write.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text)?;
    if timeout.is_zero() {
        return Err("a timeout must be longer than 0: 10s is the default".to_owned());
    }
    Ok(timeout)
}
