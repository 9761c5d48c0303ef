//! `top`: the locks, live. On a terminal an interactive screen, elsewhere plain tables.
//!
//! What happens comes together in one channel: keys, polls, signals, time. [`state`] makes a new state of each and
//! says what it wishes; this module does what it wishes and has [`view`] draw. Nothing here waits for a server.

mod cells;
mod columns;
mod event;
mod input;
mod layout;
mod pages;
mod plain;
mod rehearsal;
mod save;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod theme;
mod view;

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::app::events::{Pollers, endless};
use crate::cli::TopArgs;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::keys::KeyBook;
use crate::logging::Hold;
use crate::settings::{Settings, Target};
use crate::signal::{self, Wish};
use crate::watch::Update;
use event::{Effect, Event, Key};
use state::{Declared, Overlay, State};
use terminal::Screen;
use theme::Theme;

pub(in crate::app) use plain::{habits, once};
pub use rehearsal::Rehearsal;

/// Ages on the screen are kept up this often.
const TICK: Duration = Duration::from_millis(500);

/// So many events are taken in before a frame is drawn at the latest.
const MOST_AT_ONCE: usize = 1_000;

/// Shows the locks until somebody ends it, or once.
pub(super) fn run(args: &TopArgs, settings: &Settings, targets: Vec<Target>) -> Result<Exit> {
    let shown = if args.once || !settings.is_terminal || !std::io::stdin().is_terminal() {
        plain::run(args, settings, targets)
    } else {
        let _log = Hold::back();
        interactive(settings, targets).map(|()| Exit::SUCCESS)
    };
    match shown {
        // Somebody has closed it: an end like any other, and nobody is left to be told.
        Err(_) if settings.is_terminal && !std::io::stdout().is_terminal() => Ok(Exit::SUCCESS),
        shown => shown,
    }
}

/// What comes to the loop.
enum Message {
    /// For the state.
    Event(Event),
    /// No key will come any more.
    Deaf,
    /// We were stopped, and go on.
    #[cfg(unix)]
    Continued,
}

fn interactive(settings: &Settings, targets: Vec<Target>) -> Result<()> {
    let (sender, messages) = mpsc::channel();
    let known = targets
        .iter()
        .map(|target| state::Target::new(target.name.clone(), target.interval, declared(&target.book, &target.name)))
        .collect();
    let interval = targets.iter().map(|target| target.interval).min().unwrap_or(TICK);
    let began = Instant::now();
    let wake = sender.clone();
    // Nobody listens any more when it is over already.
    signal::catch(true, move |wish| {
        let event = match wish {
            Wish::End => Event::Quit,
            Wish::Suspend => Event::Key(Key::Ctrl('z')),
        };
        drop(wake.send(Message::Event(event)));
    })?;
    notice_continuation(&sender)?;
    let updates = sender.clone();
    let deliver = move |target, update| updates.send(Message::Event(polled(target, update))).is_ok();
    let pollers = Pollers::begin(targets, endless, deliver)?;
    let mut screen = Screen::take()?;
    read_keys(sender)?;
    let state = State::new(known, interval, screen.size());
    let theme = Theme { color: settings.screen.color };
    let mut app = App { state, theme, screen: &mut screen, pollers: &pollers, began };
    let ended = app.run(&messages);
    let state = app.state;
    // The terminal comes back before a server is waited for.
    drop(screen);
    pollers.end(|place| state.targets.get(place).is_some_and(|target| target.failing.is_none()));
    ended
}

/// An update as an event.
fn polled(target: usize, update: Update) -> Event {
    match update {
        Update::Report { report, stretched_to, .. } => Event::Report { target, report, stretched_to },
        Update::Failed { failure, retry_in } => Event::Failed { target, failure, retry_in },
    }
}

/// The dictionary's entries that are valid on this target.
fn declared(book: &KeyBook, target: &str) -> Vec<Declared> {
    let entries = book.entries().iter().filter(|entry| entry.covers(target, None) || !entry.databases.is_empty());
    entries
        .filter(|entry| entry.targets.matches(target))
        .map(|entry| {
            let facts = [
                entry.owner.as_ref().map(|owner| format!("owner {owner}")),
                entry.team.as_ref().map(|team| format!("team {team}")),
                entry.contact.as_ref().map(|contact| format!("contact {contact}")),
                entry.note.as_ref().map(|note| format!("note: {note}")),
                entry.runbook.as_ref().map(|runbook| format!("runbook {runbook}")),
                entry.scope.map(|scope| format!("{} scope", scope.name())),
                entry.max_hold.map(|hold| format!("held for at most {}", crate::units::duration(hold))),
                entry.long_lived.then(|| "held for long on purpose".to_owned()),
                entry.waiters_expected.then(|| "followers wait on purpose".to_owned()),
            ];
            Declared {
                name: entry.name.clone(),
                keys: entry.matcher.text(),
                kind: entry.kind.name(),
                facts: facts.into_iter().flatten().collect(),
            }
        })
        .collect()
}

