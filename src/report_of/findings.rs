//! The findings of a Report, and what is kept of a poll to word their advice later.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::MOST_KEYS;
use crate::analysis::report::{Advice, Adviser, Finding, KeyReport, LateAdvice, LeaseSubject, ReportedKeys};
use crate::analysis::{Hold, HolderRef, Observed, Thresholds};
use crate::keys::{KeyBook, key};
use crate::model::{AdvisoryKey, Pid, SharedText};
use crate::rules::{self, Context, Draft, Subject, advice};
use crate::silences::silenced;

/// A draft, and what several need to know of it.
#[derive(Debug)]
pub struct Found {
    /// The draft, without its [`Words`].
    pub draft: Draft,
    /// The finding's id.
    pub id: String,
    /// The places of its holds in `Observed::holds`.
    pub places: Vec<usize>,
}

/// What a finding says. Only the Report needs it.
#[derive(Debug)]
pub struct Words {
    summary: String,
    detail: Vec<String>,
}

impl Words {
    fn take(draft: &mut Draft) -> Self {
        Self { summary: std::mem::take(&mut draft.summary), detail: std::mem::take(&mut draft.detail) }
    }
}

impl Found {
    fn new(context: &Context<'_>, draft: Draft) -> Self {
        Self { id: id(context, &draft), places: context.places_of_draft(&draft), draft }
    }

    /// Its holds, by key.
    pub fn holds<'a>(&self, observed: &'a Observed) -> Vec<&'a Hold> {
        self.by_key(observed).iter().map(|&place| &observed.holds[place]).collect()
    }

    /// Their places in `Observed::holds`.
    fn by_key(&self, observed: &Observed) -> Cow<'_, [usize]> {
        // The holds of one holder are in order.
        if self.draft.whole(observed).is_some() {
            return Cow::Borrowed(&self.places);
        }
        let mut places = self.places.clone();
        places.sort_by_key(|&place| observed.holds[place].key);
        Cow::Owned(places)
    }
}

/// All that was known and found after a poll. The findings of its Report share it: their advice is worded from it.
#[derive(Debug)]
pub struct Judged {
    observed: Observed,
    thresholds: Thresholds,
    book: Arc<KeyBook>,
    short_observation: bool,
    found: Vec<Found>,
}

impl Judged {
    /// Judges by all rules; what each finding says comes apart. `short_observation`: see
    /// [`Context::short_observation`].
    pub fn new(
        observed: Observed,
        thresholds: Thresholds,
        book: Arc<KeyBook>,
        short_observation: bool,
    ) -> (Self, Vec<Words>) {
        let mut judged = Self { observed, thresholds, book, short_observation, found: Vec::new() };
        let context = judged.context();
        let mut drafts = rules::judge(&context);
        let words = drafts.iter_mut().map(Words::take).collect();
        judged.found = drafts.into_iter().map(|draft| Found::new(&context, draft)).collect();
        (judged, words)
    }

    /// What a rule may look at.
    pub fn context(&self) -> Context<'_> {
        Context {
            observed: &self.observed,
            thresholds: &self.thresholds,
            book: &self.book,
            short_observation: self.short_observation,
        }
    }

    /// What rules have found.
    pub fn found(&self) -> &[Found] {
        &self.found
    }
}

impl Adviser for Judged {
    fn advise(&self, number: usize) -> Advice {
        let found = &self.found[number];
        advice::advise(&self.context(), &found.draft, &found.holds(&self.observed))
    }
}

/// The findings, the worst first.
pub fn findings(judged: &Arc<Judged>, words: Vec<Words>) -> Vec<Finding> {
    let worded = words.into_iter().enumerate();
    let mut findings: Vec<Finding> = worded.map(|(number, words)| finding(judged, number, words)).collect();
    findings.sort_by_cached_key(|finding| {
        let waited = finding.longest_wait.map_or(Duration::ZERO, |waited| waited.duration);
        let held = finding.held.map_or(Duration::ZERO, |held| held.at_least);
        (
            finding.silenced.is_some(),
            std::cmp::Reverse((finding.severity, waited, held)),
            finding.rule,
            finding.id.clone(),
        )
    });
    findings
}

