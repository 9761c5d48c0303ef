//! Targets that die in different ways, files that change, signals, and a long life in a short time.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::harness::{Exporter, dsn};
use crate::support::server;
use crate::support::session::{Session, single, superuser};

const SOON: Duration = Duration::from_secs(15);

#[test]
fn of_twenty_targets_three_are_dead_and_seventeen_in_time() {
    let cluster = server::start(&server::any(), &[]);
    let stopped = server::start(&server::any(), &[]);
    // A listener that never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = |name: &str, dsn: &str| format!("[[target]]\nname = \"{name}\"\ndsn = \"{dsn}\"\n");
    let mut config = String::from("interval = \"500ms\"\ntimeout = \"2s\"\n");
    for place in 0..17 {
        config += &target(&format!("good-{place}"), &dsn(&cluster));
    }
    config += &target("refused", "host=127.0.0.1 port=1 user=postgres");
    config += &target("silent", &format!("host=127.0.0.1 port={} user=postgres", silent.local_addr().unwrap().port()));
    config += &target("stopped", &dsn(&stopped));
    fs::write(folder.path().join("pglockwatch.toml"), config).unwrap();
    let mut exporter = Exporter::start(folder.path(), &["--config", "pglockwatch.toml"]).ready();
    let up = |exporter: &Exporter| {
        exporter
            .metrics("")
            .body
            .lines()
            .filter(|line| line.starts_with("pglockwatch_up{") && line.ends_with(" 1"))
            .count()
    };
    exporter.wait(SOON, "18 targets are up", |exporter| up(exporter) == 18);
    signal_all(stopped.pid(), "STOP");
    exporter.wait(SOON, "the stopped one is down", |exporter| up(exporter) == 17);
    let ok = |exporter: &Exporter, name: &str| {
        exporter.value(&format!("pglockwatch_polls_total{{target=\"{name}\",result=\"ok\"}}")).unwrap()
    };
    let before: Vec<f64> = (0..17).map(|place| ok(&exporter, &format!("good-{place}"))).collect();
    std::thread::sleep(Duration::from_secs(4));
    for (place, before) in before.into_iter().enumerate() {
        let polls = ok(&exporter, &format!("good-{place}")) - before;
        assert!(polls >= 5.0, "good-{place} was polled {polls} times in 4 s");
    }
    let began = Instant::now();
    assert_eq!(exporter.get("/runbook").status, 200);
    assert!(began.elapsed() < Duration::from_secs(1), "pages answer at once");
    for (name, kind) in [("refused", "connect"), ("silent", "timeout"), ("stopped", "timeout")] {
        let failed = exporter.value(&format!("pglockwatch_polls_total{{target=\"{name}\",result=\"{kind}\"}}"));
        assert!(failed.is_some_and(|failed| failed > 0.0), "{name}: {failed:?} of {kind}");
    }
    let runbook = exporter.get("/runbook").body;
    assert!(runbook.contains("stopped does not answer.") && runbook.contains(" s old."), "{runbook}");
    signal_all(stopped.pid(), "CONT");
    exporter.wait(Duration::from_secs(40), "it is back", |exporter| up(exporter) == 18);
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pglockwatch'";
    assert_eq!(single(&mut superuser(&cluster), connections).unwrap(), "17", "one connection per target");
}

/// The postmaster and its children.
pub fn signal_all(postmaster: u32, signal: &str) {
    let children = std::process::Command::new("pgrep").args(["-P", &postmaster.to_string()]).output().unwrap();
    let children = String::from_utf8(children.stdout).unwrap();
    for pid in std::iter::once(postmaster.to_string()).chain(children.lines().map(str::to_owned)) {
        let _ = std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status();
    }
}

