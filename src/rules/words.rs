//! The words that all rules share: how a key, a holder and an age are said in a sentence.
//!
//! Texts that strangers chose stay as they are here: who shows them makes them safe for the place where they stand.

use std::fmt::Write as _;

use super::{Context, Draft};
use crate::analysis::{Hold, HolderRef};
use crate::keys::{Name, key};
use crate::model::{AdvisoryKey, Backend, LockObject, Pid};
pub use crate::units::{duration, held, waited};

/// A key with its names, as `612001 "nightly-report"`.
pub fn key_label(key: AdvisoryKey, names: &[Name]) -> String {
    let mut label = key::text(key.numbers);
    for (place, name) in names.iter().enumerate() {
        label.push_str(if place > 0 {
            ", \""
        } else if name.may_be {
            " (may be \""
        } else {
            " \""
        });
        label.push_str(&name.label);
        label.push('"');
        if name.may_be && place == 0 {
            label.push(')');
        }
    }
    label
}

/// The keys of a draft's sessions, as `612001 "nightly-report" and 2 more`.
pub fn keys_label(context: &Context<'_>, pids: &[Pid], keys: &[AdvisoryKey]) -> String {
    let Some(&first) = keys.first() else { return "no key".to_owned() };
    let names = context.observed.hold_on(first, pids).map_or(&[][..], |hold| &hold.names);
    let label = key_label(first, names);
    match keys.len() {
        1 => label,
        count => format!("{label} and {} more", count - 1),
    }
}

/// A session, as `pid 4711 (api@10.0.0.7 as app)`.
pub fn session_label(context: &Context<'_>, pid: Pid) -> String {
    let Some(backend) = context.backend(pid) else { return format!("pid {pid}") };
    let application = if backend.application.is_empty() { "no application_name" } else { &backend.application };
    let mut label = format!("pid {pid} ({application}");
    if let Some(client) = &backend.client_addr {
        label.push('@');
        label.push_str(client);
    }
    if let Some(user) = &backend.user {
        label.push_str(" as ");
        label.push_str(user);
    }
    label.push(')');
    label
}

/// A session or a prepared transaction.
pub fn holder_label(context: &Context<'_>, holder: HolderRef) -> String {
    match holder {
        HolderRef::Session(pid) => session_label(context, pid),
        HolderRef::Prepared(id) => match context.observed.prepared(id) {
            Some(prepared) => format!("prepared transaction '{}'", prepared.gid),
            None => "a prepared transaction".to_owned(),
        },
    }
}

/// `nobody waits`, or `2 sessions wait, the longest 2m58s`.
pub fn waiters(context: &Context<'_>, waiters: &[Pid]) -> String {
    let longest = waiters.iter().filter_map(|pid| context.observed.waiting.get(pid)).map(|wait| wait.waited);
    let longest = longest.max_by_key(|waited| waited.duration).map(waited);
    match (waiters.len(), longest) {
        (0, _) => "nobody waits".to_owned(),
        (1, Some(longest)) => format!("1 session waits, for {longest}"),
        (count, Some(longest)) => format!("{count} sessions wait, the longest {longest}"),
        (count, None) => format!("{count} sessions wait"),
    }
}

/// `1 key`, `3 keys`
pub fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What a session waits for, as `key 612001` or `a relation lock`.
pub fn object(object: &LockObject) -> String {
    match object {
        LockObject::Advisory(key) => format!("key {}", key::text(key.numbers)),
        LockObject::Other { locktype, .. } => format!("a {locktype} lock"),
    }
}

/// What the state rules have in common: who holds which keys in which state.
pub fn holding(context: &Context<'_>, draft: &Draft, backend: &Backend, state: &str) -> String {
    let state_for = context.observed.state_for(backend).unwrap_or_default();
    format!(
        "{} holds {} and has been {state} for {}; {}.",
        session_label(context, backend.pid),
        keys_label(context, &draft.pids, &draft.keys),
        duration(state_for),
        waiters(context, &draft.waiters),
    )
}

