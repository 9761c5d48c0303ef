//! `audit`: reads each server once, and the logs that are named; then one page and an exit code.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use crate::app::{check, output, start_log, table};
use crate::audit::log::{LogReader, LogReport};
use crate::audit::{Judged, ServerAudit, Verdict};
use crate::cli::GlobalArgs;
use crate::cli::audit::{AuditArgs, AuditFormat};
use crate::error::{Error, ErrorKind, Result};
use crate::exit::Exit;
use crate::pg::Session;
use crate::pgbouncer::Consoles;
use crate::render::audit;
use crate::settings::{Settings, Surroundings, Target};

/// Reads, judges, prints.
pub(super) fn run(args: &AuditArgs, global: GlobalArgs, around: Surroundings<'_>) -> Result<Exit> {
    let mut settings = Settings::new(global, around)?;
    let asks = args.logs.is_empty() || settings.names_a_server();
    let targets = if asks { settings.targets(around, check::HABITS)? } else { Vec::new() };
    let book = settings.whole_book(around)?;
    start_log(&settings);
    let log = if args.logs.is_empty() { None } else { Some(read_logs(args)?) };
    let servers = targets.into_iter().map(look).collect::<Result<Vec<_>>>()?;
    let verdict = Verdict::of(&servers, log.as_ref());
    let text = match args.format {
        AuditFormat::Text => audit::text(&servers, log.as_ref(), &book, settings.screen),
        AuditFormat::Json => {
            audit::json(&servers, log.as_ref(), &book, env!("CARGO_PKG_VERSION")).map_err(Error::output)?
        }
    };
    let exit = match verdict {
        Verdict::Safe => Exit::SUCCESS,
        Verdict::Unsafe => Exit::FAILURE,
        Verdict::Unknown => Exit::UNKNOWN,
    };
    // Whoever closes the pipe early still gets the exit code.
    match output::print(text) {
        Err(error) if error.kind == ErrorKind::ClosedPipe => Ok(exit),
        printed => printed.map(|()| exit),
    }
}

fn look(target: Target) -> Result<ServerAudit> {
    let name = target.name.clone();
    let no_threads = |error| Error::failure("cannot start a thread").caused_by(error);
    let mut consoles = Consoles::spawn(&target.poolers, target.timeout).map_err(no_threads)?;
    consoles.ask();
    let read = table::in_time(target, Session::audit)?;
    let poolers = consoles.answers();
    Ok(ServerAudit { target: name, outcome: read.map(|facts| Judged::of(facts, &poolers)) })
}

/// Reads the logs one after the other, line by line: they may be of any size.
fn read_logs(args: &AuditArgs) -> Result<LogReport> {
    let mut reader = LogReader::default();
    for path in &args.logs {
        if path == Path::new("-") {
            let read = reader.read(&mut io::stdin().lock());
            read.map_err(|error| Error::usage("cannot read standard input").caused_by(error))?;
            continue;
        }
        let cannot = |error| Error::usage(format!("cannot read {}", path.display())).caused_by(error);
        let file = File::open(path).map_err(cannot)?;
        reader.read(&mut BufReader::with_capacity(256 * 1024, file)).map_err(cannot)?;
    }
    Ok(reader.into_report())
}
