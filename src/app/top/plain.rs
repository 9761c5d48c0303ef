//! The plain table of locks: drawn in place where only standard output is a terminal, elsewhere one below the other.

mod terminal;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::analysis::report::{Failure, TargetReport};
use crate::app::events::{Event, Watch, endless, never};
use crate::app::{complain_of_failures, look, output};
use crate::cli::TopArgs;
use crate::error::Result;
use crate::exit::Exit;
use crate::render::style::Screen;
use crate::render::top::{Silence, View, render};
use crate::settings::{Habits, Settings, Target};
use crate::signal::{self, Wish};
use crate::watch::Update;
use terminal::Terminal;

/// How `top` watches.
pub(in crate::app) fn habits(args: &TopArgs) -> Habits {
    Habits { interval: Duration::from_secs(2), long_running: !args.once }
}

/// On a terminal ages are kept up this often.
const TICK: Duration = Duration::from_secs(1);

/// A target is silent when its last answer is older than this many intervals.
const SILENT_AFTER: u32 = 3;

/// What is known of one target.
struct Known {
    name: String,
    interval: Duration,
    began: Instant,
    report: Option<(Arc<TargetReport>, Instant)>,
    failure: Option<(Failure, Instant)>,
}

/// Shows the locks until a signal comes, or once.
pub(super) fn run(args: &TopArgs, settings: &Settings, targets: Vec<Target>) -> Result<Exit> {
    if args.once {
        return once(settings.screen, targets, Duration::ZERO);
    }
    let mut known: Vec<Known> = targets.iter().map(Known::new).collect();
    let watch = Watch::begin(targets, endless, settings.is_terminal)?;
    let shown = if settings.is_terminal {
        on_terminal(settings.screen, &mut known, &watch)
    } else {
        on_stream(settings.screen, &mut known, &watch)
    };
    watch.end(|place| known.get(place).is_some_and(|target| target.failure.is_none()));
    shown.map(|()| Exit::SUCCESS)
}

/// One table, after an observation of this length, and an exit code that says whether all servers answered.
pub(in crate::app) fn once(screen: Screen, targets: Vec<Target>, observe: Duration) -> Result<Exit> {
    let intervals: Vec<Duration> = targets.iter().map(|target| target.interval).collect();
    let reports = look::look(targets, observe)?;
    let views: Vec<View<'_>> = reports
        .iter()
        .zip(intervals)
        .filter(|(report, _)| report.failure.is_none())
        .map(|(report, interval)| View {
            target: &report.target,
            report: Some(report),
            age: Duration::ZERO,
            silence: None,
            interval,
        })
        .collect();
    // What scrolls away is still there: no row is left out for a screen's sake.
    output::print(render(&views, Screen { height: None, ..screen }))?;
    Ok(complain_of_failures(&reports))
}

/// Draws in place until a signal comes.
fn on_terminal(screen: Screen, known: &mut [Known], watch: &Watch) -> Result<()> {
    let mut terminal = Terminal::take()?;
    loop {
        let views: Vec<View<'_>> = known.iter().map(Known::view).collect();
        terminal.draw(&render(&views, Terminal::fit(screen)))?;
        match watch.next(Instant::now() + TICK) {
            Some(Event::Update(place, update)) => {
                if let Some(target) = known.get_mut(place) {
                    target.take(update);
                }
            }
            Some(Event::Signal(Wish::Suspend)) => terminal.lend(signal::suspend)?,
            Some(Event::Signal(Wish::End)) => return Ok(()),
            None => {}
        }
    }
}

/// Prints the table of a target at each of its polls until a signal comes.
fn on_stream(screen: Screen, known: &mut [Known], watch: &Watch) -> Result<()> {
    let mut first = true;
    loop {
        match watch.next(never()) {
            Some(Event::Update(place, update)) => {
                let Some(target) = known.get_mut(place) else { continue };
                target.take(update);
                let blank = if std::mem::take(&mut first) { "" } else { "\n" };
                output::print(format!("{blank}{}", render(&[target.view()], screen)))?;
            }
            Some(Event::Signal(_)) => return Ok(()),
            None => {}
        }
    }
}

impl Known {
    fn new(target: &Target) -> Self {
        Self {
            name: target.name.clone(),
            interval: target.interval,
            began: Instant::now(),
            report: None,
            failure: None,
        }
    }

    fn take(&mut self, update: Update) {
        let now = Instant::now();
        match update {
            Update::Report { report, stretched_to, .. } => {
                self.interval = stretched_to.unwrap_or(self.interval);
                self.report = Some((report, now));
                self.failure = None;
            }
            Update::Failed { failure, retry_in } => self.failure = Some((failure, now + retry_in)),
        }
    }

    fn view(&self) -> View<'_> {
        let now = Instant::now();
        let age = now - self.report.as_ref().map_or(self.began, |(_, at)| *at);
        let silent = self.failure.is_some() || (self.report.is_some() && age > self.interval * SILENT_AFTER);
        let silence = silent.then(|| Silence {
            lasted: age,
            failure: self.failure.as_ref().map(|(failure, _)| failure),
            retry_in: self.failure.as_ref().map(|(_, at)| at.saturating_duration_since(now)),
        });
        View {
            target: &self.name,
            report: self.report.as_ref().map(|(report, _)| report.as_ref()),
            age,
            silence,
            interval: self.interval,
        }
    }
}
