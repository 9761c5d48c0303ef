//! Before a standby that follows its primary: it is promoted, it is replaced, and the address leads elsewhere.

use postgres::Client;

use pglockwatch::app::demo::Cluster;

use super::{Day, Scene, closed, nothing};
use crate::support::proxy::Weather;
use crate::support::server;
use crate::support::session::{single, superuser, wait_until};

const DAYS: &[Day] = &[
    ("the standby is promoted", promote, &[], nothing),
    ("the first host is away, and the second answers", go_elsewhere, &[], come_back),
    ("the address leads to the primary", lead_to_primary, &[], nothing),
    ("nobody answers, and then a new standby", closed, &["connect"], replace),
];

#[test]
fn a_standby_that_is_promoted_or_replaced_is_watched_on() {
    let primary = server::start(&server::any(), &["autovacuum=off".to_owned()]);
    let standby = follow(&primary);
    let ports = [standby.port(), primary.port()];
    // Of two hosts each has half of the time.
    let (home, dsn) = (tempfile::tempdir().unwrap(), "user=postgres sslmode=disable");
    let mut scene = Scene::begin(home, standby, &ports, dsn, "10s");
    scene.primary = Some(primary);
    scene.live_through_all(DAYS, "a standby");
}

/// A standby that streams from this server and has all that it has.
fn follow(primary: &Cluster) -> Cluster {
    let from = format!("primary_conninfo=host=127.0.0.1 port={} user=postgres", primary.port());
    // A copy of the same empty folder is a base backup: all that happened since is in the primary's WAL.
    let standby = server::start_with(&server::any(), &[from, "autovacuum=off".to_owned()], |folder| {
        std::fs::write(folder.data().join("standby.signal"), "").unwrap();
    });
    let streams = "EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')";
    assert!(wait_until(&mut superuser(primary), streams, super::AT_MOST), "the standby does not stream");
    standby
}

fn is_standby(scene: &Scene) -> bool {
    scene.exporter.value("pglockwatch_in_recovery{") == Some(1.0)
}

fn restarts(scene: &Scene) -> f64 {
    scene.exporter.value("pglockwatch_server_restarts_total{").unwrap()
}

/// Sessions live on, and so does ours: nothing is lost, and what is shown is that of a primary.
fn promote(scene: &mut Scene) -> Vec<Client> {
    scene.wait("it watches a standby", is_standby);
    let mut client = scene.client();
    let before = (super::our_pid(&mut client).unwrap(), restarts(scene), scene.failed());
    assert_eq!(single(&mut client, "SELECT pg_promote(true, 60)").unwrap(), "t");
    scene.wait("it watches a primary", |scene| scene.is_up() && !is_standby(scene));
    assert_eq!((super::our_pid(&mut client).unwrap(), restarts(scene), scene.failed()), before);
    Vec::new()
}

fn go_elsewhere(scene: &mut Scene) -> Vec<Client> {
    let before = started_at(scene);
    scene.proxies[1].turn(Weather::Fine);
    scene.proxies[0].turn(Weather::Closed);
    scene.wait("it is at the second host", |scene| started_at(scene).is_some_and(|at| Some(at) != before));
    Vec::new()
}

fn come_back(scene: &mut Scene, _: Vec<Client>) {
    scene.proxies[0].turn(Weather::Fine);
    scene.proxies[1].turn(Weather::Closed);
}

/// Another server has none of the locks of the first: it counts as a restart.
fn lead_to_primary(scene: &mut Scene) -> Vec<Client> {
    let (port, before) = (scene.primary.as_ref().unwrap().port(), restarts(scene));
    scene.proxies[0].lead_to(port);
    scene.wait("it is at another server", |scene| scene.is_up() && restarts(scene) > before);
    Vec::new()
}

fn replace(scene: &mut Scene, _: Vec<Client>) {
    scene.cluster = follow(scene.primary.as_ref().unwrap());
    scene.proxies[0].lead_to(scene.cluster.port());
    scene.proxies[0].turn(Weather::Fine);
}

/// When the server that is watched was started; nothing while none is.
fn started_at(scene: &Scene) -> Option<f64> {
    scene.exporter.value("pglockwatch_server_start_time_seconds{")
}
