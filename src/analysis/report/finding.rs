//! A finding.

use super::{HeldFor, KeyReport, LateAdvice, LeaseSubject, ReportedKeys, Waited};
use crate::model::{Pid, SharedText, Time};

/// How bad a finding is. The order is that of urgency: the greatest is the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing, counts as nothing.
    Info,
    /// Could not be judged.
    Unknown,
    /// Act in working hours.
    Warning,
    /// Act now.
    Critical,
}

impl Severity {
    /// All severities, worst first.
    pub const WORST_FIRST: [Self; 4] = [Self::Critical, Self::Warning, Self::Unknown, Self::Info];

    /// The name in JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// One finding.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Stable while the situation lasts.
    pub id: String,
    /// The first poll that showed it; nothing in a single look.
    pub since: Option<Time>,
    /// The reason of the `[[silence]]` that covers it.
    pub silenced: Option<String>,
    /// The rule's name.
    pub rule: &'static str,
    /// How bad.
    pub severity: Severity,
    /// One sentence.
    pub summary: String,
    /// Evidence, one sentence each.
    pub detail: Vec<String>,
    /// Its keys, at most 1,000.
    pub key_reports: ReportedKeys,
    /// Key texts where there is no key of a lock: holder-count of a key that nobody holds.
    pub key_texts: Vec<String>,
    /// How many keys there are.
    pub key_count: usize,
    /// The keys' database, where it is one.
    pub database: Option<SharedText>,
    /// The subject's own sessions.
    pub pids: Vec<Pid>,
    /// The prepared transaction.
    pub gid: Option<String>,
    /// The dictionary's entry, where that is the subject: holder-count, for nobody may hold its key.
    pub entry: Option<String>,
    /// The lease, or the lease table.
    pub lease: Option<LeaseSubject>,
    /// Who waits: chains that end at the subject.
    pub waiters: Vec<Pid>,
    /// The longest of them.
    pub longest_wait: Option<Waited>,
    /// How long the keys have been held: the longest.
    pub held: Option<HeldFor>,
    /// What to do.
    pub advice: LateAdvice,
}

impl Finding {
    /// The texts of its keys, as many as there are in the lists.
    pub fn keys(&self) -> impl Iterator<Item = &str> + Clone {
        self.key_reports.iter().map(|report| &*report.text).chain(self.key_texts.iter().map(String::as_str))
    }

    /// Whether the lists have this key. It is asked for each lock: numbers are faster than texts.
    pub fn lists(&self, key: &KeyReport) -> bool {
        let is_same = |listed: &KeyReport| listed.numbers == key.numbers && listed.database == key.database;
        self.key_reports.iter().any(is_same) || self.key_texts.iter().any(|text| **text == *key.text)
    }

    /// How many keys there are in the lists.
    pub fn listed_keys(&self) -> usize {
        self.key_reports.len() + self.key_texts.len()
    }
}