#[test]
fn files_are_read_again_and_broken_ones_refused() {
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let (config, keys) = (folder.path().join("pglockwatch.toml"), folder.path().join("keys.toml"));
    let write_config = |more: &str, label: &str| {
        let dsn = dsn(&cluster);
        let text = format!(
            "interval = \"200ms\"\nkeys = [\"keys.toml\"]\n[web]\nshow_queries = true\n[[target]]\nname = \"orders\"\n\
             dsn = \"{dsn}\"\nlabels = {{ env = \"{label}\" }}\n{more}"
        );
        fs::write(&config, text).unwrap();
    };
    fs::write(&keys, "[[key]]\nname = \"first\"\nkey = 5\n").unwrap();
    write_config("", "prod");
    let mut exporter = Exporter::start(folder.path(), &["--config", "pglockwatch.toml"]).ready();
    let holder = Session::named(&cluster, "a");
    holder.run("SELECT pg_advisory_lock(5)", SOON).unwrap();
    let page = |exporter: &Exporter| exporter.metrics("").body;
    exporter.wait(SOON, "the name", |exporter| page(exporter).contains("lock=\"first\""));
    let backend = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pglockwatch'";
    let mut client = superuser(&cluster);
    let connection = single(&mut client, backend).unwrap();

    fs::write(&keys, "[[key]]\nname = \"second\"\nkey = 5\n").unwrap();
    exporter.wait(SOON, "the new name", |exporter| page(exporter).contains("lock=\"second\""));
    fs::write(&keys, "[[key]]\nname = \"third\"\nky = 5\n").unwrap();
    exporter.wait(SOON, "a refusal", |exporter| exporter.value("pglockwatch_dictionary_reload_success") == Some(0.0));
    assert!(page(&exporter).contains("lock=\"second\""), "the old names stay");
    assert_eq!(exporter.value("pglockwatch_config_reload_success"), Some(1.0));
    fs::write(&keys, "[[key]]\nname = \"third\"\nkey = 5\n").unwrap();
    exporter.wait(SOON, "a mended file", |exporter| page(exporter).contains("lock=\"third\""));
    assert_eq!(exporter.value("pglockwatch_dictionary_reload_success"), Some(1.0));

    write_config("", "staging");
    exporter.wait(SOON, "the new label", |exporter| page(exporter).contains("env=\"staging\""));
    assert_eq!(single(&mut client, backend).unwrap(), connection, "the connection stays");
    write_config("colour = 1\n", "prod");
    exporter.wait(SOON, "a refusal", |exporter| exporter.value("pglockwatch_config_reload_success") == Some(0.0));
    assert!(page(&exporter).contains("env=\"staging\""));
    let impatient = "[target.thresholds]\nidle = \"200ms\"\n";
    write_config(&format!("[[target]]\nname = \"more\"\ndsn = \"{}\"\n{impatient}", dsn(&cluster)), "prod");
    exporter.signal("HUP");
    exporter.wait(SOON, "another target", |exporter| exporter.value("pglockwatch_up{target=\"more\"}") == Some(1.0));
    exporter.wait(SOON, "its finding", |exporter| exporter.line("msg=\"finding began\" target=more").is_some());
    write_config("", "prod");
    exporter.wait(SOON, "that it goes", |exporter| !page(exporter).contains("target=\"more\""));
    exporter.wait(SOON, "the end of what it had", |exporter| {
        exporter.line("msg=\"finding ended: unseen\" target=more").is_some()
    });
    assert!(exporter.value("pglockwatch_polls_total{target=\"orders\",env=\"prod\",result=\"ok\"}").unwrap() > 10.0);
    assert_eq!(exporter.value("pglockwatch_config_reload_success"), Some(1.0));

    // What only a restart can change is said, and said once for each time that files are read.
    let restart = "need a restart: restart to use them";
    assert!(exporter.line(restart).is_none(), "{}", exporter.log());
    let before = exporter.addresses[0];
    let text = fs::read_to_string(&config).unwrap();
    let text = text.replace("show_queries = true", "listen_address = [\"127.0.0.1:0\"]\ntelemetry_path = \"/m\"");
    fs::write(&config, text).unwrap();
    exporter.wait(SOON, "a word on a restart", |exporter| exporter.line(restart).is_some());
    let said = exporter.line(restart).unwrap();
    for option in ["--web.telemetry-path", "--web.show-queries"] {
        assert!(said.contains(option) && said.contains("level=warn"), "{said}");
    }
    assert!(!said.contains("--web.listen-address"), "the command line's address wins: {said}");
    assert_eq!(exporter.log().matches(restart).count(), 1);
    assert_eq!((exporter.addresses[0], exporter.get("/metrics").status), (before, 200));
}

#[test]
fn the_log_names_a_key_that_nobody_holds() {
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let entry = |name: &str, key: &str| format!("[[key]]\nname = \"{name}\"\n{key}\nholders = 1\n");
    let keys = entry("leader", "key = 5") + &entry("workers", "class = 7");
    fs::write(folder.path().join("keys.toml"), keys).unwrap();
    let options = ["--keys", "keys.toml", "--idle-threshold", "200ms", "--interval", "100ms"];
    let mut exporter = Exporter::watching(&cluster, folder.path(), &options).ready();
    for (key, name) in [("5", "leader"), ("\"\"", "workers")] {
        let began = format!("severity=warning silenced=false key={key} name={name} ");
        exporter.wait(SOON, "that nobody holds it", |exporter| exporter.line(&began).is_some());
        let said = exporter.line(&began).unwrap();
        assert!(said.contains("rule=holder-count") && said.contains(" pid=none "), "{said}");
    }
    let holder = Session::named(&cluster, "a");
    holder.run("SELECT pg_advisory_lock(5)", SOON).unwrap();
    exporter.wait(SOON, "its end", |exporter| {
        exporter
            .line("msg=\"finding ended")
            .is_some_and(|said| said.contains(" name=leader ") && said.contains(" pid=none "))
    });
}

