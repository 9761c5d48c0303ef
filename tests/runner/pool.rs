//! Plays many cases at once: a pool of servers of one version, each of which plays one case at a time, for a case
//! looks at all locks of its server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread;

use pglockwatch::app::demo::{Binaries, Cluster};

use super::format::Case;
use super::play::{Failure, play};
use crate::support::{say, server};

/// Servers at a time. A case mostly sleeps, so there are more of them than cores.
const SERVERS: usize = 8;

/// Plays the cases, and returns what failed, by the case's name.
pub fn play_all(binaries: &Binaries, mut cases: Vec<Case>) -> BTreeMap<String, Failure> {
    // The longest begin first: they are taken from the end.
    cases.sort_by_key(|case| case.run.observe);
    let servers = std::env::var("PGLOCKWATCH_TEST_SERVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(SERVERS);
    let waiting = Mutex::new(cases);
    let failures = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..servers {
            scope.spawn(|| work(binaries, &waiting, &failures));
        }
    });
    failures.into_inner().unwrap()
}

/// What a server must be like for a case.
#[derive(PartialEq)]
struct Kind {
    settings: Vec<String>,
    standby: bool,
}

impl Kind {
    fn of(case: &Case) -> Self {
        Self { settings: case.settings(), standby: case.server.standby }
    }

    fn start(&self, binaries: &Binaries) -> Cluster {
        server::start_with(binaries, &self.settings, |folder| {
            if self.standby {
                // Recovery of a data folder that was shut down in order, from nowhere: it never ends.
                std::fs::write(folder.data().join("standby.signal"), "").unwrap();
            }
        })
    }
}

/// One server after the other, each for as long as the next case wants the same kind and finds it clean.
fn work(binaries: &Binaries, waiting: &Mutex<Vec<Case>>, failures: &Mutex<BTreeMap<String, Failure>>) {
    let mut running: Option<(Kind, Cluster)> = None;
    while let Some(case) = next(waiting, running.as_ref().map(|(kind, _)| kind)) {
        let kind = Kind::of(&case);
        let cluster = match running.take() {
            Some((same, cluster)) if same == kind => cluster,
            other => {
                drop(other);
                kind.start(binaries)
            }
        };
        let (result, cleaned) = play(&case, &cluster);
        match cleaned {
            Ok(true) => running = Some((kind, cluster)),
            Err(error) if result.is_ok() => {
                failures.lock().unwrap().insert(case.name.clone(), format!("not cleaned up: {error}").into());
            }
            // Something is left, or could not be cleaned after a failure: the next case gets a new server.
            Ok(false) | Err(_) => {}
        }
        if let Err(failure) = result {
            failures.lock().unwrap().insert(case.name.clone(), failure);
        }
    }
}

/// The next case, if possible one for the same kind of server.
fn next(waiting: &Mutex<Vec<Case>>, kind: Option<&Kind>) -> Option<Case> {
    let mut waiting = waiting.lock().unwrap();
    let same = kind.and_then(|kind| waiting.iter().rposition(|case| Kind::of(case) == *kind));
    let index = same.or_else(|| waiting.len().checked_sub(1))?;
    // The order stays: the longest are taken first.
    Some(waiting.remove(index))
}

/// All failures in one text.
pub fn describe(
    major: u32,
    cases: &BTreeMap<String, (String, String)>,
    failures: &BTreeMap<String, Failure>,
) -> String {
    let mut text = String::new();
    for (name, failure) in failures {
        let (title, why) = cases.get(name).cloned().unwrap_or_default();
        let _ = writeln!(text, "\n---- {name} on PostgreSQL {major}: {title}");
        if !why.is_empty() {
            let _ = writeln!(text, "     ({why})");
        }
        for complaint in &failure.complaints {
            let _ = writeln!(text, "  * {complaint}");
        }
        if !failure.output.is_empty() {
            let _ = writeln!(text, "{}", failure.output);
        }
    }
    let _ = write!(text, "\n{} of {} cases failed on PostgreSQL {major}:", failures.len(), cases.len());
    for name in failures.keys() {
        let _ = write!(text, " {name}");
    }
    text
}

/// Says on stderr what was played, for a passing test is silent.
pub fn report(major: u32, played: usize, left_out: usize) {
    say(&format!("cases: {played} played on PostgreSQL {major}, {left_out} not for this version"));
}
