//! The detection cases of `tests/cases`, on every version of PostgreSQL that there is.
//!
//! `CASE=name cargo test cases` plays one of them (or several: names with commas between).

use std::collections::BTreeMap;
use std::path::Path;

use crate::runner::format::Case;
use crate::runner::pool;
use crate::support::server;

const WHAT: &str = "all cases";

server::on_each_major!(WHAT, play);

fn play(binaries: &pglockwatch::app::demo::Binaries) {
    let major = binaries.major;
    let (cases, left_out): (Vec<Case>, Vec<Case>) = read().into_iter().partition(|case| case.runs_on(major));
    let titles: BTreeMap<_, _> =
        cases.iter().map(|case| (case.name.clone(), (case.title.clone(), case.why.clone()))).collect();
    let failures = pool::play_all(binaries, cases);
    assert!(failures.is_empty(), "{}", pool::describe(major, &titles, &failures));
    pool::report(major, titles.len(), left_out.len());
}

/// All case files, or those that `CASE` names. A file that cannot be read fails the test.
fn read() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let wanted = std::env::var("CASE").ok();
    let wanted: Option<Vec<&str>> = wanted.as_deref().map(|names| names.split(',').map(str::trim).collect());
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let cases: Vec<Case> = paths
        .iter()
        .map(|path| Case::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .filter(|case| wanted.as_ref().is_none_or(|wanted| wanted.contains(&case.name.as_str())))
        .collect();
    assert!(!cases.is_empty(), "no case is called {wanted:?}");
    cases
}
