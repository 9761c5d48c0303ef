//! What the demo plants: sessions that hold and want advisory locks the way leaking applications do.
//!
//! It knows a server to connect to. It must not know who looks at it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::{Cluster, DemoError};

/// The database that everything is planted in. Rails computes its key from this name.
pub const DATABASE: &str = "app_production";

/// How long the sessions that must wait may take to be seen waiting.
const QUEUE: Duration = Duration::from_secs(10);

/// The dictionary of the planted keys.
const DICTIONARY: &str = r##"# The keys of the demo: what a team would write down about its own.
[[key]]
name = "nightly-report"
key = 612001
owner = "billing"
team = "payments"
contact = "#payments-oncall"
note = "rolls up yesterday"

[[key]]
name = "stock-sync"
hash = "hashtext"
owner = "warehouse"
contact = "#warehouse"

[[key]]
name = "scheduler-leader"
key = 28319
kind = "leader"
owner = "scheduler"
holders = 1

[[key]]
name = "order-export"
key = 4242
owner = "orders"
scope = "transaction"

[[key]]
name = "cart"
class = 7
owner = "shop"
scope = "transaction"

[[key]]
name = "mail-checks"
class = 31
owner = "mailer"
"##;

/// Objects, as the superuser in the database `postgres`.
const ROLES: &str = "CREATE ROLE app LOGIN; CREATE ROLE deploy LOGIN";

/// A session that takes its locks and then only sits there: application, user, statements.
const SITTING: &[(&str, &str, &[&str])] = &[
    // Leaked on an idle pooled connection; nobody waits yet.
    ("report-worker", "app", &["SELECT pg_try_advisory_lock(612001)", "SELECT sum(amount) FROM orders"]),
    // A migration's lock that outlived the migration; the next deploy waits for it.
    ("rails", "app", &["SELECT pg_try_advisory_lock(4615154450383096620)", "SELECT max(id) FROM orders"]),
    // A leader does what it should.
    ("scheduler", "app", &["SELECT pg_advisory_lock(28319)"]),
    // A transaction left open in the middle of a request.
    ("shop", "app", &["BEGIN", "SELECT pg_advisory_xact_lock(7, 1001)", "SELECT * FROM orders WHERE id = 1"]),
    // A pool of four, each with its own key in its pocket: the fifth request finds no connection.
    ("mailer", "app", &["SELECT pg_advisory_lock(31, 1)"]),
    ("mailer", "app", &["SELECT pg_advisory_lock(31, 2)"]),
    ("mailer", "app", &["SELECT pg_advisory_lock(31, 3)"]),
    ("mailer", "app", &["SELECT pg_advisory_lock(31, 4)"]),
];

/// A session that ends, and leaves a prepared transaction behind that holds the lock.
const PREPARED: &[&str] = &[
    "BEGIN",
    "INSERT INTO orders (amount) VALUES (77)",
    "SELECT pg_advisory_xact_lock(4242)",
    "PREPARE TRANSACTION 'order 77'",
];

/// Sessions whose last statement does not end: application, user, statements.
const BUSY: &[(&str, &str, &[&str])] = &[
    // A migration at work, and the second pod of the deploy behind it.
    ("prisma", "deploy", &["SELECT pg_advisory_lock(72707369)", "SELECT pg_sleep(86400) /* ALTER TABLE orders ... */"]),
    ("prisma", "deploy", &["SELECT pg_advisory_lock(72707369)"]),
    ("rails db:migrate", "deploy", &["SELECT pg_advisory_lock(4615154450383096620)"]),
    ("stock-worker", "app", &["SELECT pg_advisory_lock(hashtext('stock-sync'))"]),
];

/// The busy pooled connection: takes the lock, never gives it back, and goes on with other requests.
const CARRIER: (&str, &str) = ("api", "SELECT pg_try_advisory_lock(hashtext('stock-sync'))");
const CARRIER_REQUESTS: &[&str] = &["SELECT count(*) FROM orders", "SELECT * FROM orders ORDER BY id DESC LIMIT 10"];
const CARRIER_PAUSE: Duration = Duration::from_millis(150);

/// The planted sessions. They end with their server.
pub struct Garden {
    sitting: Vec<Client>,
    busy: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Garden {
    /// Waits until every session has noticed that its server is gone.
    pub fn wait(self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.sitting);
        for thread in self.busy {
            let _ = thread.join();
        }
    }
}

