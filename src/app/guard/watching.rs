//! One server, polled while a command runs; all that happens comes over one channel.
//!
//! It knows the poller and the channel. What polls mean is [`crate::guard`]'s business.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::analysis::report::{Failure, GuardReport};
use crate::app::events::{forward, never};
use crate::cli::SHORTEST_INTERVAL;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::pg::{self, Session};
use crate::settings::Target;
use crate::signal::Sent;
use crate::watch::{Handle, Schedule, TargetSpec, Update};

/// What the poller's own deadlines, which know more about what hangs, may be late.
const LATENESS: Duration = Duration::from_millis(200);
/// Of two polls that end after the command, the second one began after it.
const POLLS_AFTER: u32 = 2;

/// Something happened.
pub(super) enum Event {
    /// A poll ended, well or badly.
    Update(Update),
    /// Somebody sent us a signal.
    Signal(Sent),
    /// The command has ended.
    Ended,
}

/// A server that is watched.
pub(super) struct Watching {
    guard: Arc<Mutex<Guard>>,
    handle: Handle,
    sender: Sender<Event>,
    events: Receiver<Event>,
    /// The first failure of each kind.
    failures: Vec<Failure>,
    address: String,
    /// The most that connecting and one poll may take.
    allowed: Duration,
}

impl Watching {
    /// Begins to poll.
    pub(super) fn begin(target: Target) -> Result<Self> {
        let (sender, events) = mpsc::channel();
        let allowed = Session::connect_deadline(&target.conninfo, target.timeout) + target.timeout + LATENESS;
        let address = target.conninfo.target_name();
        let database = target.conninfo.dbname().to_owned();
        let guard = Guard::new(target.name.clone(), database, target.book, target.grouping);
        let guard = Arc::new(Mutex::new(guard));
        let taught = Arc::clone(&guard);
        let spec = TargetSpec {
            name: target.name,
            settings: target.conninfo,
            interval: target.interval,
            timeout: target.timeout,
            // Neither a pooler nor a lease says anything of what a suite leaves behind.
            poolers: Vec::new(),
            leases: [].into(),
            observe: Box::new(move |snapshot| locked(&taught).observe(snapshot)),
        };
        let deliver = sender.clone();
        let updates = forward(move |_, update| deliver.send(Event::Update(update)).is_ok())?;
        let handle = Schedule::start()
            .and_then(|schedule| schedule.spawn(0, spec, updates))
            .map_err(|error| Error::failure("cannot start a thread").caused_by(error))?;
        Ok(Self { guard, handle, sender, events, failures: Vec::new(), address, allowed })
    }

    /// For others to say what happens.
    pub(super) fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Waits for the poll that says what was there before. Returns the number of a signal that came first.
    ///
    /// # Errors
    /// The server cannot be watched: the command must not run as if it were.
    pub(super) fn first_poll(&self) -> Result<Option<i32>> {
        let refuse = |failure: Failure| Error::from(failure).hint("The command was not run.");
        match self.next(Instant::now() + self.allowed) {
            Some(Event::Update(Update::Report { .. })) => match locked(&self.guard).obstacle() {
                Some(obstacle) => Err(Error::failure(obstacle).hint("The command was not run.")),
                None => Ok(None),
            },
            Some(Event::Update(Update::Failed { failure, .. })) => Err(refuse(failure)),
            Some(Event::Signal(sent)) => Ok(Some(sent.number)),
            Some(Event::Ended) | None => Err(refuse(pg::timed_out(&self.address, true, self.allowed))),
        }
    }

    /// Watches until the command has ended and the server was looked at after that; whether it could be.
    pub(super) fn until_end(&mut self, hand_on: impl Fn(Sent)) -> bool {
        let (mut until, mut polls_after) = (never(), None);
        loop {
            match self.next(until) {
                Some(Event::Signal(sent)) => hand_on(sent),
                Some(Event::Ended) => {
                    polls_after = Some(0);
                    until = Instant::now() + self.allowed + SHORTEST_INTERVAL;
                    // Not at once, if it can be helped: sessions of a process that has ended end a moment later.
                    self.handle.set_interval(SHORTEST_INTERVAL);
                }
                Some(Event::Update(Update::Report { .. })) => {
                    if let Some(polls) = &mut polls_after {
                        *polls += 1;
                        if *polls == POLLS_AFTER {
                            return true;
                        }
                    }
                }
                Some(Event::Update(Update::Failed { failure, .. })) => {
                    self.fail(failure);
                    if polls_after.is_some() {
                        return false;
                    }
                }
                None => {
                    self.fail(pg::timed_out(&self.address, false, self.allowed));
                    return false;
                }
            }
        }
    }

    /// Ends polling; what is to be told.
    pub(super) fn finish(self, seen_after: bool) -> GuardReport {
        let mut report = locked(&self.guard).finish(seen_after);
        report.blind.extend(self.failures.into_iter().map(sentences));
        if seen_after {
            self.handle.stop();
        }
        report
    }

    fn fail(&mut self, failure: Failure) {
        if self.failures.iter().all(|known| known.kind != failure.kind) {
            self.failures.push(failure);
        }
    }

    fn next(&self, until: Instant) -> Option<Event> {
        // We hold a sender ourselves: it is never disconnected.
        self.events.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }
}

/// The failure as one text: what it is, and what to do.
fn sentences(failure: Failure) -> String {
    let mut text = format!("A poll failed: {}.", failure.message.trim_end_matches('.'));
    for hint in failure.hints {
        text.push(' ');
        text.push_str(&hint);
    }
    text
}

fn locked(guard: &Mutex<Guard>) -> MutexGuard<'_, Guard> {
    // A thread that panicked has left it between two polls: what it knows is still so.
    guard.lock().unwrap_or_else(PoisonError::into_inner)
}
