//! PgBouncer's console: which backend serves which pool, asked beside each poll.
//!
//! Knows the console's commands and deadlines. Which rows belong to which session is not decided here, but in
//! [`analysis`](crate::analysis): this module makes plain data. A PgBouncer that is away, refuses, hangs or forbids
//! never fails a poll; it becomes a sentence instead.
//!
//! One thread per PgBouncer owns its connection, for nothing can interrupt a read from a process that is stopped. While
//! an answer is overdue nothing new is asked and no second connection is opened; an answer that comes too late for its
//! poll is thrown away, so that what is reported is always of this poll.

mod look;

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::analysis::report::Failure;
use crate::model::{Pooler, PoolerSaid};
use crate::pg::{ConnSettings, Console, ProcessEnvironment};

/// The longest that a poll waits for a PgBouncer, once its server has answered.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pause after a first failure, and the longest one: a refused login is a line in PgBouncer's log.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Enough for TLS in a debug build.
const STACK: usize = 1024 * 1024;

/// A PgBouncer to be asked.
#[derive(Debug, Clone)]
pub struct PoolerSpec {
    /// How to connect to its console.
    pub settings: ConnSettings,
    /// See [`Pooler::shared_between_targets`].
    pub shared_between_targets: bool,
}

type Answer = Result<PoolerSaid, String>;

/// The consoles of one target's PgBouncers.
#[derive(Debug)]
pub struct Consoles {
    each: Vec<Asked>,
    timeout: Duration,
}

/// One PgBouncer, seen from the poll.
#[derive(Debug)]
struct Asked {
    name: String,
    shared_between_targets: bool,
    questions: Sender<()>,
    answers: Receiver<Answer>,
    /// Since when an answer is awaited.
    since: Option<Instant>,
    /// The question is one of this poll.
    is_new: bool,
    /// What the log had last.
    told: Option<String>,
}

impl Consoles {
    /// Starts a thread for each. `timeout` is the most that connecting may take.
    ///
    /// # Errors
    /// If the operating system gives no threads.
    pub fn spawn(specs: &[PoolerSpec], timeout: Duration) -> io::Result<Self> {
        let spawn = |spec: &PoolerSpec| {
            let (questions, asked) = mpsc::channel();
            let (answer, answers) = mpsc::channel();
            let mut thread = Answering { settings: spec.settings.clone(), timeout, console: None, rest: None };
            thread::Builder::new().name("pgbouncer".to_owned()).stack_size(STACK).spawn(move || {
                for () in asked {
                    if answer.send(thread.answer()).is_err() {
                        return;
                    }
                }
            })?;
            Ok(Asked {
                name: spec.settings.target_name(),
                shared_between_targets: spec.shared_between_targets,
                questions,
                answers,
                since: None,
                is_new: false,
                told: None,
            })
        };
        let each = specs.iter().map(spawn).collect::<io::Result<_>>()?;
        Ok(Self { each, timeout })
    }

    /// Asks all that do not still owe an answer.
    pub fn ask(&mut self) {
        for asked in &mut self.each {
            // What comes now is of an earlier poll: too late for that one, and old for this one.
            let is_owed = asked.since.is_some() && asked.answers.try_recv().is_err();
            asked.is_new = !is_owed;
            if asked.is_new {
                asked.since = asked.questions.send(()).is_ok().then(Instant::now);
            }
        }
    }

    /// What they say, in the order in which they were given. Waits a moment for those that were asked just now, and not
    /// at all for those that owed their answer before.
    pub fn answers(&mut self) -> Vec<Pooler> {
        let now = Instant::now();
        let (patience, most) = (PATIENCE.min(self.timeout / 2), self.timeout * 3 / 4);
        // A server that took long has used up the time: the poll as a whole has a deadline.
        let until = |asked: &Asked| asked.since.map_or(now, |since| (now + patience).min(since + most));
        self.each.iter_mut().map(|asked| asked.take(until(asked))).collect()
    }
}

impl Asked {
    fn take(&mut self, until: Instant) -> Pooler {
        let answer = if self.is_new {
            self.answers.recv_timeout(until.saturating_duration_since(Instant::now()))
        } else {
            Err(RecvTimeoutError::Timeout)
        };
        let said = match answer {
            Ok(answer) => {
                self.since = None;
                answer
            }
            Err(RecvTimeoutError::Timeout) => {
                let lasted = self.since.map_or(Duration::ZERO, |since| since.elapsed());
                Err(format!("PgBouncer at {} has not answered for {:.0} s", self.name, lasted.as_secs_f64().max(1.0)))
            }
            Err(RecvTimeoutError::Disconnected) => Err(format!("PgBouncer at {} is not asked any more", self.name)),
        };
        self.log(&said);
        Pooler { name: self.name.clone(), said, shared_between_targets: self.shared_between_targets }
    }

    /// Says it when it changes. How long a silence has lasted is no change.
    fn log(&mut self, said: &Answer) {
        let pgbouncer = self.name.as_str();
        match (said, &self.told) {
            (Ok(_), Some(_)) => {
                tracing::info!(pgbouncer, "PgBouncer answers again");
                self.told = None;
            }
            (Err(why), told) => {
                let gist: String = why.chars().filter(|c| !c.is_ascii_digit()).collect();
                if told.as_ref() != Some(&gist) {
                    tracing::warn!(pgbouncer, "{why}; which sessions it lends to clients is not known");
                    self.told = Some(gist);
                }
            }
            (Ok(_), None) => {}
        }
    }
}

/// The thread that owns the connection.
struct Answering {
    settings: ConnSettings,
    timeout: Duration,
    console: Option<Console>,
    /// After a failure: until when nothing is tried, the pause after the next failure, and why.
    rest: Option<(Instant, Duration, String)>,
}

impl Answering {
    fn answer(&mut self) -> Answer {
        if let Some((until, _, why)) = &self.rest
            && Instant::now() < *until
        {
            return Err(why.clone());
        }
        let known = self.console.is_some();
        let mut answer = self.look();
        // A connection that worked and is gone was mostly lost to a restart: one new one is tried at once.
        if answer.is_err() && known {
            answer = self.look();
        }
        self.rest = answer.as_ref().err().map(|why| {
            let pause = self.rest.as_ref().map_or(PAUSES.0, |(_, pause, _)| *pause);
            (Instant::now() + pause, (pause * 2).min(PAUSES.1), why.clone())
        });
        answer
    }

    fn look(&mut self) -> Answer {
        let mut console = match self.console.take() {
            Some(console) => console,
            None => Console::connect(&self.settings, &ProcessEnvironment, self.timeout)
                .map_err(|failure| sentence(&failure))?,
        };
        let said = look::look(&mut console).map_err(|failure| sentence(&failure))?;
        self.console = Some(console);
        Ok(said)
    }
}

fn sentence(failure: &Failure) -> String {
    let what = &failure.message;
    // What PgBouncer says to a user who may use its pools and not its console.
    let hint = if what.ends_with("not allowed") { " (its user must be one of admin_users or stats_users)" } else { "" };
    format!("PgBouncer cannot be asked: {what}{hint}")
}
