//! What the pollers and the pages share: the last Report of each target and the counters, and pages made from them.
//!
//! It takes in updates and hands out bytes. A page is made when somebody first asks for it and kept until a poll, a
//! reload or silence makes it old: scraping never costs a server anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::events::EventLog;
use super::pages;
use super::pieces::{Pieces, Writer};
use crate::analysis::report::{Failure, FailureKind, FirstSeen, TargetReport};
use crate::render::json;
use crate::render::metrics::{Format, Gathered, Identity, Own, Rows, TargetMetrics};
use crate::watch::Update;

/// Which made page.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Page {
    /// The metrics, but for `process_*`.
    Metrics(Format),
    /// `/findings`
    Findings,
    /// `/runbook`
    Runbook,
    /// `/runbook/RULE`
    Rule(&'static str),
}

/// How pages are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Habits {
    /// Statements may be shown.
    pub show_queries: bool,
}

/// One target as pages show it.
pub(super) struct Shown {
    /// What is known; of a target that does not answer now, what was known last.
    pub report: Arc<TargetReport>,
    /// Why it is not fresh, and how old what is known is; nothing if it is fresh.
    pub silence: Option<(Failure, Option<Duration>)>,
}

struct Known {
    metrics: TargetMetrics,
    failure: Option<Failure>,
}

struct Inner {
    targets: Vec<Known>,
    config_reload_success: bool,
    dictionary_reload_success: bool,
    /// Pages, each with the last moment before silence makes it old.
    made: HashMap<Page, (Pieces, Duration)>,
    /// How often something has changed that pages show.
    changes: u64,
}

/// Everything that pages are made of.
pub(super) struct World {
    began: Instant,
    habits: Habits,
    inner: Mutex<Inner>,
    /// Held by whoever makes a page: others wait for it instead of making it too. Who brings news does not wait.
    making: Mutex<()>,
}

impl World {
    /// Nothing has been polled yet.
    pub fn new(targets: Vec<Identity>, habits: Habits) -> Self {
        let known = |identity| Known { metrics: TargetMetrics::new(identity), failure: None };
        let inner = Inner {
            targets: targets.into_iter().map(known).collect(),
            config_reload_success: true,
            dictionary_reload_success: true,
            made: HashMap::new(),
            changes: 0,
        };
        Self { began: Instant::now(), habits, inner: Mutex::new(inner), making: Mutex::new(()) }
    }

    /// A thread that panicked while it held the lock left whole values behind: they are replaced, never half changed.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Takes in what happened to a target, and logs it. Large Reports are counted while nobody waits for the lock.
    pub fn take(&self, log: &mut EventLog, target: &str, update: Update) {
        let now = self.now();
        let Update::Report { report, .. } = update else {
            if let Update::Failed { failure, .. } = update {
                self.fail(target, failure);
            }
            return;
        };
        log.observe(&report);
        let admitted = self
            .lock()
            .known(target)
            .map(|known| (known.metrics.admit(&report, now), known.metrics.identity().pool_clients));
        let Some((applications, pool_clients)) = admitted else { return };
        let rows = Rows::of(&report, &applications, pool_clients);
        let mut inner = self.lock();
        inner.outdate();
        if let Some(known) = inner.known(target) {
            if known.failure.is_some() && report.failure.is_none() {
                EventLog::recover(target);
            }
            known.failure.clone_from(&report.failure);
            known.metrics.observe(report, rows, now, chrono::Utc::now());
        }
    }

    fn fail(&self, target: &str, failure: Failure) {
        let mut inner = self.lock();
        inner.outdate();
        if let Some(known) = inner.known(target) {
            EventLog::fail(target, known.failure.as_ref(), &failure);
            known.metrics.fail(failure.kind);
            known.failure = Some(failure);
        }
    }

    /// Says whether the files in use are the ones on disk.
    pub fn set_reloaded(&self, config: bool, dictionary: bool) {
        let mut inner = self.lock();
        inner.config_reload_success = config;
        inner.dictionary_reload_success = dictionary;
        inner.outdate();
    }

    /// From now on these are the targets, in this order. Who stays keeps its counters.
    pub fn set_targets(&self, log: &mut EventLog, identities: Vec<Identity>) {
        let mut inner = self.lock();
        let mut before = std::mem::take(&mut inner.targets);
        for identity in identities {
            let kept = before.iter().position(|known| known.metrics.target() == identity.target);
            let mut known = match kept {
                Some(place) => before.swap_remove(place),
                None => Known { metrics: TargetMetrics::new(identity.clone()), failure: None },
            };
            known.metrics.set_identity(identity);
            inner.targets.push(known);
        }
        for known in before {
            log.forget(known.metrics.target());
        }
        inner.outdate();
    }

    /// Whether every target's first poll has ended, well or badly.
    pub fn is_ready(&self) -> bool {
        self.lock().targets.iter().all(|known| known.metrics.polled())
    }

