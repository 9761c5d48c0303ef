//! Before one server, by TLS and with a password.

use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::{AT_MOST, Day, OURS, Scene, closed, fine, give_back, nothing, our_pid, write_private};
use crate::connect::certificates::{Certified, Contents, certify};
use crate::connect::world::give_to_owner;
use crate::exporter::life::{signal_all, signal_crash};
use crate::support::proxy::Weather;
use crate::support::session::{single, superuser};
use crate::support::{full, server};

const CONNECTIONS: usize = 12;

const DAYS: &[Day] = &[
    ("nobody answers", closed, &["connect"], fine),
    ("the server is restarted", restart, &[], nothing),
    ("the server is stopped", stop, &["timeout"], resume),
    ("our backend is stopped", stop_ours, &["timeout"], resume),
    ("bytes are lost, then the connection", lose, &["timeout"], cut_off),
    ("all connections are taken", take_all, &["connect"], give_back),
    ("the lock table is full", fill_lock_table, &[], give_back),
    ("pg_authid is locked, and nobody can log in", lock_authid, &["timeout", "connect"], give_back),
    ("the password is another", rotate, &["auth"], learn),
    ("the role may not connect any more", forbid, &["auth", "connect"], allow),
    ("the certificate has expired", expire, &["tls"], renew),
    ("the role's statements end after a moment", short_statements, &[], usual),
    ("the role's sessions end when they are idle for a moment", short_sessions, &[], usual),
    ("one byte a second", drip, &["timeout"], fine),
];

#[test]
fn after_every_bad_day_it_is_as_it_was() {
    let settings = [
        format!("max_connections={CONNECTIONS}"),
        "max_locks_per_transaction=10".to_owned(),
        "autovacuum=off".to_owned(),
    ];
    let home = tempfile::tempdir().unwrap();
    let root = certify(Contents::authority("root"), None);
    std::fs::write(home.path().join("root.crt"), root.pem()).unwrap();
    let cluster = server::start_with(&server::any(), &settings, |folder| {
        let lines = "hostssl all mon 127.0.0.1/32 scram-sha-256\nhost all mon 127.0.0.1/32 reject\n\
                     host all all 127.0.0.1/32 trust\n";
        std::fs::write(folder.data().join("pg_hba.conf"), lines).unwrap();
        let names = &["IP:127.0.0.1"][..];
        let install = |name: &str, expired: bool| {
            let certified: Certified = certify(Contents { names, expired, ..Contents::named("db.test") }, Some(&root));
            certified.write(&folder.data(), name);
            give_to_owner(&folder.data(), &folder.data().join(format!("{name}.key")));
        };
        install("good", false);
        install("expired", true);
    });
    let sql = "SET password_encryption = 'scram-sha-256'; CREATE ROLE mon LOGIN PASSWORD 'hunter1'; \
               GRANT pg_monitor TO mon";
    superuser(&cluster).batch_execute(sql).unwrap();
    present(&cluster.config(), "good");
    write_private(&home.path().join(".pgpass"), "*:*:*:mon:hunter1\n");
    let ports = [cluster.port()];
    let mut scene = Scene::begin(home, cluster, &ports, "user=mon sslmode=verify-full sslrootcert=root.crt", "1s");
    scene.live_through_all(DAYS, "a server");
}

fn restart(scene: &mut Scene) -> Vec<Client> {
    signal_crash(&scene.cluster);
    Vec::new()
}

fn stop(scene: &mut Scene) -> Vec<Client> {
    signal_all(postmaster(scene), "STOP");
    Vec::new()
}

fn stop_ours(scene: &mut Scene) -> Vec<Client> {
    let pid = our_pid(&mut scene.client()).unwrap();
    let status = std::process::Command::new("kill").args(["-STOP", &pid]).status().unwrap();
    assert!(status.success());
    Vec::new()
}

fn resume(scene: &mut Scene, _: Vec<Client>) {
    signal_all(postmaster(scene), "CONT");
}

/// After a restart it is another process than the one that was started first.
fn postmaster(scene: &Scene) -> u32 {
    let file = scene.cluster.folder().join("data/postmaster.pid");
    std::fs::read_to_string(file).unwrap().lines().next().unwrap().parse().unwrap()
}

fn lose(scene: &mut Scene) -> Vec<Client> {
    scene.proxies[0].turn(Weather::Lost);
    Vec::new()
}

/// What was lost does not come again: somebody has to notice that the connection is dead. Keepalives do where the
/// other machine is gone; here the proxy closes it.
fn cut_off(scene: &mut Scene, _: Vec<Client>) {
    scene.proxies[0].turn(Weather::Closed);
    std::thread::sleep(Duration::from_millis(150));
    scene.proxies[0].turn(Weather::Fine);
}

fn take_all(scene: &mut Scene) -> Vec<Client> {
    let mut taken = Vec::new();
    let began = Instant::now();
    scene.end_ours();
    // Our place is free for a moment: take it before the exporter does, or end it again.
    loop {
        while let Ok(client) = scene.cluster.config().connect(NoTls) {
            taken.push(client);
        }
        let ours = format!("SELECT count(pg_terminate_backend(pid)) {OURS}");
        if single(taken.last_mut().unwrap(), &ours).unwrap() == "0" {
            return taken;
        }
        assert!(began.elapsed() < AT_MOST, "its place cannot be taken");
    }
}

