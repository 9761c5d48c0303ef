//! What a rule is given, and what it hands over.

use std::ops::Range;
use std::time::Duration;

use crate::analysis::report::{Action, HeldFor, Severity, Shared};
use crate::analysis::{Hold, HolderRef, Observed, Thresholds};
use crate::keys::{KeyBook, Kind};
use crate::model::{AdvisoryKey, Backend, Pid};

/// What a rule may look at.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// What is known after this poll.
    pub observed: &'a Observed,
    /// When a situation becomes a finding.
    pub thresholds: &'a Thresholds,
    /// The names of keys.
    pub book: &'a KeyBook,
    /// This is a single look, or an observation that is shorter than the idle threshold: what lasted all through it
    /// counts as having lasted.
    pub short_observation: bool,
}

/// What a finding is about. Equal subjects of one rule are one finding, and its id comes from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A session or a prepared transaction.
    Holder(HolderRef),
    /// Several roots with the same waiters.
    Roots(Vec<HolderRef>),
    /// A pool, by its place in `Observed::pools`.
    Pool(usize),
    /// A cycle of waiting sessions.
    Cycle(Vec<Pid>),
    /// A holder and the name of a dictionary entry.
    HolderEntry(HolderRef, String),
    /// A dictionary entry.
    Entry(String),
    /// A key.
    Key(AdvisoryKey),
    /// A row of a lease table, by its name and holder; or, without one, the table.
    Lease {
        /// The name that the config gives the table.
        lease: String,
        /// The row's name and holder.
        row: Option<(String, String)>,
    },
    /// The target itself.
    Target,
}

/// A finding before absorption, silences and the wording of advice.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The rule's name.
    pub rule: &'static str,
    /// What it is about.
    pub subject: Subject,
    /// How bad.
    pub severity: Severity,
    /// One sentence.
    pub summary: String,
    /// Evidence, one sentence each.
    pub detail: Vec<String>,
    /// Its keys, sorted, without duplicates.
    pub keys: Shared<AdvisoryKey>,
    /// Key texts where there is no key of a lock: holder-count of a key that nobody holds.
    pub key_texts: Vec<String>,
    /// The subject's own sessions.
    pub pids: Vec<Pid>,
    /// The prepared transaction's gid.
    pub gid: Option<String>,
    /// Who waits.
    pub waiters: Vec<Pid>,
    /// How long the keys have been held: the longest.
    pub held: Option<HeldFor>,
    /// What to do.
    pub action: Action,
    /// For `cancel-waiter`: whom to cancel.
    pub cancel: Vec<Pid>,
    /// A carried-lock that polls have proved, or any finding of another rule.
    pub proved: bool,
    made_of: Option<MadeOf>,
}

/// The holds that a draft was made of, if all are of one holder.
#[derive(Debug, Clone, Copy)]
struct MadeOf {
    holder: HolderRef,
    holds: usize,
}

impl Draft {
    /// A draft with nothing in it but what it is about and how bad it is.
    pub fn new(rule: &'static str, subject: Subject, severity: Severity, action: Action) -> Self {
        Self {
            rule,
            subject,
            severity,
            summary: String::new(),
            detail: Vec::new(),
            keys: Shared::default(),
            key_texts: Vec::new(),
            pids: Vec::new(),
            gid: None,
            waiters: Vec::new(),
            held: None,
            action,
            cancel: Vec::new(),
            proved: true,
            made_of: None,
        }
    }

    /// Takes these keys, in whichever order.
    #[must_use]
    pub fn with_keys(mut self, keys: impl IntoIterator<Item = AdvisoryKey>) -> Self {
        let mut keys: Vec<AdvisoryKey> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        self.keys = keys.into();
        self.made_of = None;
        self
    }

    /// Takes keys and hold time from these holds.
    #[must_use]
    pub fn with_holds(mut self, holds: &[&Hold]) -> Self {
        self = self.with_keys(holds.iter().map(|hold| hold.key));
        self.held = longest_held(holds);
        let are_of_one = holds.windows(2).all(|pair| {
            let (one, next) = (pair[0], pair[1]);
            one.holder == next.holder && (one.key, one.mode) < (next.key, next.mode)
        });
        let made_of = |hold: &&Hold| MadeOf { holder: hold.holder, holds: holds.len() };
        self.made_of = holds.first().filter(|_| are_of_one).map(made_of);
        self
    }

    /// Its session, and the places in `Observed::holds` of all that it holds, if it is about all that one session holds.
    pub fn whole(&self, observed: &Observed) -> Option<(HolderRef, Range<usize>)> {
        let MadeOf { holder, holds } = self.made_of?;
        let HolderRef::Session(pid) = holder else { return None };
        let places = observed.places_of(holder);
        let is_all = self.pids == [pid] && self.gid.is_none() && places.len() == holds;
        is_all.then_some((holder, places))
    }

