//! Labels of a lock. None holds a pid, a query or an undeclared key.

use crate::analysis::report::LockReport;
use crate::keys::Source;

/// What everything without a name, or without a place, is called.
pub(super) const OTHER: &str = "other";

/// The name of a lock that may be a label: from the dictionary or the catalogue, else `other`. A name that only
/// circumstances speak for is none.
pub(super) fn name(lock: &LockReport) -> &str {
    let sure = lock.key.names.iter().find(|name| !name.may_be);
    sure.map_or(OTHER, |name| name.name.as_str())
}

/// The name that the dictionary gives a lock.
pub(super) fn declared_name(lock: &LockReport) -> Option<&str> {
    lock.key.names.iter().find(|name| name.source == Source::Dictionary).map(|name| name.name.as_str())
}

/// The name of a lock's database; empty for a node-wide key.
pub(super) fn database(lock: &LockReport) -> String {
    lock.key.database.clone().unwrap_or_default()
}
