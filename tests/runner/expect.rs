//! Compares what a case expects with the JSON of `check`.

use std::time::Duration;

use serde_json::Value;

use super::format::{Case, FindingPattern, LockPattern};
use super::play::Pids;

/// One sentence for each expectation that failed.
pub fn complaints(case: &Case, report: &Value, stdout: &str, code: Option<i32>, pids: &Pids) -> Vec<String> {
    let mut complaints = Vec::new();
    if case.expect.exit.is_some() && code != case.expect.exit {
        complaints.push(format!("exit {code:?} instead of {:?}", case.expect.exit));
    }
    let target = &report["targets"][0];
    if !target["error"].is_null() {
        complaints.push(format!("the target has an error: {}", target["error"]));
    }
    let findings = list(&target["findings"]);
    complaints.extend(finding_complaints(case, findings, pids));
    let locks = list(&target["locks"]);
    for pattern in &case.expect.lock {
        let found = locks.iter().filter(|lock| pattern.matches(lock, pids)).count();
        let expected = pattern.count.unwrap_or(1);
        if found != expected {
            complaints.push(format!("{found} locks instead of {expected} are like {pattern:?}"));
        }
    }
    for pattern in &case.forbid {
        let forbidden = if pattern.is_text_alone() {
            let everything = texts(report);
            pattern.text.iter().any(|text| stdout.contains(text) || everything.contains(text))
        } else {
            findings.iter().any(|finding| pattern.matches(finding, pids))
        };
        if forbidden {
            complaints.push(format!("forbidden, and yet there: {pattern:?}"));
        }
    }
    complaints
}

/// Every expectation takes a finding of its own; with `only`, none above info is left over.
fn finding_complaints(case: &Case, findings: &[Value], pids: &Pids) -> Vec<String> {
    let patterns = &case.expect.finding;
    let fits: Vec<Vec<usize>> = patterns
        .iter()
        .map(|pattern| (0..findings.len()).filter(|index| pattern.matches(&findings[*index], pids)).collect())
        .collect();
    let mut taken_by = vec![None; findings.len()];
    let mut complaints: Vec<String> = (0..patterns.len())
        .filter(|pattern| !assign(*pattern, &fits, &mut taken_by, &mut vec![false; findings.len()]))
        .map(|pattern| format!("no finding (of its own) is like {:?}", patterns[pattern]))
        .collect();
    if case.expect.only {
        let counts = |finding: &Value| finding["severity"] != "info" && finding["silenced"].is_null();
        let left = findings.iter().zip(&taken_by).filter(|(finding, taken)| taken.is_none() && counts(finding));
        complaints.extend(left.map(|(finding, _)| {
            format!("one finding too many: {} {}, {}", finding["severity"], finding["rule"], finding["summary"])
        }));
    }
    complaints
}

/// Gives the pattern a finding, moving other patterns to another of theirs if need be.
fn assign(pattern: usize, fits: &[Vec<usize>], taken_by: &mut [Option<usize>], seen: &mut Vec<bool>) -> bool {
    for &finding in &fits[pattern] {
        if std::mem::replace(&mut seen[finding], true) {
            continue;
        }
        if taken_by[finding].is_none_or(|other| assign(other, fits, taken_by, seen)) {
            taken_by[finding] = Some(pattern);
            return true;
        }
    }
    false
}

impl FindingPattern {
    fn is_text_alone(&self) -> bool {
        Self { text: Vec::new(), ..self.clone() } == Self::default()
    }

    fn matches(&self, finding: &Value, pids: &Pids) -> bool {
        let haystack = texts(finding);
        is(&finding["rule"], self.rule.as_ref())
            && is(&finding["severity"], self.severity.as_ref())
            && is(&finding["advice"]["action"], self.action.as_ref())
            && is(&finding["gid"], self.gid.as_ref())
            && is(&finding["database"], self.database.as_ref())
            && self.key.as_ref().is_none_or(|key| list(&finding["keys"]).iter().any(|found| found == key))
            && self.key_count.is_none_or(|count| finding["key_count"] == count)
            && self.session.as_ref().is_none_or(|name| numbers(&finding["pids"]).contains(&pids[name]))
            && self.sessions.as_ref().is_none_or(|names| are(&finding["pids"], names, pids))
            && self.waiters.as_ref().is_none_or(|names| are(&finding["waiters"], names, pids))
            && self.held_at_least.is_none_or(|least| at_least(&finding["held_seconds"]["at_least"], least))
            && self.waited_at_least.is_none_or(|least| at_least(&finding["longest_wait_seconds"], least))
            && self.silenced.is_none_or(|silenced| finding["silenced"].is_null() != silenced)
            && self.sql.is_none_or(|sql| finding["advice"]["sql"].is_null() != sql)
            && self.text.iter().all(|text| haystack.contains(text))
    }
}