/// Evidence that every session rule gives: hold time, scope, who waits, who owns the key.
pub fn evidence(context: &Context<'_>, draft: &Draft, holds: &[&Hold]) -> Vec<String> {
    let mut detail = Vec::new();
    if let Some(longest) = draft.held {
        let most = longest.at_most.map(|most| format!(" and at most {}", duration(most))).unwrap_or_default();
        detail.push(format!("Held for at least {}{most}.", duration(longest.at_least)));
    }
    if holds.iter().all(|hold| hold.past.scope == crate::analysis::HoldScope::Session) && !holds.is_empty() {
        detail.push("Session scope: the lock was seen while its session was in no transaction.".to_owned());
    }
    detail.extend(draft.pids.first().and_then(|&pid| looks_like_a_pooler(context, pid, holds)));
    for &pid in draft.waiters.iter().take(10) {
        if let Some(wait) = context.observed.waiting.get(&pid) {
            detail.push(format!(
                "{} has waited {} for {}.",
                session_label(context, pid),
                waited(wait.waited),
                object(&wait.object)
            ));
        }
    }
    if draft.waiters.len() > 10 {
        detail.push(format!("{} more sessions wait.", draft.waiters.len() - 10));
    }
    detail.extend(owners(holds));
    detail
}

/// So many different applications at one address are seldom one machine's own.
const MANY_APPLICATIONS: usize = 5;

/// What speaks for a pooler that nobody named. Never more than that: an application may change its own name, and a
/// machine may run many.
fn looks_like_a_pooler(context: &Context<'_>, pid: Pid, holds: &[&Hold]) -> Option<String> {
    let observed = context.observed;
    if observed.pooled.contains_key(&pid) || is_of_another(holds, pid) {
        return None;
    }
    let names = holds.iter().map(|hold| hold.past.applications).max()?;
    if names > 1 {
        return Some(format!(
            "It looks like a pooler's connection: its application_name has changed {} while it held the lock, so the one \
             that is shown need not have taken it.",
            if names == 2 { "once".to_owned() } else { format!("{} times", names - 1) }
        ));
    }
    let address = context.backend(pid)?.client_addr.as_deref().filter(|address| !is_this_machine(address))?;
    let applications = observed.applications_at(address);
    (applications >= MANY_APPLICATIONS).then(|| {
        format!(
            "{applications} applications connect from {address}: it may be a pooler's, and the application that is shown \
             the last borrower of the connection."
        )
    })
}

/// Whether one of the holds is another session's.
fn is_of_another(holds: &[&Hold], pid: Pid) -> bool {
    holds.iter().any(|hold| hold.holder != HolderRef::Session(pid))
}

fn is_this_machine(address: &str) -> bool {
    address.parse::<core::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn owners(holds: &[&Hold]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for name in holds.iter().flat_map(|hold| hold.names.iter()) {
        let mut sentence = match name.source {
            crate::keys::Source::Dictionary => format!("\"{}\" is in the dictionary", name.label),
            crate::keys::Source::WellKnown if name.may_be => format!("The key may be that of {}", name.label),
            crate::keys::Source::WellKnown => format!("\"{}\" is a well-known key", name.label),
        };
        if let Some(entry) = &name.entry {
            for (word, value) in [("owner", &entry.owner), ("team", &entry.team), ("contact", &entry.contact)] {
                if let Some(value) = value {
                    let _ = write!(sentence, ", {word} {value}");
                }
            }
        }
        match &name.note {
            Some(note) => {
                let _ = write!(sentence, ": {}.", note.trim_end_matches('.'));
            }
            None => sentence.push('.'),
        }
        if !said.contains(&sentence) {
            said.push(sentence);
        }
        if said.len() == 10 {
            break;
        }
    }
    said
}
