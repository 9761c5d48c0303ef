//! One table of one server, read once, with a deadline that is kept whatever the server does.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::analysis::report::Failure;
use crate::app::check;
use crate::app::keys::import::{Table, select};
use crate::cli::GlobalArgs;
use crate::cli::keys::{ImportArgs, KeysArgs};
use crate::error::{Error, Result};
use crate::pg::{self, ProcessEnvironment, Select, Session, TableRows};
use crate::settings::{Surroundings, Target};

/// What the server's and the client's own deadlines, which know more about what hangs, may be late.
const LATENESS: Duration = Duration::from_millis(200);

/// Reads the table that is named.
///
/// # Errors
/// Bad usage, several targets, or a server that cannot be read.
pub(super) fn read(
    args: &KeysArgs,
    import: &ImportArgs,
    global: GlobalArgs,
    around: Surroundings<'_>,
) -> Result<Table> {
    let select = select(args, import).map_err(Error::usage)?;
    let (_, targets) = super::open(global, around, check::HABITS)?;
    let Ok([target]) = <[Target; 1]>::try_from(targets) else {
        return Err(Error::usage("keys import reads one table, and there are several targets")
            .hint("Give one --dsn, and no config file with [[target]]s."));
    };
    let (table, database) = (select.name(), target.conninfo.dbname().to_owned());
    let origin = format!("{table} of the database {database} on {}", target.conninfo.target_name());
    Ok(Table { read: in_time(target, select)?, origin })
}

/// How far it is.
enum Progress {
    /// Connected to this host:port.
    Connected(String),
    Done(Result<TableRows, Failure>),
}

/// Nothing can interrupt a read from a server that is stopped: the thread is left behind then, and ends with us.
fn in_time(target: Target, select: Select) -> Result<TableRows> {
    let (name, timeout) = (target.conninfo.target_name(), target.timeout);
    let mut allowed = Session::connect_deadline(&target.conninfo, timeout);
    let (sender, told) = mpsc::channel();
    thread::Builder::new()
        .name("read".to_owned())
        .spawn(move || {
            let read = Session::connect(&target.conninfo, &ProcessEnvironment, timeout).and_then(|session| {
                // Whoever does not listen any more has ended.
                drop(sender.send(Progress::Connected(session.address().to_owned())));
                session.read(&select)
            });
            drop(sender.send(Progress::Done(read)));
        })
        .map_err(|error| Error::failure("cannot start a thread").caused_by(error))?;
    let mut connected = None;
    let mut began = Instant::now();
    loop {
        match told.recv_timeout(allowed + LATENESS) {
            Ok(Progress::Connected(address)) => {
                (connected, began, allowed) = (Some(address), Instant::now(), timeout);
            }
            Ok(Progress::Done(read)) => return read.map_err(Error::from),
            Err(_) => return Err(late(connected.as_deref(), &name, began.elapsed()).into()),
        }
    }
}

fn late(connected: Option<&str>, name: &str, after: Duration) -> Failure {
    let Some(address) = connected else { return pg::timed_out(name, true, after) };
    let hint = "The server is stopped, cut off or overloaded, or the table is large: a longer --timeout may help.";
    Failure { hints: vec![hint.to_owned()], ..pg::timed_out(address, false, after) }
}
