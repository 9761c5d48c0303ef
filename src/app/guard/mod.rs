//! `guard`: watches a database while a command runs, and says what its sessions left behind.
//!
//! It wires the command, the poller and the report together. What polls mean is [`crate::guard`]'s business.

mod child;
mod destination;
mod watching;

use std::time::Duration;

use crate::analysis::report::GuardReport;
use crate::app::{open, output};
use crate::cli::GlobalArgs;
use crate::cli::guard::{GuardArgs, GuardFormat};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::render::guard as render;
use crate::settings::{Habits, Surroundings, Target};
use crate::signal;
use child::{Child, NotStarted};
use destination::Destination;
use watching::{Event, Watching};

/// How `guard` watches: it is done when the command is.
const HABITS: Habits = Habits { interval: Duration::from_millis(100), long_running: false };

/// Runs the command and judges its sessions.
pub(super) fn run(args: &GuardArgs, global: GlobalArgs, around: Surroundings<'_>) -> Result<Exit> {
    // The config's interval is that of the commands that watch for long.
    let interval = global.interval.unwrap_or(HABITS.interval);
    let (_, targets) = open(global, around, HABITS)?;
    let target = Target { interval, ..only_one(targets)? };
    let destination = Destination::open(args)?;
    let mut watching = Watching::begin(target)?;
    let sender = watching.sender();
    // Nobody listens any more when all is over.
    signal::catch_for_another(move |sent| drop(sender.send(Event::Signal(sent))))?;
    if let Some(number) = watching.first_poll()? {
        return Ok(child::exit_of_signal(number));
    }
    let sender = watching.sender();
    let child = match Child::start(&args.command, move || drop(sender.send(Event::Ended))) {
        Ok(child) => child,
        Err(NotStarted(error, exit)) => {
            output::complain(&error);
            return Ok(exit);
        }
    };
    let seen_after = watching.until_end(|sent| child.hand_on(sent));
    let command = child.end()?;
    let report = watching.finish(seen_after);
    if let Err(error) = destination.write(&text(args.format, &report, command)?) {
        output::complain(&error);
        return Ok(first_of(command, Exit::UNKNOWN));
    }
    Ok(verdict(command, &report))
}

fn only_one(targets: Vec<Target>) -> Result<Target> {
    <[Target; 1]>::try_from(targets).map(|[target]| target).map_err(|_| {
        Error::usage("guard watches one server, and there are several targets")
            .hint("Give one --dsn, and no config file with several [[target]]s.")
    })
}

fn text(format: GuardFormat, report: &GuardReport, command: Exit) -> Result<String> {
    match format {
        GuardFormat::Text => Ok(render::text(report)),
        GuardFormat::Json => render::json(report, command.code(), env!("CARGO_PKG_VERSION")).map_err(Error::output),
    }
}

/// The command's own failure comes first, then what was left behind, then that we do not know.
fn verdict(command: Exit, report: &GuardReport) -> Exit {
    first_of(
        command,
        match (report.left.is_empty(), report.blind.is_empty()) {
            (false, _) => Exit::FAILURE,
            (true, false) => Exit::UNKNOWN,
            (true, true) => Exit::SUCCESS,
        },
    )
}

fn first_of(command: Exit, ours: Exit) -> Exit {
    if command == Exit::SUCCESS { ours } else { command }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::left;

    #[test]
    fn the_command_comes_first_then_leaks_then_blindness() {
        let code = |command: u8, leaks: bool, blind: bool| {
            let report = GuardReport {
                left: if leaks { vec![left()] } else { Vec::new() },
                blind: if blind { vec!["gone".to_owned()] } else { Vec::new() },
                ..GuardReport::default()
            };
            verdict(Exit::from(command), &report).code()
        };
        assert_eq!(code(5, true, true), 5);
        assert_eq!(code(0, true, true), 1);
        assert_eq!(code(0, false, true), 3);
        assert_eq!(code(0, false, false), 0);
    }
}
