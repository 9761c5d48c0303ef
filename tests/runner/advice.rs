//! Holds the advice of a report to the server: every suggested statement must be one that the server understands,
//! and where a case says so, running it must free the lock.

use std::thread::sleep;
use std::time::Duration;

use pglockwatch::app::demo::Cluster;
use postgres::{Client, SimpleQueryMessage};
use serde_json::Value;

use super::format::Case;
use crate::support::psql;
use crate::support::session::{superuser, text, wait_until};

/// A busy holder is at rest only between two statements: the guarded statement may have to be run again.
const TRIES: u32 = 20;

/// One sentence for each suggestion that is none.
pub fn complaints(case: &Case, cluster: &Cluster, report: &Value) -> Vec<String> {
    let mut client = superuser(cluster);
    let findings = report["targets"][0]["findings"].as_array().cloned().unwrap_or_default();
    let mut complaints: Vec<String> =
        findings.iter().filter_map(|finding| parses(&mut client, finding).err()).collect();
    complaints.extend(psql_takes(cluster, &findings).err());
    if let Some(key) = &case.expect.advice_frees {
        complaints.extend(frees(&mut client, &findings, key).err());
    }
    complaints
}

/// A SELECT is prepared, which parses it, checks every name in it, refuses a second statement, and runs nothing.
fn parses(client: &mut Client, finding: &Value) -> Result<(), String> {
    let Some(sql) = finding["advice"]["sql"].as_str() else { return Ok(()) };
    if finding["advice"]["action"] == "grant" {
        let granted = client.batch_execute(&format!("BEGIN; {sql}"));
        let undone = client.batch_execute("ROLLBACK");
        return granted.and(undone).map_err(|error| format!("the suggested GRANT fails: {}: {sql}", text(&error)));
    }
    let prepared = client.prepare(sql).map_err(|error| format!("the suggested SQL fails: {}: {sql}", text(&error)))?;
    if prepared.columns().is_empty() { Err(format!("the suggested SQL returns no row: {sql}")) } else { Ok(()) }
}

/// Everything that is to be typed into psql, in a statement of its own or in a step, is understood by psql and by the
/// server: `\gdesc` describes what would come, and runs nothing.
fn psql_takes(cluster: &Cluster, findings: &[Value]) -> Result<(), String> {
    let of = |finding: &Value| {
        let steps = finding["advice"]["steps"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let typed = steps.filter_map(|step| step.split_once('\n')).map(|(_, typed)| typed.to_owned());
        let sql = finding["advice"]["sql"].as_str().map(str::to_owned);
        typed.filter(|typed| !is_elsewhere(typed)).chain(sql).collect::<Vec<_>>()
    };
    let script: String = findings.iter().flat_map(of).fold(String::new(), |script, typed| {
        let statement = typed.trim_end().trim_end_matches("\\gexec").trim_end().trim_end_matches(';');
        script + statement + "\n\\gdesc\n"
    });
    if script.is_empty() || !psql::is_here() {
        return Ok(());
    }
    let (host, port) = (cluster.host(), cluster.port().to_string());
    let to = ["-h", &host, "-p", &port, "-U", "postgres", "-d", "postgres"];
    psql::typed(&to, "", &script).map(drop).map_err(|said| format!("psql refuses: {said}{script}"))
}

/// Commands of a shell, links, and what is typed into PgBouncer's console.
fn is_elsewhere(typed: &str) -> bool {
    ["pglockwatch ", "http://", "https://", "RECONNECT ", "SHOW SERVERS;"].iter().any(|start| typed.starts_with(start))
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
