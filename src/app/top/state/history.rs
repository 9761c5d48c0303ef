//! What has happened since the screen opened: the difference between each two polls, in words.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use crate::analysis::report::{Finding, HolderReport, LockReport, Severity, TargetReport};
use crate::model::{KeyNumbers, LockMode, Pid, Time};
use crate::render::style;
use crate::render::table::{key_text, place};

/// Older entries are forgotten.
const MOST: usize = 5_000;

/// More locks that one holder takes or frees between two polls are one entry.
const ONE_BY_ONE: usize = 10;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The first poll.
    Began,
    /// A lock appeared.
    Taken,
    /// A lock is gone.
    Freed,
    /// A lock is gone and another holder has it.
    ChangedHands,
    /// A finding began.
    Found,
    /// A finding has another severity.
    Changed,
    /// A finding ended.
    Ended,
    /// The server restarted, or another one answers.
    Restarted,
    /// No answer any more.
    Silent,
    /// An answer again.
    Answers,
}

impl What {
    /// The word on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Self::Began => "opened",
            Self::Taken => "taken",
            Self::Freed => "freed",
            Self::ChangedHands => "new holder",
            Self::Found => "found",
            Self::Changed => "changed",
            Self::Ended => "ended",
            Self::Restarted => "restarted",
            Self::Silent => "no answer",
            Self::Answers => "answers",
        }
    }
}

/// One entry. Texts are as strangers chose them.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Counted from the opening of the screen.
    pub number: u64,
    /// The target's place.
    pub target: usize,
    /// The server's clock at the poll that showed it.
    pub at: Option<Time>,
    /// What happened.
    pub what: What,
    /// Of a finding.
    pub severity: Option<Severity>,
    /// The key with its names, the rule, or nothing.
    pub subject: String,
    /// Who.
    pub who: String,
    /// What else is known.
    pub text: String,
}

/// All entries, the newest first.
#[derive(Debug, Clone, Default)]
pub struct History {
    entries: VecDeque<Entry>,
    next: u64,
}

/// What makes a lock the same in two polls.
type LockId<'a> = (KeyNumbers, Option<&'a str>, LockMode, HolderId<'a>);
type HolderId<'a> = (Option<Pid>, Option<Time>, Option<&'a str>);

impl History {
    /// The entries, the newest first.
    pub fn entries(&self) -> &VecDeque<Entry> {
        &self.entries
    }

    /// The number that the next entry gets.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    fn push(&mut self, entry: Entry) {
        self.entries.push_front(Entry { number: self.next, ..entry });
        self.next += 1;
        self.entries.truncate(MOST);
    }

    /// The target gives no answer any more.
    pub fn silent(&mut self, target: usize, at: Option<Time>, why: &str) {
        self.push(Entry { text: why.to_owned(), at, ..entry(target, None, What::Silent) });
    }

    /// The target answers again after this long.
    pub fn answers(&mut self, target: usize, report: &TargetReport, after: Duration) {
        let text = format!("after {}", style::duration(after));
        self.push(Entry { text, ..entry(target, report.sampled_at, What::Answers) });
    }

    /// Takes in a poll of a target, and the one before it.
    pub fn take(&mut self, target: usize, before: Option<&TargetReport>, report: &TargetReport) {
        let at = report.sampled_at;
        let Some(before) = before else {
            let text = format!(
                "{} held, {} waiting, {}",
                style::count(report.counts.locks, "lock"),
                report.counts.waiters,
                style::count(report.findings.len(), "finding")
            );
            return self.push(Entry { text, ..entry(target, at, What::Began) });
        };
        if report.server.as_ref().is_some_and(|server| server.restarted) {
            let text = "all its sessions and advisory locks are gone".to_owned();
            self.push(Entry { text, ..entry(target, at, What::Restarted) });
        }
        self.locks(target, before, report);
        self.findings(target, before, report);
    }

    fn locks(&mut self, target: usize, before: &TargetReport, report: &TargetReport) {
        let at = report.sampled_at;
        let old: HashMap<LockId<'_>, &LockReport> = before.locks.iter().map(|lock| (id(lock), lock)).collect();
        let new: HashMap<LockId<'_>, &LockReport> = report.locks.iter().map(|lock| (id(lock), lock)).collect();
        let mut freed: Vec<&LockReport> = before.locks.iter().filter(|lock| !new.contains_key(&id(lock))).collect();
        let mut taken: Vec<&LockReport> = report.locks.iter().filter(|lock| !old.contains_key(&id(lock))).collect();
        for (from, to) in pair(&mut freed, &mut taken) {
            self.push(Entry {
                subject: subject(to),
                who: who(&to.holder),
                text: format!("from {}, who held it {}", who(&from.holder), style::held(from.past.held)),
                ..entry(target, at, What::ChangedHands)
            });
        }
        self.by_holder(target, at, What::Freed, &freed);
        self.by_holder(target, at, What::Taken, &taken);
    }

    /// One entry per lock, or one for all locks of a holder with many.
    fn by_holder(&mut self, target: usize, at: Option<Time>, what: What, locks: &[&LockReport]) {
        let mut holders: BTreeMap<HolderId<'_>, Vec<&LockReport>> = BTreeMap::new();
        for lock in locks {
            holders.entry(holder_id(&lock.holder)).or_default().push(lock);
        }
        for locks in holders.values() {
            if let [first, _, ..] = locks.as_slice()
                && locks.len() > ONE_BY_ONE
            {
                let texts: Vec<&str> = locks.iter().take(3).map(|lock| &*lock.key.text).collect();
                self.push(Entry {
                    subject: style::count(locks.len(), "lock"),
                    who: who(&first.holder),
                    text: format!("{}, ...", texts.join(", ")),
                    ..entry(target, at, what)
                });
                continue;
            }
            for lock in locks {
                let text = if what == What::Freed {
                    format!("was held {}", style::held(lock.past.held))
                } else {
                    lock.mode.name().to_owned()
                };
                self.push(Entry { subject: subject(lock), who: who(&lock.holder), text, ..entry(target, at, what) });
            }
        }
    }

    fn findings(&mut self, target: usize, before: &TargetReport, report: &TargetReport) {
        let at = report.sampled_at;
        let old: HashMap<&str, &Finding> =
            before.findings.iter().map(|finding| (finding.id.as_str(), finding)).collect();
        let new: HashMap<&str, &Finding> =
            report.findings.iter().map(|finding| (finding.id.as_str(), finding)).collect();
        for finding in before.findings.iter().filter(|finding| !new.contains_key(finding.id.as_str())) {
            let since = finding.since.zip(at).map(|(since, at)| crate::model::age(at, since));
            let lasted = since.map(|since| format!("after {}: ", style::duration(since))).unwrap_or_default();
            self.push(found(finding, target, at, What::Ended, format!("{lasted}{}", finding.summary)));
        }
        // The worst is pushed last, and so stands on top.
        for finding in report.findings.iter().rev() {
            match old.get(finding.id.as_str()) {
                None => self.push(found(finding, target, at, What::Found, finding.summary.clone())),
                Some(old) if old.severity != finding.severity => {
                    let text = format!("was {}: {}", old.severity.name(), finding.summary);
                    self.push(found(finding, target, at, What::Changed, text));
                }
                Some(_) => {}
            }
        }
    }
}

