//! What the advice about one draft rests on: its sessions, the locks to guard on, who queues, whom to ask.
//!
//! Pure look-ups in [`Observed`](crate::analysis::Observed); no wording but that of a single fact.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::statement::{Holding, Queued, Rest};
use super::words;
use crate::analysis::report::Action;
use crate::analysis::{Hold, HoldScope, HolderRef};
use crate::keys::{Kind, key};
use crate::model::{AdvisoryKey, Backend, BackendState, LockMode, Pid, PreparedTransaction};
use crate::rules::companions::companions;
use crate::rules::{Context, Draft, Subject};

/// A draft together with what was observed.
#[derive(Debug)]
pub struct Facts<'a> {
    /// What is known.
    pub context: &'a Context<'a>,
    /// What was found.
    pub draft: &'a Draft,
    /// The holds of its keys by its own sessions or prepared transaction.
    pub own: &'a [&'a Hold],
    /// Those of its only session, once they are wanted.
    pub companions: OnceCell<Vec<Pid>>,
    /// The hold of its only session that a statement guards on, once it is wanted.
    pub guard: OnceCell<Option<&'a Hold>>,
}

/// Whom to ask about a key, from its dictionary entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// The key's name.
    pub name: String,
    /// owner
    pub owner: Option<String>,
    /// team
    pub team: Option<String>,
    /// contact
    pub contact: Option<String>,
    /// runbook
    pub runbook: Option<String>,
}

