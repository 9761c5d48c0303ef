//! The poller: one target, polled for as long as somebody listens.
//!
//! Knows the schedule, the back-off and the deadlines. What a snapshot means is told by the function it is given; what
//! becomes of an [`Update`] is the listener's business.
//!
//! Each target has a [`worker`], which owns the connection and does what can hang, connecting and polling, in a thread
//! that lasts as long as that. One thread for all of them, the [`schedule`], gives each of these a deadline. When one
//! passes, the listener is told, and the worker is left alone: nothing can interrupt a read from a server that is
//! stopped, and a second connection while the first may still be open could take the last place of a server that is in
//! trouble. The worker goes on when its server does.

mod schedule;
mod worker;

use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::analysis::report::{Failure, FailureKind, TargetReport};
use crate::model::{LeaseTable, Snapshot};
use crate::pg::{self, ConnSettings, Session};
use crate::pgbouncer::PoolerSpec;
pub use schedule::Schedule;
use worker::{Idle, Outcome, Progress};

/// The longest pause between two attempts, unless the interval is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Of so many polls the cheapest says what polls cost.
const COSTS: usize = 5;
/// How many of a poll's own length the interval must have.
const INTERVAL_PER_COST: u32 = 10;
/// How long stopping waits for the connection to be closed in good order.
const GOODBYE: Duration = Duration::from_millis(100);

/// Where every [`Snapshot::monotonic`] of this process counts from.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// From a snapshot to what is reported; it keeps the memory across polls.
pub type Observe = Box<dyn FnMut(Snapshot) -> TargetReport + Send>;

/// A target to be polled.
pub struct TargetSpec {
    /// The target's name, for logs.
    pub name: String,
    /// How to connect.
    pub settings: ConnSettings,
    /// The PgBouncers that are asked with each poll.
    pub poolers: Vec<PoolerSpec>,
    /// From the beginning of one poll to that of the next.
    pub interval: Duration,
    /// The most that connecting may take, and each poll.
    pub timeout: Duration,
    /// The lease tables that are read in each poll.
    pub leases: Arc<[LeaseTable]>,
    /// What is made of a snapshot.
    pub observe: Observe,
}

/// What happened to a target.
#[derive(Debug, Clone)]
pub enum Update {
    /// A good poll.
    Report {
        /// What was seen.
        report: Arc<TargetReport>,
        /// When the next poll begins, from now.
        next_in: Duration,
        /// The interval that is kept instead of the wanted one, because polls cost more than a tenth of that.
        stretched_to: Option<Duration>,
    },
    /// A poll or an attempt to connect that failed, or that is overdue.
    Failed {
        /// Why.
        failure: Failure,
        /// When the next attempt begins, from now; for an operation that is overdue, when it is spoken of again.
        retry_in: Duration,
    },
}

/// A running poller. Dropping it stops the poller.
#[derive(Debug)]
pub struct Handle {
    id: u64,
    events: Sender<(u64, Event)>,
    /// Nothing comes here; it is cut when the worker has ended.
    ended: Receiver<()>,
}

impl Handle {
    /// Polls now instead of when the next poll is due, also during a pause after a failure. Does nothing while a poll
    /// runs.
    pub fn refresh_now(&self) {
        self.tell(Event::Refresh);
    }

    /// Polls at another interval from now on.
    pub fn set_interval(&self, interval: Duration) {
        self.tell(Event::SetInterval(interval));
    }

    /// Reads these lease tables from the next poll on.
    pub fn set_leases(&self, leases: Arc<[LeaseTable]>) {
        self.tell(Event::SetLeases(leases));
    }

    /// Stops polling and closes the connection. Waits a moment for it to be closed in good order; a worker that hangs
    /// in a read is left behind.
    pub fn stop(self) {
        self.tell(Event::Stop);
        // Cut or timed out: both mean that there is nothing left to do.
        let _ = self.ended.recv_timeout(GOODBYE);
    }

    fn tell(&self, event: Event) {
        // A poller that has ended needs to be told nothing.
        drop(self.events.send((self.id, event)));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.tell(Event::Stop);
    }
}

/// What a controller is told.
#[derive(Debug)]
enum Event {
    Begin(Box<Controller>),
    Refresh,
    SetInterval(Duration),
    SetLeases(Arc<[LeaseTable]>),
    Stop,
    Worker(Progress),
}

