//! What pools do to advisory locks, tried on real ones (r2d2, bb8), and what pglockwatch shows meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use postgres::{Client, NoTls};
use r2d2_postgres::PostgresConnectionManager;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::{pglockwatch, run};
use crate::support::session::superuser;
use crate::support::{server, session};

/// For anything that happens soon, on a machine that is busy with the other tests.
const SOON: Duration = Duration::from_secs(60);

type Pool = r2d2::Pool<PostgresConnectionManager<NoTls>>;

struct World {
    cluster: Cluster,
    home: TempDir,
}

impl World {
    fn new() -> Self {
        Self { cluster: server::start(&server::any(), &[]), home: tempfile::tempdir().unwrap() }
    }

    fn dsn(&self) -> String {
        format!("host={} port={} user=postgres dbname=postgres", self.cluster.host(), self.cluster.port())
    }

    fn config(&self, application: &str) -> postgres::Config {
        let mut config = self.cluster.config();
        config.application_name(application);
        config
    }

    fn pool(&self, application: &str, size: u32) -> Pool {
        let manager = PostgresConnectionManager::new(self.config(application), NoTls);
        Pool::builder().max_size(size).min_idle(Some(size)).connection_timeout(SOON).build(manager).unwrap()
    }

    /// One look, with a threshold that pools in a test can reach.
    fn check(&self, more: &[&str]) -> Value {
        let mut command = pglockwatch(self.home.path());
        command.args(["check", "--format", "json", "--idle-threshold", "1s", "--dsn", &self.dsn()]).args(more);
        let ran = run(command, SOON);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        assert!(report["targets"][0]["error"].is_null(), "{ran:?}");
        report["targets"][0].clone()
    }

    /// The locks that pglockwatch shows: key, application and scope.
    fn locks(&self) -> Vec<[String; 3]> {
        let report = self.check(&[]);
        let lock = |lock: &Value| {
            [&lock["key"]["text"], &lock["holder"]["application"], &lock["scope"]]
                .map(|text| text.as_str().unwrap_or_default().to_owned())
        };
        report["locks"].as_array().unwrap().iter().map(lock).collect()
    }

    /// Looks until this rule has a finding.
    fn finds(&self, rule: &str, more: &[&str]) -> Value {
        let began = Instant::now();
        loop {
            let report = self.check(more);
            let findings = report["findings"].as_array().unwrap();
            if let Some(found) = findings.iter().find(|finding| finding["rule"] == rule) {
                return found.clone();
            }
            assert!(began.elapsed() < SOON, "no {rule}: {report}");
            sleep(Duration::from_millis(100));
        }
    }

    /// Looks until no lock is held, and does this in between.
    fn sees_no_lock(&self, meanwhile: impl Fn()) {
        let began = Instant::now();
        while !self.locks().is_empty() {
            assert!(began.elapsed() < SOON, "{:?}", self.locks());
            meanwhile();
        }
    }
}

/// The one boolean of a query.
fn asks(client: &mut Client, sql: &str) -> bool {
    client.query_one(sql, &[]).unwrap().get(0)
}

fn lock(key: &str, application: &str, scope: &str) -> [String; 3] {
    [key, application, scope].map(str::to_owned)
}

#[test]
fn of_five_instances_exactly_one_runs() {
    let world = World::new();
    let pools: Vec<Pool> = (1..=5).map(|instance| world.pool(&format!("instance {instance}"), 1)).collect();
    let together = Arc::new(Barrier::new(pools.len()));
    let (asked, over) = (Arc::new(Barrier::new(pools.len() + 1)), Arc::new(Barrier::new(pools.len() + 1)));
    let instance = |pool: Pool| {
        let (together, asked, over) = (Arc::clone(&together), Arc::clone(&asked), Arc::clone(&over));
        spawn(move || {
            let mut connection = pool.get().unwrap();
            together.wait();
            let runs = asks(&mut connection, "SELECT pg_try_advisory_lock(42)");
            asked.wait();
            over.wait();
            runs && asks(&mut connection, "SELECT pg_advisory_unlock(42)")
        })
    };
    let instances: Vec<JoinHandle<bool>> = pools.into_iter().map(instance).collect();
    asked.wait();
    let seen = world.locks();
    over.wait();
    let ran: Vec<bool> = instances.into_iter().map(|instance| instance.join().unwrap()).collect();
    assert_eq!(ran.iter().filter(|&&ran| ran).count(), 1, "{ran:?}");
    let winner = ran.iter().position(|&ran| ran).unwrap() + 1;
    assert_eq!(seen, [lock("42", &format!("instance {winner}"), "session")]);
}

