//! One finding on `check`'s screen: a head line, the facts in one sentence, and what they mean.

use std::fmt::Write as _;

use super::{INDENT, push_wrapped};
use crate::analysis::report::{Action, Finding, HeldFor, HolderReport, KeyReport, Severity, TargetReport};
use crate::render::style::{self, Paint, Screen};
use crate::rules::is_state_rule;

/// So many keys of a finding are spelled out.
const SPELLED_OUT: usize = 3;

/// Rules about one holder and its state: the facts line says what their summary says, and since when.
fn is_about_state(rule: &str) -> bool {
    is_state_rule(rule) || rule == "prepared-transaction-holder"
}

/// All lines of a finding.
pub(super) fn block(report: &TargetReport, finding: &Finding, rule_width: usize, screen: Screen) -> String {
    let mut text = head(finding, rule_width, screen);
    for line in meaning(report, finding) {
        push_wrapped(&mut text, &line, INDENT, screen);
    }
    if let Some(reason) = &finding.silenced {
        push_wrapped(&mut text, &format!("Not counted: {reason}"), INDENT, screen);
    }
    text
}

/// What is the case, and what speaks for it where that is not plain from the rule.
fn meaning(report: &TargetReport, finding: &Finding) -> Vec<String> {
    let mut lines = Vec::new();
    match only_holder(report, finding).zip(finding.held).filter(|_| is_about_state(finding.rule)) {
        Some((holder, held)) => lines.push(facts(finding, holder, held)),
        None => lines.push(finding.summary.clone()),
    }
    if finding.severity == Severity::Unknown {
        lines.extend(finding.detail.iter().cloned());
    } else if finding.advice.action == Action::Investigate && is_about_state(finding.rule) {
        // Why it is to be looked into rather than ended stands last.
        lines.extend(finding.detail.last().cloned());
    }
    lines
}

/// Severity, rule, keys. Rules are padded to one width where every head fits on one line; what does not fit stands
/// below, whole: a key that is cut cannot be looked up.
fn head(finding: &Finding, rule_width: usize, screen: Screen) -> String {
    let (paint, word) = match finding.silenced {
        Some(_) => (Paint::Faint, "SILENCED".to_owned()),
        None => (Paint::Severity(finding.severity), finding.severity.name().to_uppercase()),
    };
    let word = screen.paint(paint, &style::pad(&word, INDENT - 2)).into_owned();
    let rule = style::pad(finding.rule, rule_width);
    let subject = subject(finding);
    if screen.width.is_none_or(|width| head_width(finding, rule_width) <= width) {
        return format!("{}\n", format!("{word}  {rule}  {subject}").trim_end());
    }
    let mut text = format!("{word}  {}\n", rule.trim_end());
    push_wrapped(&mut text, &subject, INDENT, screen);
    text
}

/// How many columns a finding's head takes on one line.
pub(super) fn head_width(finding: &Finding, rule_width: usize) -> usize {
    INDENT + finding.rule.len().max(rule_width) + 2 + style::width(&subject(finding))
}

/// The finding's keys and their database, made safe.
fn subject(finding: &Finding) -> String {
    let mut subject = keys(finding);
    if let Some(database) = finding.database.as_deref().filter(|_| !subject.is_empty()) {
        let _ = write!(subject, "  in {}", style::safe(database));
    }
    subject
}

/// The finding's keys, by number and name.
fn keys(finding: &Finding) -> String {
    if let (1, Some(key)) = (finding.listed_keys(), finding.key_reports.get(0)) {
        return key_text(key);
    }
    let named = finding.key_reports.iter().map(short_key_text);
    let others = finding.key_texts.iter().map(|text| style::safe(text).into_owned());
    let texts: Vec<String> = named.chain(others).take(SPELLED_OUT).collect();
    match finding.key_count {
        0 | 1 => texts.join(""),
        count if count > texts.len() => format!("{count} keys: {}, ...", texts.join(", ")),
        count => format!("{count} keys: {}", texts.join(", ")),
    }
}

