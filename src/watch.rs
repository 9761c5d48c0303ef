//! The poller: one target, polled for as long as somebody listens.
//!
//! Knows the schedule, the back-off and the deadlines. What a snapshot means is told by the function it is given; what
//! becomes of an [`Update`] is the listener's business.
//!
//! Two threads per target. The *worker* owns the connection and does what can hang: connecting and polling. The
//! *controller* gives each of these a deadline. When one passes, the listener is told, and the worker is left alone:
//! nothing can interrupt a read from a server that is stopped, and a second connection while the first may still be
//! open could take the last place of a server that is in trouble. The worker goes on when its server does.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::analysis::report::{Failure, TargetReport};
use crate::model::{LeaseTable, Snapshot};
use crate::pg::{self, ConnSettings, ProcessEnvironment, Session};
use crate::pgbouncer::{Consoles, PoolerSpec};

/// The longest pause between two attempts, unless the interval is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Of so many polls the cheapest says what polls cost.
const COSTS: usize = 5;
/// How many of a poll's own length the interval must have.
const INTERVAL_PER_COST: u32 = 10;
/// Enough for TLS in a debug build; 200 targets must not reserve gigabytes.
const STACK: usize = 1024 * 1024;
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
    events: Sender<Event>,
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
        drop(self.events.send(event));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.tell(Event::Stop);
    }
}

/// What the controller waits for.
#[derive(Debug)]
enum Event {
    Refresh,
    SetInterval(Duration),
    SetLeases(Arc<[LeaseTable]>),
    Stop,
    Worker(Progress),
}

/// What the worker says while it does one job.
#[derive(Debug)]
enum Progress {
    /// It connects; said only when it had a connection and lost it.
    Reconnecting,
    /// It is connected to this host:port, and polls now.
    Connected(String),
    /// The job has ended, with or without an open connection.
    Done { result: Box<Result<Snapshot, Failure>>, open: bool },
}

/// Starts polling a target: at once, then at its interval. Updates come with `index`.
///
/// # Errors
/// If the operating system gives no threads.
pub fn spawn(index: usize, spec: TargetSpec, updates: Sender<(usize, Update)>) -> io::Result<Handle> {
    let _ = *EPOCH;
    let (events, inbox) = mpsc::channel();
    let (jobs, orders) = mpsc::channel();
    let (until_ended, ended) = mpsc::channel();
    let worker = Worker {
        settings: spec.settings.clone(),
        timeout: spec.timeout,
        session: None,
        consoles: Consoles::spawn(&spec.poolers, spec.timeout)?,
        controller: events.clone(),
        _until_ended: until_ended,
    };
    thread::Builder::new().name(format!("poll-{index}")).stack_size(STACK).spawn(move || worker.run(&orders))?;
    let controller = Controller {
        index,
        spec,
        updates,
        jobs,
        failures: 0,
        connected: None,
        costs: [Duration::ZERO; COSTS],
        slot: None,
        first_pause: Some(share(index)),
        told_stretching: false,
    };
    thread::Builder::new().name(format!("watch-{index}")).stack_size(STACK).spawn(move || controller.run(&inbox))?;
    Ok(Handle { events, ended })
}

/// The thread that owns the connection.
struct Worker {
    settings: ConnSettings,
    timeout: Duration,
    session: Option<Session>,
    consoles: Consoles,
    controller: Sender<Event>,
    /// Dropped with the worker, after its session.
    _until_ended: Sender<()>,
}

impl Worker {
    /// Does one job for each order; ends when nobody can order any more, or nobody listens.
    fn run(mut self, orders: &Receiver<Arc<[LeaseTable]>>) {
        for leases in orders {
            let result = Box::new(self.job(&leases));
            if !self.say(Progress::Done { result, open: self.session.is_some() }) {
                return;
            }
        }
    }

    fn say(&self, progress: Progress) -> bool {
        self.controller.send(Event::Worker(progress)).is_ok()
    }

    fn job(&mut self, leases: &[LeaseTable]) -> Result<Snapshot, Failure> {
        // Asked while the server is: a pooler that is slow or away costs the poll little, and never fails it.
        self.consoles.ask();
        let mut snapshot = self.reconnect_and_poll(leases)?;
        snapshot.poolers = self.consoles.answers();
        Ok(snapshot)
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

/// Where the controller is.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Nothing runs until `due`.
    Resting { due: Instant },
    /// The worker works, since `began`, and should be ready by `deadline`.
    Working { began: Instant, deadline: Instant },
    /// The worker works, since `began`, and is late; the listener is told again at `remind`.
    Overdue { began: Instant, remind: Instant },
}

/// The thread that keeps the schedule.
struct Controller {
    index: usize,
    spec: TargetSpec,
    updates: Sender<(usize, Update)>,
    jobs: Sender<Arc<[LeaseTable]>>,
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

/// The listener or the worker is gone: there is nothing left to do.
struct Over;

impl Controller {
    fn run(mut self, inbox: &Receiver<Event>) {
        // Over is the one way in which it ends.
        drop(self.keep_schedule(inbox));
    }

