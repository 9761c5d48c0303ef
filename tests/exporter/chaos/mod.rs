//! One exporter and every bad day in turn: after each it is well again by itself, soon, and as it was. Here is what all
//! scenes share; beside it are those before a server, through a pooler, and before a standby.
//!
//! `PGLOCKWATCH_TEST_ROUNDS` says how often; once if it does not.

mod pooler;
mod server;
mod standby;

use std::path::Path;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use postgres::{Client, NoTls};
use serde_json::Value;

use super::harness::Exporter;
use crate::support::pgbouncer::Pooler;
use crate::support::proxy::{Proxy, Weather};
use crate::support::say;
use crate::support::session::single;

/// Far more than anything here should take.
const AT_MOST: Duration = Duration::from_secs(90);
/// Our sessions, as the server lists them also while nobody can read its catalogs.
const OURS: &str = "FROM pg_stat_get_activity(NULL) WHERE application_name = 'pglockwatch'";

/// A server, what stands before it, and the exporter that watches it from behind proxies.
struct Scene {
    /// What the exporter looks at; the last one is started last.
    cluster: Cluster,
    /// In the order of the hosts of the DSN.
    proxies: Vec<Proxy>,
    exporter: Exporter,
    home: tempfile::TempDir,
    pooler: Option<Pooler>,
    primary: Option<Cluster>,
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

/// What a round showed.
struct Round {
    /// How long it took to be well again, day by day.
    took: Vec<Duration>,
    size: Size,
}

impl Scene {
    /// The first bad day: nobody answers yet when the exporter starts.
    fn begin(home: tempfile::TempDir, cluster: Cluster, ports: &[u16], dsn: &str, timeout: &str) -> Self {
        let proxies: Vec<Proxy> = ports.iter().map(|port| Proxy::before(*port, Weather::Closed)).collect();
        let each = |what: &dyn Fn(&Proxy) -> String| proxies.iter().map(what).collect::<Vec<_>>().join(",");
        let (hosts, ports) = (each(&|_| "127.0.0.1".to_owned()), each(&|proxy| proxy.port.to_string()));
        let dsn = format!("host={hosts} port={ports} dbname=postgres {dsn}");
        let options = ["-d", &dsn, "--interval", "200ms", "--timeout", timeout];
        let exporter = Exporter::start(home.path(), &options).ready();
        let mut scene = Self { cluster, proxies, exporter, home, pooler: None, primary: None };
        assert!(!scene.is_up());
        scene.proxies[0].turn(Weather::Fine);
        scene.wait("the first good poll", Scene::is_up);
        scene
    }

    /// All days in turn, as often as is asked for, with nothing that grows.
    fn live_through_all(&mut self, days: &[Day], name: &str) {
        let rounds = std::env::var("PGLOCKWATCH_TEST_ROUNDS").map_or(1, |text| text.parse().unwrap());
        let mut done: Vec<Round> = Vec::new();
        for round in 1..=rounds {
            let live = |day: &Day| {
                let took = self.live_through(day);
                if rounds > 1 {
                    say(&format!("{name}, round {round}: {}: well again after {took:?}", day.0));
                }
                took
            };
            let took = days.iter().map(live).collect();
            done.push(Round { took, size: self.size() });
            // The first round has made all buffers as large as they get.
            let (size, first) = (done[round - 1].size, done[0].size);
            assert!(
                size.threads <= first.threads && size.descriptors <= first.descriptors,
                "{first:?} became {size:?}"
            );
            assert!(size.resident < first.resident * 1.2, "{first:?} became {size:?}");
        }
        if rounds > 1 {
            tell(name, days, &done);
        }
        let log = self.exporter.log();
        assert!(!log.contains("panicked") && !log.contains("hunter"), "{log}");
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

    /// The one target of the page of findings.
    fn target(&self) -> Value {
        let report: Value = serde_json::from_str(&self.exporter.get("/findings").body).unwrap();
        report["targets"][0].clone()
    }

    /// Waits for some more good polls.
    fn some_good_polls(&mut self, what: &str) {
        let good = self.polls("ok");
        self.wait(what, |scene| scene.polls("ok") >= good + 3.0);
    }

    /// Waits until this is so; meanwhile there is never more than one connection.
    fn wait(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < AT_MOST, "not within {AT_MOST:?}: {what}\n{}", self.exporter.log());
            let open = connections_to(&self.proxies);
            assert!(open <= 1, "{open} connections at once, waiting until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn size(&self) -> Size {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.exporter.pid())).unwrap();
        // One that ends meanwhile has no name any more.
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        let (polling, others): (Vec<String>, Vec<String>) = names.partition(|name| name.starts_with("poll-"));
        // A poll has a thread while it runs, and may be counted at any moment.
        let threads = (others.len() + polling.len().max(1)) as f64;
        let value = |name| self.exporter.value(name).unwrap();
        Size { threads, descriptors: value("process_open_fds"), resident: value("process_resident_memory_bytes") }
    }

    /// A session of the superuser, past the proxies. The server may just be coming back.
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
        self.run(&format!("SELECT pg_terminate_backend(pid) {OURS}"));
    }
}

/// The figures of all rounds.
fn tell(name: &str, days: &[Day], rounds: &[Round]) {
    let sorted = |mut took: Vec<Duration>| {
        took.sort();
        (took[0], took[took.len() / 2], took[took.len() - 1])
    };
    for (place, day) in days.iter().enumerate() {
        let (least, median, most) = sorted(rounds.iter().map(|round| round.took[place]).collect());
        say(&format!(
            "{name}: {}: well again after {least:?} at least, {median:?} in the median, {most:?} at most",
            day.0
        ));
    }
    let (least, median, most) = sorted(rounds.iter().flat_map(|round| round.took.clone()).collect());
    say(&format!("{name}: all days: {least:?} at least, {median:?} in the median, {most:?} at most"));
    for round in [&rounds[0], &rounds[rounds.len() - 1]] {
        say(&format!("{name}: {:?}", round.size));
    }
}

/// Client sides of established connections to these. The table is read once: between two readings a connection may have
/// moved from one to the other, and would count twice.
fn connections_to(proxies: &[Proxy]) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let there: Vec<String> = proxies.iter().map(|proxy| format!("0100007F:{:04X}", proxy.port)).collect();
    let is_one = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next().is_some_and(|at| there.iter().any(|port| port == at)) && fields.next() == Some("01")
    };
    table.lines().filter(is_one).count()
}

/// The one pid of our sessions, as the server has it.
fn our_pid(client: &mut Client) -> Option<String> {
    single(client, &format!("SELECT pid {OURS}")).ok()
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn closed(scene: &mut Scene) -> Vec<Client> {
    scene.proxies[0].turn(Weather::Closed);
    Vec::new()
}

fn fine(scene: &mut Scene, _: Vec<Client>) {
    scene.proxies[0].turn(Weather::Fine);
}

fn nothing(_: &mut Scene, _: Vec<Client>) {}

fn give_back(_: &mut Scene, taken: Vec<Client>) {
    drop(taken);
}
