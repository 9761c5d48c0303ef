//! Reading a server once, one of its tables say, with a deadline that is kept whatever the server does.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::analysis::report::Failure;
use crate::app::check;
use crate::app::keys::import::{Table, select};
use crate::cli::GlobalArgs;
use crate::cli::keys::{ImportArgs, KeysArgs};
use crate::error::{Error, Result};
use crate::pg::{self, ProcessEnvironment, Session};
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
    let read = in_time(target, move |session| session.read(&select))??;
    Ok(Table { read, origin })
}

/// How far it is.
enum Progress<T> {
    /// Connected to this host:port.
    Connected(String),
    Done(Result<T, Failure>),
}

/// What `work` makes of a session, or why there is no answer. Nothing can interrupt a read from a server that is stopped:
/// the thread is left behind then, and ends with us.
///
/// # Errors
/// The system gives no thread.
pub(super) fn in_time<T: Send + 'static>(
    target: Target,
    work: impl FnOnce(Session) -> Result<T, Failure> + Send + 'static,
) -> Result<Result<T, Failure>> {
    let (name, timeout) = (target.conninfo.target_name(), target.timeout);
    let mut allowed = Session::connect_deadline(&target.conninfo, timeout);
    let (sender, told) = mpsc::channel();
    thread::Builder::new()
        .name("read".to_owned())
        .spawn(move || {
            let read = Session::connect(&target.conninfo, &ProcessEnvironment, timeout).and_then(|session| {
                // Whoever does not listen any more has ended.
                drop(sender.send(Progress::Connected(session.address().to_owned())));
                work(session)
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
            Ok(Progress::Done(read)) => return Ok(read),
            Err(_) => return Ok(Err(late(connected.as_deref(), &name, began.elapsed()))),
        }
    }
}

fn late(connected: Option<&str>, name: &str, after: Duration) -> Failure {
    let Some(address) = connected else { return pg::timed_out(name, true, after) };
    let hint = "The server is stopped, cut off or overloaded, or the table is large: a longer --timeout may help.";
    Failure { hints: vec![hint.to_owned()], ..pg::timed_out(address, false, after) }
}
