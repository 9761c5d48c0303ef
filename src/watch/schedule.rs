//! The thread that wakes the controllers of all targets.
//!
//! Knows who wants to be woken when, and passes on what is for whom. What is then to be done, a controller knows.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use super::worker::Idle;
use super::{Controller, EPOCH, Event, Handle, Over, TargetSpec, Update};

/// Where pollers are started. Its thread ends with the last of them and of the clones.
#[derive(Debug, Clone)]
pub struct Schedule {
    events: Sender<(u64, Event)>,
    /// A poller's number is never used again: what an ended one still says must not reach another.
    next: Arc<AtomicU64>,
}

impl Schedule {
    /// A schedule without pollers.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start() -> io::Result<Self> {
        let _ = *EPOCH;
        let (events, inbox) = mpsc::channel();
        thread::Builder::new().name("schedule".to_owned()).spawn(move || run(&inbox))?;
        Ok(Self { events, next: Arc::default() })
    }

    /// Starts polling a target: at once, then at its interval. Updates come with `index`.
    ///
    /// # Errors
    /// If the operating system gives no threads.
    pub fn spawn(&self, index: usize, spec: TargetSpec, updates: Sender<(usize, Update)>) -> io::Result<Handle> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let events = self.events.clone();
        let mut controller = Controller::new(index, &spec, updates);
        let (worker, ended) = Idle::new(index, spec, (id, events.clone()))?;
        controller.worker = Some(worker);
        // Where its thread has ended, nobody is left to be told.
        drop(events.send((id, Event::Begin(Box::new(controller)))));
        Ok(Handle { id, events, ended })
    }
}

fn run(inbox: &Receiver<(u64, Event)>) {
    let mut controllers: HashMap<u64, Box<Controller>> = HashMap::new();
    loop {
        let event = match controllers.values().filter_map(|controller| controller.until()).min() {
            Some(until) => inbox.recv_timeout(until.saturating_duration_since(Instant::now())),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok((id, Event::Begin(controller))) => drop(controllers.insert(id, controller)),
            Ok((id, event)) => {
                if let Some(controller) = controllers.get_mut(&id)
                    && let Err(Over) = controller.handle(event)
                {
                    controllers.remove(&id);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        controllers.retain(|_, controller| {
            controller.until().is_none_or(|until| until > now) || controller.time_is_up().is_ok()
        });
    }
}
