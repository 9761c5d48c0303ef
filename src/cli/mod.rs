//! What was typed: clap's types for the whole command line, and no meaning.
//!
//! It must not read the environment or a file; what an option means and which source wins is
//! [`settings`](crate::settings)' business.

pub mod audit;
pub mod demo;
pub mod exporter;
mod global;
pub mod guard;
pub mod keys;
pub mod probe;
pub mod runbook;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::Resettable;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use global::{ColorChoice, GlobalArgs, LogFormat, LogLevel, SHORTEST_INTERVAL, parse_interval, parse_timeout};

use crate::exit::Convention;
use crate::units::parse_duration;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "pglockwatch",
    version,
    about = "Finds leaked and dangerous advisory locks in PostgreSQL",
    long_about = "Finds leaked and dangerous advisory locks in PostgreSQL: who holds them, since when, who waits, and \
                  what to do. It only reads: it writes nothing and ends no session, and but for probe it takes no lock.",
    after_help = EXAMPLES,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    args_override_self = true,
)]
pub struct Cli {
    /// Options that every command has.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  pglockwatch check                             look once, where PGHOST, PGUSER, ... point to
  pglockwatch check --observe 10s -d 'host=db1 user=mon dbname=postgres'
  pglockwatch top --dsn-file /etc/pglockwatch/orders.dsn
  pglockwatch runbook                           what to do now about each finding
  pglockwatch keys decode 4294967295/3284901495/1

Every option may stand before or after the command.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch the locks: a screen on a terminal, else a table at every poll
    Top(TopArgs),
    /// Look once, or for a while, and end with an exit code for scripts and monitoring
    Check(CheckArgs),
    /// Poll for ever and serve metrics and pages for Prometheus and for people
    Exporter(exporter::ExporterArgs),
    /// Say what on-call should do now about each finding
    Runbook(runbook::RunbookArgs),
    /// Find the statements and roles that use advisory locks unsafely, before they leak
    Audit(audit::AuditArgs),
    /// Decode, hash and check advisory keys and the key dictionary
    Keys(keys::KeysArgs),
    /// Find out through an application's DSN whether session advisory locks are safe there
    #[command(long_about = probe::LONG_ABOUT)]
    Probe(probe::ProbeArgs),
    /// Watch while a test suite runs, and fail it if its sessions left locks behind
    Guard(guard::GuardArgs),
    /// Start a throwaway PostgreSQL with planted leaks, and watch it
    Demo(demo::DemoArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print a man page
    Man(ManArgs),
}

/// `top`
#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal it is an interactive screen, redrawn at every poll and at every key, also while a server does not answer:
the rows stay, and the header says how old they are. Otherwise it prints a plain table per poll.

Keys:
  1 2 3 4 5 6   findings, locks, waits, pools, keys, history
  enter         all that is known of a row, and what to do; esc goes back
  y v s         copy the statement, show it plainly, save the runbook as a file
  / < > e       filter, sort, show or hide the holders that are expected
  space R + -   pause, poll now, poll more often, poll less often
  ? q           help, quit

It only reads: no key ends a session.

Examples:
  pglockwatch top -d 'host=db1 user=mon dbname=postgres'
  pglockwatch top --interval 5s > locks.log     not a terminal: a table per poll
  pglockwatch top --once")]
pub struct TopArgs {
    /// Print one table and end
    #[arg(long)]
    pub once: bool,
}

/// `check`
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 2 something is critical; else 3 a server could not be looked at;
else 1 there is a warning; else 3 holders could not be judged; else 0.
Bad usage: 3.

A single look sees leaks on idle connections only. To see one on a busy pooled
connection, give an --observe that is longer than --idle-threshold, or look every
minute with --state-file.

Examples:
  pglockwatch check
  pglockwatch check --observe 90s --format json
  pglockwatch check --key 612001
  pglockwatch check --state-file /var/lib/pglockwatch/check.state
  pglockwatch check --key -5 --format nagios --dsn-file /etc/pglockwatch/orders.dsn")]
pub struct CheckArgs {
    /// How to print what was found
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CheckFormat::Table)]
    pub format: CheckFormat,
    /// Watch for this long before judging [default: a single look]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub observe: Option<Duration>,
    /// Only this key: 612001, -5, '(1,42)', 0xFFFFFFFFFFFFFFFB or CLASSID/OBJID/OBJSUBID as in pg_locks
    #[arg(long, value_name = values::KEY)]
    pub key: Option<String>,
    /// Remember in this file what was seen, so that looks from cron see what lasts: it is written anew at each look
    #[arg(long, value_name = "PATH")]
    pub state_file: Option<PathBuf>,
}

/// The formats of `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// For people.
    Table,
    /// For programs; schema 1.
    Json,
    /// One line and performance data, for Nagios, Icinga and their kind.
    Nagios,
}

/// `completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `man`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pglockwatch man | man -l -
  pglockwatch man check > pglockwatch-check.1
  pglockwatch man keys decode | man -l -")]
pub struct ManArgs {
    /// The command whose page to print, `keys decode` too [default: the page of pglockwatch itself]
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Print the commands that have a page, one a line, for whoever installs all of them
    #[arg(long, conflicts_with = "command")]
    pub list: bool,
}

/// The command line as clap is to read it: the options that every command has stand before and behind the command.
pub fn command() -> clap::Command {
    with_global_args(Cli::command())
}

