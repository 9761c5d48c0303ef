//! The shape of the JSON of `check`, whatever the situation: every promised field is there, and the parts agree
//! with each other and with the exit code.

use serde_json::Value;

const REPORT: &[&str] = &["schema", "version", "status", "targets"];
const TARGET: &[&str] = &[
    "target",
    "error",
    "server",
    "sampled_at",
    "polls",
    "observed_seconds",
    "poll_seconds",
    "locks",
    "pools",
    "findings",
];
const SERVER: &[&str] = &["version", "in_recovery", "started_at", "role", "sees_all_sessions", "can_signal"];
const LOCK: &[&str] =
    &["key", "mode", "scope", "hold_expected", "held_seconds", "first_seen", "holder", "waiters", "rules"];
const KEY: &[&str] = &["text", "space", "database", "classid", "objid", "objsubid", "names"];
const NAME: &[&str] = &["name", "source", "kind", "owner", "team", "note"];
const HELD: &[&str] = &["at_least", "at_most"];
const FIRST_SEEN: &[&str] = &["at", "query", "certain"];
const HOLDER: &[&str] = &[
    "kind",
    "pid",
    "gid",
    "backend_type",
    "backend_start",
    "user",
    "application",
    "client_addr",
    "client_port",
    "state",
    "state_seconds",
    "transaction_seconds",
    "query",
    "pooler",
];
const WAITER: &[&str] = &["pid", "wait_seconds", "mode", "blocked_by", "user", "application", "backend_type"];
const POOL: &[&str] = &[
    "database",
    "user",
    "application",
    "client_addr",
    "sessions",
    "active",
    "idle",
    "idle_in_transaction",
    "holding",
    "waiting",
];
const FINDING: &[&str] = &[
    "id",
    "since",
    "silenced",
    "rule",
    "severity",
    "summary",
    "detail",
    "keys",
    "key_count",
    "database",
    "pids",
    "gid",
    "waiters",
    "longest_wait_seconds",
    "held_seconds",
    "advice",
];
const ADVICE: &[&str] = &["action", "steps", "sql", "caveats", "prevent"];
const ACTIONS: &[&str] = &[
    "terminate",
    "cancel-waiter",
    "finish-prepared",
    "reconnect-pooler",
    "grant",
    "fix-dictionary",
    "investigate",
    "none",
];

/// One sentence for each thing that is not as promised.
pub fn complaints(report: &Value, code: Option<i32>) -> Vec<String> {
    let mut shape = Shape(Vec::new());
    shape.object("the report", report, REPORT);
    shape.expect(report["schema"] == 1, "schema is not 1");
    let by_code = match code {
        Some(0) => "ok",
        Some(1) => "warning",
        Some(2) => "critical",
        _ => "unknown",
    };
    shape.expect(report["status"] == by_code, &format!("status {} with exit code {code:?}", report["status"]));
    for target in each(&report["targets"]) {
        shape.target(target);
    }
    shape.0
}

struct Shape(Vec<String>);

impl Shape {
    fn expect(&mut self, holds: bool, complaint: &str) {
        if !holds {
            self.0.push(complaint.to_owned());
        }
    }

    fn object(&mut self, what: &str, value: &Value, fields: &[&str]) {
        let Some(object) = value.as_object() else { return self.0.push(format!("{what} is no object: {value}")) };
        let missing: Vec<&str> = fields.iter().copied().filter(|field| !object.contains_key(*field)).collect();
        self.expect(missing.is_empty(), &format!("{what} lacks {missing:?}"));
    }

    fn object_or_null(&mut self, what: &str, value: &Value, fields: &[&str]) {
        if !value.is_null() {
            self.object(what, value, fields);
        }
    }

    fn target(&mut self, target: &Value) {
        self.object("a target", target, TARGET);
        if !target["error"].is_null() {
            return self.object("a target's error", &target["error"], &["kind", "message"]);
        }
        self.object("server", &target["server"], SERVER);
        each(&target["locks"]).for_each(|lock| self.lock(lock));
        each(&target["pools"]).for_each(|pool| self.object("a pool", pool, POOL));
        each(&target["findings"]).for_each(|finding| self.finding(finding));
        let mut ids: Vec<&str> = each(&target["findings"]).filter_map(|finding| finding["id"].as_str()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        self.expect(ids.len() == count, "two findings have the same id");
    }

    fn lock(&mut self, lock: &Value) {
        self.object("a lock", lock, LOCK);
        self.object("a lock's key", &lock["key"], KEY);
        each(&lock["key"]["names"]).for_each(|name| self.object("a name", name, NAME));
        self.held(&lock["held_seconds"]);
        self.object_or_null("first_seen", &lock["first_seen"], FIRST_SEEN);
        self.object("a holder", &lock["holder"], HOLDER);
        each(&lock["waiters"]).for_each(|waiter| self.object("a waiter", waiter, WAITER));
        let prepared = lock["holder"]["kind"] == "prepared";
        self.expect(
            lock["holder"]["pid"].is_null() == prepared,
            "a session has a pid, a prepared transaction has none",
        );
        self.expect(
            lock["holder"]["gid"].is_null() != prepared,
            "a prepared transaction has a gid, a session has none",
        );
    }

    fn finding(&mut self, finding: &Value) {
        self.object("a finding", finding, FINDING);
        self.object("advice", &finding["advice"], ADVICE);
        let what = format!("{} {}", finding["rule"], finding["summary"]);
        let action = finding["advice"]["action"].as_str().unwrap_or_default();
        self.expect(ACTIONS.contains(&action), &format!("{what}: unknown action {action:?}"));
        self.expect(finding["summary"].as_str().is_some_and(|text| !text.is_empty()), "a finding without a summary");
        let keys = each(&finding["keys"]).count() as u64;
        let counted = finding["key_count"].as_u64().unwrap_or_default();
        let cut = finding["truncated"] == true;
        self.expect(
            if cut { keys < counted } else { keys == counted },
            &format!("{what}: {keys} keys, key_count {counted}"),
        );
        self.expect(keys <= 1000, &format!("{what}: more than 1,000 keys"));
        if !finding["held_seconds"].is_null() {
            self.held(&finding["held_seconds"]);
        }
        let waited = finding["longest_wait_seconds"].as_f64();
        self.expect(waited.is_none_or(|seconds| seconds >= 0.0), &format!("{what}: a negative wait"));
        // Other texts stay as strangers chose them, and JSON escapes them; a statement is there to be pasted.
        let sql = finding["advice"]["sql"].as_str().unwrap_or_default();
        let controls = sql.chars().any(|c| c.is_control() && c != '\n');
        self.expect(!controls, &format!("{what}: a control character in the suggested SQL"));
    }

    fn held(&mut self, held: &Value) {
        self.object("held_seconds", held, HELD);
        let (least, most) = (held["at_least"].as_f64(), held["at_most"].as_f64());
        self.expect(least.is_some_and(|seconds| seconds >= 0.0), &format!("held_seconds.at_least: {held}"));
        if let (Some(least), Some(most)) = (least, most) {
            // A lower bound by our clock and an upper bound by the server's may differ by the time of a poll.
            self.expect(least <= most + 0.5, &format!("held at least longer than at most: {held}"));
        }
    }
}

fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
