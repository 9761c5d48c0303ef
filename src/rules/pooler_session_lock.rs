//! `pooler-session-lock`: PgBouncer lends a backend to one client after the other, and the backend holds a session
//! lock. Whoever took it has given the connection back, or will, and the lock stays behind on it.

use std::time::Duration;

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{Hold, HoldScope, HolderRef, Pooled};
use crate::model::{Pid, PoolMode, PoolerClient};

/// A reset takes much less. There is no other threshold: without a reset a lock that rests has been left behind.
const RESET: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct PoolerSessionLock;

impl Rule for PoolerSessionLock {
    fn name(&self) -> &'static str {
        "pooler-session-lock"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let holders = context.observed.holders().filter_map(|holder| match holder {
            HolderRef::Session(pid) => Some((pid, context.observed.shared_pool(pid)?)),
            HolderRef::Prepared(_) => None,
        });
        holders.filter_map(|(pid, pooled)| self.draft(context, pid, pooled)).collect()
    }

    /// `application_name` is the last borrower's, so rules that go by it say nothing about who took the lock. Whoever
    /// waits for the lock waits for a leak: that its holder works just now is another client's work.
    fn absorbs(&self, mine: &Draft, other: &Draft) -> bool {
        matches!(other.rule, "idle-holder" | "carried-lock" | "blocked-waiters" | "unexpected-holder" | "shared-key")
            && !other.pids.is_empty()
            && other.pids.iter().all(|pid| mine.pids.contains(pid))
            // A key that is not known to be a session lock must not disappear.
            && other.keys.iter().all(|key| mine.keys.binary_search(key).is_ok())
    }
}

impl PoolerSessionLock {
    fn draft(&self, context: &Context<'_>, pid: Pid, pooled: &Pooled) -> Option<Draft> {
        let holder = HolderRef::Session(pid);
        let is_leak = |hold: &&Hold| is_session_scope(hold) && !hold.key.numbers.is_extension();
        // Between a client's last statement and the reset after it the lock is there for a moment.
        let is_left = |hold: &&Hold| !pooled.resets || hold.past.held.at_least >= RESET;
        let holds: Vec<&Hold> = context.observed.holds_of(holder).filter(is_leak).filter(is_left).collect();
        if holds.is_empty() {
            return None;
        }
        let mut draft = Draft::new(self.name(), Subject::Holder(holder), Severity::Warning, Action::ReconnectPooler)
            .with_holder(context, holder)
            .with_holds(&holds)
            .with_waiters(context, context.observed.waiters_of(holder));
        draft.severity = context.critical_when_waited_for(&draft);
        draft.summary = format!(
            "A session lock on {} was left on pid {pid}, which PgBouncer lends to one client after the other ({} pool \
             {}); {}.",
            words::keys_label(context, &draft.pids, &draft.keys),
            pooled.pool_mode.name(),
            pooled.database,
            words::waiters(context, &draft.waiters),
        );
        draft.detail = detail(context, pid, pooled);
        draft.detail.extend(words::evidence(context, &draft, &holds));
        Some(draft)
    }
}

/// Proved now; or once, in a row of polls that all saw the lock and no session-level advisory function beside it. A busy
/// connection rests in some polls and works in others, and the finding must not come and go with that.
fn is_session_scope(hold: &Hold) -> bool {
    hold.past.scope == HoldScope::Session || (hold.past.scope == HoldScope::Unknown && hold.past.quiet.session_scope)
}

fn detail(context: &Context<'_>, pid: Pid, pooled: &Pooled) -> Vec<String> {
    let given_back = match pooled.pool_mode {
        PoolMode::Session => "when it disconnects",
        PoolMode::Transaction => "at the end of each transaction",
        PoolMode::Statement => "after each statement",
    };
    let mut detail = vec![format!(
        "PgBouncer at {} says that pid {pid} serves its pool {} of user {} in {} mode: a client gives the connection \
         back {given_back}, and a session lock stays on it.",
        pooled.pooler,
        pooled.database,
        pooled.user,
        pooled.pool_mode.name(),
    )];
    let application = context.backend(pid).map(|backend| backend.application.as_str()).filter(|name| !name.is_empty());
    let borrower = application.map_or_else(String::new, |name| format!(" ({name})"));
    detail.push(match &pooled.client {
        Some(client) => format!(
            "A client has the connection now: {}. It need not be the one that took the lock; application_name{borrower} \
             and query belong to the last borrower.",
            client_label(client)
        ),
        None => format!(
            "No client has the connection now. application_name{borrower} and query belong to the last borrower, not to \
             whoever took the lock."
        ),
    });
    if pooled.close_needed {
        detail.push("PgBouncer closes the connection as soon as it is free; the lock goes with it.".to_owned());
    }
    detail
}

/// `api from 10.0.0.9:51234`, as far as PgBouncer says it.
fn client_label(client: &PoolerClient) -> String {
    let place = match (&client.addr, client.port) {
        (Some(addr), _) if addr.starts_with("unix") => "over a Unix socket".to_owned(),
        (Some(addr), Some(port)) if addr.contains(':') => format!("from [{addr}]:{port}"),
        (Some(addr), Some(port)) => format!("from {addr}:{port}"),
        (Some(addr), None) => format!("from {addr}"),
        (None, _) => return "it was gone when PgBouncer was asked which".to_owned(),
    };
    match &client.application {
        Some(application) => format!("{application} {place}"),
        None => place,
    }
}

#[cfg(test)]
mod tests;