/// Adds the global options to all commands below. clap's own `global` loses what is given before the command when a
/// repeatable option is given behind it too.
fn with_global_args(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|sub| {
        let sub = if sub.has_subcommands() { with_global_args(sub) } else { sub };
        // clap takes the description of the added options for that of the command.
        let about = Resettable::from(sub.get_about().cloned());
        let long_about = Resettable::from(sub.get_long_about().cloned());
        GlobalArgs::augment_args(sub).about(about).long_about(long_about).args_override_self(true)
    })
}

/// Reads a command line. The first argument is the program's name.
///
/// # Errors
/// clap's, `--help` and `--version` among them.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let command = command();
    let line = keys::protect_numbers(values::joined(&command, args));
    let matches = command.try_get_matches_from(line)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let mut level = &matches;
    while let Some((_, below)) = level.subcommand() {
        cli.global.overlay(GlobalArgs::from_arg_matches(below)?);
        level = below;
    }
    Ok(cli)
}

/// Which exit codes a command line wants, found without reading it properly: it may be wrong.
pub fn convention(args: &[OsString]) -> Convention {
    let command = command();
    let takes_value = |name: &str| {
        command.get_arguments().any(|arg| {
            arg.get_action().takes_values()
                && (name.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long))
                    || name
                        .strip_prefix('-')
                        .is_some_and(|short| arg.get_short().is_some_and(|s| short == s.to_string())))
        })
    };
    let mut words = args.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if takes_value(&word) {
            words.next();
        } else if !word.starts_with('-') {
            return match word.as_ref() {
                "check" => Convention::Plugin,
                "probe" | "guard" => Convention::Verdict,
                _ => Convention::Plain,
            };
        }
    }
    Convention::Plain
}

impl Command {
    /// Which exit codes the command follows.
    pub fn convention(&self) -> Convention {
        match self {
            Self::Check(_) => Convention::Plugin,
            Self::Probe(_) | Self::Guard(_) => Convention::Verdict,
            _ => Convention::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Cli, clap::Error> {
        parse(std::iter::once("pglockwatch").chain(line.iter().copied()).map(OsString::from))
    }

    fn convention_of(line: &[&str]) -> Convention {
        let args: Vec<OsString> =
            std::iter::once("pglockwatch").chain(line.iter().copied()).map(OsString::from).collect();
        convention(&args)
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn repeatable_options_count_on_both_sides_and_the_last_of_the_others_wins() {
        let cli = read(&["-d", "a", "--timeout", "3s", "check", "-d", "b", "--dsn=c", "--timeout", "4s"]).unwrap();
        assert_eq!(cli.global.dsn, ["a", "b", "c"]);
        assert_eq!(cli.global.timeout, Some(Duration::from_secs(4)));
        let cli = read(&["--interval", "3s", "--no-well-known", "check"]).unwrap();
        assert_eq!(cli.global.interval, Some(Duration::from_secs(3)));
        assert!(cli.global.no_well_known);
    }

    #[test]
    fn commands_keep_their_own_descriptions() {
        let command = command();
        let top = command.find_subcommand("top").unwrap();
        assert!(top.get_about().unwrap().to_string().starts_with("Watch the locks"));
    }

    #[test]
    fn a_key_may_begin_with_a_minus() {
        let Command::Check(check) = read(&["check", "--key", "-5"]).unwrap().command else { panic!("not check") };
        assert_eq!(check.key.as_deref().map(str::trim), Some("-5"));
    }

    #[test]
    fn what_is_guarded_stays_as_it_was_typed() {
        let Command::Guard(guard) = read(&["guard", "--", "pytest", "-5", "--dsn", "x"]).unwrap().command else {
            panic!("not guard")
        };
        assert_eq!(guard.command, ["pytest", "-5", "--dsn", "x"]);
        assert!(read(&["guard", "pytest"]).is_err());
        assert!(read(&["guard", "--"]).is_err());
    }

    #[test]
    fn durations_need_a_unit_and_polls_a_pause() {
        let error = read(&["check", "--observe", "10"]).unwrap_err().to_string();
        assert!(error.contains("write 10s"), "{error}");
        let error = read(&["check", "--interval", "50ms"]).unwrap_err().to_string();
        assert!(error.contains("100ms"), "{error}");
    }

    #[test]
    fn the_convention_is_found_in_a_broken_line_too() {
        assert_eq!(convention_of(&["check", "--bogus"]), Convention::Plugin);
        assert_eq!(convention_of(&["--bogus", "check"]), Convention::Plugin);
        assert_eq!(convention_of(&["-d", "check", "top"]), Convention::Plain);
        assert_eq!(convention_of(&["--dsn", "x", "check"]), Convention::Plugin);
        assert_eq!(convention_of(&["probe", "--bogus"]), Convention::Verdict);
        assert_eq!(convention_of(&["keys", "decode", "check"]), Convention::Plain);
        assert_eq!(convention_of(&["guard", "--bogus", "--", "check"]), Convention::Verdict);
        assert_eq!(convention_of(&[]), Convention::Plain);
    }

    #[test]
    fn help_names_the_safe_way_beside_the_remark_on_passwords() {
        for mut help in [command(), command().find_subcommand("check").cloned().unwrap()] {
            let text = help.render_help().to_string();
            assert!(text.contains("--dsn-file") && text.contains("visible to other users"), "{text}");
        }
    }
}