/// Reads the terminal in a thread of its own until it is gone.
fn read_keys(sender: Sender<Message>) -> Result<()> {
    // However that thread ends: a screen that hears nothing would stay for ever.
    struct Ear(Sender<Message>);
    impl Drop for Ear {
        fn drop(&mut self) {
            drop(self.0.send(Message::Deaf));
        }
    }
    let read = move || {
        let ear = Ear(sender);
        while let Ok(reported) = crossterm::event::read() {
            if input::event(reported).is_some_and(|event| ear.0.send(Message::Event(event)).is_err()) {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("keys".to_owned()).spawn(read);
    started.map(drop).map_err(|error| Error::failure("cannot start a thread").caused_by(error))
}

/// After a stop the terminal may be in other modes and show something else.
#[cfg(unix)]
fn notice_continuation(sender: &Sender<Message>) -> Result<()> {
    let cannot = |error| Error::failure("cannot catch signals").caused_by(error);
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGCONT]).map_err(cannot)?;
    let sender = sender.clone();
    let wait = move || {
        for _ in signals.forever() {
            if sender.send(Message::Continued).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("continued".to_owned()).spawn(wait).map(drop).map_err(cannot)
}

#[cfg(not(unix))]
fn notice_continuation(_sender: &Sender<Message>) -> Result<()> {
    Ok(())
}

/// The loop and what it works on.
struct App<'a> {
    state: State,
    theme: Theme,
    screen: &'a mut Screen,
    pollers: &'a Pollers,
    began: Instant,
}

impl App<'_> {
    fn run(&mut self, messages: &Receiver<Message>) -> Result<()> {
        loop {
            self.draw()?;
            let first = match messages.recv_timeout(TICK) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => Message::Event(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            // Whatever else has come is taken in before the next frame: keys never queue behind drawing.
            for message in std::iter::once(first).chain(messages.try_iter().take(MOST_AT_ONCE)) {
                if self.take(message)? {
                    return Ok(());
                }
            }
        }
    }

    fn draw(&mut self) -> Result<()> {
        if matches!(self.state.overlay, Some(Overlay::Plain(_))) {
            return Ok(());
        }
        let (state, theme) = (&self.state, self.theme);
        self.screen.draw(|buffer| view::draw(state, theme, buffer))
    }

    /// Takes in a message, and says whether it is over.
    fn take(&mut self, message: Message) -> Result<bool> {
        let event = match message {
            Message::Event(event) => event,
            Message::Deaf => return Err(Error::failure("cannot read the terminal any more")),
            #[cfg(unix)]
            Message::Continued => {
                // The terminal may show anything now: the screen comes back in any case.
                if let Some(Overlay::Plain(below)) = &mut self.state.overlay {
                    self.state.overlay = below.take().map(|below| *below);
                }
                self.screen.retake()?;
                let (columns, rows) = self.screen.size();
                Event::Resize(columns, rows)
            }
        };
        let mut over = false;
        for effect in self.state.update(self.began.elapsed(), event) {
            over |= self.perform(effect)?;
        }
        Ok(over)
    }

    fn perform(&mut self, effect: Effect) -> Result<bool> {
        match effect {
            Effect::Quit => return Ok(true),
            Effect::Suspend => {
                if !self.screen.suspend()? {
                    self.state.say("there is no shell to go back to; q ends");
                }
            }
            Effect::Redraw => self.screen.forget()?,
            Effect::Copy(text) => self.screen.copy(&text)?,
            Effect::ShowPlain(text) => self.screen.show_plain(&text)?,
            Effect::LeavePlain => self.screen.retake()?,
            Effect::Refresh(target) => self.pollers.refresh(target),
            Effect::SetInterval(interval) => self.pollers.set_interval(interval),
            Effect::Save { stem, text } => {
                let saved = match std::env::current_dir() {
                    Ok(folder) => save::save(&folder, &stem, &text),
                    Err(_) => save::save(Path::new("."), &stem, &text),
                };
                drop(self.state.update(self.began.elapsed(), Event::Saved(saved)));
            }
        }
        Ok(false)
    }
}
