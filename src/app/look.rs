//! One look at all targets, or an observation of some length, that ends in time whatever the servers do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::analysis::report::{Failure, TargetReport};
use crate::app::events::{Event, Shared, Watch, monitor_of};
use crate::cli::SHORTEST_INTERVAL;
use crate::error::{Error, Result};
use crate::monitor::MonitorState;
use crate::pg;
use crate::settings::Target;
use crate::watch::Update;

/// What the poller's own deadline, which knows more about what hangs, may be late.
const LATENESS: Duration = Duration::from_millis(200);

/// What there is to remember of each target, by its name.
pub(super) type Remembered = Vec<(String, MonitorState)>;

/// What is known of one target so far.
struct Seen {
    name: String,
    address: String,
    interval: Duration,
    timeout: Duration,
    /// When the first report came, and how long the target had been observed then: by an earlier process, perhaps.
    first_report: Option<(Instant, Duration)>,
    last: Option<Result<TargetReport, Failure>>,
    done: bool,
}

/// Looks at all targets for this long; zero is a single look. The reports are those of the last poll, in the order of
/// the targets; a target that could not be looked at has one too.
///
/// # Errors
/// No threads, or a signal ended the look.
pub(super) fn look(targets: Vec<Target>, observe: Duration) -> Result<Vec<TargetReport>> {
    let monitors: Vec<Shared> = targets
        .iter()
        .map(|target| Arc::new(Mutex::new(monitor_of(target, observe <= target.thresholds.idle))))
        .collect();
    watch(targets, observe, &monitors)
}

/// The same, going on from what an earlier look remembered of each target. Also returns what there is to remember of
/// each now.
///
/// # Errors
/// As [`look`].
pub(super) fn look_again(
    targets: Vec<Target>,
    observe: Duration,
    mut recall: impl FnMut(&str) -> Option<MonitorState>,
) -> Result<(Vec<TargetReport>, Remembered)> {
    let monitors: Vec<Shared> = targets
        .iter()
        .map(|target| {
            // What must have lasted for long has time for it: over several looks.
            let monitor = monitor_of(target, false);
            Arc::new(Mutex::new(match recall(&target.name) {
                Some(state) => monitor.resuming(state),
                None => monitor,
            }))
        })
        .collect();
    let reports = watch(targets, observe, &monitors)?;
    let states = monitors.iter().filter_map(|monitor| {
        let monitor = monitor.lock().unwrap_or_else(PoisonError::into_inner);
        Some((monitor.target().to_owned(), monitor.state()?))
    });
    Ok((reports, states.collect()))
}

fn watch(mut targets: Vec<Target>, observe: Duration, monitors: &[Shared]) -> Result<Vec<TargetReport>> {
    let began = Instant::now();
    for target in &mut targets {
        // An observation needs two polls at least.
        if !observe.is_zero() {
            target.interval = target.interval.min(observe).max(SHORTEST_INTERVAL);
        }
    }
    let mut seen: Vec<Seen> = targets.iter().map(Seen::new).collect();
    let longest = targets.iter().map(|target| target.timeout).max().unwrap_or_default();
    let deadline = began + observe + longest + LATENESS;
    let watch = Watch::begin(targets, |place, _| Arc::clone(&monitors[place]), false)?;
    while !seen.iter().all(|target| target.done) {
        match watch.next(deadline) {
            Some(Event::Update(place, update)) => {
                if let Some(target) = seen.get_mut(place) {
                    target.take(update, observe);
                }
            }
            Some(Event::Signal(_)) => return Err(Error::stopped("stopped by a signal before the look had ended")),
            None => break,
        }
    }
    watch.end(|place| seen.get(place).is_some_and(|target| matches!(target.last, Some(Ok(_)))));
    Ok(seen.into_iter().map(|target| target.report(began.elapsed())).collect())
}

impl Seen {
    fn new(target: &Target) -> Self {
        Self {
            name: target.name.clone(),
            address: target.conninfo.target_name(),
            interval: target.interval,
            timeout: target.timeout,
            first_report: None,
            last: None,
            done: false,
        }
    }

    fn take(&mut self, update: Update, observe: Duration) {
        if self.done {
            return;
        }
        match update {
            Update::Report { report, .. } => {
                let (_, before) = *self.first_report.get_or_insert_with(|| (Instant::now(), report.observed));
                // Polls come a little early or late.
                self.done = report.observed.saturating_sub(before) >= observe.saturating_sub(self.interval / 10);
                self.last = Some(Ok(Arc::unwrap_or_clone(report)));
            }
            Update::Failed { failure, .. } => {
                // A server that fails at once is not worth the whole observation; one that restarts meanwhile is.
                self.done = self.first_report.is_none_or(|(first, _)| first.elapsed() >= observe);
                self.last = Some(Err(failure));
            }
        }
    }

    fn report(self, elapsed: Duration) -> TargetReport {
        match self.last {
            Some(Ok(report)) => report,
            Some(Err(failure)) => TargetReport::failed(self.name, failure),
            None => {
                let failure = pg::timed_out(&self.address, true, elapsed.min(self.timeout));
                TargetReport::failed(self.name, failure)
            }
        }
    }
}
