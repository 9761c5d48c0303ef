//! The statements of a poll on real servers, in each form in which it is asked: what the server does for them, and that
//! every form gets the same answer.
//!
//! The server itself tells what it was sent: the last message of a session stands in `pg_stat_activity`.

mod hoards;

use std::collections::BTreeMap;
use std::time::Duration;

use pglockwatch::app::demo::{Binaries, Cluster};
use pglockwatch::model::{LockObject, LockOwner, LockRow, Snapshot};
use pglockwatch::pg::{ConnInfo, ProcessEnvironment, Session as Poller};
use postgres::{Client, SimpleQueryMessage};
use serde_json::Value;

use crate::support::server;
use crate::support::session::{Session, single, superuser, wait_until};

const WHAT: &str = "the statements of a poll";
/// A statement or a wait that takes longer hangs.
const SOON: Duration = Duration::from_secs(60);
/// After so many polls the form is the one for what there is now.
const SETTLED: usize = 12;
/// Of these sessions with locks there are more than of all others, and more than few.
const MANY: usize = 40;

server::on_each_major!(WHAT, play);

/// What makes a poll ask in one of its forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Form {
    grouped: bool,
    others: bool,
    all_queries: bool,
}

fn form_of(message: &str) -> Form {
    Form {
        grouped: message.contains("array_agg("),
        others: message.contains("waited"),
        all_queries: !message.contains("pglockwatch.pids"),
    }
}

struct World {
    /// The first to go: nobody waits for anything then.
    _cluster: Cluster,
    superuser: Client,
    poller: Poller,
    workers: Vec<Session>,
    /// Keeps a table, so that `blocked` waits for it when it must.
    keeper: Session,
    blocked: Session,
}

fn play(binaries: &Binaries) {
    let mut world = World::new(binaries);
    let mut asked = BTreeMap::new();
    for all_queries in [false, true] {
        for grouped in [false, true] {
            for others in [false, true] {
                world.arrange(Form { grouped, others, all_queries });
                // The very first answer is whole, in whatever form it was asked.
                for _ in 0..SETTLED {
                    let snapshot = world.poll();
                    world.expect(&snapshot, others);
                    let message = world.message(&snapshot);
                    asked.entry(form_of(&message)).or_insert(message);
                }
                let settled = Form { grouped, others, all_queries };
                let snapshot = world.poll();
                assert_eq!(form_of(&world.message(&snapshot)), settled, "on PostgreSQL {}", binaries.major);
            }
        }
    }
    for (form, message) in &asked {
        let plans = plans(&mut world.superuser, message);
        judge(message, &plans).unwrap_or_else(|error| {
            panic!("on PostgreSQL {}, {form:?}: {error}\n{message}", binaries.major);
        });
    }
}

impl World {
    fn new(binaries: &Binaries) -> Self {
        let settings = ["track_activity_query_size=65536", "max_prepared_transactions=5", "autovacuum=off"];
        let cluster = server::start(binaries, &settings.map(str::to_owned));
        let mut superuser = superuser(&cluster);
        superuser.batch_execute("CREATE TABLE kept (n int); CREATE TABLE free (n int)").unwrap();
        let gone = "BEGIN; SELECT pg_advisory_xact_lock(7777); PREPARE TRANSACTION 'left'";
        superuser.batch_execute(gone).unwrap();
        let dsn = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", cluster.port());
        let settings = ConnInfo::parse(&dsn).unwrap().complete(&ProcessEnvironment).unwrap();
        let poller = Poller::connect(&settings, &ProcessEnvironment, SOON).unwrap();
        let workers = (0..MANY).map(|_| Session::named(&cluster, "worker")).collect();
        let [keeper, blocked] = ["keeper", "blocked"].map(|name| Session::named(&cluster, name));
        // A lock that nobody waits for, in every poll.
        keeper.run("BEGIN; LOCK TABLE free", SOON).unwrap();
        Self { _cluster: cluster, superuser, poller, workers, keeper, blocked }
    }

