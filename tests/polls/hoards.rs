//! Sessions with very many locks: as long as these stay the same only a sum of them is sent, and every poll knows them
//! all, whatever changes in between.

use std::collections::BTreeSet;

use pglockwatch::app::demo::{Binaries, Cluster};
use pglockwatch::model::{LockMode, LockObject, LockOwner, Snapshot};
use pglockwatch::pg::{ConnInfo, ProcessEnvironment, Session as Poller};
use postgres::Client;

use super::{SOON, judge, plans};
use crate::support::server;
use crate::support::session::{Session, superuser, wait_until};

/// After so many polls without a change nothing is sent that is known.
const KNOWN: usize = 10;

server::on_each_major!("what is sent of a hoard", play);

/// A lock as `pg_locks` shows it: pid, classid, objid, objsubid, mode, granted.
type Row = (Option<i32>, u32, u32, u16, String, bool);

struct World {
    cluster: Cluster,
    superuser: Client,
    poller: Poller,
    own_pid: i32,
}

impl World {
    fn new(binaries: &Binaries) -> Self {
        let settings =
            ["track_activity_query_size=65536", "max_prepared_transactions=5", "max_locks_per_transaction=300"];
        let cluster = server::start(binaries, &settings.map(str::to_owned));
        let dsn = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", cluster.port());
        let settings = ConnInfo::parse(&dsn).unwrap().complete(&ProcessEnvironment).unwrap();
        let poller = Poller::connect(&settings, &ProcessEnvironment, SOON).unwrap();
        Self { superuser: superuser(&cluster), poller, own_pid: 0, cluster }
    }

    /// Every lock that the server shows.
    fn truth(&mut self) -> BTreeSet<Row> {
        let rows = self.superuser.query(
            "SELECT pid, classid::bigint, objid::bigint, objsubid::int, mode, granted FROM pg_locks \
             WHERE locktype = 'advisory'",
            &[],
        );
        let number = |row: &postgres::Row, column| u32::try_from(row.get::<_, i64>(column)).unwrap();
        let objsubid = |row: &postgres::Row| u16::try_from(row.get::<_, i32>(3)).unwrap();
        let row =
            |row: &postgres::Row| (row.get(0), number(row, 1), number(row, 2), objsubid(row), row.get(4), row.get(5));
        rows.unwrap().iter().map(row).collect()
    }

    /// One poll, which must show what the server shows.
    fn poll(&mut self) {
        let snapshot =
            self.poller.poll(std::time::Instant::now(), &[]).unwrap_or_else(|failure| panic!("{}", failure.message));
        self.own_pid = snapshot.own_pid;
        let (seen, truth) = (rows_of(&snapshot), self.truth());
        let missing: Vec<&Row> = truth.difference(&seen).take(5).collect();
        let made_up: Vec<&Row> = seen.difference(&truth).take(5).collect();
        assert!(missing.is_empty() && made_up.is_empty(), "missing {missing:?}, made up {made_up:?}");
        assert_eq!(snapshot.locks.len(), truth.len(), "none comes twice");
        let prepared: Vec<&str> = snapshot.prepared.iter().map(|prepared| prepared.gid.as_str()).collect();
        assert_eq!(prepared, ["left"]);
    }

    /// The message of the last poll.
    fn message(&mut self) -> String {
        let asked = "SELECT query FROM pg_stat_activity WHERE pid = $1";
        self.superuser.query_one(asked, &[&self.own_pid]).unwrap().get(0)
    }

    /// The backends whose keys the last poll did not ask for.
    fn counted(&mut self) -> BTreeSet<i32> {
        let message = self.message();
        let pids = message.split("IS DISTINCT FROM ").skip(1);
        pids.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()).collect()
    }

    /// Polls until all that there is to know is known: these backends' locks.
    fn settle(&mut self, known: &[&Session]) {
        for _ in 0..KNOWN {
            self.poll();
        }
        let known: BTreeSet<i32> = known.iter().map(|session| session.pid).collect();
        assert_eq!(self.counted(), known);
    }
}

fn rows_of(snapshot: &Snapshot) -> BTreeSet<Row> {
    let rows = snapshot.locks.rows().filter_map(|lock| {
        let LockObject::Advisory(key) = lock.object else { return None };
        let pid = match lock.owner {
            LockOwner::Backend(pid) => Some(pid),
            LockOwner::Prepared(_) => None,
        };
        let mode = if lock.mode == LockMode::Share { "ShareLock" } else { "ExclusiveLock" };
        Some((pid, key.numbers.classid, key.numbers.objid, key.numbers.objsubid, mode.to_owned(), lock.granted))
    });
    rows.collect()
}

fn play(binaries: &Binaries) {
    let mut world = World::new(binaries);
    let [hoarder, second, other] = ["hoarder", "second", "other"].map(|name| Session::named(&world.cluster, name));
    let left = "BEGIN; SELECT pg_advisory_xact_lock(7777); PREPARE TRANSACTION 'left'";
    world.superuser.batch_execute(left).unwrap();
    hoarder.run("SELECT count(pg_advisory_lock(n, -n)) FROM generate_series(1, 2000) n", SOON).unwrap();
    other.run("SELECT pg_advisory_lock(1), pg_advisory_lock_shared(2, 3)", SOON).unwrap();
    world.settle(&[&hoarder]);
    let message = world.message();
    judge(&message, &plans(&mut world.superuser, &message)).unwrap();

    // Whatever it does, the next poll knows it; and some polls later it is known again.
    for change in [
        "SELECT pg_advisory_unlock(5, -5), pg_advisory_lock(-5, 5)",
        "SELECT pg_advisory_unlock(6, -6), pg_advisory_lock_shared(6, -6)",
        "SELECT pg_advisory_unlock(7, -7)",
        "SELECT pg_advisory_lock(70, -70), pg_advisory_lock(8)",
        "SELECT pg_advisory_lock_shared(9, -9)",
        "BEGIN; SELECT pg_advisory_xact_lock(10000)",
        "COMMIT",
    ] {
        hoarder.run(change, SOON).unwrap();
        world.poll();
        world.settle(&[&hoarder]);
    }

    // Others change: nothing of the hoard is sent for that.
    other.run("SELECT pg_advisory_unlock(1), pg_advisory_lock(11)", SOON).unwrap();
    world.poll();
    assert_eq!(world.counted(), BTreeSet::from([hoarder.pid]));
    second.run("SELECT count(pg_advisory_lock(n)) FROM generate_series(20001, 21000) n", SOON).unwrap();
    world.poll();
    assert_eq!(world.counted(), BTreeSet::from([hoarder.pid]));
    world.settle(&[&hoarder, &second]);

    // It waits while its locks are known.
    hoarder.begin("SELECT pg_advisory_lock(11)", false);
    assert!(wait_until(&mut world.superuser, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted", SOON));
    world.poll();
    assert_eq!(world.counted(), BTreeSet::from([hoarder.pid, second.pid]));
    other.run("SELECT pg_advisory_unlock_all()", SOON).unwrap();
    hoarder.run("SELECT 'has it'", SOON).unwrap();
    world.poll();
    hoarder.run("SELECT pg_advisory_unlock_all()", SOON).unwrap();
    second.run("SELECT pg_advisory_unlock_all()", SOON).unwrap();
    world.settle(&[]);
}