/// Where the controller is.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Nothing runs until `due`.
    Resting { due: Instant },
    /// The worker works, since `began`, and should be ready by `deadline`.
    Working { began: Instant, deadline: Instant },
    /// The worker works, since `began`, and is late; the listener is told again at `remind`.
    Overdue { began: Instant, remind: Instant },
    /// The worker judges what it has read, which cannot hang.
    Judging,
}

/// Keeps the schedule of one target.
#[derive(Debug)]
struct Controller {
    index: usize,
    target: Target,
    updates: Sender<(usize, Update)>,
    /// Nothing while it works.
    worker: Option<Idle>,
    state: State,
    /// Failures since the last good poll.
    failures: u32,
    /// host:port of the server that we are connected to.
    connected: Option<String>,
    /// How long the last good polls took, the latest last; zero where there was none yet.
    costs: [Duration; COSTS],
    /// When the poll that runs was due.
    slot: Option<Instant>,
    /// What the pause after the first good poll is of the interval.
    first_pause: Option<f64>,
    /// The log has it that the interval was stretched.
    told_stretching: bool,
}

/// What a controller knows of its target.
#[derive(Debug)]
struct Target {
    name: String,
    /// host:port, or several.
    address: String,
    interval: Duration,
    /// The most that connecting may take.
    connecting: Duration,
    /// The most that a poll may take.
    timeout: Duration,
    leases: Arc<[LeaseTable]>,
}

/// The listener or the worker is gone, or nobody wants it any more: there is nothing left to do.
struct Over;

impl Controller {
    /// Without a worker yet.
    fn new(index: usize, spec: &TargetSpec, updates: Sender<(usize, Update)>) -> Self {
        let target = Target {
            name: spec.name.clone(),
            address: spec.settings.target_name(),
            interval: spec.interval,
            connecting: Session::connect_deadline(&spec.settings, spec.timeout),
            timeout: spec.timeout,
            leases: Arc::clone(&spec.leases),
        };
        Self {
            index,
            target,
            updates,
            worker: None,
            state: State::Resting { due: Instant::now() },
            failures: 0,
            connected: None,
            costs: [Duration::ZERO; COSTS],
            slot: None,
            first_pause: Some(share(index)),
            told_stretching: false,
        }
    }