fn entry(target: usize, at: Option<Time>, what: What) -> Entry {
    let none = String::new;
    Entry { number: 0, target, at, what, severity: None, subject: none(), who: none(), text: none() }
}

fn found(finding: &Finding, target: usize, at: Option<Time>, what: What, text: String) -> Entry {
    let who = match finding.pids.as_slice() {
        [] => finding.gid.as_ref().map(|gid| format!("prepared {gid}")).unwrap_or_default(),
        [pid] => format!("pid {pid}"),
        pids => style::count(pids.len(), "session"),
    };
    let severity = Some(finding.severity);
    Entry { severity, subject: finding.rule.to_owned(), who, text, ..entry(target, at, what) }
}

fn holder_id(holder: &HolderReport) -> HolderId<'_> {
    (holder.pid, holder.backend_start, holder.gid.as_deref())
}

fn id(lock: &LockReport) -> LockId<'_> {
    (lock.key.numbers, lock.key.database.as_deref(), lock.mode, holder_id(&lock.holder))
}

/// Locks that one holder freed and another took: taken out of both lists.
fn pair<'a>(freed: &mut Vec<&'a LockReport>, taken: &mut Vec<&'a LockReport>) -> Vec<(&'a LockReport, &'a LockReport)> {
    let object = |lock: &'a LockReport| (lock.key.numbers, lock.key.database.as_deref(), lock.mode);
    let mut by_object: HashMap<_, Vec<&LockReport>> = HashMap::new();
    for &lock in freed.iter().rev() {
        by_object.entry(object(lock)).or_default().push(lock);
    }
    let mut pairs = Vec::new();
    taken.retain(|&lock| {
        let from = by_object.get_mut(&object(lock)).and_then(Vec::pop);
        pairs.extend(from.map(|from| (from, lock)));
        from.is_none()
    });
    let gone: HashSet<*const LockReport> = pairs.iter().map(|(from, _)| std::ptr::from_ref(*from)).collect();
    freed.retain(|&lock| !gone.contains(&std::ptr::from_ref(lock)));
    pairs
}

fn subject(lock: &LockReport) -> String {
    let mut text = key_text(&lock.key);
    if let Some(database) = &lock.key.database {
        text = format!("{text} in {database}");
    }
    text
}

fn who(holder: &HolderReport) -> String {
    let subject = match (holder.pid, &holder.gid) {
        (Some(pid), _) => format!("pid {pid}"),
        (None, gid) => format!("prepared {}", gid.as_deref().unwrap_or_default()),
    };
    let place = place(holder);
    if place.is_empty() { subject } else { format!("{subject} {place}") }
}
