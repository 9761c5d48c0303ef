//! Lease tables: rows with a name, a holder and an expiry, where a team uses these in place of advisory locks.

use std::time::Duration;

use super::Time;

/// A lease table that the config names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTable {
    /// The name that the config gives it: the label `lease`.
    pub lease: String,
    /// The schema of the table or view.
    pub schema: String,
    /// The table or view.
    pub table: String,
    /// The column that says what a lease is for.
    pub name: String,
    /// The column that says who has it.
    pub holder: String,
    /// The column that says until when.
    pub expires: String,
    /// The column that says since when.
    pub taken: Option<String>,
    /// Past its expiry for so long a lease counts as overdue.
    pub overdue_after: Duration,
}

/// What a poll saw of a lease table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRead {
    /// The name that the config gives it.
    pub lease: String,
    /// The table as it is written in SQL.
    pub table: String,
    /// What was read, or why it was not.
    pub outcome: Result<Leases, LeaseProblem>,
}

/// The leases of a table that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leases {
    /// The database that the table is in.
    pub database: String,
    /// The server's clock: expiries are compared with it.
    pub at: Time,
    /// How many rows there are.
    pub total: u64,
    /// How many are overdue.
    pub overdue: u64,
    /// The time zone in which the expiry is read, where its column has none of its own.
    pub assumed_zone: Option<String>,
    /// The rows, those that expire first before the others; cut, whereas `total` and `overdue` are not.
    pub rows: Vec<Lease>,
}

/// One row. Its texts are a stranger's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What it is for.
    pub name: Option<String>,
    /// Who has it.
    pub holder: Option<String>,
    /// Until when; nothing where it never expires.
    pub expires: Option<Time>,
    /// Since when.
    pub taken: Option<Time>,
}

/// Why a lease table could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseProblem {
    /// What is wrong, as the end of a sentence that begins with the table.
    pub what: String,
    /// What to do about it: a sentence.
    pub hint: String,
    /// A statement that helps.
    pub grant: Option<String>,
}
