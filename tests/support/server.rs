//! Real servers: which versions there are, and throwaway clusters of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use pglockwatch::app::demo::{Binaries, Cluster, Folder, Listen, initdb};

use super::say;

/// The server programs of this major version: where `tests/run` put them, or where packages put them.
pub fn of_major(major: u32) -> Option<Binaries> {
    let handed_over = std::env::var_os(format!("PGLOCKWATCH_TEST_PG{major}")).map(PathBuf::from);
    if let Some(folder) = handed_over {
        let found = Binaries::at(&folder).unwrap_or_else(|error| panic!("PGLOCKWATCH_TEST_PG{major}: {error}"));
        assert_eq!(found.major, major, "PGLOCKWATCH_TEST_PG{major} names a folder of another version");
        return Some(found);
    }
    Binaries::all().into_iter().find(|found| found.major == major)
}

/// Plays on this major version; says what is left out where it is not here.
pub fn on_major(major: u32, what: &str, play: impl FnOnce(&Binaries)) {
    match of_major(major) {
        Some(binaries) => play(&binaries),
        None => {
            say(&format!("SKIPPED: {what} on PostgreSQL {major}, which is not on this machine (tests/run fetches it)"));
        }
    }
}

/// Plays on PostgreSQL 15; on another version, and says so, where there is none.
pub fn on_15_or_any(what: &str, play: impl FnOnce(&Binaries)) {
    let binaries = any();
    if binaries.major != 15 {
        say(&format!("SKIPPED: {what} on PostgreSQL 15, which is not here; on {} instead", binaries.major));
    }
    play(&binaries);
}

/// A test for each major version that is tried: 12, 15 and 18.
macro_rules! on_each_major {
    ($what:expr, $play:path) => {
        #[test]
        fn on_postgresql_12() {
            $crate::support::server::on_major(12, $what, $play);
        }

        #[test]
        fn on_postgresql_15_or_what_the_machine_has() {
            $crate::support::server::on_15_or_any($what, $play);
        }

        #[test]
        fn on_postgresql_18() {
            $crate::support::server::on_major(18, $what, $play);
        }
    };
}
pub(crate) use on_each_major;

/// The server for whatever needs just one: PostgreSQL 15, else the newest there is.
pub fn any() -> Binaries {
    of_major(15)
        .or_else(|| Binaries::all().into_iter().max_by_key(|found| found.major))
        .or_else(|| [18, 12].into_iter().find_map(of_major))
        .expect("these tests need a PostgreSQL server: install the package postgresql, or start tests/run")
}

/// A running throwaway server on 127.0.0.1 that trusts everybody, with these settings (`name=value`).
pub fn start(binaries: &Binaries, settings: &[String]) -> Cluster {
    start_with(binaries, settings, |_| ())
}

/// The same, after `prepare` has changed what it likes in the folder (`data/pg_hba.conf`, say).
pub fn start_with(binaries: &Binaries, settings: &[String], prepare: impl FnOnce(&Folder)) -> Cluster {
    let folder = Folder::create("pglockwatch-test-").unwrap();
    let copied = folder.command("cp").arg("-a").arg(template(binaries).data()).arg(folder.data()).output().unwrap();
    assert!(copied.status.success(), "cp: {}", String::from_utf8_lossy(&copied.stderr));
    prepare(&folder);
    Cluster::start(binaries, folder, Listen::Loopback, settings).unwrap()
}

/// An empty data folder of this version, made once per run. It lives in a static, which is never dropped: the
/// folder's watcher removes it when the test binary ends.
fn template(binaries: &Binaries) -> Arc<Folder> {
    type Templates = Mutex<HashMap<PathBuf, Arc<OnceLock<Arc<Folder>>>>>;
    static TEMPLATES: OnceLock<Templates> = OnceLock::new();
    let made =
        Arc::clone(TEMPLATES.get_or_init(Mutex::default).lock().unwrap().entry(binaries.folder.clone()).or_default());
    let folder = made.get_or_init(|| {
        let folder = Folder::create("pglockwatch-template-").unwrap();
        initdb(binaries, &folder).unwrap_or_else(|error| panic!("{}: {error}", binaries.folder.display()));
        Arc::new(folder)
    });
    Arc::clone(folder)
}
