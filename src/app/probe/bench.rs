//! The connections of a probe, and the one place where it waits.
//!
//! Each client has a thread that owns its connection, for nothing can interrupt a read from a server that is stopped:
//! such a thread is left behind, and ends with the process. Every wait has a deadline, and a signal ends it.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::observed::Trouble;
use crate::analysis::report::Failure;
use crate::error::Result as CommandResult;
use crate::pg::{self, ConnSettings, PlainSession, ProcessEnvironment, Refusal, Rows};
use crate::signal;

/// Enough for TLS in a debug build.
const STACK: usize = 1024 * 1024;
/// What the client's own deadlines, which know more about what hangs, may be late.
const LATENESS: Duration = Duration::from_millis(200);

/// The place of a client on the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Client(usize);

enum Event {
    Signal,
    Connected(Client, Box<Result<String, Failure>>),
    Answered(Client, Result<Vec<Rows>, Refusal>),
    Ended(Client),
}

/// One seat.
struct Seat {
    /// Cut when the client leaves.
    orders: Option<Sender<String>>,
    connected: Option<Box<Result<String, Failure>>>,
    /// So many answers are still to come.
    open: usize,
    answer: Option<Result<Vec<Rows>, Refusal>>,
    ended: bool,
}

/// All clients.
pub(super) struct Bench {
    settings: ConnSettings,
    timeout: Duration,
    /// Nothing waits longer than until then.
    deadline: Instant,
    events: Sender<Event>,
    inbox: Receiver<Event>,
    seats: Vec<Seat>,
    stopped: bool,
    /// What is done now is done although a signal came.
    clearing: bool,
}

impl Bench {
    /// An empty bench. Catches signals from now on.
    pub fn new(settings: ConnSettings, timeout: Duration, whole: Duration) -> CommandResult<Self> {
        let (events, inbox) = mpsc::channel();
        let wake = events.clone();
        // Nobody listens any more when the command has ended already.
        signal::catch(false, move |_| drop(wake.send(Event::Signal)))?;
        Ok(Self {
            settings,
            timeout,
            deadline: Instant::now() + whole,
            events,
            inbox,
            seats: Vec::new(),
            stopped: false,
            clearing: false,
        })
    }

    /// The most that one step may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether clients of this DSN may come to different servers.
    pub fn leads_to_several_servers(&self) -> bool {
        self.settings.leads_to_several_servers()
    }

    /// From now on all clients go to this address.
    pub fn stay_at(&mut self, address: &str) {
        self.settings = self.settings.only_at(address);
    }

    /// From now on signals end nothing, and everything together may take this long.
    pub fn clear_away(&mut self, at_most: Duration) {
        self.clearing = true;
        self.deadline = Instant::now() + at_most;
    }

    /// Begins to connect one more client; with one more startup option if there is one.
    pub fn begin_connect(&mut self, option: Option<&str>) -> Result<Client, Trouble> {
        let client = Client(self.seats.len());
        let settings = option.map_or_else(|| self.settings.clone(), |option| self.settings.with_startup_option(option));
        let (orders, taken) = mpsc::channel();
        let (events, timeout) = (self.events.clone(), self.timeout);
        thread::Builder::new()
            .name("probe".to_owned())
            .stack_size(STACK)
            .spawn(move || work(client, &settings, timeout, &taken, &events))
            .map_err(|error| Trouble::Lost(format!("cannot start a thread: {error}")))?;
        self.seats.push(Seat { orders: Some(orders), connected: None, open: 0, answer: None, ended: false });
        Ok(client)
    }