    fn keep_schedule(&mut self, inbox: &Receiver<Event>) -> Result<(), Over> {
        let mut state = self.begin()?;
        loop {
            let until = match state {
                State::Resting { due } => due,
                State::Working { deadline, .. } => deadline,
                State::Overdue { remind, .. } => remind,
            };
            state = match inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(Event::Refresh) => self.refresh(state)?,
                Ok(Event::SetInterval(interval)) => self.set_interval(state, interval),
                Ok(Event::SetLeases(leases)) => {
                    self.spec.leases = leases;
                    state
                }
                Ok(Event::Worker(progress)) => self.progress(state, progress)?,
                Err(RecvTimeoutError::Timeout) => self.time_is_up(state)?,
            };
        }
    }

    fn begin(&mut self) -> Result<State, Over> {
        self.jobs.send(Arc::clone(&self.spec.leases)).map_err(|_| Over)?;
        Ok(self.working())
    }

    fn working(&self) -> State {
        let (began, timeout) = (Instant::now(), self.spec.timeout);
        let allowed = match self.connected {
            Some(_) => timeout,
            None => Session::connect_deadline(&self.spec.settings, timeout),
        };
        State::Working { began, deadline: began + allowed }
    }

    fn refresh(&mut self, state: State) -> Result<State, Over> {
        match state {
            State::Resting { .. } => self.begin(),
            State::Working { .. } | State::Overdue { .. } => Ok(state),
        }
    }

    fn set_interval(&mut self, state: State, interval: Duration) -> State {
        self.spec.interval = interval;
        match state {
            // Only ever sooner: what is due soon stays due soon.
            State::Resting { due } => State::Resting { due: due.min(Instant::now() + interval) },
            State::Working { .. } | State::Overdue { .. } => state,
        }
    }

    fn time_is_up(&mut self, state: State) -> Result<State, Over> {
        let began = match state {
            State::Resting { due } => {
                self.slot = Some(due);
                return self.begin();
            }
            State::Working { began, .. } | State::Overdue { began, .. } => began,
        };
        let failure = match &self.connected {
            Some(address) => pg::timed_out(address, false, began.elapsed()),
            None => pg::timed_out(&self.spec.settings.target_name(), true, began.elapsed()),
        };
        let remind = self.fail(failure)?;
        Ok(State::Overdue { began, remind })
    }

    fn progress(&mut self, state: State, progress: Progress) -> Result<State, Over> {
        match progress {
            Progress::Reconnecting => {
                self.connected = None;
                Ok(self.working())
            }
            Progress::Connected(address) => {
                self.connected = Some(address);
                Ok(self.working())
            }
            Progress::Done { result, open } => {
                self.connected = self.connected.take().filter(|_| open);
                match (*result, state) {
                    // What was read so long ago, or so slowly, may be true no more; the connection works again.
                    (Ok(_), State::Overdue { .. }) => self.begin(),
                    (Ok(snapshot), _) => self.succeed(snapshot),
                    (Err(failure), _) => Ok(State::Resting { due: self.fail(failure)? }),
                }
            }
        }
    }

    fn succeed(&mut self, snapshot: Snapshot) -> Result<State, Over> {
        let began = Instant::now().checked_sub(snapshot.poll_duration).unwrap_or_else(Instant::now);
        let cost = self.cost(snapshot.poll_duration);
        self.failures = 0;
        let report = Arc::new((self.spec.observe)(snapshot));
        let interval = self.spec.interval.max(cost * INTERVAL_PER_COST);
        let stretched_to = (interval > self.spec.interval).then_some(interval);
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
            let (target, interval) = (self.spec.name.as_str(), self.spec.interval);
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
        let retry_in = pause(self.spec.interval, self.failures).mul_f64(jitter);
        self.update(Update::Failed { failure, retry_in })?;
        Ok(Instant::now() + retry_in)
    }

    fn update(&self, update: Update) -> Result<(), Over> {
        self.updates.send((self.index, update)).map_err(|_| Over)
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
