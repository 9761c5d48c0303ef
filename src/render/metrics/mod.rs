//! Reports as Prometheus reads them: both text formats, every series of the contract's section 6.
//!
//! Pure: time comes in as an argument. It decides nothing about locks; it counts what the Reports of a target's life
//! have shown, because a counter is the one thing that a single Report does not have.
//!
//! No label holds a pid, a query or an undeclared key: the number of series does not grow with them.

mod applications;
mod counters;
mod families;
mod gauges;
mod identity;
mod labels;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::registry::Registry;

use crate::analysis::report::{FailureKind, TargetReport};
use crate::model::Time;
pub use applications::Applications;
use counters::Counters;
use families::{Families, TargetLabels, Type, target_labels};
pub use identity::Identity;

/// How a scraper wants its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Prometheus, Self::OpenMetrics];

    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What an `Accept` header prefers: OpenMetrics only for who asks for it, and 0.0.4 where both are equal.
    pub fn accepted(accept: &str) -> Self {
        let quality = |wanted: &[&str]| {
            let ranges = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let media = parts.next()?.to_ascii_lowercase();
                let mut quality = 1.0;
                for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                    match name.trim().to_ascii_lowercase().as_str() {
                        "q" => quality = value.trim().parse::<f64>().unwrap_or(0.0),
                        // 0.0.1 and 1.0.0 are one format; a later major is another.
                        "version" if media.contains("openmetrics") && !matches!(value.trim(), "0.0.1" | "1.0.0") => {
                            return None;
                        }
                        _ => {}
                    }
                }
                wanted.contains(&media.as_str()).then_some(quality)
            });
            ranges.fold(0.0, f64::max)
        };
        let open = quality(&["application/openmetrics-text"]);
        let plain = quality(&["text/plain", "text/*", "*/*"]);
        if open > 0.0 && open >= plain { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// What ends a page.
    pub fn end(self) -> &'static str {
        match self {
            Self::Prometheus => "",
            Self::OpenMetrics => "# EOF\n",
        }
    }

    /// Writes these families as text, without the end of the page.
    fn encode(self, families: Families, mut page: &mut dyn fmt::Write) {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(families));
        // Writing to memory does not fail.
        let _ = match self {
            Self::Prometheus => prometheus_text::encode(&mut page, &registry),
            Self::OpenMetrics => text::encode_registry(&mut page, &registry),
        };
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_into(&mut encoder)
    }
}

/// The series of one Report, without the labels that all of its target's series have. What is costly about a large
/// Report is done once, where it holds up no scrape.
#[derive(Debug)]
pub struct Rows(Families);

impl Rows {
    /// Counts the Report's locks, waits, findings and pools.
    pub fn of(report: &TargetReport, applications: &Applications, pool_clients: bool) -> Self {
        Self(gauges::rows(report, applications, pool_clients))
    }
}

/// The metrics of one target over its whole life.
#[derive(Debug)]
pub struct TargetMetrics {
    identity: Identity,
    counters: Counters,
    applications: Applications,
    /// Whether any poll has ended, well or badly.
    polled: bool,
    last: Option<LastPoll>,
    failed: bool,
}

/// The last good poll.
#[derive(Debug)]
struct LastPoll {
    report: Arc<TargetReport>,
    rows: Rows,
    /// When it came, on the process's monotonic clock.
    at: Duration,
    /// When it came, on this machine's clock.
    wall: Time,
}

impl TargetMetrics {
    /// A target that has not been polled.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            counters: Counters::default(),
            applications: Applications::default(),
            polled: false,
            last: None,
            failed: false,
        }
    }

    /// Decides which application groups of a Report have a label of their own. `now` is the process's monotonic clock.
    pub fn admit(&mut self, report: &TargetReport, now: Duration) -> Applications {
        let groups = report.pools.iter().map(|pool| &*pool.application);
        let holders = report.locks.iter().filter(|lock| lock.holder.pid.is_some());
        self.applications.observe(groups.chain(holders.map(|lock| &*lock.holder.application_group)), now);
        self.applications.clone()
    }

    /// Takes in a poll that ended well, and its series. `wall` is this machine's clock. A Report with a failure in it (a
    /// full lock table) counts as failed, though its findings are counted.
    pub fn observe(&mut self, report: Arc<TargetReport>, rows: Rows, now: Duration, wall: Time) {
        self.polled = true;
        self.counters.observe(&report);
        self.failed = report.failure.is_some();
        if !self.failed {
            self.last = Some(LastPoll { report, rows, at: now, wall });
        }
    }

    /// Takes in a poll that failed.
    pub fn fail(&mut self, kind: FailureKind) {
        self.polled = true;
        self.failed = true;
        self.counters.fail(kind);
    }

    /// Whether any poll has ended, well or badly.
    pub fn polled(&self) -> bool {
        self.polled
    }

    /// Other labels or another interval, from now on.
    pub fn set_identity(&mut self, identity: Identity) {
        self.identity = identity;
    }

    /// What it is called.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The target's name.
    pub fn target(&self) -> &str {
        &self.identity.target
    }

    /// The last good poll's Report, while it counts as fresh.
    pub fn fresh(&self, now: Duration) -> Option<&Arc<TargetReport>> {
        let last = self.last.as_ref().filter(|_| !self.failed)?;
        (now.saturating_sub(last.at) <= self.patience(last)).then_some(&last.report)
    }

    /// The last good poll's Report, however old, and how old it is.
    pub fn last_good(&self, now: Duration) -> Option<(&Arc<TargetReport>, Duration)> {
        self.last.as_ref().map(|last| (&last.report, now.saturating_sub(last.at)))
    }

    /// From when on silence makes the last good poll stale, on the process's monotonic clock.
    pub fn stale_from(&self) -> Option<Duration> {
        self.last.as_ref().filter(|_| !self.failed).map(|last| last.at + self.patience(last))
    }

    /// Three intervals. A poll that costs more than a tenth of the interval stretches the interval.
    fn patience(&self, last: &LastPoll) -> Duration {
        3 * self.identity.interval.max(last.report.poll_duration * 10)
    }
}