#[test]
fn an_unlock_on_another_connection_frees_nothing() {
    let world = World::new();
    let pool = world.pool("api", 2);
    let (mut one, mut other) = (pool.get().unwrap(), pool.get().unwrap());
    assert!(asks(&mut one, "SELECT pg_try_advisory_lock(42)"));
    assert!(!asks(&mut other, "SELECT pg_advisory_unlock(42)"));
    drop((one, other));
    let found = world.finds("idle-holder", &[]);
    assert_eq!(found["keys"], serde_json::json!(["42"]));
    assert_eq!(world.locks(), [lock("42", "api", "session")]);
    // Whoever borrows the other connection cannot get it.
    let mut borrowed = [pool.get().unwrap(), pool.get().unwrap()];
    let answers: Vec<bool> =
        borrowed.iter_mut().map(|connection| asks(connection, "SELECT pg_try_advisory_lock(42)")).collect();
    assert_eq!(answers.iter().filter(|&&answer| answer).count(), 1, "only the session that has it gets it again");
}

#[test]
fn a_lock_of_a_transaction_ends_with_it() {
    let world = World::new();
    let pool = world.pool("api", 2);
    let (mut one, mut other) = (pool.get().unwrap(), pool.get().unwrap());
    let mut transaction = one.transaction().unwrap();
    let took: bool = transaction.query_one("SELECT pg_try_advisory_xact_lock(42)", &[]).unwrap().get(0);
    assert!(took);
    assert!(!asks(&mut other, "SELECT pg_try_advisory_xact_lock(42)"));
    // Nothing that pg_locks shows tells it from a session lock in a transaction.
    assert_eq!(world.locks(), [lock("42", "api", "unknown")]);
    let found = world.finds("idle-in-transaction-holder", &[]);
    assert_eq!(found["keys"], serde_json::json!(["42"]));
    transaction.rollback().unwrap();
    assert!(asks(&mut other, "SELECT pg_try_advisory_xact_lock(42)"));
    assert_eq!(world.locks(), Vec::<[String; 3]>::new());
}

#[test]
fn locked_twice_needs_two_unlocks_and_shows_one_row() {
    let world = World::new();
    let pool = world.pool("api", 1);
    let mut connection = pool.get().unwrap();
    for _ in 0..2 {
        assert!(asks(&mut connection, "SELECT pg_try_advisory_lock(42)"));
    }
    assert_eq!(world.locks(), [lock("42", "api", "session")]);
    assert!(asks(&mut connection, "SELECT pg_advisory_unlock(42)"));
    assert_eq!(world.locks(), [lock("42", "api", "session")]);
    assert!(asks(&mut connection, "SELECT pg_advisory_unlock(42)"));
    assert_eq!(world.locks(), Vec::<[String; 3]>::new());
    assert!(!asks(&mut connection, "SELECT pg_advisory_unlock(42)"));
}

#[test]
fn a_pool_that_closes_idle_connections_frees_the_leak() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let manager = bb8_postgres::PostgresConnectionManager::new_from_stringlike(world.dsn(), NoTls).unwrap();
    let pool = bb8::Pool::builder()
        .max_size(2)
        .idle_timeout(Some(Duration::from_secs(3)))
        .reaper_rate(Duration::from_millis(500));
    let pool = runtime.block_on(async {
        let pool = pool.build(manager).await.unwrap();
        let connection = pool.get().await.unwrap();
        connection.batch_execute("SELECT pg_advisory_lock(42)").await.unwrap();
        drop(connection);
        pool
    });
    // Outside of the runtime the pool rests: it closes nothing before we have looked.
    assert_eq!(world.finds("idle-holder", &[])["keys"], serde_json::json!(["42"]));
    // In it it closes what has been idle for too long.
    world.sees_no_lock(|| runtime.block_on(async { tokio::time::sleep(Duration::from_millis(500)).await }));
    drop(pool);
}

/// Four kinds of background work, by name.
const JOBS: [&str; 4] = ["sweep", "alerts", "mail checks", "uptime"];

