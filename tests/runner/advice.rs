//! Holds the advice of a report to the server: every suggested statement must be one that the server understands,
//! and where a case says so, running it must free the lock.

use std::thread::sleep;
use std::time::Duration;

use pglockwatch::app::demo::Cluster;
use postgres::{Client, SimpleQueryMessage};
use serde_json::Value;

use super::format::Case;
use crate::support::session::{superuser, text, wait_until};

/// A busy holder is at rest only between two statements: the guarded statement may have to be run again.
const TRIES: u32 = 20;

/// One sentence for each suggestion that is none.
pub fn complaints(case: &Case, cluster: &Cluster, report: &Value) -> Vec<String> {
    let mut client = superuser(cluster);
    let findings = report["targets"][0]["findings"].as_array().cloned().unwrap_or_default();
    let mut complaints: Vec<String> =
        findings.iter().filter_map(|finding| parses(&mut client, finding).err()).collect();
    if let Some(key) = &case.expect.advice_frees {
        complaints.extend(frees(&mut client, &findings, key).err());
    }
    complaints
}

/// A SELECT is prepared, which parses it, checks every name in it, refuses a second statement, and runs nothing.
fn parses(client: &mut Client, finding: &Value) -> Result<(), String> {
    let Some(sql) = finding["advice"]["sql"].as_str() else { return Ok(()) };
    let action = finding["advice"]["action"].as_str().unwrap_or_default();
    if action == "grant" {
        return if sql.starts_with("GRANT ") { Ok(()) } else { Err(format!("a grant is not a GRANT: {sql}")) };
    }
    if action == "reconnect-pooler" {
        return Ok(());
    }
    let prepared = client.prepare(sql).map_err(|error| format!("the suggested SQL fails: {}: {sql}", text(&error)))?;
    if prepared.columns().is_empty() { Err(format!("the suggested SQL returns no row: {sql}")) } else { Ok(()) }
}

fn frees(client: &mut Client, findings: &[Value], key: &str) -> Result<(), String> {
    let named = |finding: &&Value| finding["keys"].as_array().is_some_and(|keys| keys.iter().any(|found| found == key));
    let with_sql = |finding: &&Value| finding["advice"]["sql"].is_string();
    let finding =
        findings.iter().filter(named).find(with_sql).ok_or_else(|| format!("no finding on {key} suggests SQL"))?;
    let sql = finding["advice"]["sql"].as_str().unwrap_or_default();
    let pids = finding["pids"].as_array().into_iter().flatten().map(Value::to_string).collect::<Vec<_>>().join(",");
    if pids.is_empty() {
        return Err(format!("the finding on {key} names no pid"));
    }
    let gone =
        format!("SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid IN ({pids}))");
    for _ in 0..TRIES {
        one_row(client, sql)?;
        if wait_until(client, &gone, Duration::from_millis(300)) {
            // Run once more it must find nothing to do, and say so in its row.
            return one_row(client, sql);
        }
        sleep(Duration::from_millis(17));
    }
    Err(format!("the suggested SQL did not free the locks of the holder of {key}: {sql}"))
}

fn one_row(client: &mut Client, sql: &str) -> Result<(), String> {
    let messages =
        client.simple_query(sql).map_err(|error| format!("the suggested SQL fails: {}: {sql}", text(&error)))?;
    let rows = messages.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).count();
    if rows == 1 { Ok(()) } else { Err(format!("the suggested SQL returned {rows} rows instead of one: {sql}")) }
}
