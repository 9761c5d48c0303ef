//! Lease tables in a report.

use std::time::Duration;

use super::Finding;
use crate::model::Time;

/// The lease that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSubject {
    /// The name that the config gives the table.
    pub lease: String,
    /// The row's name and holder, empty where they are NULL; nothing where it is about the table, or about more rows
    /// than have findings of their own.
    pub row: Option<(String, String)>,
}

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

impl LeaseTableReport {
    /// The finding about this row, or about the table.
    pub fn finding<'a>(&self, row: Option<&LeaseReport>, findings: &'a [Finding]) -> Option<&'a Finding> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let wanted = row.map(|row| (text(&row.name), text(&row.holder)));
        let about = |row: &Option<(String, String)>| {
            let is_it = |lease: &LeaseSubject| lease.lease == self.lease && lease.row == *row;
            findings.iter().find(|finding| finding.lease.as_ref().is_some_and(is_it))
        };
        match row {
            Some(row) if !row.overdue => None,
            _ => about(&wanted).or_else(|| about(&None)),
        }
    }
}
