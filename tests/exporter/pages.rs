//! The pages that people read, with names that want to be more than names.

use std::fs;
use std::time::Duration;

use super::harness::Exporter;
use crate::support::server;
use crate::support::session::Session;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn hostile_names_stay_names() {
    let cluster = server::start(&server::any(), &[]);
    let folder = tempfile::tempdir().unwrap();
    let hostile = "<script>alert(1)</script>";
    fs::write(
        folder.path().join("keys.toml"),
        format!(
            "[[key]]\nname = \"{hostile}[x](javascript:alert(2))\"\nkey = 7\nrunbook = \"javascript:alert(3)\"\n\
             contact = \"<img src=x onerror=alert(4)>\"\nnote = \"https://wiki.example/locks\"\n"
        ),
    )
    .unwrap();
    let mut exporter = Exporter::watching(&cluster, folder.path(), &["--keys", "keys.toml"]).ready();
    let leak = Session::named(&cluster, &format!("{hostile}&\"'"));
    leak.run("SELECT pg_advisory_lock(7) /* s3cret of a person */", SOON).unwrap();
    let waiter = Session::named(&cluster, "![p](http://x/y.png)");
    waiter.begin("SELECT pg_advisory_lock(7)", true);
    exporter.wait(SOON, "the finding", |exporter| exporter.get("/runbook").body.contains("CRITICAL idle-holder"));
    for path in ["/runbook", "/runbook/idle-holder"] {
        let page = exporter.get(path).body;
        let lower = page.to_lowercase();
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
        assert!(!lower.contains("<script") && !lower.contains("<img"), "{page}");
        assert!(!lower.contains("href=\"javascript:") && !lower.contains("href=\"data:"), "{page}");
        assert!(!page.contains("s3cret"), "statements are shown only with --web.show-queries");
        assert!(page.contains("pg_terminate_backend"), "what to do is missing: {page}");
        assert!(page.contains("<meta name=\"viewport\""));
    }
    let json = exporter.get("/findings");
    assert!(json.headers.contains("content-type: application/json"));
    assert!(!json.body.contains("s3cret"));
    let document: serde_json::Value = serde_json::from_str(&json.body).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["status"], "critical");
    let findings = document["targets"][0]["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["rule"] == "idle-holder"), "{findings:?}");
    drop(exporter);
    let mut open = Exporter::watching(&cluster, folder.path(), &["--web.show-queries"]).ready();
    open.wait(SOON, "the statement", |exporter| exporter.get("/findings").body.contains("s3cret"));
}

#[test]
fn the_page_of_every_rule_is_there_and_of_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(folder.path(), &["-d", "host=127.0.0.1 port=1 user=x"]);
    for rule in pglockwatch::rules::ALL {
        let answer = exporter.get(&format!("/runbook/{}", rule.name()));
        assert_eq!(answer.status, 200, "{}", rule.name());
        assert!(answer.body.contains("<h2>Mitigation</h2>"), "{}", rule.name());
    }
    assert_eq!(exporter.get("/runbook/no-such-rule").status, 404);
    assert!(exporter.get("/").body.contains("href=\"runbook\""));
}