fn finding(judged: &Arc<Judged>, number: usize, words: Words) -> Finding {
    let (context, found) = (&judged.context(), &judged.found[number]);
    let (observed, draft) = (context.observed, &found.draft);
    let own = found.by_key(observed);
    let names = |lock: &AdvisoryKey| {
        let place = own[..own.partition_point(|&place| observed.holds[place].key <= *lock)].last().copied();
        let place = place.filter(|&place| observed.holds[place].key == *lock);
        place.or_else(|| observed.places_on(*lock).next()).map_or(&[][..], |place| &observed.holds[place].names)
    };
    let longest = draft.waiters.iter().filter_map(|pid| observed.waiting.get(pid)).map(|wait| wait.waited);
    Finding {
        id: found.id.clone(),
        since: None,
        silenced: silenced(context, draft, &names),
        rule: draft.rule,
        severity: draft.severity,
        summary: words.summary,
        detail: words.detail,
        key_count: draft.keys.len() + draft.key_texts.len(),
        database: database(context, draft),
        key_reports: reported_keys(observed, draft, &own),
        key_texts: draft.key_texts.clone(),
        pids: draft.pids.clone(),
        gid: draft.gid.clone(),
        entry: match &draft.subject {
            Subject::Entry(entry) => Some(entry.clone()),
            _ => None,
        },
        lease: match &draft.subject {
            Subject::Lease { lease, row } => Some(LeaseSubject { lease: lease.clone(), row: row.clone() }),
            _ => None,
        },
        waiters: draft.waiters.clone(),
        longest_wait: longest.max_by_key(|waited| waited.duration),
        held: draft.held,
        advice: LateAdvice::new(Arc::clone(judged) as Arc<dyn Adviser>, number),
    }
}

/// The keys of a finding: of its own hold of a key, else of any. `own` has the places of its holds, by key.
fn reported_keys(observed: &Observed, draft: &Draft, own: &[usize]) -> ReportedKeys {
    if let Some((holder, places)) = draft.whole(observed)
        && places.len() == draft.keys.len()
    {
        // One hold for each key: nothing needs to be looked for.
        return observed.reported_keys_of(holder, MOST_KEYS);
    }
    let key_at = |place: usize| observed.holds[place].key;
    let mut holds = own.chunk_by(|&one, &next| key_at(one) == key_at(next)).filter_map(<[_]>::last).peekable();
    let mut place_of = |lock: AdvisoryKey| {
        // Keys and holds are both in order.
        while holds.next_if(|&&place| key_at(place) < lock).is_some() {}
        holds.next_if(|&&place| key_at(place) == lock).copied().or_else(|| observed.places_on(lock).next())
    };
    let reported = |lock: &AdvisoryKey| {
        let unheld = || {
            let database = observed.snapshot.server.database_name(lock.database);
            KeyReport::new(lock.numbers, database.cloned(), &[]).into()
        };
        place_of(*lock).map_or_else(unheld, |place| observed.reported_key(place))
    };
    draft.keys.iter().take(MOST_KEYS).map(reported).collect()
}

/// The keys' database, where it is one; else that of the pool or of the subject's sessions.
fn database(context: &Context<'_>, draft: &Draft) -> Option<SharedText> {
    let observed = context.observed;
    if let Some(first) = draft.keys.first()
        && draft.keys.iter().all(|lock| lock.database == first.database)
    {
        return observed.snapshot.server.database_name(first.database).cloned();
    }
    if let Subject::Lease { lease, .. } = &draft.subject {
        let read = observed.snapshot.leases.iter().find(|read| read.lease == *lease)?;
        return read.outcome.as_ref().ok().map(|leases| leases.database.as_str().into());
    }
    if let Subject::Pool(place) = draft.subject {
        return observed.pools[place].0.database.clone();
    }
    None
}

/// Stable while the situation lasts: made of what identifies the subject, not of what changes.
fn id(context: &Context<'_>, draft: &Draft) -> String {
    let observed = context.observed;
    let mut text = format!("{}\n{}\n", observed.target, draft.rule);
    let session = |text: &mut String, pid: Pid| {
        let start = observed.backend(pid).and_then(|backend| backend.backend_start);
        let _ = writeln!(text, "{pid} {}", start.map_or(0, |start| start.timestamp_micros()));
    };
    let holder = |text: &mut String, holder: HolderRef| match holder {
        HolderRef::Session(pid) => session(text, pid),
        HolderRef::Prepared(id) => {
            if let Some(prepared) = observed.prepared(id) {
                let _ = writeln!(text, "{} {}", prepared.transaction, prepared.prepared.timestamp_micros());
            }
        }
    };
    match &draft.subject {
        Subject::Holder(one) => holder(&mut text, *one),
        Subject::Roots(many) => many.iter().for_each(|one| holder(&mut text, *one)),
        Subject::Pool(place) => {
            let pool = &observed.pools[*place].0;
            let _ = writeln!(text, "{:?} {:?} {} {:?}", pool.database, pool.user, pool.application, pool.client_addr);
        }
        Subject::Cycle(pids) => pids.iter().for_each(|&pid| session(&mut text, pid)),
        Subject::HolderEntry(one, entry) => {
            holder(&mut text, *one);
            text.push_str(entry);
        }
        Subject::Entry(entry) => text.push_str(entry),
        Subject::Key(lock) => {
            let _ = writeln!(text, "{} {}", lock.database, key::text(lock.numbers));
        }
        Subject::Lease { lease, row } => {
            let _ = writeln!(text, "{lease} {row:?}");
        }
        Subject::Target => {}
    }
    let digest = Sha256::digest(text.as_bytes());
    digest.first_chunk().map_or_else(String::new, |first| format!("{:016x}", u64::from_be_bytes(*first)))
}
