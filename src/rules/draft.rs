//! What a rule hands over, and what it is given.

use crate::analysis::report::{Action, HeldFor, Severity};
use crate::analysis::{Hold, HolderRef, Observed, Thresholds};
use crate::keys::KeyBook;
use crate::model::{AdvisoryKey, Pid};

/// What a rule may look at.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// What is known after this poll.
    pub observed: &'a Observed,
    /// When a situation becomes a finding.
    pub thresholds: &'a Thresholds,
    /// The names of keys.
    pub book: &'a KeyBook,
    /// This is the last poll of an observation that is shorter than the idle threshold, or a single look.
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
    /// The target itself.
    Target,
}

/// A finding before absorption, silences and wording of advice.
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
    pub keys: Vec<AdvisoryKey>,
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
}

impl<'a> Context<'a> {
    /// The holds of the draft's keys by the draft's own sessions or prepared transaction.
    pub fn holds_of_draft(&self, draft: &'a Draft) -> Vec<&'a Hold> {
        self.observed
            .holds
            .iter()
            .filter(|hold| draft.keys.binary_search(&hold.key).is_ok())
            .filter(|hold| match hold.holder {
                HolderRef::Session(pid) => draft.pids.contains(&pid),
                HolderRef::Prepared(id) => {
                    draft.gid.is_some()
                        && self.observed.prepared(id).map(|prepared| prepared.gid.as_str()) == draft.gid.as_deref()
                }
            })
            .collect()
    }
}
