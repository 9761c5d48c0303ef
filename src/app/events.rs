//! One channel for all that a command waits for: updates of targets, and the wish to end.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::app::again;
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::settings::Target;
use crate::signal::{self, Wish};
use crate::watch::{Handle, Schedule, TargetSpec, Update};

/// The most that ending may take, but for the last connection's own bound.
const GOODBYE: Duration = Duration::from_millis(100);

/// Something happened.
pub(super) enum Event {
    /// To the target with this place.
    Update(usize, Update),
    /// A signal asks for something.
    Signal(Wish),
}

/// The watched targets and what happens to them.
pub(super) struct Watch {
    events: Receiver<Event>,
    pollers: Pollers,
}

impl Watch {
    /// Begins to poll all targets. `monitor` judges each; `with_suspend` says whether Ctrl-Z is an event.
    pub fn begin(targets: Vec<Target>, monitor: impl Fn(usize, &Target) -> Shared, with_suspend: bool) -> Result<Self> {
        let (sender, events) = mpsc::channel();
        let wake = sender.clone();
        // Nobody listens any more when the command has ended already.
        signal::catch(with_suspend, move |wish| drop(wake.send(Event::Signal(wish))))?;
        let deliver = move |place, update| sender.send(Event::Update(place, update)).is_ok();
        Ok(Self { events, pollers: Pollers::begin(targets, monitor, deliver)? })
    }

    /// The next event, or nothing if there was none until then.
    pub fn next(&self, until: Instant) -> Option<Event> {
        match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            // Senders live as long as the forwarding thread; without it nothing can happen any more.
            Err(RecvTimeoutError::Disconnected) => Some(Event::Signal(Wish::End)),
        }
    }

    /// Ends polling, as [`Pollers::end`] does.
    pub fn end(self, healthy: impl Fn(usize) -> bool) {
        self.pollers.end(healthy);
    }
}

/// One poller per target, in the order of the targets.
pub(super) struct Pollers {
    handles: Vec<Handle>,
}

impl Pollers {
    /// Begins to poll all targets. `monitor` judges each; `deliver` takes each update with the target's place, and says
    /// whether anybody still listens.
    pub fn begin(
        targets: Vec<Target>,
        monitor: impl Fn(usize, &Target) -> Shared,
        deliver: impl Fn(usize, Update) -> bool + Send + 'static,
    ) -> Result<Self> {
        let updates = forward(deliver)?;
        let no_thread = |error| Error::failure("cannot start a thread").caused_by(error);
        let schedule = Schedule::start().map_err(no_thread)?;
        let handles = targets
            .into_iter()
            .enumerate()
            .map(|(place, target)| {
                let monitor = monitor(place, &target);
                schedule.spawn(place, spec(target, monitor), updates.clone()).map_err(no_thread)
            })
            .collect::<Result<_>>()?;
        Ok(Self { handles })
    }

    /// Polls the target with this place now, or all of them.
    pub fn refresh(&self, place: Option<usize>) {
        let wanted = |at: usize| place.is_none_or(|place| place == at);
        self.handles.iter().enumerate().filter(|(at, _)| wanted(*at)).for_each(|(_, handle)| handle.refresh_now());
    }

    /// Polls all targets at this interval from now on.
    pub fn set_interval(&self, interval: Duration) {
        self.handles.iter().for_each(|handle| handle.set_interval(interval));
    }

    /// Ends polling. Connections of the targets with these places are closed in good order, as far as that is done in
    /// a moment; the others may hang, and are left behind.
    pub fn end(self, healthy: impl Fn(usize) -> bool) {
        let until = Instant::now() + GOODBYE;
        for (place, handle) in self.handles.into_iter().enumerate() {
            if healthy(place) && Instant::now() < until {
                handle.stop();
            }
        }
    }
}

/// A monitor that its poller feeds, and whose memory somebody may want to have in the end.
pub(super) type Shared = Arc<Mutex<Monitor>>;

/// The monitor of a target. `short` says whether polls will end before its idle threshold has passed.
pub(super) fn monitor_of(target: &Target, short: bool) -> Monitor {
    let (name, book) = (target.name.clone(), Arc::clone(&target.book));
    Monitor::new(name, target.thresholds, book, target.grouping.clone(), short)
}

/// The monitor of a target that is watched without an end.
pub(super) fn endless(_: usize, target: &Target) -> Shared {
    Arc::new(Mutex::new(monitor_of(target, false)))
}

fn spec(target: Target, monitor: Shared) -> TargetSpec {
    let observe = move |snapshot| {
        let mut report = monitor.lock().unwrap_or_else(PoisonError::into_inner).observe(snapshot);
        again::complete(&mut report, &target.again);
        report
    };
    TargetSpec {
        name: target.name,
        settings: target.conninfo,
        poolers: target.poolers,
        interval: target.interval,
        timeout: target.timeout,
        leases: target.leases,
        observe: Box::new(observe),
    }
}

/// Hands on what the pollers say.
pub(super) fn forward(deliver: impl Fn(usize, Update) -> bool + Send + 'static) -> Result<Sender<(usize, Update)>> {
    let (sender, updates) = mpsc::channel();
    thread::Builder::new()
        .name("updates".to_owned())
        .spawn(move || {
            for (place, update) in updates {
                if !deliver(place, update) {
                    return;
                }
            }
        })
        .map_err(|error| Error::failure("cannot start a thread").caused_by(error))?;
    Ok(sender)
}

/// A moment that far in the future that it never comes.
pub(super) fn never() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 60 * 60)
}
