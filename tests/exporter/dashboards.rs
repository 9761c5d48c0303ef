//! The dashboards: the rules that well-made ones follow, and each query on a real Prometheus.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::alerts::Running;
use super::harness::{Exporter, free_port, have, read_answer, run};
use crate::support::session::Session;
use crate::support::{say, server};

fn dashboards() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana");
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .map(|path| (path.display().to_string(), serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap()))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 2);
    found
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row").collect()
}

fn queries(dashboard: &Value) -> Vec<&str> {
    let targets = panels(dashboard).into_iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let annotations = dashboard["annotations"]["list"].as_array().unwrap().iter();
    targets.chain(annotations).filter_map(|target| target["expr"].as_str()).collect()
}

#[test]
fn dashboards_follow_the_rules_of_well_made_ones() {
    let mut uids = BTreeSet::new();
    for (file, dashboard) in dashboards() {
        assert_eq!(dashboard["editable"], false, "{file}");
        assert!(uids.insert(dashboard["uid"].as_str().expect("a fixed uid").to_owned()), "{file}");
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let variable = |name: &str| variables.iter().find(|variable| variable["name"] == name);
        let sources: Vec<_> = variables.iter().filter(|variable| variable["type"] == "datasource").collect();
        assert!(sources.len() == 1 && sources[0]["name"] == "datasource", "{file}");
        for name in ["job", "instance"] {
            let variable = variable(name).unwrap_or_else(|| panic!("{file}: no variable {name}"));
            assert_eq!((&variable["allValue"], &variable["refresh"]), (&Value::from(".+"), &Value::from(2)), "{file}");
            assert_eq!(variable["datasource"]["uid"], "${datasource}", "{file}");
        }
        let mut ids = BTreeSet::new();
        for panel in panels(&dashboard) {
            let title = panel["title"].as_str().filter(|title| !title.is_empty()).expect("a title");
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{file}: {title}: id");
            assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{file}: {title}");
            let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
            assert!(unit.is_some_and(|unit| !unit.is_empty()), "{file}: {title}: unit");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{file}: {title}");
            let grid = |field: &str| panel["gridPos"][field].as_u64().unwrap();
            assert!(grid("x") + grid("w") <= 24, "{file}: {title}");
            for target in panel["targets"].as_array().unwrap() {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{file}: {title}");
            }
        }
        for query in queries(&dashboard) {
            for metric in ["pglockwatch_", "process_"].iter().flat_map(|prefix| query.split(prefix).skip(1)) {
                let selector = metric.split_once('{').unwrap_or_else(|| panic!("{file}: {query}")).1;
                let selector = selector.split('}').next().unwrap();
                for matcher in ["job=~\"$job\"", "instance=~\"$instance\""] {
                    assert!(selector.contains(matcher), "{file}: no {matcher} in {query}");
                }
            }
            for window in query.split('[').skip(1) {
                assert!(window.starts_with("$__rate_interval]"), "{file}: {query}");
            }
        }
        assert!(dashboard.to_string().contains("${runbook}/runbook/${__data.fields.rule}"), "{file}: what to do");
    }
}

/// Grafana's own schema, from its npm package, in a folder that is kept from run to run.
#[test]
fn dashboards_fit_the_schema_of_grafana() {
    let what = "the schema of Grafana";
    if !have("npm", what) || !have("node", what) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grafana-schema");
    fs::create_dir_all(&work).unwrap();
    let install = "cd \"$1\" && [ -e package.json ] || echo '{\"private\":true}' > \"$1/package.json\" && cd \"$1\" && \
                   npm install --silent --no-audit --no-fund @grafana/schema@13 ts-json-schema-generator@2 ajv@8";
    let (code, said) = run("sh", &["-c", install, "sh", work.to_str().unwrap()], "");
    if code != Some(0) {
        say(&format!("SKIPPED: {what}: npm cannot fetch it: {said}"));
        return;
    }
    fs::copy(root.join("grafana/check-schema.mjs"), work.join("check-schema.mjs")).unwrap();
    let files: Vec<String> = dashboards().into_iter().map(|(file, _)| file).collect();
    let script = work.join("check-schema.mjs").display().to_string();
    let arguments: Vec<&str> = std::iter::once(script.as_str()).chain(files.iter().map(String::as_str)).collect();
    let (code, said) = run("node", &arguments, "");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn every_query_finds_something_on_a_real_prometheus() {
    if !have("prometheus", "the queries of the dashboards") {
        return;
    }
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("keys.toml"), "[[key]]\nname = \"report\"\nkey = 612001\n").unwrap();
    let exporter = Exporter::watching(&cluster, folder.path(), &["--keys", "keys.toml"]).ready();
    let leak = Session::named(&cluster, "worker");
    leak.run("SELECT pg_advisory_lock(612001)", Duration::from_secs(5)).unwrap();
    let waiter = Session::named(&cluster, "api");
    waiter.begin("SELECT pg_advisory_lock(612001)", true);
    let port = free_port();
    fs::write(
        folder.path().join("prometheus.yml"),
        format!(
            "global:\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\nscrape_configs:\n- job_name: locks\n  \
             static_configs:\n  - targets: ['{}']\n",
            exporter.addresses[0]
        ),
    )
    .unwrap();
    let listen = format!("--web.listen-address=127.0.0.1:{port}");
    let _prometheus = Running::start(
        folder.path(),
        "prometheus",
        &["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", &listen],
    );
    let planted = "pglockwatch_findings{rule=\"idle-holder\",severity=\"critical\"} > 0";
    assert!(results(port, planted, Duration::from_secs(40)) > 0, "Prometheus does not see the leak");
    sleep(Duration::from_secs(2));
    for (file, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                let asked = ["$job", "$instance", "$target"]
                    .iter()
                    .fold(query.replace("$__rate_interval", "5s"), |query, variable| query.replace(variable, ".+"));
                assert!(results(port, &asked, Duration::from_secs(5)) > 0, "{file}: nothing for {asked}");
            }
        }
    }
}

/// How many series an instant query finds; asks again for so long while there is none.
fn results(port: u16, query: &str, at_most: Duration) -> usize {
    let began = Instant::now();
    loop {
        let path = format!("/api/v1/query?query={}", utf8_percent_encode(query, NON_ALPHANUMERIC));
        let answer = TcpStream::connect(("127.0.0.1", port)).ok().and_then(|mut stream| {
            write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
            read_answer(&mut stream)
        });
        if let Some(answer) = answer.filter(|answer| answer.body.starts_with('{')) {
            let body: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(body["status"], "success", "{query}: {body}");
            let found = body["data"]["result"].as_array().unwrap().len();
            if found > 0 {
                return found;
            }
        }
        if began.elapsed() >= at_most {
            return 0;
        }
        sleep(Duration::from_millis(200));
    }
}
