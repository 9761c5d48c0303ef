//! `runbook`: what was typed.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values;
use crate::model::Pid;
use crate::units::parse_duration;

/// `runbook`
#[derive(Debug, Args)]
#[command(after_help = "\
Without --rule or --all the servers are looked at once, and each finding says what to do about it now. The
statements it prints are for a person to run: each ends or cancels only what was seen, and says what it did.
A single look sees leaks on idle connections only: --observe longer than --idle-threshold sees those on busy ones.

Examples:
  pglockwatch runbook -d 'host=db1 user=mon dbname=postgres'
  pglockwatch runbook --key 612001 --format markdown
  pglockwatch runbook --pid 4711
  pglockwatch runbook --observe 75s             leaks on busy pooled connections too
  pglockwatch runbook --rule idle-holder        the rule's page; no server is needed
  pglockwatch runbook --all --format markdown > runbook.md")]
pub struct RunbookArgs {
    /// How to print it
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = RunbookFormat::Text)]
    pub format: RunbookFormat,
    /// Print the page of this rule
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "pid", "key"])]
    pub rule: Option<String>,
    /// Print the pages of all rules
    #[arg(long, conflicts_with_all = ["pid", "key"])]
    pub all: bool,
    /// Watch for this long before judging [default: a single look]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with_all = ["rule", "all"])]
    pub observe: Option<Duration>,
    /// Only what concerns this session, as holder or as waiter
    #[arg(long, value_name = "PID", value_parser = values::pid)]
    pub pid: Option<Pid>,
    /// Only this key: 612001, -5, '(1,42)', 0xFFFFFFFFFFFFFFFB or CLASSID/OBJID/OBJSUBID as in pg_locks
    #[arg(long, value_name = values::KEY)]
    pub key: Option<String>,
}

/// The formats of `runbook`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunbookFormat {
    /// For a terminal.
    Text,
    /// To paste into an incident.
    Markdown,
}
