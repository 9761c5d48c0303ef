//! A small test suite of its own, run under `guard` by the tests beside it. By itself each of these is ignored.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::SOON;

/// Names the server.
pub(super) const SERVER: &str = "PGLOCKWATCH_TEST_GUARDED";
/// How long a lock rests: far longer than a poll may be late.
const REST: Duration = Duration::from_secs(2);

fn connect(application: &str) -> Client {
    let dsn = std::env::var(SERVER).expect("run under guard by another test");
    Client::connect(&format!("{dsn} application_name='{application}'"), NoTls).unwrap()
}

/// Waits until the guard has begun so many polls.
fn polls(observer: &mut Client, count: usize) {
    let (began, mut seen) = (Instant::now(), BTreeSet::new());
    // The poll that runs while we begin may have read the locks already.
    while seen.len() < count + 2 {
        assert!(began.elapsed() < SOON, "{} polls", seen.len());
        let sql = "SELECT query_start::text FROM pg_stat_activity WHERE application_name = 'pglockwatch'";
        for row in observer.query(sql, &[]).unwrap() {
            seen.extend(row.get::<_, Option<String>>(0));
        }
        sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "run under guard by another test"]
fn leaks() {
    let mut observer = connect("observer");
    let mut pooled = connect("leaky suite");
    pooled.batch_execute("SELECT pg_advisory_lock(612001)").unwrap();
    polls(&mut observer, 2);
    pooled.batch_execute("SELECT 'the next test'").unwrap();
    sleep(REST);
    polls(&mut observer, 2);
}

#[test]
#[ignore = "run under guard by another test"]
fn unlocks() {
    let mut observer = connect("observer");
    let mut pooled = connect("clean suite");
    pooled.batch_execute("SELECT pg_advisory_lock(1)").unwrap();
    // A transaction that ends with its connection.
    let mut careless = connect("clean suite");
    careless.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(2)").unwrap();
    polls(&mut observer, 3);
    pooled.batch_execute("SELECT pg_advisory_unlock(1)").unwrap();
    polls(&mut observer, 2);
    drop(careless);
    drop(pooled);
    polls(&mut observer, 2);
}

#[test]
#[ignore = "run under guard by another test"]
fn stays() {
    let mut observer = connect("observer");
    let mut session = connect("forgotten");
    session.batch_execute("SELECT pg_advisory_lock(7)").unwrap();
    polls(&mut observer, 2);
    std::fs::write("held", "").unwrap();
    let began = Instant::now();
    while !Path::new("done").exists() && began.elapsed() < SOON {
        sleep(Duration::from_millis(50));
    }
}
