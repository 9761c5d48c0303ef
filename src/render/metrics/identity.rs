//! What a target is called in the metrics.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a target is called in the metrics.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The label `target`.
    pub target: String,
    /// Further labels, from the config.
    pub labels: BTreeMap<String, String>,
    /// The pause between two polls.
    pub interval: Duration,
    /// The label `client_addr` for pools.
    pub pool_clients: bool,
}