/// What concerns the whole process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessMetrics {
    /// CPU time used, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Virtual memory, in bytes.
    pub virtual_bytes: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// The most that may be open; nothing: no limit.
    pub max_fds: Option<u64>,
    /// Start of the process, seconds since 1970.
    pub start_time_seconds: f64,
}

/// The whole exporter's own state.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    /// Our version.
    pub version: &'static str,
    /// The config file and the web config are what is in use.
    pub config_reload_success: bool,
    /// The dictionaries are what is in use.
    pub dictionary_reload_success: bool,
}

/// All series of a page, gathered: making the text needs nothing else, and holds nobody up.
#[derive(Debug)]
pub struct Gathered(Families);

impl Gathered {
    /// The series of the targets and of the exporter, without `process_*`.
    pub fn of<'a>(own: Own, targets: impl IntoIterator<Item = &'a TargetMetrics>, now: Duration) -> Self {
        let targets: Vec<(TargetLabels, &TargetMetrics)> =
            targets.into_iter().map(|target| (target_labels(&target.identity), target)).collect();
        let mut families = Families::default();
        families.add("pglockwatch_build", "Version of pglockwatch", Type::Info).info("version", own.version);
        for (name, help, success) in [
            (
                "pglockwatch_config_reload_success",
                "Whether the config files in use are the ones on disk (0: the new version is broken)",
                own.config_reload_success,
            ),
            (
                "pglockwatch_dictionary_reload_success",
                "Whether the key dictionaries in use are the ones on disk (0: the new version is broken)",
                own.dictionary_reload_success,
            ),
        ] {
            families.add(name, help, Type::Gauge).plain(u64::from(success).into());
        }
        let counted: Vec<_> = targets.iter().map(|(labels, target)| (Arc::clone(labels), &target.counters)).collect();
        counters::add(&mut families, &counted);
        add_up(&mut families, &targets, now);
        let fresh = targets.iter().filter(|(_, target)| target.fresh(now).is_some());
        let fresh: Vec<_> =
            fresh.filter_map(|(labels, target)| Some((Arc::clone(labels), &target.last.as_ref()?.rows.0))).collect();
        families.add_all(&fresh);
        Self(families)
    }

    /// The text, without the end of the page.
    pub fn encode(self, format: Format) -> String {
        let mut page = String::new();
        self.encode_into(format, &mut page);
        page
    }

    /// Writes that text to a page in memory.
    pub fn encode_into(self, format: Format, page: &mut dyn fmt::Write) {
        format.encode(self.0, page);
    }
}

/// The families that are there whatever became of the last poll.
fn add_up(families: &mut Families, targets: &[(TargetLabels, &TargetMetrics)], now: Duration) {
    let up = families.add(
        "pglockwatch_up",
        "Whether the last poll of the target was good (0 also before the first poll, and after silence)",
        Type::Gauge,
    );
    for (labels, target) in targets {
        up.series(labels, &[], u64::from(target.fresh(now).is_some()));
    }
    let last = families.add(
        "pglockwatch_last_poll_timestamp_seconds",
        "When the last good poll ended, by the clock of pglockwatch's machine",
        Type::Gauge,
    );
    for (labels, target) in targets {
        if let Some(poll) = &target.last {
            let micros = poll.wall.timestamp_micros();
            last.series(labels, &[], micros as f64 / 1e6);
        }
    }
}

/// `process_*`, as all clients name them.
pub fn process_page(format: Format, process: ProcessMetrics) -> String {
    let mut families = Families::default();
    families
        .add("process_cpu_seconds", "Total user and system CPU time spent in seconds", Type::Counter)
        .plain(process.cpu_seconds.into());
    let mut gauge = |name, help, value| families.add(name, help, Type::Gauge).plain(value);
    gauge("process_resident_memory_bytes", "Resident memory size in bytes", process.resident_bytes.into());
    gauge("process_virtual_memory_bytes", "Virtual memory size in bytes", process.virtual_bytes.into());
    gauge("process_open_fds", "Number of open file descriptors", process.open_fds.into());
    if let Some(most) = process.max_fds {
        gauge("process_max_fds", "Maximum number of open file descriptors", most.into());
    }
    gauge(
        "process_start_time_seconds",
        "Start time of the process since unix epoch in seconds",
        process.start_time_seconds.into(),
    );
    let mut page = String::new();
    format.encode(families, &mut page);
    page
}
