//! What the screen knows of one target: the last good poll, how old it is, and what keeps newer ones away.

use std::sync::Arc;
use std::time::Duration;

use super::seen::SeenKeys;
use crate::analysis::report::{Failure, TargetReport};
use crate::model::Time;

/// A target is silent when its last answer is older than this many intervals.
const SILENT_AFTER: u32 = 3;

/// A pause that people notice.
const NOTICED: Duration = Duration::from_secs(1);

/// A key of the dictionary, to be shown also while nobody holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The entry's name.
    pub name: String,
    /// Which keys it names, as text.
    pub keys: String,
    /// As `job`.
    pub kind: &'static str,
    /// What else the entry says, one fact each.
    pub facts: Vec<String>,
}

/// A report, and when it came.
#[derive(Debug, Clone)]
pub struct Received {
    /// The report.
    pub report: Arc<TargetReport>,
    /// When it came, by our own monotonic clock.
    pub at: Duration,
}

/// A target that could not be polled.
#[derive(Debug, Clone)]
pub struct Failing {
    /// Why.
    pub failure: Failure,
    /// When the next try begins.
    pub next_try: Duration,
}

/// One target.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// The interval that was asked for.
    pub interval: Duration,
    /// The interval that is kept instead, because polls are expensive.
    pub stretched_to: Option<Duration>,
    /// The last good poll.
    pub latest: Option<Received>,
    /// What is on the screen: the last good poll, or that at which it was paused.
    pub shown: Option<Received>,
    /// Why there is no newer one.
    pub failing: Option<Failing>,
    /// The history has said that it does not answer.
    pub was_silent: bool,
    /// When the screen began to wait for the first answer.
    pub began: Duration,
    /// The keys of its dictionary.
    pub declared: Vec<Declared>,
    /// Keys that were seen since the screen opened.
    pub seen: SeenKeys,
}

/// No answer, and why.
#[derive(Debug, Clone, Copy)]
pub struct Silence<'a> {
    /// Since the last answer, or since the screen opened.
    pub lasted: Duration,
    /// The server's clock at the last good poll.
    pub from: Option<Time>,
    /// Why, where the server or the network said something.
    pub failure: Option<&'a Failure>,
    /// When the next try begins; zero while one is under way.
    pub retry_in: Option<Duration>,
}

impl Target {
    /// A target that has not answered yet.
    pub fn new(name: String, interval: Duration, declared: Vec<Declared>) -> Self {
        Self {
            name,
            interval,
            stretched_to: None,
            latest: None,
            shown: None,
            failing: None,
            was_silent: false,
            began: Duration::ZERO,
            declared,
            seen: SeenKeys::default(),
        }
    }

    /// What is on the screen.
    pub fn report(&self) -> Option<&TargetReport> {
        self.shown.as_ref().map(|received| received.report.as_ref())
    }

    /// How long ago the last answer came.
    pub fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.latest.as_ref().map_or(self.began, |received| received.at))
    }

    /// Whether the target gives no answer now.
    pub fn silence(&self, now: Duration) -> Option<Silence<'_>> {
        let age = self.age(now);
        let patience = (self.stretched_to.unwrap_or(self.interval) * SILENT_AFTER).max(NOTICED);
        (self.failing.is_some() || age > patience).then(|| Silence {
            lasted: age,
            from: self.latest.as_ref().and_then(|received| received.report.sampled_at),
            failure: self.failing.as_ref().map(|failing| &failing.failure),
            retry_in: self.failing.as_ref().map(|failing| failing.next_try.saturating_sub(now)),
        })
    }
}
