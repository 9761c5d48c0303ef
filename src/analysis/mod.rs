//! From what polls saw to what is known: the tracker's memory, who waits for whom, pools, and the Report.
//!
//! Pure: time comes in with the [`Snapshot`](crate::model::Snapshot). This module must not read a clock, a file,
//! the environment or a socket, and it knows nothing of how a Report is shown.

pub mod observed;
pub mod report;

pub use observed::{Hold, HoldScope, HolderRef, Observed, Thresholds, Waiting};