/// `612001 "nightly-report"`, made safe.
fn short_key_text(key: &KeyReport) -> String {
    let mut text = style::safe(&key.text).into_owned();
    if let Some(name) = key.names.first() {
        let _ = write!(text, " {}\"{}\"", if name.may_be { "may be " } else { "" }, style::safe(&name.label));
    }
    text
}

/// `612001 "nightly-report" (billing, team payments)`, made safe.
pub(crate) fn key_text(key: &KeyReport) -> String {
    let mut text = style::safe(&key.text).into_owned();
    for (place, name) in key.names.iter().enumerate() {
        let joint = match (place, name.may_be) {
            (0, false) => "",
            (0, true) => "may be ",
            (_, false) => "or ",
            (_, true) => "or may be ",
        };
        let _ = write!(text, " {joint}\"{}\"", style::safe(&name.label));
        let team = name.team.as_ref().map(|team| format!("team {team}"));
        let people: Vec<&str> = name.owner.as_deref().into_iter().chain(team.as_deref()).collect();
        if !people.is_empty() {
            let _ = write!(text, " ({})", style::safe(&people.join(", ")));
        }
    }
    text
}

/// Who holds it, since when, and who waits: one line.
fn facts(finding: &Finding, holder: &HolderReport, held: HeldFor) -> String {
    let mut parts = vec![format!("held {} by {}", style::held(held), who(holder))];
    parts.extend(resting(holder));
    let longest = finding.longest_wait.map(style::waited);
    parts.push(match (finding.waiters.len(), longest) {
        (0, _) => "nobody waits".to_owned(),
        (1, Some(longest)) => format!("1 session waits, {longest}"),
        (1, None) => "1 session waits".to_owned(),
        (number, Some(longest)) => format!("{number} sessions wait, the longest {longest}"),
        (number, None) => format!("{number} sessions wait"),
    });
    parts.join("; ")
}

/// The session or prepared transaction that the finding is about, if it is one and holds a listed lock.
fn only_holder<'a>(report: &'a TargetReport, finding: &Finding) -> Option<&'a HolderReport> {
    let mut holders = report.locks.iter().map(|lock| lock.holder.as_ref());
    match (finding.pids.as_slice(), &finding.gid) {
        ([pid], None) => holders.find(|holder| holder.pid == Some(*pid)),
        ([], Some(gid)) => holders.find(|holder| holder.gid.as_ref() == Some(gid)),
        _ => None,
    }
}

/// `pid 4711, api@10.0.0.7 as app`, or the prepared transaction.
fn who(holder: &HolderReport) -> String {
    let mut text = match (holder.pid, &holder.gid) {
        (Some(pid), _) => format!("pid {pid}"),
        (None, gid) => format!("prepared transaction '{}'", gid.as_deref().unwrap_or_default()),
    };
    let place = place(holder);
    if !place.is_empty() {
        let _ = write!(text, ", {place}");
    }
    if let Some(user) = &holder.user {
        let _ = write!(text, " as {user}");
    }
    text
}

/// `api@10.0.0.7`, as much of it as is known.
pub(crate) fn place(holder: &HolderReport) -> String {
    let application = holder.application.as_deref().filter(|name| !name.is_empty());
    match (application, holder.client_addr.as_deref()) {
        (Some(application), Some(address)) => format!("{application}@{address}"),
        (Some(application), None) => application.to_owned(),
        (None, Some(address)) => format!("from {address}"),
        (None, None) => String::new(),
    }
}

/// `idle 14m`: how long the holder has rested; nothing while it works.
fn resting(holder: &HolderReport) -> Option<String> {
    let state = holder.state.filter(|state| state.starts_with("idle"))?;
    let since = holder.state_for.map(|since| format!(" {}", style::duration(since)));
    Some(format!("{state}{}", since.unwrap_or_default()))
}
