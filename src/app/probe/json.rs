//! The report for programs, schema 1. Pure.

use std::io;

use serde::Serialize;

use super::verdict::{Experiment, Leftover, PoolerKind, Report};
use super::{KEY_CLASS, words};
use crate::render::json::{escape_invisible, time};

/// The number changes when a program that reads the old one would break.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'a str,
    address: &'a str,
    verdict: &'static str,
    reasons: &'a [String],
    advice: &'a [String],
    pooler: Pooler<'a>,
    experiments: Vec<ExperimentObject<'a>>,
    locks: Locks<'a>,
}

#[derive(Serialize)]
struct Pooler<'a> {
    /// Nothing where it is not known.
    name: Option<&'static str>,
    /// Nothing where it is not known.
    present: Option<bool>,
    proved: bool,
    evidence: &'a str,
}

#[derive(Serialize)]
struct ExperimentObject<'a> {
    name: &'static str,
    title: &'static str,
    outcome: &'static str,
    evidence: &'a str,
}

#[derive(Serialize)]
struct Locks<'a> {
    key: String,
    classid: i32,
    objid: i32,
    left: &'a str,
    leftovers: Vec<LeftoverObject<'a>>,
}

#[derive(Serialize)]
struct LeftoverObject<'a> {
    seen: bool,
    pid: i32,
    backend_start: String,
    mode: &'static str,
    sql: &'a str,
}

/// One object and a line break.
///
/// # Errors
/// A value cannot be written as JSON; none of these is such.
pub(super) fn render(report: &Report, version: &str) -> io::Result<String> {
    let document = Document {
        schema: SCHEMA,
        version,
        address: &report.address,
        verdict: report.verdict.name(),
        reasons: &report.reasons,
        advice: &report.advice,
        pooler: pooler(report),
        experiments: report.experiments.iter().map(experiment).collect(),
        locks: Locks {
            key: words::key(report.objid),
            classid: KEY_CLASS,
            objid: report.objid,
            left: &report.cleanup,
            leftovers: report.leftovers.iter().map(leftover).collect(),
        },
    };
    let mut text = escape_invisible(serde_json::to_string_pretty(&document)?);
    text.push('\n');
    Ok(text)
}

fn pooler(report: &Report) -> Pooler<'_> {
    let (name, present) = match report.pooler {
        PoolerKind::None => (None, Some(false)),
        PoolerKind::Pgpool => (Some("pgpool"), Some(true)),
        PoolerKind::PgBouncer | PoolerKind::PgBouncerStatement => (Some("pgbouncer"), Some(true)),
        PoolerKind::Other => (None, Some(true)),
        PoolerKind::Unknown => (None, None),
    };
    Pooler { name, present, proved: report.pooler == PoolerKind::Pgpool, evidence: &report.pooler_words }
}

fn experiment(experiment: &Experiment) -> ExperimentObject<'_> {
    ExperimentObject {
        name: experiment.name,
        title: experiment.title,
        outcome: experiment.outcome.name(),
        evidence: &experiment.evidence,
    }
}

fn leftover(leftover: &Leftover) -> LeftoverObject<'_> {
    LeftoverObject {
        seen: leftover.seen,
        pid: leftover.lock.backend.pid,
        backend_start: time(leftover.lock.backend.started),
        mode: if leftover.lock.shared { "ShareLock" } else { "ExclusiveLock" },
        sql: &leftover.sql,
    }
}