/// Writes the dictionary of the planted keys into the folder.
///
/// # Errors
/// When it cannot be written.
pub fn write_dictionary(folder: &Path) -> Result<PathBuf, DemoError> {
    let path = folder.join("keys.toml");
    std::fs::write(&path, DICTIONARY)
        .map_err(|error| DemoError::new(format!("cannot write {}: {error}", path.display())))?;
    Ok(path)
}

/// Plants everything, and returns when the last session waits.
///
/// # Errors
/// When a session cannot connect or a statement fails.
pub fn plant(cluster: &Cluster) -> Result<Garden, DemoError> {
    let mut superuser = cluster.config().connect(NoTls).map_err(|error| refused(&error))?;
    run(&mut superuser, &[ROLES, &format!("CREATE DATABASE {DATABASE} OWNER app")])?;
    let mut owner = connect(cluster, "shop", "app")?;
    run(&mut owner, &["CREATE TABLE orders (id bigserial PRIMARY KEY, amount numeric NOT NULL)"])?;
    run(&mut owner, &["INSERT INTO orders (amount) SELECT g FROM generate_series(1, 100) g"])?;
    run(&mut owner, PREPARED)?;
    drop(owner);

    let mut garden = Garden { sitting: Vec::new(), busy: Vec::new(), stop: Arc::new(AtomicBool::new(false)) };
    for (application, user, statements) in SITTING {
        let mut client = connect(cluster, application, user)?;
        run(&mut client, statements)?;
        garden.sitting.push(client);
    }
    garden.busy.push(carry(cluster, Arc::clone(&garden.stop))?);
    // One after the other: who has waited longest stands first, and should not change from run to run.
    for (application, user, statements) in BUSY {
        let already = waiting(&mut superuser)?;
        garden.busy.push(work(cluster, application, user, statements)?);
        wait_for_queue(&mut superuser, already, statements)?;
    }
    Ok(garden)
}

fn connect(cluster: &Cluster, application: &str, user: &str) -> Result<Client, DemoError> {
    let mut config = cluster.config();
    config.user(user).dbname(DATABASE).application_name(application);
    config.connect(NoTls).map_err(|error| refused(&error))
}

fn run(client: &mut Client, statements: &[&str]) -> Result<(), DemoError> {
    statements.iter().try_for_each(|statement| client.batch_execute(statement)).map_err(|error| refused(&error))
}

/// The busy connection, in a thread of its own.
fn carry(cluster: &Cluster, stop: Arc<AtomicBool>) -> Result<JoinHandle<()>, DemoError> {
    let (application, lock) = CARRIER;
    let mut client = connect(cluster, application, "app")?;
    run(&mut client, &[lock])?;
    Ok(spawn(move || {
        for request in CARRIER_REQUESTS.iter().cycle() {
            if stop.load(Ordering::Relaxed) || client.batch_execute(request).is_err() {
                return;
            }
            sleep(CARRIER_PAUSE);
        }
    }))
}

/// A session whose last statement waits or works until the server ends, in a thread of its own.
fn work(
    cluster: &Cluster,
    application: &str,
    user: &str,
    statements: &'static [&'static str],
) -> Result<JoinHandle<()>, DemoError> {
    let mut client = connect(cluster, application, user)?;
    let Some((last, first)) = statements.split_last() else { return Ok(spawn(|| ())) };
    run(&mut client, first)?;
    // It fails when the server is stopped: that is how it ends.
    Ok(spawn(move || drop(client.batch_execute(last))))
}

/// Waits until the session whose last statement asks for a lock queues for it.
fn wait_for_queue(superuser: &mut Client, already: i64, statements: &[&str]) -> Result<(), DemoError> {
    if !statements.last().is_some_and(|last| last.contains("pg_advisory_lock")) {
        return Ok(());
    }
    let began = Instant::now();
    while began.elapsed() < QUEUE {
        if waiting(superuser)? > already {
            return Ok(());
        }
        sleep(Duration::from_millis(10));
    }
    Err(DemoError::new("the demo's sessions did not queue for their locks"))
}

/// How many sessions wait for an advisory lock.
fn waiting(superuser: &mut Client) -> Result<i64, DemoError> {
    superuser
        .query_one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", &[])
        .and_then(|row| row.try_get(0))
        .map_err(|error| refused(&error))
}

fn refused(error: &postgres::Error) -> DemoError {
    let said = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
    DemoError::new(format!("the demo's server refused what was to be planted: {said}"))
}