    /// Names the holder: pid or gid.
    #[must_use]
    pub fn with_holder(mut self, context: &Context<'_>, holder: HolderRef) -> Self {
        match holder {
            HolderRef::Session(pid) => self.pids.push(pid),
            HolderRef::Prepared(id) => {
                self.gid = context.observed.prepared(id).map(|prepared| prepared.gid.clone());
            }
        }
        self
    }

    /// Names who waits, longest first.
    #[must_use]
    pub fn with_waiters(mut self, context: &Context<'_>, waiters: &[Pid]) -> Self {
        self.waiters = waiters.to_vec();
        context.sort_waiters(&mut self.waiters);
        self
    }
}

/// The hold with the largest lower bound says how long.
pub fn longest_held(holds: &[&Hold]) -> Option<HeldFor> {
    holds.iter().map(|hold| hold.past.held).max_by_key(|held| (held.at_least, std::cmp::Reverse(held.at_most)))
}

impl<'a> Context<'a> {
    /// The holds of the draft's keys by the draft's own sessions or prepared transaction.
    pub fn holds_of_draft(&self, draft: &Draft) -> Vec<&'a Hold> {
        self.places_of_draft(draft).into_iter().map(|place| &self.observed.holds[place]).collect()
    }

    /// The places of those in `Observed::holds`.
    pub fn places_of_draft(&self, draft: &Draft) -> Vec<usize> {
        let observed = self.observed;
        if let Some((_, places)) = draft.whole(observed) {
            return places.collect();
        }
        let sessions = draft.pids.iter().map(|&pid| HolderRef::Session(pid));
        let prepared = draft.gid.as_deref().and_then(|gid| observed.prepared_by_gid(gid));
        sessions
            .chain(prepared.map(|prepared| HolderRef::Prepared(prepared.virtualtransaction)))
            .flat_map(|holder| observed.places_of(holder))
            .filter(|&place| draft.keys.binary_search(&observed.holds[place].key).is_ok())
            .collect()
    }

    /// Longest wait first, then by pid; each once.
    pub fn sort_waiters(&self, waiters: &mut Vec<Pid>) {
        let waited = |pid: &Pid| self.observed.waiting.get(pid).map_or(Duration::ZERO, |wait| wait.waited.duration);
        waiters.sort_by_key(|pid| (std::cmp::Reverse(waited(pid)), *pid));
        waiters.dedup();
    }

    /// Whether this session has waited for at least w, and not on purpose.
    pub fn has_waited(&self, pid: Pid) -> bool {
        self.observed.waiting.get(&pid).is_some_and(|wait| !wait.on_purpose && self.waited_long(pid))
    }

    /// Whether this session has waited for at least w, on purpose or not.
    pub fn waited_long(&self, pid: Pid) -> bool {
        self.observed.waiting.get(&pid).is_some_and(|wait| wait.waited.duration >= self.thresholds.wait)
    }

    /// The holds that the session rules judge: no extension's keys, and no expected ones unless a session has waited
    /// long for them.
    pub fn judged_holds(&self, holder: HolderRef) -> Vec<&'a Hold> {
        let holds = self.observed.holds_of(holder);
        // Nearly always all of them.
        let mut judged = Vec::with_capacity(holds.len());
        judged.extend(holds.filter(|hold| self.is_judged(hold)));
        judged
    }

    /// Whether the session rules judge this hold.
    pub fn is_judged(&self, hold: &Hold) -> bool {
        !hold.key.numbers.is_extension() && (!hold.expected || hold.waiters.iter().any(|&pid| self.has_waited(pid)))
    }

    /// Critical if somebody has waited long, or it has been held for longer than `--critical-after`; else a warning.
    pub fn critical_when_waited_for(&self, draft: &Draft) -> Severity {
        let waited = draft.waiters.iter().any(|&pid| self.has_waited(pid));
        let overdue = match (self.thresholds.critical_after, draft.held) {
            (Some(limit), Some(held)) => held.at_least > limit,
            _ => false,
        };
        if waited || overdue { Severity::Critical } else { Severity::Warning }
    }

    /// The backend of a session.
    pub fn backend(&self, pid: Pid) -> Option<&'a Backend> {
        self.observed.backend(pid)
    }

    /// Whether the hold is that of a job or a migration within the time that such work normally takes. One that is
    /// declared to be long-lived, without a `max_hold`, may take any time.
    pub fn is_work(hold: &Hold) -> bool {
        hold.names.iter().any(|name| {
            // A name that only circumstances speak for must not make a leak look like work.
            !name.may_be
                && matches!(name.kind, Kind::Job | Kind::Migration)
                && name.max_hold.is_none_or(|max_hold| hold.past.held.at_least < max_hold)
        })
    }
}
