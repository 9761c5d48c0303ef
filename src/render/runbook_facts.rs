//! The runbook's content: one finding as titled sections, before it becomes text or markdown.
//!
//! It picks from the Report and words single facts. All texts are raw: each format makes them safe in its own way.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use super::style;
use super::table::place;
use crate::analysis::report::{
    Finding, HoldScope, HolderReport, KeyReport, LockReport, TargetReport, WaitReport, WaiterReport,
};
use crate::keys::Source;
use crate::model::{Pid, age};
use crate::rules::advice::VERIFY;

/// More of a kind are counted instead of shown.
const SHOWN: usize = 10;

/// More columns of a statement of the application say little.
const QUERY_COLUMNS: usize = 400;

/// One section of a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// Its title.
    pub title: &'static str,
    /// What it says.
    pub body: Body,
}

/// What a section says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// Sentences that belong together.
    Prose(Vec<String>),
    /// Things one below the other.
    List(Vec<String>),
    /// What to do in order, and the statement that one of the steps says to run.
    Steps(Vec<Step>, Option<String>),
    /// What to type.
    Commands(Vec<String>),
}

/// One step: words, and what to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The words.
    pub text: String,
    /// Each a whole statement or command, on one line.
    pub commands: Vec<String>,
}

impl Step {
    fn new(step: &str) -> Self {
        let mut lines = step.lines();
        let text = lines.next().unwrap_or_default().to_owned();
        Self { text, commands: lines.map(str::to_owned).collect() }
    }
}

/// A report, and where in it the locks and waits of a session are: a runbook asks for them finding by finding.
#[derive(Debug)]
pub(crate) struct Index<'a> {
    /// The report.
    pub report: &'a TargetReport,
    locks: HashMap<Pid, Vec<&'a LockReport>>,
    prepared: HashMap<&'a str, &'a LockReport>,
    waits: HashMap<Pid, &'a WaitReport>,
    waiters: HashMap<Pid, &'a WaiterReport>,
}

impl<'a> Index<'a> {
    /// That of a report.
    pub fn new(report: &'a TargetReport) -> Self {
        let (mut locks, mut prepared, mut waiters) = (HashMap::new(), HashMap::new(), HashMap::new());
        for lock in &report.locks {
            if let Some(pid) = lock.holder.pid {
                locks.entry(pid).or_insert_with(Vec::new).push(lock);
            }
            if let Some(gid) = &lock.holder.gid {
                prepared.entry(gid.as_str()).or_insert(lock);
            }
            for waiter in &lock.waiters {
                waiters.entry(waiter.pid).or_insert(waiter);
            }
        }
        let waits = report.waits.iter().map(|wait| (wait.pid, wait)).collect();
        Self { report, locks, prepared, waits, waiters }
    }

    fn locks_of(&self, pid: Pid) -> &[&'a LockReport] {
        self.locks.get(&pid).map_or(&[], Vec::as_slice)
    }
}

/// The sections of a finding, in the order in which a person needs them. Empty ones are left out.
pub(crate) fn sections(index: &Index<'_>, finding: &Finding) -> Vec<Section> {
    let mut wrong = vec![finding.summary.clone()];
    wrong.extend(finding.detail.iter().filter(|line| !is_said_elsewhere(finding, line)).cloned());
    let (verify, steps): (Vec<&String>, Vec<&String>) =
        finding.advice.steps.iter().partition(|step| step.starts_with(VERIFY));
    let verify = verify.into_iter().filter_map(|step| step.strip_prefix(VERIFY)).map(str::to_owned).collect();
    let steps = steps.into_iter().map(|step| Step::new(step)).collect();
    let all = [
        ("What is wrong", Body::Prose(wrong)),
        (if finding.pids.len() > 1 { "Sessions" } else { "Holder" }, Body::List(holders(index, finding))),
        ("Also holds", Body::List(also_holds(index, finding))),
        ("Waiting", Body::List(waiting(index, finding))),
        ("Before you act", Body::List(finding.advice.caveats.clone())),
        ("Do", Body::Steps(steps, finding.advice.sql.clone())),
        ("Verify", Body::Commands(verify)),
        ("Prevent", Body::List(finding.advice.prevent.iter().map(|text| text.clone().into_owned()).collect())),
        ("More", Body::Commands(vec![format!("pglockwatch runbook --rule {}", finding.rule)])),
    ];
    all.into_iter().filter(|(_, body)| !is_empty(body)).map(|(title, body)| Section { title, body }).collect()
}

