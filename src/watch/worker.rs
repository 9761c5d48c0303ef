//! What owns a target's connection: it connects, polls, and has what it read judged.
//!
//! Knows what to do when a connection is lost, and nothing of the schedule: it does one job when it is told to. For each
//! it has a thread, for a job can hang. Between two jobs it has none: of 200 threads that wait, each would keep a stack
//! and, in the allocator, what it has freed.

use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{EPOCH, Event, Observe, TargetSpec};
use crate::analysis::report::{Failure, TargetReport};
use crate::model::{LeaseTable, Snapshot};
use crate::pg::{ConnSettings, ProcessEnvironment, Session};
use crate::pgbouncer::Consoles;

/// Enough for TLS in a debug build; 200 targets must not reserve gigabytes.
const STACK: usize = 1024 * 1024;

/// What the worker says while it does one job.
#[derive(Debug)]
pub(super) enum Progress {
    /// It connects; said only when it had a connection and lost it.
    Reconnecting,
    /// It is connected to this host:port, and polls now.
    Connected(String),
    /// It has read everything in time.
    Read,
    /// The job has ended.
    Done { outcome: Outcome, worker: Idle },
    /// A fault of ours has ended it.
    Crashed,
}

/// How a job ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A good poll, what it means, when it began and how long reading took.
    Judged {
        report: Arc<TargetReport>,
        began: Instant,
        took: Duration,
    },
    /// What was read so slowly may be true no more: it was thrown away.
    Late,
    Failed(Failure),
}

struct Worker {
    index: usize,
    settings: ConnSettings,
    timeout: Duration,
    session: Option<Session>,
    consoles: Consoles,
    observe: Observe,
    controller: (u64, Sender<(u64, Event)>),
    /// Dropped with the worker, after its session.
    _until_ended: Sender<()>,
}

/// A worker without a job. Dropping it closes its connection.
pub(super) struct Idle(Option<Box<Worker>>);

impl Idle {
    /// A worker without a connection. Nothing comes through what is returned beside it; it is cut when the worker has
    /// ended.
    pub(super) fn new(
        index: usize,
        spec: TargetSpec,
        controller: (u64, Sender<(u64, Event)>),
    ) -> io::Result<(Self, Receiver<()>)> {
        let (until_ended, ended) = mpsc::channel();
        let worker = Worker {
            index,
            consoles: Consoles::spawn(&spec.poolers, spec.timeout)?,
            settings: spec.settings,
            timeout: spec.timeout,
            session: None,
            observe: spec.observe,
            controller,
            _until_ended: until_ended,
        };
        Ok((Self(Some(Box::new(worker))), ended))
    }

    /// Whether it has a connection.
    pub(super) fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|worker| worker.session.is_some())
    }

    /// Does one job, in a thread of its own. The worker comes back when it is done.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub(super) fn begin(mut self, leases: Arc<[LeaseTable]>) -> Result<(), (io::Error, Self)> {
        let Some(worker) = self.0.take() else { return Ok(()) };
        in_thread(worker, move |worker| worker.run(&leases)).map_err(|(error, worker)| (error, Self(Some(worker))))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // In a thread of its own: taking leave of a server that is stopped can hang. Without one there is only this one.
        if let Some(worker) = self.0.take() {
            drop(in_thread(worker, drop));
        }
    }
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle").field("open", &self.is_open()).finish()
    }
}

/// Gives the worker to a new thread; back if there is none.
fn in_thread(
    worker: Box<Worker>,
    work: impl FnOnce(Box<Worker>) + Send + 'static,
) -> Result<(), (io::Error, Box<Worker>)> {
    let name = format!("poll-{}", worker.index);
    // What a thread that never began was given would be lost.
    let given = Arc::new(Mutex::new(Some(worker)));
    let taken = Arc::clone(&given);
    let take = |given: &Mutex<Option<Box<Worker>>>| given.lock().unwrap_or_else(PoisonError::into_inner).take();
    let begun = thread::Builder::new().name(name).stack_size(STACK).spawn(move || {
        if let Some(worker) = take(&taken) {
            work(worker);
        }
    });
    match begun {
        Ok(_) => Ok(()),
        Err(error) => take(&given).map_or(Ok(()), |worker| Err((error, worker))),
    }
}

impl Worker {
    fn run(mut self: Box<Self>, leases: &[LeaseTable]) {
        let outcome = self.job(leases);
        let (id, controller) = self.controller.clone();
        // Where nobody wants it back, it ends.
        drop(controller.send((id, Event::Worker(Progress::Done { outcome, worker: Idle(Some(self)) }))));
    }

    fn say(&self, progress: Progress) {
        let (id, controller) = &self.controller;
        // Nobody listens any more where polling was stopped.
        drop(controller.send((*id, Event::Worker(progress))));
    }

    fn job(&mut self, leases: &[LeaseTable]) -> Outcome {
        // Asked while the server is: a pooler that is slow or away costs the poll little, and never fails it.
        self.consoles.ask();
        let mut snapshot = match self.reconnect_and_poll(leases) {
            Ok(snapshot) => snapshot,
            Err(failure) => return Outcome::Failed(failure),
        };
        snapshot.poolers = self.consoles.answers();
        let (began, took) = (*EPOCH + snapshot.monotonic, snapshot.poll_duration);
        if took > self.timeout {
            return Outcome::Late;
        }
        self.say(Progress::Read);
        Outcome::Judged { report: Arc::new((self.observe)(snapshot)), began, took }
    }

    fn reconnect_and_poll(&mut self, leases: &[LeaseTable]) -> Result<Snapshot, Failure> {
        let known = self.session.as_ref().is_some_and(Session::has_polled);
        let result = self.connect_and_poll(leases);
        // A connection that worked and is gone now was mostly lost between two polls: by a restart, or because it was
        // idle for too long. It is surely closed, so one new one may be opened at once.
        if result.is_err() && known && self.session.is_none() {
            self.say(Progress::Reconnecting);
            return self.connect_and_poll(leases);
        }
        result
    }

    fn connect_and_poll(&mut self, leases: &[LeaseTable]) -> Result<Snapshot, Failure> {
        let mut session = if let Some(session) = self.session.take() {
            session
        } else {
            let session = Session::connect(&self.settings, &ProcessEnvironment, self.timeout)?;
            self.say(Progress::Connected(session.address().to_owned()));
            session
        };
        let result = session.poll(*EPOCH, leases);
        self.session = (!session.is_lost()).then_some(session);
        result
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if thread::panicking() {
            self.say(Progress::Crashed);
        }
    }
}
