//! One file or folder per command: each wires the rest together. Here: from a command line to the command and its exit
//! code.

mod again;
mod audit;
mod check;
mod completions;
pub mod demo;
mod dictionary;
mod events;
mod exporter;
mod guard;
pub mod keys;
mod look;
mod output;
mod planted;
mod probe;
pub mod runbook;
mod table;
pub mod top;
mod usage;

use std::ffi::OsString;

use crate::analysis::report::TargetReport;
use crate::cli::runbook::RunbookArgs;
use crate::cli::{self, Cli, Command, GlobalArgs};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::keys::key;
use crate::logging;
use crate::model::KeyNumbers;
use crate::render::runbook::Selection;
use crate::settings::{Habits, Settings, Surroundings, Target};

/// Runs a command line, from its first word, the program's name, on.
pub fn main(args: &[OsString], around: Surroundings<'_>) -> Exit {
    let cli = match cli::parse(args.iter().cloned()) {
        Ok(cli) => cli,
        Err(error) => return usage::tell(error, cli::convention(args)),
    };
    let convention = cli.command.convention();
    run(cli, around).unwrap_or_else(|error| {
        output::complain(&error);
        Exit::of_error(&error, convention)
    })
}

fn run(cli: Cli, around: Surroundings<'_>) -> Result<Exit> {
    let Cli { global, command } = cli;
    match command {
        // These know nothing of servers: a broken config must not keep them from working.
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => completions::man(&args),
        Command::Check(args) => {
            let key = args.key.as_deref().map(parse_key).transpose()?;
            let (settings, targets) = open(global, around, check::HABITS)?;
            check::run(&args, key, &settings, targets)
        }
        Command::Top(args) => {
            let (settings, targets) = open(global, around, top::habits(&args))?;
            top::run(&args, &settings, targets)
        }
        Command::Exporter(args) => exporter::run(args, global, around),
        Command::Audit(args) => audit::run(&args, global, around),
        Command::Runbook(args) => runbook(&args, global, around),
        Command::Probe(args) => probe::run(&args, global, around),
        Command::Guard(args) => guard::run(&args, global, around),
        Command::Demo(args) => planted::demo(&args, &global, around),
        Command::Keys(args) => dictionary::keys(&args, global, around),
    }
}

/// Settings and targets of a command that looks at servers. The log is open from here on, and what should be mended is
/// in it.
fn open(global: GlobalArgs, around: Surroundings<'_>, habits: Habits) -> Result<(Settings, Vec<Target>)> {
    let mut settings = Settings::new(global, around)?;
    let targets = settings.targets(around, habits)?;
    start_log(&settings);
    Ok((settings, targets))
}

/// Opens the log, and says what should be mended.
fn start_log(settings: &Settings) {
    logging::init(settings.log_level, settings.log_format);
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
}

/// `runbook`: pages need no server, findings do.
fn runbook(args: &RunbookArgs, global: GlobalArgs, around: Surroundings<'_>) -> Result<Exit> {
    if args.all || args.rule.is_some() {
        let settings = Settings::new(global, around)?;
        let pages = match &args.rule {
            Some(rule) => runbook::page(rule, args.format, settings.screen).map_err(Error::usage)?,
            None => runbook::all_pages(args.format, settings.screen),
        };
        output::print(pages)?;
        return Ok(Exit::SUCCESS);
    }
    let selection = Selection { pid: args.pid, key: args.key.as_deref().map(parse_key).transpose()? };
    let (settings, targets) = open(global, around, check::HABITS)?;
    let reports = look::look(targets, args.observe.unwrap_or_default())?;
    output::print(runbook::render(&reports, &selection, args.format, settings.screen))?;
    Ok(complain_of_failures(&reports))
}

/// Tells on standard error which targets could not be looked at, and whether there are any.
fn complain_of_failures(reports: &[TargetReport]) -> Exit {
    let mut exit = Exit::SUCCESS;
    for failure in reports.iter().filter_map(|report| report.failure.clone()) {
        output::complain(&Error::from(failure));
        exit = Exit::FAILURE;
    }
    exit
}

/// The key of `--key`.
///
/// # Errors
/// The text is no key.
fn parse_key(text: &str) -> Result<KeyNumbers> {
    key::parse(text.trim()).map_err(|error| Error::usage(format!("--key: {error}")))
}
