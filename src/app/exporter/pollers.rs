//! The running pollers, one per target, and how they follow a changed config.
//!
//! A poller goes on, with its connection and all that it has learned, if only names, thresholds, labels or the interval
//! changed. Where the connection is another one, a new poller begins when the old one has been told to end.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::ExposeSecret as _;

use crate::analysis::{Grouping, Thresholds};
use crate::error::{Error, Result};
use crate::keys::KeyBook;
use crate::monitor::Monitor;
use crate::settings::Target;
use crate::watch::{Handle, Schedule, TargetSpec, Update};

/// What a poller may be told anew while it runs.
#[derive(Clone)]
struct Rules {
    book: Arc<KeyBook>,
    thresholds: Thresholds,
    grouping: Grouping,
}

struct Poller {
    target: Target,
    rules: Arc<Mutex<Rules>>,
    handle: Handle,
    healthy: bool,
}

/// All running pollers, by the number under which their updates come. Numbers are never used again.
pub(super) struct Pollers {
    running: BTreeMap<usize, Poller>,
    next: usize,
    schedule: Schedule,
    updates: Sender<(usize, Update)>,
}

impl Pollers {
    /// None yet; updates will go here.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(updates: Sender<(usize, Update)>) -> Result<Self> {
        Ok(Self { running: BTreeMap::new(), next: 0, schedule: Schedule::start().map_err(no_thread)?, updates })
    }

    /// From now on these are polled, and no others.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn follow(&mut self, targets: Vec<Target>) -> Result<()> {
        let stays = |poller: &Poller| targets.iter().any(|target| is_same_connection(&poller.target, target));
        let (kept, over): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.running).into_iter().partition(|(_, poller)| stays(poller));
        self.running = kept;
        stop(over.into_values());
        for target in targets {
            match self.running.values_mut().find(|poller| poller.target.name == target.name) {
                Some(poller) => poller.follow(target),
                None => self.start(target)?,
            }
        }
        Ok(())
    }

    /// The target whose poller has this number; nothing if it was stopped.
    pub fn target(&mut self, number: usize, update: &Update) -> Option<&str> {
        let poller = self.running.get_mut(&number)?;
        poller.healthy = matches!(update, Update::Report { .. });
        Some(&poller.target.name)
    }

    /// Ends all. Connections of those that answer are closed in good order; the others may hang, and are left behind.
    pub fn stop(self) {
        stop(self.running.into_values());
    }

    fn start(&mut self, target: Target) -> Result<()> {
        let rules = Arc::new(Mutex::new(Rules::of(&target)));
        let spec = spec(&target, Arc::clone(&rules));
        let handle = self.schedule.spawn(self.next, spec, self.updates.clone()).map_err(no_thread)?;
        self.running.insert(self.next, Poller { target, rules, handle, healthy: false });
        self.next += 1;
        Ok(())
    }
}

fn no_thread(error: io::Error) -> Error {
    Error::failure("cannot start a thread").caused_by(error)
}

fn stop(pollers: impl Iterator<Item = Poller>) {
    for poller in pollers.filter(|poller| poller.healthy) {
        poller.handle.stop();
    }
}

impl Rules {
    fn of(target: &Target) -> Self {
        Self { book: Arc::clone(&target.book), thresholds: target.thresholds, grouping: target.grouping.clone() }
    }
}

impl Poller {
    fn follow(&mut self, target: Target) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Rules::of(&target);
        if target.interval != self.target.interval {
            self.handle.set_interval(target.interval);
        }
        if target.leases != self.target.leases {
            self.handle.set_leases(Arc::clone(&target.leases));
        }
        self.target = target;
    }
}

fn spec(target: &Target, rules: Arc<Mutex<Rules>>) -> TargetSpec {
    let Rules { book, thresholds, grouping } = Rules::of(target);
    let mut monitor = Monitor::new(target.name.clone(), thresholds, book, grouping, false);
    TargetSpec {
        name: target.name.clone(),
        settings: target.conninfo.clone(),
        poolers: target.poolers.clone(),
        interval: target.interval,
        timeout: target.timeout,
        leases: Arc::clone(&target.leases),
        observe: Box::new(move |snapshot| {
            let Rules { book, thresholds, grouping } = rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
            monitor.set_book(book);
            monitor.set_rules(thresholds, grouping);
            monitor.observe(snapshot)
        }),
    }
}

/// Whether the running poller can go on. `Debug` of the settings shows everything but passwords.
fn is_same_connection(running: &Target, new: &Target) -> bool {
    let secrets = |target: &Target| -> Vec<Option<String>> {
        let poolers = target.poolers.iter().map(|pooler| &pooler.settings);
        let all = std::iter::once(&target.conninfo).chain(poolers);
        all.map(|settings| settings.password.as_ref().map(|text| text.expose_secret().to_owned())).collect()
    };
    running.name == new.name
        && running.timeout == new.timeout
        && format!("{:?}", running.conninfo) == format!("{:?}", new.conninfo)
        && format!("{:?}", running.poolers) == format!("{:?}", new.poolers)
        && secrets(running) == secrets(new)
}
