//! `guard --format json`: one object in one line, so that it can be told from the output of the command before it.

use std::io;

use serde::Serialize;

use super::schema::{FirstSeenObject, Holder, Key, is_false};
use super::{LIST_LIMIT, SCHEMA, escape_invisible, seconds, time};
use crate::analysis::report::{GuardReport, LeftBehind};

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'a str,
    status: &'static str,
    exit_code: u8,
    target: &'a str,
    database: &'a str,
    polls: u64,
    observed_seconds: f64,
    longest_gap_seconds: f64,
    sessions: usize,
    locks: usize,
    left_behind: Vec<Left<'a>>,
    left_behind_count: usize,
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    declared: usize,
    at_work: usize,
    not_judged: usize,
    blind: &'a [String],
}

#[derive(Serialize)]
struct Left<'a> {
    key: Key<'a>,
    mode: &'static str,
    how: &'static str,
    first_seen: Option<FirstSeenObject<'a>>,
    last_seen: String,
    holder: Holder<'a>,
}

/// The report and the command's own exit code, in one line. An empty line stands before it: the command's output may
/// not have ended its last line.
///
/// # Errors
/// A value cannot be written as JSON; none of the values here is such.
pub fn render(report: &GuardReport, exit_code: u8, version: &str) -> io::Result<String> {
    let document = Document {
        schema: SCHEMA,
        version,
        status: status(report),
        exit_code,
        target: &report.target,
        database: &report.database,
        polls: report.polls,
        observed_seconds: seconds(report.observed),
        longest_gap_seconds: seconds(report.longest_gap),
        sessions: report.sessions,
        locks: report.locks,
        left_behind: report.left.iter().take(LIST_LIMIT).map(Left::from).collect(),
        left_behind_count: report.left.len(),
        truncated: report.left.len() > LIST_LIMIT,
        declared: report.declared,
        at_work: report.at_work,
        not_judged: report.not_judged,
        blind: &report.blind,
    };
    Ok(format!("\n{}\n", escape_invisible(serde_json::to_string(&document)?)))
}

fn status(report: &GuardReport) -> &'static str {
    match (report.left.is_empty(), report.blind.is_empty()) {
        (false, _) => "left-behind",
        (true, false) => "unknown",
        (true, true) => "ok",
    }
}

impl<'a> From<&'a LeftBehind> for Left<'a> {
    fn from(left: &'a LeftBehind) -> Self {
        Self {
            key: Key::from(&*left.key),
            mode: left.mode,
            how: left.how.name(),
            first_seen: left.first_seen.as_ref().map(FirstSeenObject::from),
            last_seen: time(left.last_seen),
            holder: Holder::from(&left.holder),
        }
    }
}
