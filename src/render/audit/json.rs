//! `audit --format json`, schema 1.

use std::io;

use serde_json::{Value, json};

use super::{label, meaning};
use crate::audit::log::{LogReport, Origin};
use crate::audit::{Call, Judged, ServerAudit, Verb, Verdict, calls};
use crate::keys::KeyBook;
use crate::render::json::escape_invisible;

/// One object and a line break.
///
/// # Errors
/// A value cannot be written as JSON; none of the values below is such.
pub fn render(servers: &[ServerAudit], log: Option<&LogReport>, book: &KeyBook, version: &str) -> io::Result<String> {
    let document = json!({
        "schema": 1,
        "version": version,
        "status": Verdict::of(servers, log).name(),
        "targets": servers.iter().map(server).collect::<Vec<_>>(),
        "log": log.map(|log| of_log(log, book)),
    });
    let mut text = escape_invisible(serde_json::to_string_pretty(&document)?);
    text.push('\n');
    Ok(text)
}

fn server(server: &ServerAudit) -> Value {
    match &server.outcome {
        Ok(judged) => of_judged(&server.target, judged),
        Err(failure) => json!({
            "target": server.target,
            "error": { "kind": failure.kind.name(), "message": failure.message },
            "server": null, "blind": null, "findings": [], "statements": [], "settings": [],
        }),
    }
}

fn of_judged(target: &str, judged: &Judged) -> Value {
    let facts = &judged.facts;
    let findings: Vec<Value> = judged
        .findings
        .iter()
        .map(|finding| {
            json!({
                "finding": finding.what.name(),
                "role": finding.role,
                "database": finding.database,
                "summary": finding.summary,
                "change": finding.change,
                "statements": finding.statements,
            })
        })
        .collect();
    let statements: Vec<Value> = judged
        .uses
        .iter()
        .flat_map(|role| &role.statements)
        .map(|row| {
            json!({
                "role": row.role,
                "database": row.database,
                "calls": row.calls,
                "mean_seconds": row.mean_ms / 1000.0,
                "query": row.query,
                "functions": calls(&row.query).iter().map(function).collect::<Vec<_>>(),
            })
        })
        .collect();
    let settings: Vec<Value> = facts
        .settings
        .iter()
        .map(|setting| {
            json!({ "name": setting.name, "value": setting.value, "of": setting.of, "meaning": meaning(setting) })
        })
        .collect();
    json!({
        "target": target,
        "error": null,
        "server": {
            "version": facts.version,
            "role": facts.role,
            "sees_all_statements": facts.sees_all,
            "hidden_statements": facts.hidden,
            "track": facts.track,
            "dropped": facts.dropped,
            "truncated": facts.truncated,
        },
        "blind": judged.blind().map(|(what, to_do)| json!({ "message": what, "hint": to_do })),
        "findings": findings,
        "statements": statements,
        "settings": settings,
    })
}

fn function(call: &Call) -> Value {
    let verb = match call.verb {
        Verb::Lock => "lock",
        Verb::Try => "try",
        Verb::Unlock => "unlock",
        Verb::UnlockAll => "unlock-all",
    };
    json!({
        "function": call.function,
        "verb": verb,
        "scope": if call.transaction { "transaction" } else { "session" },
        "mode": if call.shared { "ShareLock" } else { "ExclusiveLock" },
        "form": call.form.map(|form| match form {
            crate::audit::Form::Bigint => "bigint",
            crate::audit::Form::Pair => "int4-pair",
        }),
        "by_row": call.by_row,
    })
}

fn of_log(log: &LogReport, book: &KeyBook) -> Value {
    let of = |origin: &Origin| {
        json!({
            "time": origin.time, "pid": origin.pid, "user": origin.user, "database": origin.database,
            "application": origin.application,
        })
    };
    let failed: Vec<Value> = log
        .failed_unlocks
        .iter()
        .map(|unlock| {
            let key = unlock.key.map(|key| label(key, &unlock.origin, unlock.statement.as_deref(), book));
            json!({ "session": of(&unlock.origin), "key": key, "mode": unlock.mode, "statement": unlock.statement })
        })
        .collect();
    let deadlocks: Vec<Value> = log
        .deadlocks
        .iter()
        .map(|deadlock| {
            let keys = deadlock.keys.iter();
            let keys = keys.map(|(_, key)| label(*key, &deadlock.origin, deadlock.statement.as_deref(), book));
            json!({
                "session": of(&deadlock.origin),
                "keys": keys.collect::<Vec<_>>(),
                "statement": deadlock.statement,
            })
        })
        .collect();
    json!({
        "lines": log.lines,
        "unreadable": log.unreadable,
        "failed_unlock_count": log.failed_unlock_count,
        "without_statement": log.without_statement,
        "failed_unlocks": failed,
        "deadlock_count": log.deadlock_count,
        "deadlocks": deadlocks,
    })
}