    /// Waits until a client is connected; host:port of what answered.
    pub fn finish_connect(&mut self, client: Client) -> Result<String, Trouble> {
        let began = Instant::now();
        let allowed = PlainSession::connect_deadline(&self.settings, self.timeout) + LATENESS;
        match self.wait(allowed, |bench| bench.seats.get_mut(client.0)?.connected.take()) {
            Ok(connected) => (*connected).map_err(Trouble::Connect),
            Err(Trouble::Silent(_)) => {
                Err(Trouble::Connect(pg::timed_out(&self.settings.target_name(), true, began.elapsed())))
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// Connects one more client.
    pub fn connect(&mut self) -> Result<Client, Trouble> {
        let client = self.begin_connect(None)?;
        self.finish_connect(client)?;
        Ok(client)
    }

    /// Sends a message; [`finish`](Self::finish) has the answer.
    pub fn begin(&mut self, client: Client, message: String) {
        if let Some(seat) = self.seats.get_mut(client.0) {
            seat.answer = None;
            seat.open += 1;
            if let Some(orders) = &seat.orders {
                // It fails when the thread has ended; then it has said so.
                drop(orders.send(message));
            }
        }
    }

    /// Waits for the answer to the last message, at most this long.
    pub fn finish(&mut self, client: Client, at_most: Duration) -> Result<Vec<Rows>, Trouble> {
        let take = |bench: &mut Self| {
            let seat = bench.seats.get_mut(client.0)?;
            match seat.answer.take() {
                None if seat.ended => Some(Err(Refusal::Lost("the connection was closed".to_owned()))),
                answer => answer,
            }
        };
        self.wait(at_most, take)?.map_err(|refusal| match refusal {
            Refusal::Error { code, message, fatal } => Trouble::Refused { code, message, fatal },
            Refusal::Lost(why) => Trouble::Lost(why),
        })
    }

    /// Sends a message and waits for its answer.
    pub fn ask(&mut self, client: Client, message: String) -> Result<Vec<Rows>, Trouble> {
        self.begin(client, message);
        self.finish(client, self.timeout)
    }

    /// Whether a client has no answer outstanding.
    pub fn rests(&self, client: Client) -> bool {
        self.seats.get(client.0).is_some_and(|seat| seat.open == 0 && !seat.ended && seat.orders.is_some())
    }

    /// Closes a client's connection in good order, and waits for that.
    pub fn leave(&mut self, client: Client) -> Result<(), Trouble> {
        self.begin_leaving(client);
        self.wait(self.timeout, |bench| bench.seats.get(client.0).is_none_or(|seat| seat.ended).then_some(()))
    }

    /// Closes a client's connection as soon as it has its answer.
    pub fn begin_leaving(&mut self, client: Client) {
        if let Some(seat) = self.seats.get_mut(client.0) {
            seat.orders = None;
        }
    }

    /// Closes all connections.
    pub fn begin_leaving_all(&mut self, but: Option<Client>) {
        for place in (0..self.seats.len()).map(Client).filter(|client| Some(*client) != but) {
            self.begin_leaving(place);
        }
    }

    /// Waits until all connections but this one are closed; whether they are.
    pub fn all_left(&mut self, but: Option<Client>, at_most: Duration) -> bool {
        let left = |bench: &mut Self| {
            let mut others = bench.seats.iter().enumerate().filter(|(place, _)| Some(Client(*place)) != but);
            others.all(|(_, seat)| seat.ended).then_some(())
        };
        self.wait(at_most, left).is_ok()
    }

    /// Does nothing for a while.
    pub fn pause(&mut self, length: Duration) -> Result<(), Trouble> {
        match self.wait(length, |_| None::<()>) {
            Err(Trouble::Silent(_)) | Ok(()) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    /// Waits until `ready` finds something.
    fn wait<T>(&mut self, at_most: Duration, ready: impl Fn(&mut Self) -> Option<T>) -> Result<T, Trouble> {
        let began = Instant::now();
        let until = (began + at_most).min(self.deadline);
        loop {
            if self.stopped && !self.clearing {
                return Err(Trouble::Stopped);
            }
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            match self.inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) if until == self.deadline => {
                    return Err(Trouble::OutOfTime);
                }
                Err(_) => return Err(Trouble::Silent(began.elapsed())),
            }
        }
    }

    fn take(&mut self, event: Event) {
        let client = match &event {
            // The second one means it.
            Event::Signal if self.stopped => return self.deadline = Instant::now(),
            Event::Signal => return self.stopped = true,
            Event::Connected(client, _) | Event::Answered(client, _) | Event::Ended(client) => client.0,
        };
        let Some(seat) = self.seats.get_mut(client) else { return };
        match event {
            Event::Signal => {}
            Event::Connected(_, result) => seat.connected = Some(result),
            Event::Answered(_, answer) => {
                seat.open = seat.open.saturating_sub(1);
                // An answer that nobody waited for any more is not the answer to what was asked since.
                seat.answer = (seat.open == 0).then_some(answer);
            }
            Event::Ended(_) => seat.ended = true,
        }
    }
}

/// What a client's thread does: connect, then each message in its turn. The connection ends with the orders.
fn work(client: Client, settings: &ConnSettings, timeout: Duration, orders: &Receiver<String>, events: &Sender<Event>) {
    // Whoever does not listen any more has ended.
    let say = |event| events.send(event).is_ok();
    match PlainSession::connect(settings, &ProcessEnvironment, timeout) {
        Ok(mut session) => {
            let address = session.address().to_owned();
            if say(Event::Connected(client, Box::new(Ok(address)))) {
                for message in orders {
                    let answer = session.send(&message);
                    let over = match &answer {
                        Err(Refusal::Lost(_)) => true,
                        Err(Refusal::Error { fatal, .. }) => *fatal,
                        Ok(_) => false,
                    };
                    if !say(Event::Answered(client, answer)) || over {
                        break;
                    }
                }
            }
        }
        Err(failure) => drop(say(Event::Connected(client, Box::new(Err(failure))))),
    }
    // The session is closed here.
    say(Event::Ended(client));
}