/// Evidence about single waiters, about members of a pool and about names stands in sections of its own.
fn is_said_elsewhere(finding: &Finding, line: &str) -> bool {
    let number = line.strip_prefix("pid ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let session: Option<Pid> = number.parse().ok().filter(|pid: &Pid| pid.to_string() == number);
    let about = |pids: &[Pid]| session.is_some_and(|pid| pids.contains(&pid));
    let of_name = |label: &str| line.strip_prefix('"').is_some_and(|rest| rest.starts_with(&format!("{label}\" is ")));
    about(&finding.waiters)
        || (finding.pids.len() > 1 && about(&finding.pids))
        || finding.key_reports.iter().take(SHOWN).flat_map(|key| &key.names).any(|name| of_name(&name.label))
}

fn is_empty(body: &Body) -> bool {
    match body {
        Body::Prose(texts) | Body::List(texts) | Body::Commands(texts) => texts.is_empty(),
        Body::Steps(steps, sql) => steps.is_empty() && sql.is_none(),
    }
}

/// The finding's keys, each with its numbers and whom to ask.
pub(crate) fn keys(finding: &Finding) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for key in finding.key_reports.iter().take(SHOWN) {
        lines.push(key_line(key));
        lines.extend(key.names.iter().filter_map(|name| name.note.as_ref()).map(|note| format!("note: {note}")));
    }
    let listed = finding.key_reports.len().min(SHOWN);
    let others = &finding.key_texts[..finding.key_texts.len().min(SHOWN - listed)];
    lines.extend_from_slice(others);
    let shown = listed + others.len();
    if finding.key_count > shown && shown > 0 {
        lines.push(format!("and {} more keys", finding.key_count - shown));
    }
    lines
}

