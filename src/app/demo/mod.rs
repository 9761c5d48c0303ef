//! `pglockwatch demo`: a throwaway PostgreSQL with planted leaks, and a front end opened on it.
//!
//! It knows how to make, fill and remove a server. It must not know what opens on it: that is handed in, and sees
//! the server like any other.

mod binaries;
mod cluster;
mod folder;
mod plant;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

pub use binaries::Binaries;
pub use cluster::{Cluster, Listen, initdb};
pub use folder::{Folder, Owner};

use crate::cli::demo::DemoArgs;

/// When an idle holder is a finding in the demo: seconds, so that nobody has to wait for it.
const IDLE: Duration = Duration::from_secs(3);
/// When a wait is a finding in the demo.
const WAIT: Duration = Duration::from_secs(2);

/// Why the demo could not be set up: a plain sentence, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DemoError {
    /// One sentence.
    pub message: String,
    /// What to do about it, one sentence each.
    pub hints: Vec<String>,
}

impl DemoError {
    /// An error that says this.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new() }
    }

    /// And this is what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// The demo's server as the front end should look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// How to connect, as key=value; no password is needed.
    pub dsn: String,
    /// The key dictionary that belongs to it.
    pub dictionary: PathBuf,
    /// The idle threshold at which everything shows within ten seconds.
    pub idle_threshold: Duration,
    /// The wait threshold to go with it.
    pub wait_threshold: Duration,
    /// How long a front end that prints once must observe until every leak shows: carried locks are proved by polls.
    pub observe: Duration,
    /// Print once and end, rather than open a screen.
    pub once: bool,
}

/// Starts the server, plants the leaks, lets `open` look at it, and removes everything.
///
/// `once` is also true where there is no terminal to open a screen on. Prints to `notes` what a second terminal can
/// be used for, before `open` and, after a screen that hid it, again. The server and its folder are gone when this
/// returns, and also when the process is killed.
///
/// # Errors
/// When there are no server programs, or the server does not start, or `open` fails.
pub fn run<E: From<DemoError>>(
    args: &DemoArgs,
    once: bool,
    notes: &mut impl Write,
    open: impl FnOnce(&Planted) -> Result<u8, E>,
) -> Result<u8, E> {
    let binaries = args.bindir.as_deref().map_or_else(Binaries::find, Binaries::at)?;
    // A terminal that went away is no reason to leave a server behind: notes are best effort.
    let _ = writeln!(notes, "Starting a throwaway PostgreSQL {} ...", binaries.major);
    let folder = Folder::create("pglockwatch-demo-")?;
    initdb(&binaries, &folder)?;
    let settings = ["max_prepared_transactions=5", "max_connections=60"].map(str::to_owned);
    let cluster = Cluster::start(&binaries, folder, Listen::Socket, &settings)?;
    let dictionary = plant::write_dictionary(cluster.folder())?;
    let garden = plant::plant(&cluster)?;
    let planted = Planted {
        dsn: format!("host={} port={} user=postgres dbname={}", cluster.host(), cluster.port(), plant::DATABASE),
        dictionary,
        idle_threshold: IDLE,
        wait_threshold: WAIT,
        observe: IDLE + Duration::from_secs(2),
        once: once || args.once,
    };
    let _ = describe(notes, &planted);
    let opened = open(&planted);
    // The server first: what is planted ends with its connections.
    drop(cluster);
    garden.wait();
    let _ = writeln!(notes, "The demo's server is stopped and its folder removed.");
    opened
}

fn describe(notes: &mut impl Write, planted: &Planted) -> io::Result<()> {
    writeln!(notes, "Planted in {}: leaked, carried and prepared locks, a starved pool, a leader.", plant::DATABASE)?;
    if planted.once {
        return writeln!(notes, "Looking at it for {} seconds ...", planted.observe.as_secs());
    }
    writeln!(notes, "While it runs, in another terminal:")?;
    // As it was typed here: a binary that was only built is not in PATH.
    let program = crate::settings::arguments().first().map(|program| program.to_string_lossy().into_owned());
    let program = program.unwrap_or_else(|| "pglockwatch".to_owned());
    for command in ["runbook", "check"] {
        writeln!(
            notes,
            "  {program} {command} --dsn '{}' --keys {} --idle-threshold 3s --wait-threshold 2s",
            planted.dsn,
            planted.dictionary.display()
        )?;
    }
    Ok(())
}