    /// When it wants to be woken, unless something happens before.
    fn until(&self) -> Option<Instant> {
        match self.state {
            State::Resting { due } => Some(due),
            State::Working { deadline, .. } => Some(deadline),
            State::Overdue { remind, .. } => Some(remind),
            State::Judging => None,
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), Over> {
        match event {
            Event::Stop => return Err(Over),
            Event::Refresh => self.refresh()?,
            Event::SetInterval(interval) => self.set_interval(interval),
            Event::SetLeases(leases) => self.target.leases = leases,
            Event::Worker(progress) => self.state = self.progress(progress)?,
            // It has begun.
            Event::Begin(_) => {}
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<State, Over> {
        let Some(worker) = self.worker.take() else { return Ok(self.state) };
        let Err((error, worker)) = worker.begin(Arc::clone(&self.target.leases)) else { return Ok(self.working()) };
        self.worker = Some(worker);
        Ok(State::Resting { due: self.fail(no_thread(&error))? })
    }

    fn working(&self) -> State {
        let began = Instant::now();
        let allowed = if self.connected.is_some() { self.target.timeout } else { self.target.connecting };
        State::Working { began, deadline: began + allowed }
    }

    fn refresh(&mut self) -> Result<(), Over> {
        if matches!(self.state, State::Resting { .. }) {
            self.state = self.begin()?;
        }
        Ok(())
    }

    fn set_interval(&mut self, interval: Duration) {
        self.target.interval = interval;
        if let State::Resting { due } = &mut self.state {
            // Only ever sooner: what is due soon stays due soon.
            *due = (*due).min(Instant::now() + interval);
        }
    }

    /// What it waited for, [`until`](Self::until) then, has not happened.
    fn time_is_up(&mut self) -> Result<(), Over> {
        self.state = match self.state {
            State::Resting { due } => {
                self.slot = Some(due);
                self.begin()?
            }
            State::Working { began, .. } | State::Overdue { began, .. } => {
                let failure = self.late(began.elapsed());
                State::Overdue { began, remind: self.fail(failure)? }
            }
            State::Judging => State::Judging,
        };
        Ok(())
    }

    fn late(&self, after: Duration) -> Failure {
        match &self.connected {
            Some(address) => pg::timed_out(address, false, after),
            None => pg::timed_out(&self.target.address, true, after),
        }
    }

    fn progress(&mut self, progress: Progress) -> Result<State, Over> {
        match progress {
            Progress::Reconnecting => {
                self.connected = None;
                Ok(self.working())
            }
            Progress::Connected(address) => {
                self.connected = Some(address);
                Ok(self.working())
            }
            Progress::Read => Ok(State::Judging),
            Progress::Done { outcome, worker } => {
                let late = self.late(self.target.timeout);
                self.connected = self.connected.take().filter(|_| worker.is_open());
                self.worker = Some(worker);
                match outcome {
                    Outcome::Judged { report, began, took } => self.succeed(report, began, took),
                    // It was told already; the connection works again.
                    Outcome::Late if matches!(self.state, State::Overdue { .. }) => self.begin(),
                    Outcome::Late => Ok(State::Resting { due: self.fail(late)? }),
                    Outcome::Failed(failure) => Ok(State::Resting { due: self.fail(failure)? }),
                }
            }
            Progress::Crashed => {
                self.fail(crashed())?;
                Err(Over)
            }
        }
    }

    fn succeed(&mut self, report: Arc<TargetReport>, began: Instant, took: Duration) -> Result<State, Over> {
        let cost = self.cost(took);
        self.failures = 0;
        let interval = self.target.interval.max(cost * INTERVAL_PER_COST);
        let stretched_to = (interval > self.target.interval).then_some(interval);
        self.log_stretching(cost, stretched_to);
        // From the moment it was due: what a thread is late must not add up. Unless it was very late.
        let slot = self.slot.take().filter(|slot| began.saturating_duration_since(*slot) < interval / 2);
        let due = slot.unwrap_or(began) + interval.mul_f64(self.first_pause.take().unwrap_or(1.0));
        let next_in = due.saturating_duration_since(Instant::now());
        self.update(Update::Report { report, next_in, stretched_to })?;
        Ok(State::Resting { due })
    }

    /// What a poll costs now: the least of the last ones, for one that had to wait its turn says nothing of the work.
    fn cost(&mut self, last: Duration) -> Duration {
        self.costs.rotate_left(1);
        self.costs[COSTS - 1] = last;
        self.costs.into_iter().min().unwrap_or(last)
    }

    /// Says it once; whoever wants to know more has it in every update.
    fn log_stretching(&mut self, cost: Duration, stretched_to: Option<Duration>) {
        if let (Some(to), false) = (stretched_to, self.told_stretching) {
            self.told_stretching = true;
            let (target, interval) = (self.target.name.as_str(), self.target.interval);
            tracing::info!(
                target,
                ?cost,
                ?interval,
                ?to,
                "a poll costs more than a tenth of the interval: it is longer"
            );
        }
    }

    /// Tells of a failure; when to try again, or to speak of it again.
    fn fail(&mut self, failure: Failure) -> Result<Instant, Over> {
        self.failures = self.failures.saturating_add(1);
        // Many targets must not come back at the same moment.
        let jitter = 0.8 + 0.4 * fastrand::f64();
        let retry_in = pause(self.target.interval, self.failures).mul_f64(jitter);
        self.update(Update::Failed { failure, retry_in })?;
        Ok(Instant::now() + retry_in)
    }

    fn update(&self, update: Update) -> Result<(), Over> {
        self.updates.send((self.index, update)).map_err(|_| Over)
    }
}

/// A fault of ours ended the worker's thread. The fault itself is in the log.
fn crashed() -> Failure {
    Failure {
        kind: FailureKind::Query,
        message: "this target is watched no more: a defect of pglockwatch has ended its poller".to_owned(),
        hints: vec!["Restart pglockwatch, and report what it wrote to its log.".to_owned()],
    }
}

/// The operating system gave no thread to poll in.
fn no_thread(error: &io::Error) -> Failure {
    Failure {
        kind: FailureKind::Query,
        message: format!("the operating system gives no thread for a poll: {error}"),
        hints: vec!["Raise the limit of tasks of the service, or of processes of its user.".to_owned()],
    }
}

/// Part of the interval by which poller number `index` is ahead of the first one. All begin at once; without it they
/// would go on polling at the same moments, with the memory and the processors that this takes. By the golden ratio,
/// however many there are, they are spread about evenly.
fn share(index: usize) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    1.0 - (index as f64 * GOLDEN).fract()
}

/// The pause after so many failures in a row: one interval, then twice as long each time, up to half a minute.
fn pause(interval: Duration, failures: u32) -> Duration {
    let doubled = interval.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(LONGEST_PAUSE.max(interval))
}

#[cfg(test)]
mod tests;
