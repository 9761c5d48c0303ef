//! The same leaks, seen by postgres_exporter with the query that is in use today, and by us. The README tells the result.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;

use super::harness::{Exporter, dsn, free_port, read_answer};
use crate::support::session::{Session, Turn, superuser};
use crate::support::{say, server};

const SOON: Duration = Duration::from_secs(60);

/// A running postgres_exporter; it is killed when this goes.
struct Rival {
    child: Child,
    port: u16,
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rival {
    /// With its own metrics turned off, as this user, on that cluster.
    fn start(program: &Path, folder: &Path, cluster: &Cluster, user: &str) -> Self {
        let query = include_str!("postgres_exporter.yaml").replace("60 seconds", "1 second");
        fs::write(folder.join("queries.yaml"), query).unwrap();
        let port = free_port();
        let address =
            format!("host={} port={} user={user} dbname=postgres sslmode=disable", cluster.host(), cluster.port());
        let child = Command::new(program)
            .args(["--disable-default-metrics", "--disable-settings-metrics"])
            .args(["--no-collector.database", "--no-collector.bgwriter", "--extend.query-path=queries.yaml"])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .env_clear()
            .env("DATA_SOURCE_NAME", address)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, port }
    }

    /// What it shows of the custom query, and whether it says that all is well.
    fn page(&self) -> (Vec<String>, bool) {
        let began = Instant::now();
        loop {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
                if let Some(answer) = read_answer(&mut stream).filter(|answer| answer.status == 200) {
                    let lines = answer.body.lines().filter(|line| line.starts_with("pg_idle_advisory_locks_held{"));
                    let well = ["pg_up 1", "pg_exporter_last_scrape_error 0"];
                    let is_well = well.iter().all(|line| answer.body.lines().any(|have| have == *line));
                    return (lines.map(str::to_owned).collect(), is_well);
                }
            }
            assert!(began.elapsed() < SOON, "postgres_exporter does not answer");
            sleep(Duration::from_millis(100));
        }
    }
}

fn program() -> Option<PathBuf> {
    let handed_over = std::env::var_os("PGLOCKWATCH_TEST_POSTGRES_EXPORTER").map(PathBuf::from);
    let installed = PathBuf::from("/usr/bin/prometheus-postgres-exporter");
    let found = handed_over.or_else(|| installed.is_file().then_some(installed));
    if found.is_none() {
        say(
            "SKIPPED: the comparison with postgres_exporter, which is not here (start tests/run, or install the Debian \
             package prometheus-postgres-exporter)",
        );
    }
    found
}

/// Four leaks: of a session that rests, of one that works, of none, and seen by a role that may see nothing.
#[test]
fn postgres_exporter_with_a_query_and_ours_on_the_same_leaks() {
    let Some(program) = program() else { return };
    let cluster = server::start(&server::any(), &["max_prepared_transactions=5".to_owned()]);
    let folder = tempfile::tempdir().unwrap();
    superuser(&cluster).batch_execute("CREATE ROLE blind LOGIN").unwrap();
    let connect = |application: &str| Session::named(&cluster, application);
    let forgotten = connect("forgotten");
    forgotten.run("SELECT pg_advisory_lock(1)", SOON).unwrap();
    let busy = connect("busy-pool");
    busy.run("SELECT pg_advisory_lock(2)", SOON).unwrap();
    busy.repeat(vec![Turn::Statement("SELECT 1".to_owned()), Turn::Pause(Duration::from_millis(40))], false);
    let prepared = connect("transfer");
    prepared.run("BEGIN; SELECT pg_advisory_xact_lock(3); PREPARE TRANSACTION 'transfer'", SOON).unwrap();
    drop(prepared);

    let dsn = dsn(&cluster);
    let often = ["-d", &dsn, "--interval", "100ms", "--idle-threshold", "1s", "--wait-threshold", "1s"];
    let mut ours = Exporter::start(folder.path(), &often).ready();
    let theirs = Rival::start(&program, folder.path(), &cluster, "postgres");
    let count = |exporter: &Exporter, series: &str, labels: &str| {
        let page = exporter.metrics("").body;
        let line = page.lines().find(|line| line.starts_with(series) && line.contains(labels));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).unwrap_or_default()
    };
    // An idle session.
    let idle = "application_name=\"forgotten\"";
    ours.wait(SOON, "the idle leak", |ours| count(ours, "pglockwatch_idle_held_locks{", idle) > 0.0);
    let (rows, is_well) = theirs.page();
    assert!(rows.len() == 1 && rows[0].contains(idle) && rows[0].ends_with(" 1") && is_well, "{rows:?}");
    // A busy one.
    let carried = "application_name=\"busy-pool\"";
    ours.wait(SOON, "the busy leak", |ours| count(ours, "pglockwatch_carried_locks{", carried) > 0.0);
    // A prepared transaction.
    ours.wait(SOON, "the prepared transaction", |ours| {
        count(ours, "pglockwatch_prepared_held_locks{", "datname=\"postgres\"") > 0.0
    });
    let finding = "rule=\"prepared-transaction-holder\",severity=\"warning\"";
    ours.wait(SOON, "its finding", |ours| count(ours, "pglockwatch_findings{", finding) > 0.0);
    let (rows, is_well) = theirs.page();
    assert!(rows.len() == 1 && rows[0].contains(idle) && is_well, "it sees neither, and all is well: {rows:?}");
    assert!(busy.errors().is_empty(), "{:?}", busy.errors());

    // A role that may not see other sessions.
    let blind = format!("host={} port={} user=blind dbname=postgres", cluster.host(), cluster.port());
    let ours = Exporter::start(folder.path(), &["-d", &blind, "--interval", "200ms"]).ready();
    assert_eq!(ours.value("pglockwatch_sees_all_sessions{"), Some(0.0));
    assert_eq!(ours.value("pglockwatch_hidden_holders{"), Some(2.0));
    let hidden = count(&ours, "pglockwatch_findings{", "rule=\"hidden-sessions\",severity=\"unknown\"");
    assert!((hidden - 1.0).abs() < f64::EPSILON, "{hidden}");
    let (rows, is_well) = Rival::start(&program, folder.path(), &cluster, "blind").page();
    assert!(rows.is_empty() && is_well, "no leak, and all is well: {rows:?}");
}
