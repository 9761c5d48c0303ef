//! Lease tables in a report.

use std::time::Duration;

use crate::model::Time;

/// A lease table that the config names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTableReport {
    /// The name that the config gives it.
    pub lease: String,
    /// The table as it is written in SQL.
    pub table: String,
    /// The database that it is in; nothing where it could not be read.
    pub database: Option<String>,
    /// Why it could not be read: one sentence.
    pub problem: Option<String>,
    /// How many leases there are. Never cut.
    pub total: u64,
    /// How many are overdue. Never cut.
    pub overdue: u64,
    /// The leases, those that expire first before the others; may be cut.
    pub leases: Vec<LeaseReport>,
}

/// One lease. Its texts are a stranger's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseReport {
    /// What it is for.
    pub name: Option<String>,
    /// Who has it.
    pub holder: Option<String>,
    /// Since when.
    pub taken: Option<Time>,
    /// For how long it has been had.
    pub held_for: Option<Duration>,
    /// Until when; nothing where it never expires.
    pub expires: Option<Time>,
    /// How long until then; nothing once that is past.
    pub expires_in: Option<Duration>,
    /// How long it has been past its expiry.
    pub expired_for: Option<Duration>,
    /// Past its expiry for at least the wait threshold.
    pub overdue: bool,
}
