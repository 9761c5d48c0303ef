//! What the operating system says of this process, for `process_*`. Linux only: elsewhere there are no such metrics.

use std::fs;
use std::sync::LazyLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::render::metrics::ProcessMetrics;

/// When the machine started, seconds since 1970. Read once: on a machine with many cores the file is long, and the
/// kernel slow to write it.
static BOOT: LazyLock<Option<f64>> = LazyLock::new(|| {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
});

/// The present figures; nothing where they cannot be had.
pub(super) fn metrics() -> Option<ProcessMetrics> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name stands in parentheses and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |place: usize| fields.get(place - 3)?.parse::<u64>().ok();
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let page = rustix::param::page_size() as u64;
    let boot = (*BOOT)?;
    // Counted while one more is open: the folder itself.
    let open = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    Some(ProcessMetrics {
        cpu_seconds: (field(14)? + field(15)?) as f64 / ticks,
        resident_bytes: field(24)? * page,
        virtual_bytes: field(23)?,
        open_fds: open as u64,
        max_fds: getrlimit(Resource::Nofile).current,
        start_time_seconds: boot + field(22)? as f64 / ticks,
    })
}

/// Lets this process open as many files as it may: each target takes some, and each client one.
pub(super) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused the old limit holds, and is mostly enough.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
