//! `probe`: is a session advisory lock safe through this DSN?
//!
//! The only command that takes advisory locks. Here: from the command line to the report and its exit code.
//! `bench`, `run` and `locks` talk to servers and see; `verdict`, `words`, `text` and `json` are pure.

mod bench;
mod json;
mod locks;
mod observed;
mod run;
mod statements;
mod text;
mod verdict;
mod words;

use crate::app::check;
use crate::app::output;
use crate::cli::GlobalArgs;
use crate::cli::probe::{ProbeArgs, ProbeFormat};
use crate::error::{Error, ErrorKind, Result};
use crate::exit::Exit;
use crate::settings::{Surroundings, Target};
use bench::Bench;
use run::Run;
use verdict::Verdict;

/// The first number of every key that a probe takes: the letters `pglw`. The second is a random one for each run.
pub const KEY_CLASS: i32 = 0x7067_6c77;

/// All steps together may take so many times what one may take.
const STEPS: u32 = 6;

/// Probes, prints and judges.
pub(super) fn run(args: &ProbeArgs, global: GlobalArgs, around: Surroundings<'_>) -> Result<Exit> {
    let (settings, targets) = super::open(global, around, check::HABITS)?;
    let Ok([target]) = <[Target; 1]>::try_from(targets) else {
        return Err(Error::usage("probe looks through one DSN, and there are several targets")
            .hint("Give one --dsn, and no config file with [[target]]s."));
    };
    let timeout = target.timeout;
    let address = target.conninfo.target_name();
    let bench = Bench::new(target.conninfo, timeout, timeout.saturating_mul(STEPS))?;
    let observed = Run::new(bench, address, fastrand::i32(1..i32::MAX)).run();
    let report = verdict::judge(observed);
    let exit = match report.verdict {
        Verdict::Safe => Exit::SUCCESS,
        Verdict::StayBehind | Verdict::Dropped => Exit::FAILURE,
        Verdict::Inconclusive => Exit::UNKNOWN,
    };
    let text = match args.format {
        ProbeFormat::Text => text::render(&report, settings.screen),
        ProbeFormat::Json => json::render(&report, env!("CARGO_PKG_VERSION")).map_err(Error::output)?,
    };
    // Whoever closes the pipe early still gets the exit code.
    match output::print(text) {
        Err(error) if error.kind == ErrorKind::ClosedPipe => Ok(exit),
        printed => printed.map(|()| exit),
    }
}