    /// Makes the server so that polls will be asked in this form.
    fn arrange(&mut self, form: Form) {
        self.keeper.run("ROLLBACK; BEGIN; LOCK TABLE free", SOON).unwrap();
        let waiting = "SELECT count(*) = 0 FROM pg_locks WHERE NOT granted";
        assert!(wait_until(&mut self.superuser, waiting, SOON));
        let holders = if form.all_queries { MANY } else { 1 };
        let locks = if form.grouped { 200 } else { 1 };
        for (number, worker) in self.workers.iter().enumerate() {
            worker.run("SELECT pg_advisory_unlock_all()", SOON).unwrap();
            if number < holders {
                let first = number * 1000;
                let last = first + locks - 1;
                let lock = format!("SELECT count(pg_advisory_lock(n)) FROM generate_series({first}, {last}) n");
                worker.run(&lock, SOON).unwrap();
                worker.run("SELECT 'at work'", SOON).unwrap();
            } else {
                worker.run("SELECT 'at rest'", SOON).unwrap();
            }
        }
        if form.others {
            // It comes to be between two polls of the form that presumes that nobody waits so.
            self.keeper.run("LOCK TABLE kept", SOON).unwrap();
            self.blocked.begin("SELECT * FROM kept", false);
            assert!(wait_until(&mut self.superuser, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted", SOON));
        }
    }

    fn poll(&mut self) -> Snapshot {
        self.poller.poll(std::time::Instant::now(), &[]).unwrap_or_else(|failure| panic!("{}", failure.message))
    }

    /// The message that the poll sent.
    fn message(&mut self, snapshot: &Snapshot) -> String {
        let asked = format!("SELECT query FROM pg_stat_activity WHERE pid = {}", snapshot.own_pid);
        single(&mut self.superuser, &asked).unwrap()
    }

    /// Holds the snapshot against `pg_locks`.
    fn expect(&mut self, snapshot: &Snapshot, others: bool) {
        let advisory = |lock: &LockRow| matches!(lock.object, LockObject::Advisory(_));
        let held = snapshot.locks.rows().filter(advisory).count().to_string();
        let truly = single(&mut self.superuser, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").unwrap();
        assert_eq!(held, truly);
        let prepared: Vec<&str> = snapshot.prepared.iter().map(|prepared| prepared.gid.as_str()).collect();
        assert_eq!(prepared, ["left"]);
        assert_eq!(snapshot.prepared[0].owner, "postgres");
        assert_eq!(snapshot.prepared[0].database, "postgres");

        let others_seen: Vec<(i32, bool)> = snapshot
            .locks
            .rows()
            .filter(|lock| !advisory(lock))
            .filter_map(|lock| match lock.owner {
                LockOwner::Backend(pid) => Some((pid, lock.granted)),
                LockOwner::Prepared(_) => None,
            })
            .collect();
        let expected = if others { vec![(self.blocked.pid, false), (self.keeper.pid, true)] } else { Vec::new() };
        for one in &expected {
            assert!(others_seen.contains(one), "no {one:?} in {others_seen:?}");
        }
        assert_eq!(others_seen.len(), expected.len(), "{others_seen:?}");

        // The statement of a session is there if it holds or waits, whoever's were sent.
        for backend in snapshot.backends.iter().filter(|backend| backend.application == "worker") {
            let holds = snapshot.locks.owners().any(|owner| owner == LockOwner::Backend(backend.pid));
            let expected = holds.then_some("SELECT 'at work'");
            assert_eq!(backend.query.as_deref(), expected);
            assert_eq!(backend.user.as_deref(), Some("postgres"));
        }
    }
}

/// The plans of the message's statements, run by themselves in one transaction; what has no plan is run.
fn plans(client: &mut Client, message: &str) -> Vec<Value> {
    let mut plans = Vec::new();
    for statement in message.split(';').map(str::trim) {
        if !statement.starts_with("SELECT") && !statement.starts_with("WITH") {
            client.batch_execute(statement).unwrap();
            continue;
        }
        let explain = format!("EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, FORMAT JSON) {statement}");
        let messages = client.simple_query(&explain).unwrap();
        let plan = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(|text| serde_json::from_str::<Value>(text).unwrap()),
            _ => None,
        });
        plans.push(plan.unwrap()[0]["Plan"].clone());
        // Settings of the transaction that EXPLAIN does not make.
        if statement.contains("FROM (VALUES") {
            client.batch_execute(statement).unwrap();
        }
    }
    plans
}

/// All nodes of a plan.
fn nodes<'a>(plan: &'a Value, found: &mut Vec<&'a Value>) {
    found.push(plan);
    for child in plan["Plans"].as_array().into_iter().flatten() {
        nodes(child, found);
    }
}

