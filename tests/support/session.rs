//! A client session that a thread keeps: statements are handed to it, and may block or repeat while the test goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use postgres::{Client, NoTls, SimpleQueryMessage};

use super::wire::WalSender;

/// Who connects, and where to.
#[derive(Debug, Clone)]
pub struct Identity {
    pub user: String,
    pub database: String,
    pub application_name: String,
    /// As a walsender.
    pub replication: bool,
}

/// One turn of a session that repeats itself.
#[derive(Debug, Clone)]
pub enum Turn {
    Statement(String),
    Pause(Duration),
}

enum Order {
    /// Run it; answer here when it has ended.
    Once { sql: String, answer: Sender<Result<(), String>> },
    /// Run it, nobody waits for it; unless it may fail, an error is kept.
    Alone { sql: String, may_fail: bool },
    /// Until the session is stopped.
    Repeat { turns: Vec<Turn>, may_fail: bool },
}

/// A connected session.
pub struct Session {
    /// Its backend.
    pub pid: i32,
    orders: Sender<Order>,
    stop: Arc<AtomicBool>,
    errors: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

enum Connection {
    Client(Box<Client>),
    WalSender(WalSender),
}

impl Session {
    /// A session of the superuser in the database `postgres`, with this application_name.
    pub fn named(cluster: &Cluster, application_name: &str) -> Self {
        let who = Identity {
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            application_name: application_name.to_owned(),
            replication: false,
        };
        Self::connect(cluster, &who).unwrap()
    }

    /// Connects.
    pub fn connect(cluster: &Cluster, who: &Identity) -> Result<Self, String> {
        let (mut connection, pid) = Connection::open(cluster, who)?;
        let (orders, taken) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let errors = Arc::new(Mutex::new(Vec::new()));
        let thread = spawn({
            let (stop, errors) = (Arc::clone(&stop), Arc::clone(&errors));
            move || obey(&mut connection, &taken, &stop, &errors)
        });
        Ok(Self { pid, orders, stop, errors, thread: Some(thread) })
    }

    /// Runs a statement and waits for its end, at most this long.
    pub fn run(&self, sql: &str, at_most: Duration) -> Result<(), String> {
        let (answer, answered) = channel();
        self.order(Order::Once { sql: sql.to_owned(), answer });
        answered.recv_timeout(at_most).map_err(|_| format!("it did not end within {at_most:?}"))?
    }

    /// Hands over a statement that nobody waits for.
    pub fn begin(&self, sql: &str, may_fail: bool) {
        self.order(Order::Alone { sql: sql.to_owned(), may_fail });
    }

    /// Repeats these turns until the session is stopped.
    pub fn repeat(&self, turns: Vec<Turn>, may_fail: bool) {
        self.order(Order::Repeat { turns, may_fail });
    }

    /// What failed so far in statements that nobody waited for.
    pub fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap().clone()
    }

    /// Takes no further turn. The connection ends when the running statement has.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Closes the connection in good order.
    pub fn disconnect(mut self) {
        self.stop();
        let thread = self.thread.take();
        drop(self);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn order(&self, order: Order) {
        // It fails only when the connection is gone; then nothing answers, and `run` says so.
        let _ = self.orders.send(order);
    }
}

fn obey(connection: &mut Connection, orders: &Receiver<Order>, stop: &AtomicBool, errors: &Mutex<Vec<String>>) {
    let keep = |result: Result<(), String>, may_fail: bool| {
        if let Err(error) = result
            && !may_fail
            && !stop.load(Ordering::Relaxed)
        {
            errors.lock().unwrap().push(error);
        }
    };
    for order in orders {
        match order {
            Order::Once { sql, answer } => drop(answer.send(connection.execute(&sql))),
            Order::Alone { sql, may_fail } => keep(connection.execute(&sql), may_fail),
            Order::Repeat { turns, may_fail } => {
                for turn in turns.iter().cycle() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match turn {
                        Turn::Pause(pause) => sleep(*pause),
                        Turn::Statement(sql) => {
                            let result = connection.execute(sql);
                            let failed = result.is_err();
                            keep(result, may_fail);
                            if failed && !may_fail {
                                return;
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Connection {
    fn open(cluster: &Cluster, who: &Identity) -> Result<(Self, i32), String> {
        if who.replication {
            let session = WalSender::connect(cluster.port(), &who.user, &who.database, &who.application_name)?;
            let pid = session.pid;
            return Ok((Self::WalSender(session), pid));
        }
        let mut config = cluster.config();
        config.user(&who.user).dbname(&who.database).application_name(&who.application_name);
        let mut client = config.connect(NoTls).map_err(|error| text(&error))?;
        let pid = single(&mut client, "SELECT pg_backend_pid()")?.parse().map_err(|_| "no pid".to_owned())?;
        Ok((Self::Client(Box::new(client)), pid))
    }

    fn execute(&mut self, sql: &str) -> Result<(), String> {
        match self {
            Self::Client(client) => client.batch_execute(sql).map_err(|error| text(&error)),
            Self::WalSender(session) => session.execute(sql),
        }
    }
}

/// A superuser's session in the database `postgres`, for what the test itself must do and see.
pub fn superuser(cluster: &Cluster) -> Client {
    superuser_of(cluster, "postgres")
}

/// A superuser's session in this database.
pub fn superuser_of(cluster: &Cluster, database: &str) -> Client {
    let mut config = cluster.config();
    config.dbname(database).application_name("case-runner").connect(NoTls).unwrap()
}

/// The one value of the one row of a query, as text.
pub fn single(client: &mut Client, sql: &str) -> Result<String, String> {
    let messages = client.simple_query(sql).map_err(|error| text(&error))?;
    messages
        .iter()
        .find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(0).ok().flatten().map(str::to_owned),
            _ => None,
        })
        .ok_or_else(|| format!("no row: {sql}"))
}

/// Asks until the query's one value is `true`, at most this long.
pub fn wait_until(client: &mut Client, sql: &str, at_most: Duration) -> bool {
    let began = Instant::now();
    loop {
        if single(client, &format!("SELECT ({sql})::text")).as_deref() == Ok("true") {
            return true;
        }
        if began.elapsed() >= at_most {
            return false;
        }
        sleep(Duration::from_millis(10));
    }
}

/// What the server said, or the client.
pub fn text(error: &postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |db| format!("{} ({})", db.message(), db.code().code()))
}