#[test]
fn signals_end_it_cleanly_and_close_its_connection() {
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    for signal in ["TERM", "INT"] {
        let mut exporter = Exporter::watching(&cluster, folder.path(), &[]).ready();
        let began = Instant::now();
        exporter.signal(signal);
        let status = exporter.ended(Duration::from_secs(3)).expect("it does not end");
        assert_eq!(status.code(), Some(0), "{}", exporter.log());
        assert!(began.elapsed() < Duration::from_secs(2));
        assert!(!exporter.log().contains("panicked"));
    }
    let lost = fs::read_to_string(cluster.folder().join("log")).unwrap_or_default();
    assert!(!lost.contains("unexpected EOF"), "{lost}");
}

#[test]
fn it_stays_up_without_a_server_and_counts_its_restart() {
    let binaries = server::any();
    let cluster = server::start(&binaries, &[]);
    let folder = tempfile::tempdir().unwrap();
    let exporter =
        Exporter::start(folder.path(), &["-d", "host=127.0.0.1 port=1 user=x", "--interval", "200ms"]).ready();
    assert_eq!(exporter.value("pglockwatch_up{"), Some(0.0));
    assert_eq!(exporter.get("/-/healthy").status, 200);
    let json = exporter.get("/findings").body;
    assert!(json.contains("\"kind\": \"connect\"") && json.contains("\"status\": \"unknown\""), "{json}");
    drop(exporter);
    let mut exporter = Exporter::watching(&cluster, folder.path(), &[]).ready();
    let leak = Session::named(&cluster, "a");
    leak.run("SELECT pg_advisory_lock(5)", SOON).unwrap();
    exporter.wait(SOON, "the leak", |exporter| exporter.line("finding began").is_some());
    signal_crash(&cluster);
    exporter.wait(Duration::from_secs(40), "the restart", |exporter| {
        exporter.value("pglockwatch_server_restarts_total{").is_some_and(|restarts| restarts >= 1.0)
    });
    exporter.wait(SOON, "its word in the log", |exporter| exporter.line("finding ended: server restarted").is_some());
}

/// One backend crashes, and the postmaster restarts all: to a client that is a restart. `pg_postmaster_start_time`
/// stays, so the postmaster itself is restarted.
pub fn signal_crash(cluster: &pglockwatch::app::demo::Cluster) {
    let data = cluster.folder().join("data");
    let user = pglockwatch_user(&data);
    let binaries = server::any();
    let mut command = std::process::Command::new(binaries.folder.join("pg_ctl"));
    if let Some((uid, gid)) = user {
        use std::os::unix::process::CommandExt as _;
        command.uid(uid).gid(gid);
    }
    let status = command
        .args(["restart", "-m", "immediate", "-w", "-t", "30", "-D"])
        .arg(&data)
        .args(["-l", "/dev/null"])
        .current_dir("/")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

/// Who owns the data folder, where that is not us.
fn pglockwatch_user(data: &std::path::Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    let owner = fs::metadata(data).unwrap();
    (owner.uid() != fs::metadata("/proc/self").unwrap().uid()).then_some((owner.uid(), owner.gid()))
}

#[test]
fn memory_is_flat_over_a_thousand_polls_with_churn() {
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let dsn = dsn(&cluster);
    let options = ["-d", &dsn, "--interval", "100ms", "--idle-threshold", "300ms", "--wait-threshold", "300ms"];
    let mut exporter = Exporter::start(folder.path(), &options).ready();
    let polls = |exporter: &Exporter| exporter.value("pglockwatch_polls_total{").unwrap();
    let resident = |exporter: &Exporter| exporter.value("process_resident_memory_bytes").unwrap();
    let churn = |turn: u32| {
        let session = Session::named(&cluster, &format!("job-{turn}-{}", "x".repeat((turn % 7) as usize)));
        let first = turn * 1_000;
        session
            .run(&format!("SELECT count(pg_advisory_lock(n)) FROM generate_series({first}, {first} + 50) n"), SOON)
            .unwrap();
        session
    };
    let mut sessions = std::collections::VecDeque::new();
    let mut turn = 0;
    let mut work_until = |exporter: &mut Exporter, goal: f64| {
        while polls(exporter) < goal {
            turn += 1;
            sessions.push_back(churn(turn));
            if sessions.len() > 10
                && let Some(oldest) = sessions.pop_front()
            {
                Session::disconnect(oldest);
            }
            for path in ["/metrics", "/findings", "/runbook"] {
                assert_eq!(exporter.get(path).status, 200);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    work_until(&mut exporter, 300.0);
    let early = resident(&exporter);
    work_until(&mut exporter, 1_000.0);
    let late = resident(&exporter);
    assert!(late < early * 1.15, "{early} bytes became {late}");
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pglockwatch'";
    assert_eq!(single(&mut superuser(&cluster), connections).unwrap(), "1");
}