fn dictionary(home: &Path) -> String {
    let entry = |name: &&str| format!("[[key]]\nname = \"{name}\"\nhash = \"hashtext\"\nowner = \"background\"\n");
    let path = home.join("keys.toml");
    std::fs::write(&path, JOBS.iter().map(entry).collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A job that keeps its lock on `holder` while its work asks the pool for a connection, until it gets one or is told
/// to stop. Whether it got one.
fn job(
    mut holder: impl AsMut<Client> + Send + 'static,
    pool: Pool,
    name: &'static str,
    stop: &Arc<AtomicBool>,
    all_hold: &Arc<Barrier>,
) -> JoinHandle<bool> {
    let (stop, all_hold) = (Arc::clone(stop), Arc::clone(all_hold));
    spawn(move || {
        let row = holder.as_mut().query_one("SELECT pg_try_advisory_lock(hashtext($1))", &[&name]).unwrap();
        assert!(row.get::<_, bool>(0), "{name} is locked already");
        all_hold.wait();
        while !stop.load(Ordering::Relaxed) {
            if let Ok(mut connection) = pool.get_timeout(Duration::from_millis(200)) {
                return connection.batch_execute("SELECT 'the work'").is_ok();
            }
        }
        false
    })
}

/// A connection for a lock: one of the pool, or one of its own.
struct Holder<C>(C);

impl<C: std::ops::DerefMut<Target = Client>> AsMut<Client> for Holder<C> {
    fn as_mut(&mut self) -> &mut Client {
        &mut self.0
    }
}

/// The readiness probe: whether the pool lends a connection for `SELECT 1`.
fn is_ready(pool: &Pool, within: Duration) -> bool {
    pool.get_timeout(within).is_ok_and(|mut connection| connection.batch_execute("SELECT 1").is_ok())
}

#[test]
fn four_locks_eat_a_pool_of_four_and_connections_of_their_own_do_not() {
    let world = World::new();
    let keys = dictionary(world.home.path());
    let options = ["--keys", keys.as_str()];
    let pool = world.pool("backend", 4);
    assert!(is_ready(&pool, SOON));
    let (stop, all_hold) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(JOBS.len() + 1)));
    let start = |name| job(Holder(pool.get().unwrap()), pool.clone(), name, &stop, &all_hold);
    let jobs: Vec<JoinHandle<bool>> = JOBS.into_iter().map(start).collect();
    all_hold.wait();
    assert!(!is_ready(&pool, Duration::from_millis(500)), "there was a connection left");

    let found = world.finds("pool-starved", &options);
    assert_eq!((&found["severity"], &found["key_count"]), (&"critical".into(), &4.into()), "{found}");
    assert_eq!(found["pids"].as_array().unwrap().len(), 4);
    let report = world.check(&options);
    let mut names: Vec<&str> = report["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| {
            assert_eq!(lock["rules"], serde_json::json!(["pool-starved"]));
            lock["key"]["names"][0]["name"].as_str().unwrap()
        })
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["alerts", "mail checks", "sweep", "uptime"]);

    assert!(!jobs.iter().any(JoinHandle::is_finished), "a job got a connection from an empty pool");

    // What on-call runs: it ends the four sessions, and the pool recovers with new ones.
    let sql = found["advice"]["sql"].as_str().unwrap();
    let mut oncall = superuser(&world.cluster);
    assert!(jobs.iter().all(|job| !job.is_finished()), "a job got a connection from an empty pool");
    let rows = oncall.simple_query(sql).unwrap();
    let ended = rows.iter().filter(|row| matches!(row, postgres::SimpleQueryMessage::Row(_))).count();
    assert_eq!(ended, 4, "{rows:?}");
    stop.store(true, Ordering::Relaxed);
    for job in jobs {
        // The first that ends gives its place back, and another may get it before it sees that it should stop.
        job.join().unwrap();
    }
    assert!(is_ready(&pool, SOON));
    world.sees_no_lock(|| sleep(Duration::from_millis(100)));

    // What the page advises: the locks on connections of their own. All jobs do their work, and the probe gets in.
    let (stop, all_hold) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(JOBS.len() + 1)));
    let start = |name| {
        let own = Box::new(world.config("backend-locks").connect(NoTls).unwrap());
        job(Holder(own), pool.clone(), name, &stop, &all_hold)
    };
    let jobs: Vec<JoinHandle<bool>> = JOBS.into_iter().map(start).collect();
    all_hold.wait();
    assert!(is_ready(&pool, SOON));
    assert!(jobs.into_iter().all(|job| job.join().unwrap()), "a job got no connection");
    assert!(session::single(&mut oncall, "SELECT 1").is_ok());
}
