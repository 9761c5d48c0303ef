//! From what polls saw to what is known: the tracker's memory, who waits for whom, pools, and the Report.
//!
//! Pure: time comes in with the [`Snapshot`](crate::model::Snapshot). This module must not read a clock, a file,
//! the environment or a socket, and it knows nothing of how a Report is shown.

mod accounts;
mod components;
mod few;
mod hold_memory;
mod moment;
pub mod observed;
mod pooled;
mod pools;
pub mod report;
#[cfg(test)]
mod tests;
mod tracker;
mod wait_memory;
mod waits;

pub use observed::{CountMismatch, Hold, HolderRef, Observed, Thresholds, Waiting};
pub use pooled::Pooled;
pub use pools::Grouping;
pub use report::{HoldScope, Quiet};
pub use tracker::{TargetNames, Tracker, TrackerState};

/// A map by pids, keys and the like, which is asked for each lock or session: the usual hash took a tenth of all judging.
/// This one begins at random in each process too.
pub(crate) type Numbered<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;
