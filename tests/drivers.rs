//! Real client pools: which of them keep a session lock when the connection is given back, and that pglockwatch finds
//! each that does. The README's table has what is seen here.
//!
//! One process has all the pools of its language, so that this costs seconds. Go and Java are not among them: their
//! toolchains are ten times larger than all the rest.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::real_tools::{Tool, World};
use crate::support::command::{pglockwatch, run};

/// For interpreters to start and pools to connect, on a machine that is busy with the other tests.
const SOON: Duration = Duration::from_secs(60);

/// What a language's pools do: the applications that hold a lock afterwards, and those that do not.
struct Expected {
    held: &'static [&'static str],
    released: &'static [&'static str],
}

const PYTHON: Expected = Expected {
    held: &[
        "psycopg pool",
        "psycopg async pool",
        "psycopg2 pool",
        "asyncpg pool without reset",
        "SQLAlchemy on psycopg",
        "SQLAlchemy on psycopg2",
        "SQLAlchemy on pg8000",
        "SQLAlchemy on asyncpg",
    ],
    released: &["asyncpg pool", "SQLAlchemy NullPool", "SQLAlchemy NullPool on asyncpg"],
};

const NODE: Expected = Expected {
    held: &["node pg", "postgres.js", "knex"],
    // Until its idle connections are closed it holds too.
    released: &["node pg with idleTimeoutMillis"],
};

#[test]
fn python_pools() {
    let Some(world) = World::with_tools("python") else { return };
    let mut tool = world.start("pools.py", &[]);
    judge(&world, &mut tool, &PYTHON);
}

#[test]
fn node_pools() {
    let Some(world) = World::with_tools("node") else { return };
    let mut tool = world.start("pools.mjs", &[]);
    judge(&world, &mut tool, &NODE);
}

fn judge(world: &World, tool: &mut Tool, expected: &Expected) {
    let tried = tried(world, tool);
    let applications: BTreeSet<&str> = tried.iter().map(|pool| pool["application"].as_str().unwrap()).collect();
    let known: BTreeSet<&str> = expected.held.iter().chain(expected.released).copied().collect();
    assert_eq!(applications, known);
    versions_are_those_of_the_readme(&tried);
    let began = Instant::now();
    loop {
        let (held, leaks) = look(world);
        let all: BTreeSet<String> = expected.held.iter().map(|&name| name.to_owned()).collect();
        if held == all && leaks == all {
            return;
        }
        assert!(began.elapsed() < SOON, "held: {held:?}\nfound: {leaks:?}\nexpected: {all:?}");
        sleep(Duration::from_millis(200));
    }
}

/// What the tool says that it has tried, once it has.
fn tried(world: &World, tool: &mut Tool) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let log = std::fs::read_to_string(world.home.path().join("log")).unwrap();
        let line = log.lines().find(|line| line.starts_with('[') && line.ends_with(']'));
        if let Some(said) = line.and_then(|line| serde_json::from_str(line).ok()) {
            return said;
        }
        assert!(!tool.has_ended() && began.elapsed() < SOON, "the tool says: {log}");
        sleep(Duration::from_millis(50));
    }
}

/// The applications whose sessions hold a lock, and those that have a finding.
fn look(world: &World) -> (BTreeSet<String>, BTreeSet<String>) {
    let dsn = format!("host={} port={} user=postgres dbname=postgres", world.cluster.host(), world.cluster.port());
    let mut command = pglockwatch(world.home.path());
    command.args(["check", "--format", "json", "--idle-threshold", "1s", "--dsn", &dsn]);
    let ran = run(command, SOON);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let locks = report["targets"][0]["locks"].as_array().unwrap_or_else(|| panic!("no locks: {ran:?}"));
    let application = |lock: &&Value| lock["holder"]["application"].as_str().unwrap().to_owned();
    let is_leak = |lock: &&Value| {
        let rules = lock["rules"].as_array().unwrap();
        rules.iter().any(|rule| rule == "idle-holder" || rule == "idle-in-transaction-holder")
    };
    (
        locks.iter().map(|lock| application(&lock)).collect(),
        locks.iter().filter(is_leak).map(|lock| application(&lock)).collect(),
    )
}

/// The README says which versions were tried.
fn versions_are_those_of_the_readme(tried: &[Value]) {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    for (package, version) in tried.iter().flat_map(|pool| pool["versions"].as_object().unwrap()) {
        let text = format!("{package} {}", version.as_str().unwrap());
        assert!(readme.contains(&text), "the README does not say {text}");
    }
}
