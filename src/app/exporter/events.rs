//! The event log: one line when a finding begins, changes its severity and ends; one when a target's polls begin to
//! fail and when they are good again. Loki and grep then hold what labels must not. Statements are never logged.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::analysis::report::{Ending, Failure, Finding, HolderReport, Severity, TargetReport};
use crate::model::{Pid, SharedText};

/// More keys, pids or waiters of one finding say little on a line.
const LISTED: usize = 10;

/// What has been logged and may have to be spoken of again.
#[derive(Default)]
pub(super) struct EventLog {
    /// By target, then by the finding's id.
    present: BTreeMap<String, BTreeMap<String, Line>>,
}

/// A finding as the log tells it.
#[derive(Clone)]
struct Line {
    rule: &'static str,
    severity: Severity,
    silenced: bool,
    summary: String,
    key: String,
    name: String,
    database: String,
    application: String,
    user: String,
    client: String,
    pid: String,
    held: String,
    waiters: usize,
}

impl EventLog {
    /// Logs what is different from the last poll.
    pub fn observe(&mut self, report: &Arc<TargetReport>) {
        if report.server.is_none() {
            return;
        }
        let target = report.target.as_str();
        let holders = Holders::of(report);
        let now: BTreeMap<String, Line> =
            report.findings.iter().map(|finding| (finding.id.clone(), Line::new(&holders, finding))).collect();
        let before = self.present.remove(target).unwrap_or_default();
        for (id, line) in &before {
            if !now.contains_key(id) {
                let how = report.ended.iter().find(|ended| ended.id == *id).map_or(Ending::Unseen, |ended| ended.how);
                line.log(target, id, &ended(how), None);
            }
        }
        for (id, line) in &now {
            match before.get(id) {
                None => line.log(target, id, "finding began", None),
                Some(then) if then.severity != line.severity => {
                    line.log(target, id, "finding changed", Some(then.severity));
                }
                Some(_) => {}
            }
        }
        self.present.insert(target.to_owned(), now);
    }

    /// Logs a failed poll, unless the one before it failed in the same way.
    pub fn fail(target: &str, before: Option<&Failure>, failure: &Failure) {
        if before.is_none_or(|before| before.kind != failure.kind) {
            tracing::warn!(target, kind = failure.kind.name(), error = failure.message.as_str(), "polls fail");
        }
    }

    /// Logs that polls are good again.
    pub fn recover(target: &str) {
        tracing::info!(target, "polls are good again");
    }

    /// The target is not polled any more: what it had is not seen any more, and whoever counts findings by these lines
    /// would count it for ever.
    pub fn forget(&mut self, target: &str) {
        for (id, line) in self.present.remove(target).unwrap_or_default() {
            line.log(target, &id, &ended(Ending::Unseen), None);
        }
    }
}

fn ended(how: Ending) -> String {
    format!("finding ended: {}", how.name())
}

/// The holders of a report.
struct Holders<'a> {
    sessions: HashMap<Pid, &'a HolderReport>,
    prepared: HashMap<&'a str, &'a HolderReport>,
}

impl<'a> Holders<'a> {
    fn of(report: &'a TargetReport) -> Self {
        let holders = || report.locks.iter().map(|lock| &*lock.holder);
        Self {
            sessions: holders().filter_map(|holder| Some((holder.pid?, holder))).collect(),
            prepared: holders().filter_map(|holder| Some((holder.gid.as_deref()?, holder))).collect(),
        }
    }

    /// The first of a finding's.
    fn of_finding(&self, finding: &Finding) -> Option<&'a HolderReport> {
        let session = finding.pids.iter().find_map(|pid| self.sessions.get(pid));
        session.or_else(|| self.prepared.get(finding.gid.as_deref()?)).copied()
    }
}

impl Line {
    fn new(holders: &Holders<'_>, finding: &Finding) -> Self {
        let holder = holders.of_finding(finding);
        let text = |value: Option<&SharedText>| value.map(ToString::to_string).unwrap_or_default();
        let names = finding.key_reports.iter().filter_map(|key| key.names.first()).map(|name| name.name.as_str());
        let mut names: Vec<&str> = names.collect();
        names.dedup();
        if names.is_empty() {
            // What has no key of a lock is known by the name that the dictionary or the config gives it.
            let lease = finding.lease.as_ref().map(|subject| &subject.lease);
            names.extend(finding.entry.as_ref().or(lease).map(String::as_str));
        }
        Self {
            rule: finding.rule,
            severity: finding.severity,
            silenced: finding.silenced.is_some(),
            summary: finding.summary.clone(),
            key: list(finding.keys(), finding.key_count),
            name: list(names.iter(), names.len()),
            database: text(finding.database.as_ref()),
            application: text(holder.and_then(|holder| holder.application.as_ref())),
            user: text(holder.and_then(|holder| holder.user.as_ref())),
            client: text(holder.and_then(|holder| holder.client_addr.as_ref())),
            pid: match &finding.gid {
                Some(gid) => format!("prepared transaction {gid}"),
                None if finding.entry.is_some() && finding.pids.is_empty() => "none".to_owned(),
                None => list(finding.pids.iter(), finding.pids.len()),
            },
            held: finding.held.map_or_else(String::new, |held| format!(">={:.0}s", held.at_least.as_secs_f64())),
            waiters: finding.waiters.len(),
        }
    }

    fn log(&self, target: &str, id: &str, event: &str, severity_before: Option<Severity>) {
        let Self {
            rule, silenced, summary, key, name, database, application, user, client, pid, held, waiters, ..
        } = self;
        let severity = self.severity.name();
        let was = severity_before.map(Severity::name);
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    target,
                    id,
                    rule,
                    severity,
                    was,
                    silenced,
                    key,
                    name,
                    database,
                    application,
                    user,
                    client,
                    pid,
                    held,
                    waiters,
                    summary,
                    "{event}"
                )
            };
        }
        // What has become worse is news to whoever reads warnings only; what has become better is not.
        let is_worse = severity_before.map_or(event == "finding began", |before| before < self.severity);
        if self.severity >= Severity::Warning && !silenced && is_worse {
            log!(warn);
        } else {
            log!(info);
        }
    }
}

/// The first of them, and how many there are where there are more.
fn list<T: std::fmt::Display>(items: impl Iterator<Item = T>, all: usize) -> String {
    let mut words: Vec<String> = items.take(LISTED).map(|item| item.to_string()).collect();
    if all > words.len() {
        words.push(format!("and {} more", all - words.len()));
    }
    words.join(" ")
}