    /// A page, made now if what is there is old.
    pub fn page(&self, page: &Page) -> Pieces {
        if let Some(pieces) = self.lock().made(page, self.now()) {
            return pieces;
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        let (make, until, changes) = {
            let inner = self.lock();
            if let Some(pieces) = inner.made(page, now) {
                return pieces;
            }
            (inner.gather(page, self.habits, now), inner.good_until(page, now), inner.changes)
        };
        let pieces = make();
        let mut inner = self.lock();
        if let Some(until) = until
            && inner.changes == changes
        {
            inner.made.insert(page.clone(), (pieces.clone(), until));
        }
        pieces
    }
}

/// Makes a page from what was gathered for it.
type Make = Box<dyn FnOnce() -> Pieces>;

impl Inner {
    fn outdate(&mut self) {
        self.changes += 1;
        self.made.clear();
    }

    fn made(&self, page: &Page, now: Duration) -> Option<Pieces> {
        let (pieces, until) = self.made.get(page)?;
        (now <= *until).then(|| pieces.clone())
    }

    /// Until when a page that is made now may be served again; nothing: not even once.
    fn good_until(&self, page: &Page, now: Duration) -> Option<Duration> {
        let until = self.targets.iter().filter_map(|known| known.metrics.stale_from()).filter(|at| *at >= now).min();
        // How old a silent target's data is changes with every look.
        let ages = self.targets.iter().any(|known| known.metrics.fresh(now).is_none());
        (!ages || matches!(page, Page::Metrics(_))).then_some(until.unwrap_or(Duration::MAX))
    }

    fn known(&mut self, target: &str) -> Option<&mut Known> {
        self.targets.iter_mut().find(|known| known.metrics.target() == target)
    }

    /// All that a page needs, so that it can be made without the lock.
    fn gather(&self, page: &Page, habits: Habits, now: Duration) -> Make {
        match page {
            Page::Metrics(format) => {
                let own = Own {
                    version: env!("CARGO_PKG_VERSION"),
                    config_reload_success: self.config_reload_success,
                    dictionary_reload_success: self.dictionary_reload_success,
                };
                let gathered = Gathered::of(own, self.targets.iter().map(|known| &known.metrics), now);
                let format = *format;
                Box::new(move || {
                    let mut page = Writer::default();
                    gathered.encode_into(format, &mut page);
                    page.into_pieces()
                })
            }
            Page::Findings => {
                let shown = self.shown(now);
                Box::new(move || Pieces::of(findings(without_queries(shown, habits))))
            }
            Page::Runbook => {
                let shown = self.shown(now);
                Box::new(move || Pieces::of(pages::runbook(&without_queries(shown, habits))))
            }
            Page::Rule(rule) => {
                let (shown, rule) = (self.shown(now), *rule);
                Box::new(move || Pieces::of(pages::rule(rule, &without_queries(shown, habits))))
            }
        }
    }

    fn shown(&self, now: Duration) -> Vec<Shown> {
        self.targets
            .iter()
            .map(|known| {
                let name = known.metrics.target();
                if let Some(report) = known.metrics.fresh(now) {
                    return Shown { report: Arc::clone(report), silence: None };
                }
                let failure = known.failure.clone().unwrap_or_else(|| silent(known.metrics.polled()));
                if let Some((report, age)) = known.metrics.last_good(now) {
                    return Shown { report: Arc::clone(report), silence: Some((failure, Some(age))) };
                }
                let report = TargetReport::failed(name.to_owned(), failure.clone());
                Shown { report: Arc::new(report), silence: Some((failure, None)) }
            })
            .collect()
    }
}

fn silent(polled: bool) -> Failure {
    let message =
        if polled { "the server has not answered for three intervals" } else { "the first poll has not ended yet" };
    Failure { kind: FailureKind::Timeout, message: message.to_owned(), hints: Vec::new() }
}

/// As `check --format json` has it: a target that does not answer has an error and nothing else.
fn findings(shown: Vec<Shown>) -> Vec<u8> {
    let reports: Vec<TargetReport> = shown
        .into_iter()
        .map(|shown| match shown.silence {
            Some((failure, _)) => TargetReport::failed(shown.report.target.clone(), failure),
            None => Arc::unwrap_or_clone(shown.report),
        })
        .collect();
    // Plain structs with text keys: serializing them to memory does not fail.
    json::render(&reports, env!("CARGO_PKG_VERSION")).unwrap_or_default().into_bytes()
}

/// Statements hold people's data: they are shown only where somebody asked for it.
fn without_queries(mut shown: Vec<Shown>, habits: Habits) -> Vec<Shown> {
    if !habits.show_queries {
        for shown in &mut shown {
            drop_queries(Arc::make_mut(&mut shown.report));
        }
    }
    shown
}

fn drop_queries(report: &mut TargetReport) {
    for lock in &mut report.locks {
        if lock.holder.query.is_some() {
            let mut holder = crate::analysis::report::HolderReport::clone(&lock.holder);
            holder.query = None;
            lock.holder = Arc::new(holder);
        }
        if lock.past.first_seen.as_ref().is_some_and(|first| first.query.is_some()) {
            let past = Arc::make_mut(&mut lock.past);
            past.first_seen = past.first_seen.take().map(|first| FirstSeen { query: None, ..first });
        }
    }
}