pub(crate) fn key_line(key: &KeyReport) -> String {
    let mut text = key.text.to_string();
    for name in &key.names {
        let may_be = if name.may_be { "maybe " } else { "" };
        let known = if name.source == Source::WellKnown { " (well-known)" } else { "" };
        let _ = write!(text, "  {may_be}\"{}\"{known}", name.label);
    }
    let form = match key.numbers.objsubid {
        1 => "bigint",
        2 => "two int4",
        _ => "extension",
    };
    let _ = write!(text, "  {form}, classid {} objid {}", key.numbers.classid, key.numbers.objid);
    if key.numbers.is_extension() {
        let _ = write!(text, " objsubid {}", key.numbers.objsubid);
    }
    for name in key.names.iter().filter(|name| name.source == Source::Dictionary) {
        let people: Vec<String> = [
            name.owner.as_ref().map(|owner| format!("owner {owner}")),
            name.team.as_ref().map(|team| format!("team {team}")),
            name.contact.clone(),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !people.is_empty() {
            let _ = write!(text, "  {}", people.join(", "));
        }
    }
    text
}

fn holders(index: &Index<'_>, finding: &Finding) -> Vec<String> {
    if let Some(gid) = &finding.gid {
        let lock = index.prepared.get(gid.as_str());
        return lock.map(|lock| prepared(&lock.holder)).into_iter().collect();
    }
    if let [pid] = *finding.pids {
        return one_holder(index, finding, pid);
    }
    let shown = finding.pids.iter().take(2 * SHOWN);
    let mut lines: Vec<String> = shown.map(|&pid| short_holder(index, finding, pid)).collect();
    if finding.pids.len() > lines.len() {
        lines.push(format!("and {} more sessions", finding.pids.len() - lines.len()));
    }
    lines
}

pub(crate) fn prepared(holder: &HolderReport) -> String {
    let mut text = format!("prepared transaction {}", holder.gid.as_deref().unwrap_or_default());
    if let Some(user) = &holder.user {
        let _ = write!(text, ", owner {user}");
    }
    if let Some(since) = holder.transaction_for.or(holder.state_for) {
        let _ = write!(text, ", prepared {} ago", style::duration(since));
    }
    text
}

fn one_holder(index: &Index<'_>, finding: &Finding, pid: Pid) -> Vec<String> {
    let locks = index.locks_of(pid);
    let Some(first) = locks.first() else { return vec![format!("pid {pid}, holds no advisory lock itself")] };
    let holder = &first.holder;
    let mut lines = vec![session(index.report, holder)];
    let lock = locks.iter().find(|lock| finding.lists(&lock.key)).unwrap_or(first);
    let mut facts: Vec<String> = state(holder).into_iter().collect();
    facts.push(match lock.past.scope {
        HoldScope::Session => "session scope".to_owned(),
        HoldScope::Transaction => "transaction scope".to_owned(),
        HoldScope::Unknown => "scope not proved".to_owned(),
    });
    lines.push(facts.join("; "));
    if let Some(pooler) = &holder.pooler {
        let linked = if pooler.linked { "a client has it now" } else { "no client has it now" };
        lines.push(format!("serves PgBouncer's {} pool {}; {linked}", pooler.pool_mode.name(), pooler.database));
    }
    let shared = holder.pooler.as_ref().is_some_and(|pooler| pooler.pool_mode.is_shared());
    // A statement that was there by chance when the lock was first seen would be taken for the one that took it.
    if let Some(seen) = lock.past.first_seen.as_ref().filter(|seen| seen.certain)
        && let Some(query) = &seen.query
    {
        lines.push(format!("taken by: {}", statement(query)));
    }
    if let Some(query) = holder.query.as_deref().filter(|query| !query.is_empty()) {
        let what = if holder.state == Some("active") {
            "runs now"
        } else if shared {
            "last statement, the last borrower's"
        } else {
            "last statement, not always the one that took the lock"
        };
        lines.push(format!("{what}: {}", statement(query)));
    }
    lines
}

/// `pid 4711  api@10.0.0.7:51234  user app  connected 2h10m ago`
pub(crate) fn session(report: &TargetReport, holder: &HolderReport) -> String {
    let mut text = holder.pid.map(|pid| format!("pid {pid}")).unwrap_or_default();
    let place = place(holder);
    if !place.is_empty() {
        let _ = write!(text, "  {place}");
        if let (Some(port), true) = (holder.client_port.filter(|port| *port > 0), holder.client_addr.is_some()) {
            let _ = write!(text, ":{port}");
        }
    }
    if let Some(user) = &holder.user {
        let _ = write!(text, "  user {user}");
    }
    if let Some(kind) = holder.backend_type.as_deref().filter(|kind| !kind.is_empty() && *kind != "client backend") {
        let _ = write!(text, "  {kind}");
    }
    if let (Some(now), Some(start)) = (report.sampled_at, holder.backend_start) {
        let _ = write!(text, "  connected {} ago", style::duration(age(now, start)));
    }
    text
}

fn short_holder(index: &Index<'_>, finding: &Finding, pid: Pid) -> String {
    let locks = index.locks_of(pid);
    let wait = index.waits.get(&pid);
    let Some(first) = locks.first() else {
        return wait.map_or_else(|| format!("pid {pid}"), |wait| waiter(index, finding, wait));
    };
    let keys: BTreeSet<&str> = locks.iter().map(|lock| &*lock.key.text).collect();
    let listed: Vec<&str> = keys.iter().take(3).copied().collect();
    let more = if keys.len() > listed.len() { ", ..." } else { "" };
    let mut text = format!("pid {pid}");
    let place = place(&first.holder);
    if !place.is_empty() {
        let _ = write!(text, "  {place}");
    }
    if let Some(state) = state(&first.holder) {
        let _ = write!(text, "  {state}");
    }
    let _ = write!(text, "  holds {}{more}", listed.join(", "));
    if let Some(wait) = wait {
        let _ = write!(text, ", waits {} for {}", style::waited(wait.waited), wait.object);
    }
    text
}

pub(crate) fn state(holder: &HolderReport) -> Option<String> {
    let state = holder.state?;
    let since = holder.state_for.map(|since| format!(" for {}", style::duration(since)));
    Some(format!("{state}{}", since.unwrap_or_default()))
}

fn also_holds(index: &Index<'_>, finding: &Finding) -> Vec<String> {
    let named: HashSet<&str> = finding.keys().collect();
    let mut others: Vec<String> = Vec::new();
    for &pid in &finding.pids {
        let texts = index.locks_of(pid).iter().map(|lock| &*lock.key.text);
        let keys: BTreeSet<&str> = texts.filter(|text| !named.contains(text)).collect();
        if keys.is_empty() {
            continue;
        }
        let listed: Vec<&str> = keys.iter().take(SHOWN).copied().collect();
        let more =
            if keys.len() > listed.len() { format!(" and {} more", keys.len() - listed.len()) } else { String::new() };
        others.push(format!("pid {pid}: {}{more}", listed.join(", ")));
    }
    if others.is_empty() && finding.pids.len() == 1 && finding.key_count > 0 {
        others.push("nothing else".to_owned());
    }
    others
}

fn waiting(index: &Index<'_>, finding: &Finding) -> Vec<String> {
    let mut waits: Vec<&WaitReport> = finding.waiters.iter().filter_map(|pid| index.waits.get(pid).copied()).collect();
    waits.sort_by_key(|wait| (std::cmp::Reverse(wait.waited.duration), wait.pid));
    let mut lines: Vec<String> = waits.iter().take(SHOWN).map(|wait| waiter(index, finding, wait)).collect();
    if finding.waiters.len() > lines.len() && !lines.is_empty() {
        lines.push(format!("and {} more", finding.waiters.len() - lines.len()));
    }
    if lines.is_empty() && !finding.waiters.is_empty() {
        let pids: Vec<String> = finding.waiters.iter().take(SHOWN).map(ToString::to_string).collect();
        lines.push(format!("pids {}", pids.join(", ")));
    }
    lines
}

fn waiter(index: &Index<'_>, finding: &Finding, wait: &WaitReport) -> String {
    let known = index.waiters.get(&wait.pid);
    let mut text = format!("pid {}", wait.pid);
    if let Some(application) = known.and_then(|waiter| waiter.application.as_deref()).filter(|name| !name.is_empty()) {
        let _ = write!(text, "  {application}");
    }
    let _ = write!(text, "  {} for {} ({})", style::waited(wait.waited), wait.object, wait.mode);
    let ahead: Vec<String> =
        wait.blocked_by.iter().filter(|pid| finding.waiters.contains(pid)).map(ToString::to_string).collect();
    if !ahead.is_empty() {
        let _ = write!(text, ", behind {}", ahead.join(", "));
    }
    text
}

/// A statement of the application on one line, blanks joined, cut in the middle.
pub(crate) fn statement(query: &str) -> String {
    let joined = query.split_whitespace().collect::<Vec<_>>().join(" ");
    let safe = style::safe(&joined).into_owned();
    style::cut(&safe, QUERY_COLUMNS).into_owned()
}