/// What is wrong with these plans, if anything.
fn judge(message: &str, plans: &[Value]) -> Result<(), String> {
    if message.contains("blocking_pids") {
        return Err("the server is asked who blocks whom, which stops everybody's locks".to_owned());
    }
    let mut all = Vec::new();
    for plan in plans {
        nodes(plan, &mut all);
    }
    let mut sources = Vec::new();
    for node in &all {
        let name = node["Function Name"].as_str().or(node["Relation Name"].as_str()).unwrap_or_default();
        if node["Actual Loops"].as_i64().is_none_or(|loops| loops > 1) {
            return Err(format!("{} {name} is run {} times", node["Node Type"], node["Actual Loops"]));
        }
        if ["pg_lock_status", "pg_stat_get_activity"].contains(&name) {
            sources.push(name);
        }
    }
    if sources != ["pg_lock_status", "pg_stat_get_activity"] {
        return Err(format!("not the locks once and then the sessions once: {sources:?}"));
    }
    let names_query = |output: &&Value| {
        let output = output.as_str().unwrap_or_default();
        output.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "query")
    };
    let sent: usize = plans.iter().filter_map(|plan| plan["Output"].as_array()).flatten().filter(names_query).count();
    if sent == 1 { Ok(()) } else { Err(format!("{sent} columns send a session's statement")) }
}

#[test]
fn what_a_plan_must_not_have_is_found() {
    let binaries = server::any();
    let cluster = server::start(&binaries, &[]);
    let mut client = superuser(&cluster);
    let locks = "SELECT pid FROM pg_lock_status()";
    let sessions = "SELECT pid, query FROM pg_stat_get_activity(NULL)";
    let mut fault = |statements: &[&str]| {
        let message = format!("BEGIN READ ONLY;{};COMMIT", statements.join(";"));
        let plans = plans(&mut client, &message);
        judge(&message, &plans).err().unwrap_or_default()
    };
    assert_eq!(fault(&[locks, sessions]), "");
    for (bad, says) in [
        (vec![sessions, locks], "not the locks once and then"),
        (vec![locks, locks, sessions], "not the locks once and then"),
        (vec![locks, "SELECT a.query FROM pg_stat_get_activity(NULL) a, pg_stat_get_activity(NULL) b"], "is run"),
        (vec![locks, "SELECT query, textsend(query) FROM pg_stat_get_activity(NULL)"], "2 columns send"),
        (vec![locks, "SELECT query, pg_blocking_pids(pid) FROM pg_stat_get_activity(NULL)"], "who blocks whom"),
        (
            vec![
                "WITH held AS MATERIALIZED (SELECT * FROM pg_lock_status()) \
                 SELECT 1 FROM generate_series(1, 3) n WHERE (SELECT count(*) FROM held WHERE n > 0) > 0",
                sessions,
            ],
            "is run 3 times",
        ),
    ] {
        let fault = fault(&bad);
        assert!(fault.contains(says), "{fault:?} does not say {says:?}");
    }
}
