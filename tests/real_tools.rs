//! Real software, run for real: pglockwatch names the lock while the tool holds it.
//!
//! `tests/run` installs the tools into the tests' cache and says where; without them the tests are skipped. sqlx is
//! not among them: to build it costs minutes. Its keys are checked against vectors, where the presets are tested.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use postgres::NoTls;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::{pglockwatch, run};
use crate::support::{say, server};

/// For a tool to start and to take its lock, on a machine that is busy with the other tests.
const SOON: Duration = Duration::from_secs(40);

/// A server, and a home with a dictionary.
pub struct World {
    pub cluster: Cluster,
    pub home: TempDir,
    tools: PathBuf,
}

/// A tool that runs. It ends with its test.
pub struct Tool(Child);

impl Tool {
    /// Whether it has ended, which none of them does by itself.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    /// Nothing where the tools of that kind (`node`, `python`) are not installed.
    pub fn with_tools(kind: &str) -> Option<Self> {
        let Some(tools) = std::env::var_os(format!("PGLOCKWATCH_TEST_TOOLS_{}", kind.to_uppercase())) else {
            say(&format!("SKIPPED: real tools for {kind}, which are not installed (tests/run does that)"));
            return None;
        };
        let cluster = server::start(&server::any(), &[]);
        Some(Self { cluster, home: tempfile::tempdir().unwrap(), tools: PathBuf::from(tools) })
    }

    /// Starts one of `tests/tools`.
    pub fn start(&self, script: &str, args: &[&str]) -> Tool {
        let home = self.home.path();
        // Node looks for packages beside the script.
        std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools").join(script), home.join(script))
            .unwrap();
        let program = if Path::new(script).extension().is_some_and(|extension| extension == "py") {
            self.tools.join("bin/python")
        } else {
            symlink(self.tools.join("node_modules"), home.join("node_modules")).unwrap();
            PathBuf::from("node")
        };
        let (host, port) = (self.cluster.host(), self.cluster.port());
        let log = std::fs::File::create(home.join("log")).unwrap();
        let mut command = Command::new(program);
        command.arg(home.join(script)).args(args).current_dir(home);
        command.env("DATABASE_URL", format!("postgres://postgres@{host}:{port}/postgres"));
        command.env("PGHOST", host).env("PGPORT", port.to_string());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Tool(command.spawn().unwrap())
    }

    /// Looks until the tool holds this key, by that name.
    fn sees(&self, key: &str, name: &str, tool: &mut Tool, more: &[&str]) {
        let began = Instant::now();
        let dsn = format!("host={} port={} user=postgres dbname=postgres", self.cluster.host(), self.cluster.port());
        loop {
            let mut command = pglockwatch(self.home.path());
            command.args(["check", "--format", "json", "--dsn", &dsn]).args(more);
            let ran = run(command, SOON);
            let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
            let locks = report["targets"][0]["locks"].as_array().unwrap_or_else(|| panic!("no locks: {ran:?}"));
            let mut keys = locks.iter().map(|lock| &lock["key"]);
            if keys.any(|seen| seen["text"] == key && seen["names"][0]["name"] == name) {
                return;
            }
            let log = std::fs::read_to_string(self.home.path().join("log")).unwrap();
            let ended = tool.has_ended();
            assert!(!ended && began.elapsed() < SOON, "no {key} is called {name}: {locks:?}\nThe tool says: {log}");
            sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn node_pg_migrate_while_it_migrates() {
    let Some(world) = World::with_tools("node") else { return };
    let folder = world.home.path().join("migrations");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("1_slow.sql"), "-- Up Migration\nSELECT pg_sleep(60);\n").unwrap();
    let mut tool = world.start("node_pg_migrate.mjs", &[folder.to_str().unwrap()]);
    world.sees("7241865325823964", "node-pg-migrate", &mut tool, &[]);
}

#[test]
fn pg_boss_while_it_makes_its_schema() {
    let Some(world) = World::with_tools("node") else { return };
    // It holds its lock for moments: a schema of the same name that nobody has committed yet makes it wait.
    let mut client = world.cluster.config().connect(NoTls).unwrap();
    client.batch_execute("BEGIN; CREATE SCHEMA pgboss").unwrap();
    let mut tool = world.start("pg_boss.mjs", &[]);
    // The first 8 bytes of sha224("postgres.pgboss.pgboss").
    world.sees("-6933726825547352964", "pg-boss", &mut tool, &[]);
}

#[test]
fn django_pglock_by_the_name_in_a_dictionary() {
    let Some(world) = World::with_tools("python") else { return };
    let dictionary = world.home.path().join("keys.toml");
    std::fs::write(&dictionary, "[[key]]\nname = \"orders-sync\"\npreset = \"django-pglock\"\n").unwrap();
    let mut tool = world.start("django_pglock.py", &["orders-sync"]);
    // The first 8 bytes of sha256("orders-sync"), least significant first.
    world.sees("1719520628513244078", "orders-sync", &mut tool, &["--keys", dictionary.to_str().unwrap()]);
}

#[test]
fn saq_while_its_worker_sweeps() {
    let Some(world) = World::with_tools("python") else { return };
    let mut tool = world.start("saq_worker.py", &[]);
    // 0 and hashtext('default').
    world.sees("(0,822708183)", "SAQ", &mut tool, &[]);
}