/// A running exporter names the hog within two polls, over its open connection.
fn fill_lock_table(scene: &mut Scene) -> Vec<Client> {
    let mut hog = scene.client();
    let pid = single(&mut hog, "SELECT pg_backend_pid()").unwrap();
    full::fill(&scene.cluster, || drop(hog.batch_execute(full::TAKE_ALL).unwrap_err()));
    let full = polls_of(&scene.exporter.get("/findings").body);
    scene.wait("it names the hog", |scene| {
        let page = scene.exporter.get("/findings").body;
        // The poll that ran meanwhile may have seen less than all of it.
        assert!(names(&page, &pid) || polls_of(&page) <= full + 2, "two polls have not named the hog: {page}");
        names(&page, &pid)
    });
    vec![hog]
}

/// How many polls a page is the outcome of; none while there is no report.
fn polls_of(page: &str) -> u64 {
    let report: serde_json::Value = serde_json::from_str(page).unwrap();
    report["targets"][0]["polls"].as_u64().unwrap_or_default()
}

/// Whether the finding of the full lock table names this pid.
fn names(page: &str, pid: &str) -> bool {
    let Ok(report) = serde_json::from_str::<serde_json::Value>(page) else { return false };
    let findings = report["targets"][0]["findings"].as_array().cloned().unwrap_or_default();
    findings.iter().any(|finding| finding["rule"] == "lock-table-full" && finding.to_string().contains(pid))
}

fn lock_authid(scene: &mut Scene) -> Vec<Client> {
    let mut client = scene.client();
    client.batch_execute("BEGIN; LOCK TABLE pg_authid").unwrap();
    client.batch_execute(&format!("SELECT pg_terminate_backend(pid) {OURS}")).unwrap();
    vec![client]
}

fn rotate(scene: &mut Scene) -> Vec<Client> {
    let new = format!("hunter{}", fastrand::u32(2..));
    scene.run(&format!("SET password_encryption = 'scram-sha-256'; ALTER ROLE mon PASSWORD '{new}'"));
    std::fs::write(scene.home.path().join("new"), new).unwrap();
    scene.end_ours();
    Vec::new()
}

/// The password file has it now: no restart is needed.
fn learn(scene: &mut Scene, _: Vec<Client>) {
    let new = std::fs::read_to_string(scene.home.path().join("new")).unwrap();
    write_private(&scene.home.path().join(".pgpass"), &format!("*:*:*:mon:{new}\n"));
}

fn forbid(scene: &mut Scene) -> Vec<Client> {
    scene.run("ALTER ROLE mon NOLOGIN");
    scene.end_ours();
    Vec::new()
}

fn allow(scene: &mut Scene, _: Vec<Client>) {
    scene.run("ALTER ROLE mon LOGIN");
}

/// Makes the server use the certificate of this name, and waits until it does.
fn present(server: &postgres::Config, name: &str) {
    let mut client = server.connect(NoTls).unwrap();
    for sql in [
        format!("ALTER SYSTEM SET ssl_cert_file = '{name}.crt'"),
        format!("ALTER SYSTEM SET ssl_key_file = '{name}.key'"),
        "ALTER SYSTEM SET ssl = on".to_owned(),
        "SELECT pg_reload_conf()".to_owned(),
    ] {
        client.batch_execute(&sql).unwrap();
    }
    let began = Instant::now();
    // A new session has what the postmaster had when it came.
    let shown = "SELECT current_setting('ssl_cert_file') || current_setting('ssl')";
    while single(&mut server.connect(NoTls).unwrap(), shown).unwrap() != format!("{name}.crton") {
        assert!(began.elapsed() < AT_MOST, "the server does not take {name}.crt");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn expire(scene: &mut Scene) -> Vec<Client> {
    present(&scene.cluster.config(), "expired");
    scene.end_ours();
    Vec::new()
}

fn renew(scene: &mut Scene, _: Vec<Client>) {
    present(&scene.cluster.config(), "good");
}

/// A poll brings a timeout of its own; what comes before it may be hit where the machine is busy.
fn short_statements(scene: &mut Scene) -> Vec<Client> {
    scene.run("ALTER ROLE mon SET statement_timeout = '1ms'");
    scene.end_ours();
    let polls = |scene: &Scene| scene.polls("ok") + scene.failed();
    let before = polls(scene);
    scene.wait("it polls while the role's statements end after a moment", |scene| polls(scene) >= before + 3.0);
    Vec::new()
}

/// Between two polls the session rests, and is ended: each poll begins with a new one, and succeeds.
fn short_sessions(scene: &mut Scene) -> Vec<Client> {
    let mut client = scene.client();
    // PostgreSQL 14 and later know it.
    let known = single(&mut client, "SELECT current_setting('server_version_num')::int >= 140000").unwrap();
    if known != "t" {
        return Vec::new();
    }
    client.batch_execute("ALTER ROLE mon SET idle_session_timeout = '20ms'").unwrap();
    scene.end_ours();
    let began = "SELECT string_agg(backend_start::text, ',')";
    let mut seen = std::collections::BTreeSet::new();
    let until = Instant::now() + AT_MOST;
    while seen.len() < 4 {
        assert!(Instant::now() < until, "its sessions are not ended: {seen:?}");
        seen.extend(single(&mut client, &format!("{began} {OURS}")).ok());
        std::thread::sleep(Duration::from_millis(5));
    }
    scene.some_good_polls("it polls although its sessions are ended");
    Vec::new()
}

fn usual(scene: &mut Scene, _: Vec<Client>) {
    scene.run("ALTER ROLE mon RESET ALL");
    scene.end_ours();
}

fn drip(scene: &mut Scene) -> Vec<Client> {
    scene.proxies[0].turn(Weather::Drip);
    Vec::new()
}
