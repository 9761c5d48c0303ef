//! From a Report to text or bytes. Nothing is decided here: what a front end needs and the Report lacks, the Report
//! gets.
//!
//! Pure: renderers write to what they are handed. They read no clock, file, environment or socket; colours and width
//! come in as arguments.

pub mod audit;
pub mod guard;
pub mod json;
pub mod leases;
pub mod metrics;
pub mod nagios;
pub mod runbook;
pub(crate) mod runbook_facts;
pub mod runbook_markdown;
pub mod runbook_page;
mod status;
pub mod style;
pub mod table;
pub mod top;

pub use status::{Status, counted, counts};

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod guard_tests;
#[cfg(test)]
mod runbook_tests;
#[cfg(test)]
mod tests;
