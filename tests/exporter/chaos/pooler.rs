//! Through a real PgBouncer, which has bad days of its own.

use std::time::{Duration, Instant};

use postgres::Client;
use rustix::process::Signal;

use super::{AT_MOST, Day, Scene, closed, fine};
use crate::exporter::life::signal_crash;
use crate::support::pgbouncer::Pooler;
use crate::support::server;
use crate::support::session::single;

/// The pool has one server connection, which others use too.
const POOL: (&str, &str) = ("tx", "pool_mode=transaction pool_size=1");

const DAYS: &[Day] = &[
    ("the way to PgBouncer is cut", closed, &["connect"], fine),
    ("PgBouncer is gone", stop, &["connect"], start),
    ("PgBouncer is stopped", freeze, &["timeout"], thaw),
    ("PgBouncer is paused", pause, &["timeout"], resume),
    ("the server behind PgBouncer is restarted", restart, &[], lends_another),
    ("PgBouncer lends another backend", reconnect, &[], lends_another),
];

#[test]
fn through_a_pooler_it_is_well_again_and_says_where_it_looks() {
    let cluster = server::start(&server::any(), &["autovacuum=off".to_owned()]);
    // A server connection that failed is tried again soon.
    let Some(pooler) = Pooler::start(&cluster, &[POOL], &["server_login_retry = 0.2"]) else { return };
    let mut client = pooler.client("tx", "somebody");
    let aged = "SELECT clock_timestamp() - backend_start > interval '2s' FROM pg_stat_activity \
                WHERE pid = pg_backend_pid()";
    let began = Instant::now();
    while single(&mut client, aged).unwrap() != "t" {
        assert!(began.elapsed() < AT_MOST);
        std::thread::sleep(Duration::from_millis(50));
    }
    let (home, ports) = (tempfile::tempdir().unwrap(), [pooler.port()]);
    let mut scene = Scene::begin(home, cluster, &ports, "user=postgres dbname=tx sslmode=disable", "1s");
    scene.pooler = Some(pooler);
    scene.wait("it says that it looks through a pooler", says_so);
    drop(client);
    scene.live_through_all(DAYS, "a pooler");
}

/// The page has it that we look through a pooler.
fn says_so(scene: &Scene) -> bool {
    scene.target()["notes"].to_string().contains("We look through a pooler ourselves")
}

fn pooler(scene: &mut Scene) -> &mut Pooler {
    scene.pooler.as_mut().unwrap()
}

fn stop(scene: &mut Scene) -> Vec<Client> {
    pooler(scene).stop();
    Vec::new()
}

fn start(scene: &mut Scene, _: Vec<Client>) {
    pooler(scene).restart();
}

fn freeze(scene: &mut Scene) -> Vec<Client> {
    pooler(scene).signal(Signal::STOP);
    Vec::new()
}

fn thaw(scene: &mut Scene, _: Vec<Client>) {
    pooler(scene).signal(Signal::CONT);
}

fn pause(scene: &mut Scene) -> Vec<Client> {
    let mut console = pooler(scene).console();
    console.simple_query("PAUSE tx").unwrap();
    vec![console]
}

fn resume(_: &mut Scene, mut consoles: Vec<Client>) {
    consoles[0].simple_query("RESUME tx").unwrap();
}

fn restart(scene: &mut Scene) -> Vec<Client> {
    signal_crash(&scene.cluster);
    Vec::new()
}

fn reconnect(scene: &mut Scene) -> Vec<Client> {
    scene.some_good_polls("it polls before");
    pooler(scene).console().simple_query("RECONNECT tx").unwrap();
    Vec::new()
}

/// The backend that it is given now is another one, over the same connection or over one that is new.
fn lends_another(scene: &mut Scene, _: Vec<Client>) {
    // Where its own connection is new, it takes another change to know.
    scene.some_good_polls("it polls again");
    pooler(scene).console().simple_query("RECONNECT tx").unwrap();
    scene.wait("it says that it looks through a pooler", says_so);
}
