//! What a command's sessions left behind, for people and as JSON.

use std::fmt::Write as _;

use super::style::{count, duration, safe};
use crate::analysis::report::{GuardReport, HowLeft, KeyReport, LeftBehind};

pub use super::json::guard::render as json;

/// So many locks are told one by one.
const MOST: usize = 50;
/// So many characters of a statement are shown.
const STATEMENT: usize = 300;

/// For people: plain text, a line that says it all, then what it means lock by lock.
pub fn text(report: &GuardReport) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "pglockwatch guard: {}", headline(report));
    for left in report.left.iter().take(MOST) {
        lock(&mut text, left);
    }
    if let more @ 1.. = report.left.len().saturating_sub(MOST) {
        let _ = writeln!(text, "  ... and {more} more");
    }
    if !report.left.is_empty() {
        text.push_str(
            "  Unlock on the connection that locked, before it is given back or closed, and check what \
             pg_advisory_unlock returns.\n",
        );
    }
    if report.left.iter().any(|left| left.how == HowLeft::EndedWithSession) {
        text.push_str(
            "  Who unlocks and at once closes the connection looks the same to polls: let it live for a moment, or \
             declare the holder as expected.\n",
        );
    }
    for note in notes(report) {
        let _ = writeln!(text, "  {}", safe(&note));
    }
    text
}

fn headline(report: &GuardReport) -> String {
    let what = match report.left.len() {
        0 if report.blind.is_empty() => "no lock was left behind".to_owned(),
        0 => "UNKNOWN: the server could not be watched all the time".to_owned(),
        1 => "1 lock was left behind".to_owned(),
        many => format!("{many} locks were left behind"),
    };
    format!(
        "{what} in {} ({}); {} and {} seen in {}",
        safe(&report.database),
        safe(&report.target),
        count(report.locks, "lock"),
        count(report.sessions, "session"),
        count(usize::try_from(report.polls).unwrap_or(usize::MAX), "poll"),
    )
}

fn lock(text: &mut String, left: &LeftBehind) {
    let holder = &left.holder;
    let mut who = format!("pid {}", holder.pid.unwrap_or_default());
    let application = holder.application.as_deref().filter(|name| !name.is_empty()).unwrap_or("no application_name");
    let _ = write!(who, ", {application}");
    if let Some(address) = &holder.client_addr {
        let _ = write!(who, "@{address}");
    }
    if let Some(user) = &holder.user {
        let _ = write!(who, " as {user}");
    }
    let rested = duration(holder.state_for.unwrap_or_default());
    let how = match left.how {
        HowLeft::StillHeld => format!("still held when the command had ended; the session has been idle for {rested}"),
        HowLeft::EndedWithSession => {
            format!(
                "went with its session, which was last seen at {}, idle for {rested}",
                left.last_seen.format("%T%.3f UTC")
            )
        }
    };
    // Not "taken by": several statements may have run since the poll before.
    let first = left.first_seen.as_ref().and_then(|first| first.query.as_deref());
    let _ = writeln!(text, "LEFT BEHIND  {}  {}", safe(&label(&left.key)), left.mode);
    let _ = writeln!(text, "  session     {}", safe(&who));
    let _ = writeln!(text, "  first seen  {}", statement(first));
    let _ = writeln!(text, "  last seen   {}", statement(holder.query.as_deref()));
    let _ = writeln!(text, "  {how}");
}

/// The key and its names, as `612001 "nightly-report" (billing)`.
fn label(key: &KeyReport) -> String {
    let mut label = key.text.to_string();
    for name in &key.names {
        let may_be = if name.may_be { " may be" } else { "" };
        let _ = write!(label, "{may_be} \"{}\"", name.label);
        if let Some(owner) = &name.owner {
            let _ = write!(label, " ({owner})");
        }
    }
    label
}

fn statement(query: Option<&str>) -> String {
    let Some(query) = query else { return "not known".to_owned() };
    let cut: String = query.chars().take(STATEMENT).collect();
    let more = if cut.len() < query.len() { " ..." } else { "" };
    format!("{}{more}", safe(&cut))
}

fn notes(report: &GuardReport) -> Vec<String> {
    let mut notes = report.blind.clone();
    if report.declared > 0 {
        let locks = count(report.declared, "lock");
        notes.push(format!("Not counted: {locks} of expected or silenced holders."));
    }
    if report.at_work > 0 {
        let locks = count(report.at_work, "lock");
        notes.push(format!("Not counted: {locks} still held by sessions that are at work, or in a transaction."));
    }
    if report.not_judged > 0 {
        notes.push(format!(
            "Not judged: {} that vanished with a session which had not rested for as long as nobody looked; up to {} \
             passed between two polls.",
            count(report.not_judged, "lock"),
            duration(report.longest_gap),
        ));
    }
    notes
}
