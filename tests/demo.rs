//! The demo: what it plants, and that nothing of it is left.

use std::path::PathBuf;

use pglockwatch::app::demo::{Planted, run};
use pglockwatch::cli::demo::DemoArgs;
use postgres::{Config, NoTls};

use crate::support::server;
use crate::support::session::single;

fn args() -> DemoArgs {
    DemoArgs { bindir: Some(server::any().folder), once: true }
}

/// The folder in the demo's DSN, where its server lives.
fn folder(planted: &Planted) -> PathBuf {
    let host = planted.dsn.split(' ').find_map(|part| part.strip_prefix("host=")).unwrap();
    PathBuf::from(host)
}

#[test]
fn plants_locks_of_each_kind_and_leaves_nothing_behind() {
    let mut notes = Vec::new();
    let mut lived_in = PathBuf::new();
    let result: Result<u8, pglockwatch::app::demo::DemoError> = run(&args(), true, &mut notes, |planted| {
        lived_in = folder(planted);
        assert!(planted.dictionary.starts_with(&lived_in));
        let mut client = planted.dsn.parse::<Config>().unwrap().connect(NoTls).unwrap();
        let mut count = |what: &str| {
            single(&mut client, &format!("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND {what}"))
                .unwrap()
        };
        assert_eq!(count("granted"), "11");
        assert_eq!(count("NOT granted"), "3");
        assert_eq!(count("pid IS NULL"), "1", "the prepared transaction's");
        assert_eq!(count("objsubid = 2 AND classid = 31"), "4", "the starved pool's");
        Ok(7)
    });
    assert_eq!(result, Ok(7));
    assert!(!lived_in.as_os_str().is_empty() && !lived_in.exists(), "{} is left", lived_in.display());
    let notes = String::from_utf8(notes).unwrap();
    assert!(notes.contains("stopped and its folder removed"), "{notes}");
}

#[test]
fn cleans_up_when_what_opens_on_it_fails() {
    let mut lived_in = PathBuf::new();
    let failed = pglockwatch::app::demo::DemoError::new("the screen broke");
    let result: Result<u8, _> = run(&args(), true, &mut std::io::sink(), |planted| {
        lived_in = folder(planted);
        Err(failed.clone())
    });
    assert_eq!(result, Err(failed));
    assert!(!lived_in.as_os_str().is_empty() && !lived_in.exists(), "{} is left", lived_in.display());
}

#[test]
fn a_folder_without_a_server_is_one_plain_sentence() {
    let args = DemoArgs { bindir: Some(PathBuf::from("/nonexistent")), once: true };
    let result: Result<u8, pglockwatch::app::demo::DemoError> = run(&args, true, &mut std::io::sink(), |_| Ok(0));
    let error = result.unwrap_err();
    assert_eq!(error.message, "there is no initdb and postgres in /nonexistent");
    assert!(!error.hints.is_empty());
}
