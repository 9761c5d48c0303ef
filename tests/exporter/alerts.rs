//! The alerts: as promtool sees them, and one of them through a real Prometheus and Alertmanager to whoever is on call.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;
use std::time::{Duration, Instant};

use super::harness::{Exporter, free_port, have, run};
use crate::support::server;
use crate::support::session::Session;

fn alerts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts")
}

#[test]
fn promtool_has_no_complaint_and_every_alert_is_tried() {
    let (rules, tests) = (alerts().join("pglockwatch.rules.yml"), alerts().join("tests/pglockwatch.test.yml"));
    let [rules_text, tests_text] = [&rules, &tests].map(|path| fs::read_to_string(path).unwrap());
    let names: Vec<&str> = rules_text.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        for title in [format!("{name} fires"), format!("{name} does not fire")] {
            assert!(tests_text.contains(&title), "no test that {title}");
        }
        assert!(name == "PgLockwatchAbsent" || tests_text.contains(&format!("{name} is quiet without series")));
        assert!(name.starts_with("PgLockwatch"));
    }
    // Rules that are named in alerts exist, and each that can be a warning or worse is in some alert.
    let words: Vec<&str> = rules_text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    let harmless = ["shared-key", "standby-lock"];
    for rule in pglockwatch::rules::ALL.iter().map(|rule| rule.name()).filter(|rule| !harmless.contains(rule)) {
        assert!(words.contains(&rule), "no alert for {rule}");
    }
    if !have("promtool", "promtool check rules and test rules") {
        return;
    }
    for arguments in [["check", "rules", rules.to_str().unwrap()], ["test", "rules", tests.to_str().unwrap()]] {
        let (code, said) = run("promtool", &arguments, "");
        assert_eq!(code, Some(0), "{said}");
    }
}

/// A program that ends with the test.
pub struct Running(Child);

impl Running {
    pub fn start(folder: &Path, program: &str, arguments: &[&str]) -> Self {
        let log = fs::File::create(folder.join(format!("{program}.log"))).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes what Alertmanager posts: bodies come out of the channel.
fn webhook() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, bodies) = channel();
    spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let _ = reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if sender.send(String::from_utf8(body).unwrap()).is_err() {
                return;
            }
        }
    });
    (port, bodies)
}

/// Waits for an alert of this name in this state; its JSON.
fn wait_for(bodies: &Receiver<String>, name: &str, status: &str) -> serde_json::Value {
    let began = Instant::now();
    let mut seen = Vec::new();
    while began.elapsed() < Duration::from_secs(60) {
        let Ok(body) = bodies.recv_timeout(Duration::from_secs(1)) else { continue };
        let message: serde_json::Value = serde_json::from_str(&body).unwrap();
        for alert in message["alerts"].as_array().unwrap() {
            if alert["labels"]["alertname"] == name && alert["status"] == status {
                return alert.clone();
            }
            seen.push(format!("{} {}", alert["labels"]["alertname"], alert["status"]));
        }
    }
    panic!("no {name} {status} within a minute, but {seen:?}");
}

#[test]
fn a_leak_reaches_who_is_on_call_and_its_end_too() {
    let what = "an alert through Prometheus and Alertmanager";
    if !have("prometheus", what) || !have("prometheus-alertmanager", what) {
        return;
    }
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::watching(&cluster, folder.path(), &[]).ready();
    let (hook, bodies) = webhook();
    let (prometheus, alertmanager) = (free_port(), free_port());
    let rules = fs::read_to_string(alerts().join("pglockwatch.rules.yml")).unwrap();
    let hurried: String = rules
        .lines()
        .map(|line| if line.trim().starts_with("for: ") { "        for: 1s" } else { line })
        .fold(String::new(), |text, line| text + line + "\n");
    assert_ne!(hurried, rules);
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("rules.yml", &hurried);
    write(
        "prometheus.yml",
        &format!(
            "global:\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\n  evaluation_interval: 500ms\n  external_labels:\n    \
             pglockwatch_url: https://locks.example\nrule_files: [rules.yml]\nalerting:\n  alertmanagers:\n  - \
             static_configs:\n    - targets: ['127.0.0.1:{alertmanager}']\nscrape_configs:\n- job_name: pglockwatch\n  \
             static_configs:\n  - targets: ['{}']\n",
            exporter.addresses[0]
        ),
    );
    write(
        "alertmanager.yml",
        &format!(
            "route:\n  receiver: hook\n  group_by: ['...']\n  group_wait: 0s\n  group_interval: 1s\n  repeat_interval: 1h\n\
             receivers:\n- name: hook\n  webhook_configs:\n  - url: http://127.0.0.1:{hook}/\n    send_resolved: true\n"
        ),
    );
    let listen = format!("--web.listen-address=127.0.0.1:{alertmanager}");
    let _alertmanager = Running::start(
        folder.path(),
        "prometheus-alertmanager",
        &["--config.file=alertmanager.yml", "--storage.path=am", &listen, "--cluster.listen-address="],
    );
    let listen = format!("--web.listen-address=127.0.0.1:{prometheus}");
    let _prometheus = Running::start(
        folder.path(),
        "prometheus",
        &["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", &listen],
    );
    let leak = Session::named(&cluster, "worker");
    leak.run("SELECT pg_advisory_lock(612001)", Duration::from_secs(5)).unwrap();
    let lone = wait_for(&bodies, "PgLockwatchLoneLeak", "firing");
    assert_eq!(lone["labels"]["severity"], "warning");
    assert_eq!(lone["annotations"]["runbook_url"], "https://locks.example/runbook/idle-holder");
    let waiter = Session::named(&cluster, "api");
    waiter.begin("SELECT pg_advisory_lock(612001)", true);
    let blocked = wait_for(&bodies, "PgLockwatchBlockedBehindIdleHolder", "firing");
    assert_eq!(blocked["labels"]["severity"], "critical");
    leak.run("SELECT pg_advisory_unlock_all()", Duration::from_secs(5)).unwrap();
    wait_for(&bodies, "PgLockwatchBlockedBehindIdleHolder", "resolved");
}
