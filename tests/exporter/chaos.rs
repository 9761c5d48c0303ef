//! One exporter and one server, and every bad day in turn: after each it is well again by itself, soon, and as it was.
//! `PGLOCKWATCH_TEST_ROUNDS` says how often; once if it does not.

use std::path::Path;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use postgres::{Client, NoTls};

use super::harness::Exporter;
use super::life::{signal_all, signal_crash};
use crate::support::proxy::{Proxy, Weather};
use crate::support::session::{single, superuser};
use crate::support::{full, say, server};

/// Far more than anything here should take.
const AT_MOST: Duration = Duration::from_secs(90);
const CONNECTIONS: usize = 12;

struct Scene {
    cluster: Cluster,
    proxy: Proxy,
    exporter: Exporter,
    home: tempfile::TempDir,
}

/// What may not grow.
#[derive(Debug, Clone, Copy)]
struct Size {
    threads: f64,
    descriptors: f64,
    resident: f64,
}

/// A name, how it begins, by which kinds of failed polls it is known, and how it ends. What must live in between is
/// handed over.
type Day = (&'static str, fn(&mut Scene) -> Vec<Client>, &'static [&'static str], fn(&mut Scene, Vec<Client>));

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
    ("one byte a second", drip, &["timeout"], fine),
];

#[test]
fn after_every_bad_day_it_is_as_it_was() {
    let rounds = std::env::var("PGLOCKWATCH_TEST_ROUNDS").map_or(1, |text| text.parse().unwrap());
    let mut scene = Scene::begin();
    let mut before = None;
    for round in 1..=rounds {
        for day in DAYS {
            let took = scene.live_through(day);
            if rounds > 1 {
                say(&format!("round {round}: {}: well again after {took:?}; {:?}", day.0, scene.size()));
            }
        }
        // The first round has made all buffers as large as they get.
        let size = scene.size();
        let first = *before.get_or_insert(size);
        assert!(size.threads <= first.threads && size.descriptors <= first.descriptors, "{first:?} became {size:?}");
        assert!(size.resident < first.resident * 1.2, "{first:?} became {size:?}");
    }
    assert!(!scene.exporter.log().contains("panicked") && !scene.exporter.log().contains("hunter"));
}

impl Scene {
    /// The first bad day: there is no server yet when the exporter starts.
    fn begin() -> Self {
        let settings = [
            format!("max_connections={CONNECTIONS}"),
            "max_locks_per_transaction=10".to_owned(),
            "autovacuum=off".to_owned(),
        ];
        let cluster = server::start_with(&server::any(), &settings, |folder| {
            let lines = "host all mon 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
            std::fs::write(folder.data().join("pg_hba.conf"), lines).unwrap();
        });
        let sql = "SET password_encryption = 'scram-sha-256'; CREATE ROLE mon LOGIN PASSWORD 'hunter1'; \
                   GRANT pg_monitor TO mon";
        superuser(&cluster).batch_execute(sql).unwrap();
        let home = tempfile::tempdir().unwrap();
        write_password(home.path(), "hunter1");
        let proxy = Proxy::before(cluster.port(), Weather::Closed);
        let dsn = format!("host=127.0.0.1 port={} user=mon dbname=postgres sslmode=disable", proxy.port);
        let exporter = Exporter::start(home.path(), &["-d", &dsn, "--interval", "200ms", "--timeout", "1s"]).ready();
        let mut scene = Self { cluster, proxy, exporter, home };
        assert!(!scene.is_up());
        scene.proxy.turn(Weather::Fine);
        scene.wait("the first good poll", Scene::is_up);
        scene
    }

    /// One bad day; how long it took to be well again.
    fn live_through(&mut self, (name, begin, kinds, end): &Day) -> Duration {
        let (threads, descriptors) = (self.size().threads, self.size().descriptors);
        let failed: f64 = kinds.iter().map(|kind| self.polls(kind)).sum();
        let kept = begin(self);
        if !kinds.is_empty() {
            self.wait(&format!("it notices that {name}"), |scene| {
                kinds.iter().map(|kind| scene.polls(kind)).sum::<f64>() > failed
            });
        }
        let asked = Instant::now();
        assert_eq!(self.exporter.get("/findings").status, 200, "{name}: its pages answer");
        assert!(asked.elapsed() < Duration::from_secs(5), "{name}: its pages answer at once");
        end(self, kept);
        let (since, good, bad) = (Instant::now(), self.polls("ok"), self.failed());
        self.wait(&format!("it is well after {name}"), |scene| scene.is_up() && scene.polls("ok") > good);
        let took = since.elapsed();
        // One attempt may have been under way, and two steps of the back-off are allowed.
        let tries = self.failed() - bad;
        assert!(tries <= 3.0, "{name}: {tries} more attempts failed before it was well\n{}", self.exporter.log());
        self.wait(&format!("it is as it was before {name}"), |scene| {
            let size = scene.size();
            size.threads <= threads && size.descriptors <= descriptors
        });
        took
    }

    fn is_up(&self) -> bool {
        self.exporter.value("pglockwatch_up{") == Some(1.0)
    }

    fn polls(&self, result: &str) -> f64 {
        let page = self.exporter.metrics("").body;
        let of_result = |line: &&str| {
            line.starts_with("pglockwatch_polls_total{") && line.contains(&format!("result=\"{result}\""))
        };
        page.lines().find(of_result).map_or(0.0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }

    fn failed(&self) -> f64 {
        let kinds = ["connect", "auth", "tls", "timeout", "lock_table_full", "query"];
        kinds.iter().map(|kind| self.polls(kind)).sum()
    }

    /// Waits until this is so; meanwhile there is never more than one connection.
    fn wait(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < AT_MOST, "not within {AT_MOST:?}: {what}\n{}", self.exporter.log());
            let open = connections_to(self.proxy.port);
            assert!(open <= 1, "{open} connections at once, waiting until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn size(&self) -> Size {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.exporter.pid())).unwrap();
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap().trim().parse().unwrap();
        let value = |name| self.exporter.value(name).unwrap();
        Size { threads, descriptors: value("process_open_fds"), resident: value("process_resident_memory_bytes") }
    }

    /// A session of the superuser, past the proxy. The server may just be coming back.
    fn client(&self) -> Client {
        let began = Instant::now();
        loop {
            match self.cluster.config().connect(NoTls) {
                Ok(client) => return client,
                Err(error) => assert!(began.elapsed() < AT_MOST, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn run(&self, sql: &str) {
        self.client().batch_execute(sql).unwrap();
    }

    /// Ends our session, so that the exporter has to come again.
    fn end_ours(&self) {
        self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pglockwatch'");
    }
}

/// Client sides of established connections to a port of this machine.
fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let there = format!("0100007F:{port:04X}");
    let is_one = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next() == Some(&there) && fields.next() == Some("01")
    };
    table.lines().filter(is_one).count()
}

fn write_password(home: &Path, password: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = home.join(".pgpass");
    std::fs::write(&path, format!("*:*:*:mon:{password}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn closed(scene: &mut Scene) -> Vec<Client> {
    scene.proxy.turn(Weather::Closed);
    Vec::new()
}

fn fine(scene: &mut Scene, _: Vec<Client>) {
    scene.proxy.turn(Weather::Fine);
}

fn nothing(_: &mut Scene, _: Vec<Client>) {}

fn restart(scene: &mut Scene) -> Vec<Client> {
    signal_crash(&scene.cluster);
    Vec::new()
}

fn stop(scene: &mut Scene) -> Vec<Client> {
    signal_all(postmaster(scene), "STOP");
    Vec::new()
}

fn stop_ours(scene: &mut Scene) -> Vec<Client> {
    let ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pglockwatch'";
    let pid = single(&mut scene.client(), ours).unwrap();
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
    scene.proxy.turn(Weather::Lost);
    Vec::new()
}

/// What was lost does not come again: somebody has to notice that the connection is dead. Keepalives do where the
/// other machine is gone; here the proxy closes it.
fn cut_off(scene: &mut Scene, _: Vec<Client>) {
    scene.proxy.turn(Weather::Closed);
    std::thread::sleep(Duration::from_millis(150));
    scene.proxy.turn(Weather::Fine);
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
        let ours =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'pglockwatch'";
        if single(taken.last_mut().unwrap(), ours).unwrap() == "0" {
            return taken;
        }
        assert!(began.elapsed() < AT_MOST, "its place cannot be taken");
    }
}

fn give_back(_: &mut Scene, taken: Vec<Client>) {
    drop(taken);
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
    let ours =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity(NULL) WHERE application_name = 'pglockwatch'";
    client.batch_execute(ours).unwrap();
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
    write_password(scene.home.path(), &new);
}

fn forbid(scene: &mut Scene) -> Vec<Client> {
    scene.run("ALTER ROLE mon NOLOGIN");
    scene.end_ours();
    Vec::new()
}

fn allow(scene: &mut Scene, _: Vec<Client>) {
    scene.run("ALTER ROLE mon LOGIN");
}

fn drip(scene: &mut Scene) -> Vec<Client> {
    scene.proxy.turn(Weather::Drip);
    Vec::new()
}