impl<'a> Facts<'a> {
    /// The sessions of the draft that are still in the poll, in its order.
    pub fn backends(&self) -> impl Iterator<Item = &'a Backend> {
        let observed = self.context.observed;
        self.draft.pids.iter().filter_map(|&pid| observed.backend(pid))
    }

    /// The only session of the draft.
    pub fn only_backend(&self) -> Option<&'a Backend> {
        match self.draft.pids.as_slice() {
            [pid] => self.context.observed.backend(*pid),
            _ => None,
        }
    }

    /// The prepared transaction of the draft.
    pub fn prepared(&self) -> Option<&'a PreparedTransaction> {
        let observed = self.context.observed;
        match &self.draft.subject {
            Subject::Holder(HolderRef::Prepared(id)) | Subject::HolderEntry(HolderRef::Prepared(id), _) => {
                observed.prepared(*id)
            }
            _ => {
                let gid = self.draft.gid.as_deref()?;
                observed.snapshot.prepared.iter().find(|prepared| prepared.gid == gid)
            }
        }
    }

    /// The holds of the draft's keys by one of its sessions.
    pub fn holds(&self, pid: Pid) -> impl Iterator<Item = &'a Hold> {
        let keys = &self.draft.keys;
        self.context
            .observed
            .holds_of(HolderRef::Session(pid))
            .filter(move |hold| keys.binary_search(&hold.key).is_ok())
    }

    /// The hold that a statement guards on: the most waited for, then the longest held.
    pub fn guard_hold(&self, pid: Pid) -> Option<&'a Hold> {
        if self.draft.pids != [pid] {
            return self.most_wanted(pid);
        }
        *self.guard.get_or_init(|| self.most_wanted(pid))
    }

    fn most_wanted(&self, pid: Pid) -> Option<&'a Hold> {
        self.holds(pid).min_by_key(|hold| {
            (
                Reverse(hold.waiters.len()),
                Reverse(hold.waiters.iter().filter_map(|&waiter| self.waited(waiter)).max()),
                Reverse(hold.past.held.at_least),
                Reverse(hold.mode),
                hold.key,
            )
        })
    }

    fn waited(&self, pid: Pid) -> Option<std::time::Duration> {
        self.context.observed.waiting.get(&pid).map(|waiting| waiting.waited.duration)
    }

    /// The session to end and what to guard on; nothing where the poll does not show a rest to guard on.
    pub fn holding(&self, pid: Pid) -> Option<Holding> {
        let backend = self.context.observed.backend(pid)?;
        let hold = self.guard_hold(pid)?;
        // A leak on a busy connection: it is to be caught between two transactions, whatever it does just now.
        let rest = if self.is_carried(pid) {
            Rest::Idle
        } else {
            match backend.state? {
                BackendState::Idle => Rest::Idle,
                BackendState::IdleInTransaction => Rest::InTransaction(backend.xact_start?),
                BackendState::IdleInTransactionAborted => Rest::Aborted(backend.state_change?),
                BackendState::Active | BackendState::Fastpath | BackendState::Disabled => return None,
            }
        };
        Some(Holding { pid, backend_start: backend.backend_start?, key: hold.key, mode: hold.mode, rest })
    }

    /// Whether the session carries the lock from statement to statement: by its rule, or because a hoard of keys took
    /// over such a finding.
    pub fn is_carried(&self, pid: Pid) -> bool {
        let rests = |backend: &Backend| {
            backend.state == Some(BackendState::Idle)
                && self.context.observed.state_for(backend).is_some_and(|age| age >= self.context.thresholds.idle)
        };
        match self.draft.rule {
            // Behind a pooler too: whoever has the connection now is not to be cut off.
            "carried-lock" | "pooler-session-lock" => true,
            "key-hoard" => {
                self.draft.action == Action::Investigate
                    && self.context.observed.backend(pid).is_some_and(|backend| !rests(backend))
                    && self.guard_hold(pid).is_some_and(|hold| {
                        hold.past.scope == HoldScope::Session
                            && hold.past.ended_other_statement
                            && hold.past.unbroken >= self.context.thresholds.idle
                    })
            }
            _ => false,
        }
    }

    /// The waiter to cancel and the lock that it waits for.
    pub fn queued(&self, pid: Pid) -> Option<Queued> {
        let backend_start = self.context.observed.backend(pid)?.backend_start?;
        let waiting = self.context.observed.waiting.get(&pid)?;
        Some(Queued { pid, backend_start, key: waiting.key()?, mode: waiting.mode })
    }

    /// Who may be working under the locks of a session.
    pub fn companions(&self, pid: Pid) -> Vec<Pid> {
        if self.draft.pids != [pid] {
            return companions(self.context, pid);
        }
        self.companions.get_or_init(|| companions(self.context, pid)).clone()
    }

    /// The first in the queue for a key, and the mode that it waits for.
    pub fn next(&self, key: AdvisoryKey) -> Option<(Pid, LockMode)> {
        let next = *self.context.observed.queue(key).first()?;
        self.context.observed.waiting.get(&next).map(|waiting| (next, waiting.mode))
    }

    /// Who else holds a key in a mode that keeps `mode` out.
    pub fn other_holders(&self, key: AdvisoryKey, mode: LockMode, but: HolderRef) -> Vec<HolderRef> {
        let holders: BTreeSet<HolderRef> = self
            .context
            .observed
            .holds_on(key)
            .filter(|hold| hold.holder != but && hold.mode.conflicts_with(mode))
            .map(|hold| hold.holder)
            .collect();
        holders.into_iter().collect()
    }

    /// The advisory keys that a session holds beside this one, as a list with their first names; nothing where there
    /// are none.
    pub fn other_keys(&self, pid: Pid, but: AdvisoryKey) -> Option<String> {
        let holds = self.context.observed.holds_of(HolderRef::Session(pid));
        let mut others: Vec<&Hold> = holds.filter(|hold| hold.key != but).collect();
        others.sort_by_key(|hold| hold.key);
        others.dedup_by_key(|hold| hold.key);
        let named: Vec<String> = others.iter().take(words::NAMED).map(|hold| labelled(hold)).collect();
        (!others.is_empty()).then(|| words::list_of(&named, others.len()))
    }

    /// Whether one of the draft's keys is that of a leader.
    pub fn is_leader(&self) -> bool {
        self.own.iter().flat_map(|hold| hold.names.iter()).any(|name| name.kind == Kind::Leader)
    }

    /// The names of the draft's keys, as people read them.
    pub fn labels(&self) -> Vec<String> {
        let names = self.own.iter().flat_map(|hold| hold.names.iter());
        let labels: BTreeSet<&str> = names.map(|name| name.label.as_str()).collect();
        labels.into_iter().map(words::name).collect()
    }

    /// Whom to ask, once per entry; entries that say nobody are left out.
    pub fn contacts(&self) -> Vec<Ask> {
        let of_holds = self.own.iter().flat_map(|hold| hold.names.iter()).filter_map(|name| name.entry.as_deref());
        let subject = match &self.draft.subject {
            Subject::Entry(name) | Subject::HolderEntry(_, name) => Some(name),
            _ => None,
        };
        let of_subject = subject.into_iter().flat_map(|name| {
            self.context.book.entries().iter().map(AsRef::as_ref).filter(move |entry| entry.name == *name)
        });
        let contacts: BTreeSet<Ask> = of_holds
            .chain(of_subject)
            .filter(|entry| {
                entry.owner.is_some() || entry.team.is_some() || entry.contact.is_some() || entry.runbook.is_some()
            })
            .map(|entry| Ask {
                name: entry.name.clone(),
                owner: entry.owner.clone(),
                team: entry.team.clone(),
                contact: entry.contact.clone(),
                runbook: entry.runbook.clone(),
            })
            .collect();
        contacts.into_iter().collect()
    }

    /// The text of a key to look at again: that of the guard, else the first of the draft.
    pub fn key_text(&self) -> Option<String> {
        let guard = self.draft.pids.iter().find_map(|&pid| self.guard_hold(pid)).map(|hold| hold.key);
        guard
            .or_else(|| self.draft.keys.first().copied())
            .map(|found| key::text(found.numbers))
            .or_else(|| self.draft.key_texts.first().cloned())
    }

    /// A session as part of a sentence: `pid 4711 (api)`.
    pub fn session(&self, pid: Pid) -> String {
        match self.context.observed.backend(pid) {
            Some(backend) if !backend.application.is_empty() => {
                format!("pid {pid} ({})", words::name(&backend.application))
            }
            _ => format!("pid {pid}"),
        }
    }

    /// Where the statements read from.
    pub fn source(&self) -> super::statement::Source {
        if self.context.observed.snapshot.lock_table_full || self.draft.rule == "lock-table-full" {
            super::statement::Source::Functions
        } else {
            super::statement::Source::Views
        }
    }
}

/// A hold's key with its first name, as part of a sentence.
pub fn labelled(hold: &Hold) -> String {
    let text = key::text(hold.key.numbers);
    match hold.names.first() {
        Some(found) => format!("{text} ({})", words::name(&found.label)),
        None => text,
    }
}
