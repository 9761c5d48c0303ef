//! Labels of a lock. None holds a pid, a query or an undeclared key.
//!
//! The text formats allow every character in a value. Strangers choose names, though, and a page goes through terminals
//! and through tools that take a carriage return for the end of a line: characters that do something are escaped as on
//! a screen. That happens before anything is counted, so two names with one label are one series.

use std::borrow::Cow;

use crate::analysis::report::LockReport;
use crate::keys::Source;
use crate::render::style::safe;

/// What everything without a name, or without a place, is called.
pub(super) const OTHER: &str = "other";

/// What the application of a holder behind a pooler is called.
pub(super) const POOLED: &str = "pooled";

/// The name of a lock that may be a label: from the dictionary or the catalogue, else `other`. A name that only
/// circumstances speak for is none.
pub(super) fn name(lock: &LockReport) -> Cow<'_, str> {
    let sure = lock.key.names.iter().find(|name| !name.may_be);
    sure.map_or(Cow::Borrowed(OTHER), |name| safe(&name.name))
}

/// The name that the dictionary gives a lock.
pub(super) fn declared_name(lock: &LockReport) -> Option<Cow<'_, str>> {
    lock.key.names.iter().find(|name| name.source == Source::Dictionary).map(|name| safe(&name.name))
}

/// The name of a lock's database; empty for a node-wide key.
pub(super) fn database(lock: &LockReport) -> Cow<'_, str> {
    text(lock.key.database.as_deref())
}

/// A stranger's text as a label; empty where there is none.
pub(super) fn text(text: Option<&str>) -> Cow<'_, str> {
    safe(text.unwrap_or_default())
}
