//! A server whose shared lock table is full: nobody can log in, and the views fail. The statement is typed into a
//! connection that is open already, as the program's own is.

use std::thread;

use pglockwatch::app::demo::Binaries;
use serde_json::Value;

use super::scene::{SOON, Scene, World, finding, finding_in, rows, sql_of};
use crate::support::full;
use crate::support::session::Session;

/// How long the program watches. Where a poll costs much the next one is long in coming, and the last poll decides.
const OBSERVATIONS: [&str; 4] = ["4s", "8s", "14s", "25s"];

/// Takes what is left of the lock table.
fn hoard(hoarder: &Session) {
    let full = hoarder.run(full::TAKE_ALL, SOON);
    assert!(full.as_ref().is_err_and(|error| error.ends_with("(53200)")), "{full:?}");
}

/// What the program says of a server whose table fills while it looks.
fn observed(scene: &Scene<'_>, hoarder: &Session) -> Vec<Value> {
    let mut findings = Vec::new();
    for observe in OBSERVATIONS {
        findings = thread::scope(|scope| {
            let look = ["--observe", observe, "--interval", "200ms"];
            let looking = scope.spawn(move || scene.check("postgres", &look));
            // Once it has looked, in its read-only transaction, it knows the server and is known to the catalogues' cache.
            scene.until(
                "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'pglockwatch' AND state = 'idle'
                 AND query LIKE 'BEGIN ISOLATION%' AND clock_timestamp() - backend_start > '500 milliseconds'",
            );
            while !looking.is_finished() {
                full::fill(scene.cluster(), || hoard(hoarder));
            }
            looking.join().unwrap()
        });
        let is_full = findings.iter().any(|finding| finding["rule"] == "lock-table-full");
        // A hoarder that was at work in that moment gets no statement.
        let hoard = finding_in(&findings, "key-hoard", &[hoarder]);
        if is_full && hoard.is_some_and(|hoard| hoard["advice"]["sql"].is_string()) {
            return findings;
        }
        // The next look must be able to log in.
        hoarder.run("SELECT pg_advisory_unlock_all()", SOON).unwrap();
    }
    panic!("no lock-table-full with a statement for the hoarder: {findings:#?}")
}

pub fn a_full_lock_table_is_freed_over_an_open_connection(binaries: &Binaries) {
    let world = World::new(binaries, &full::SETTINGS);
    let scene = Scene::new(&world, "full lock table");
    // The server looks up the role of a session before it signals it, and that takes locks on shared catalogues: without
    // any free place only superusers' sessions can be ended, for those are known from the login.
    let neighbour =
        scene.played("app", "neighbour", &["SELECT pg_advisory_lock(992, key) FROM generate_series(1, 20) key"]);
    let hoarder = scene.session("app", "worker");
    let mut person = scene.client("postgres");
    let findings = observed(&scene, &hoarder);
    let found = finding(&findings, "key-hoard", &[&hoarder]);
    assert!(
        found["advice"]["caveats"].to_string().contains("'out of shared memory', it has done nothing"),
        "{found:#}"
    );
    let statement = sql_of(&found);
    full::fill(scene.cluster(), || hoard(&hoarder));

    let mut says = |begins: &str| {
        let answer = rows(&mut person, &statement).unwrap_or_else(|error| vec![error]);
        let [row] = answer.as_slice() else { panic!("not one row: {answer:?}") };
        assert!(row.starts_with(begins), "{row:?}, not {begins:?}\n{statement}");
    };
    hoarder.run("BEGIN", SOON).unwrap();
    says("nothing done: working for somebody now, run it again");
    hoarder.run("COMMIT", SOON).unwrap();
    says("out of shared memory");
    hoarder.run("SELECT 1", SOON).unwrap();
    neighbour.run("SELECT pg_advisory_unlock_all()", SOON).unwrap();
    says("terminated");
    scene.until_gone(&hoarder);
    says("nothing done: session gone");
    scene.connect("app").unwrap();
}