impl LockPattern {
    fn matches(&self, lock: &Value, pids: &Pids) -> bool {
        let (key, holder) = (&lock["key"], &lock["holder"]);
        let names = || list(&key["names"]).iter().map(|name| name["name"].as_str().unwrap_or_default());
        let first_seen = &lock["first_seen"];
        is(&key["text"], self.text.as_ref())
            && is(&key["space"], self.space.as_ref())
            && is(&key["database"], self.database.as_ref())
            && self.classid.is_none_or(|number| key["classid"] == number)
            && self.objid.is_none_or(|number| key["objid"] == number)
            && self.objsubid.is_none_or(|number| key["objsubid"] == number)
            && self.names.as_ref().is_none_or(|expected| names().eq(expected.iter().map(String::as_str)))
            && is(&lock["mode"], self.mode.as_ref())
            && is(&lock["scope"], self.scope.as_ref())
            && is(&holder["kind"], self.kind.as_ref())
            && is(&holder["gid"], self.gid.as_ref())
            && is(&holder["state"], self.state.as_ref())
            && is(&holder["backend_type"], self.backend_type.as_ref())
            && self.session.as_ref().is_none_or(|name| holder["pid"] == pids[name])
            && self.waiters.as_ref().is_none_or(|names| Self::waiters_are(lock, names, pids))
            && self.blocked_by.as_ref().is_none_or(|blocked| {
                blocked.iter().all(|(name, by)| {
                    let waiter = list(&lock["waiters"]).iter().find(|waiter| waiter["pid"] == pids[name]);
                    waiter.is_some_and(|waiter| are(&waiter["blocked_by"], by, pids))
                })
            })
            && self.hold_expected.is_none_or(|expected| lock["hold_expected"] == expected)
            && self.held_at_least.is_none_or(|least| at_least(&lock["held_seconds"]["at_least"], least))
            && self.held_under.is_none_or(|most| !at_least(&lock["held_seconds"]["at_least"], most))
            && self.taken_by.as_ref().is_none_or(|part| {
                first_seen["certain"] == true && first_seen["query"].as_str().is_some_and(|query| query.contains(part))
            })
            && self.rules.as_ref().is_none_or(|rules| sorted_texts(&lock["rules"]).eq(rules))
    }

    fn waiters_are(lock: &Value, names: &[String], pids: &Pids) -> bool {
        let found: Value = list(&lock["waiters"]).iter().map(|waiter| waiter["pid"].clone()).collect();
        are(&found, names, pids)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is(value: &Value, expected: Option<&String>) -> bool {
    expected.is_none_or(|expected| value == expected)
}

fn numbers(value: &Value) -> Vec<i32> {
    let mut numbers: Vec<i32> =
        list(value).iter().filter_map(Value::as_i64).filter_map(|number| i32::try_from(number).ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Exactly the pids of these sessions, in any order.
fn are(value: &Value, names: &[String], pids: &Pids) -> bool {
    let mut expected: Vec<i32> = names.iter().map(|name| pids[name]).collect();
    expected.sort_unstable();
    numbers(value) == expected
}

fn sorted_texts(value: &Value) -> Vec<String> {
    let mut texts: Vec<String> = list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    texts.sort();
    texts
}

fn at_least(seconds: &Value, least: Duration) -> bool {
    seconds.as_f64().is_some_and(|seconds| seconds >= least.as_secs_f64())
}

/// Every string in it, one to a line.
pub fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(values) => values.iter().map(texts).collect(),
        Value::Object(fields) => fields.values().map(texts).collect(),
        _ => String::new(),
    }
}
