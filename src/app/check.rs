//! `check`: one look, or an observation, then one page and an exit code.

mod narrow;
mod state_file;

use std::path::Path;
use std::time::Duration;

use crate::analysis::report::TargetReport;
use crate::app::{complain_of_failures, look, output};
use crate::cli::{CheckArgs, CheckFormat};
use crate::error::{Error, ErrorKind, Result};
use crate::exit::Exit;
use crate::model::KeyNumbers;
use crate::render::{Status, json, nagios, table};
use crate::settings::{Habits, Settings, Target};

/// How `check` watches.
pub(super) const HABITS: Habits = Habits { interval: Duration::from_secs(1), long_running: false };

/// Looks, prints and judges.
pub(super) fn run(
    args: &CheckArgs,
    key: Option<KeyNumbers>,
    settings: &Settings,
    targets: Vec<Target>,
) -> Result<Exit> {
    let judged: Vec<_> = targets.iter().map(|target| (target.thresholds.idle, target.grouping.clone())).collect();
    let observe = args.observe.unwrap_or_default();
    let (mut reports, forgot) = match &args.state_file {
        Some(path) => look_with_memory(path, targets, observe)?,
        None => (look::look(targets, observe)?, false),
    };
    if let Some(key) = key {
        for (report, (idle, grouping)) in reports.iter_mut().zip(&judged) {
            narrow::narrow(report, key, *idle, grouping);
        }
    }
    let seen = Exit::of_status(Status::of(&reports));
    // Who never remembers never sees a leak on a busy connection: that is not well.
    let exit = if forgot && seen == Exit::SUCCESS { Exit::UNKNOWN } else { seen };
    let text = match args.format {
        CheckFormat::Table => table::render(&reports, settings.screen).into_bytes(),
        CheckFormat::Nagios => nagios::render(&reports).into_bytes(),
        CheckFormat::Json => json::render(&reports, env!("CARGO_PKG_VERSION")).map_err(Error::output)?.into_bytes(),
    };
    // On a terminal the table says it already, one line above.
    if !(settings.is_terminal && args.format == CheckFormat::Table) {
        complain_of_failures(&reports);
    }
    // Whoever closes the pipe early still gets the exit code.
    match output::print(text) {
        Err(error) if error.kind == ErrorKind::ClosedPipe => Ok(exit),
        printed => printed.map(|()| exit),
    }
}

/// Looks, going on from what the file remembers; and whether this look could not be remembered there.
fn look_with_memory(path: &Path, targets: Vec<Target>, observe: Duration) -> Result<(Vec<TargetReport>, bool)> {
    state_file::refuse_unfit(path)?;
    let mut known = state_file::read(path).unwrap_or_else(|why| {
        output::complain(&Error::failure(why).hint("It is written anew, and remembers from now on."));
        state_file::Memories::default()
    });
    let (reports, states) = look::look_again(targets, observe, |target| known.take(target))?;
    let written = state_file::update(path, states);
    if let Err(error) = &written {
        output::complain(error);
    }
    Ok((reports, written.is_err()))
}
