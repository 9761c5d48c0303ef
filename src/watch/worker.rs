//! The thread that owns a target's connection: it connects, polls, and has what it read judged.
//!
//! Knows what to do when a connection is lost, and nothing of the schedule: it does one job for each order.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
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
    /// The job has ended, with or without an open connection.
    Done { outcome: Outcome, open: bool },
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

pub(super) struct Worker {
    settings: ConnSettings,
    timeout: Duration,
    session: Option<Session>,
    consoles: Consoles,
    observe: Observe,
    controller: (u64, Sender<(u64, Event)>),
    /// Dropped with the worker, after its session.
    _until_ended: Sender<()>,
}

impl Worker {
    /// Starts the thread. Nothing comes through what is returned; it is cut when the thread has ended.
    pub(super) fn start(
        index: usize,
        spec: TargetSpec,
        orders: Receiver<Arc<[LeaseTable]>>,
        controller: (u64, Sender<(u64, Event)>),
    ) -> io::Result<Receiver<()>> {
        let (until_ended, ended) = mpsc::channel();
        let worker = Self {
            consoles: Consoles::spawn(&spec.poolers, spec.timeout)?,
            settings: spec.settings,
            timeout: spec.timeout,
            session: None,
            observe: spec.observe,
            controller,
            _until_ended: until_ended,
        };
        thread::Builder::new().name(format!("poll-{index}")).stack_size(STACK).spawn(move || worker.run(&orders))?;
        Ok(ended)
    }

    /// Does one job for each order; ends when nobody can order any more, or nobody listens.
    fn run(mut self, orders: &Receiver<Arc<[LeaseTable]>>) {
        for leases in orders {
            let outcome = self.job(&leases);
            if !self.say(Progress::Done { outcome, open: self.session.is_some() }) {
                return;
            }
        }
    }

    fn say(&self, progress: Progress) -> bool {
        let (id, controller) = &self.controller;
        controller.send((*id, Event::Worker(progress))).is_ok()
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
