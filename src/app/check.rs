//! `check`: one look, or an observation, then one page and an exit code.

mod narrow;

use std::time::Duration;

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
    let mut reports = look::look(targets, args.observe.unwrap_or_default())?;
    if let Some(key) = key {
        for (report, (idle, grouping)) in reports.iter_mut().zip(&judged) {
            narrow::narrow(report, key, *idle, grouping);
        }
    }
    let exit = Exit::of_status(Status::of(&reports));
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
