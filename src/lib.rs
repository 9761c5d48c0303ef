//! pglockwatch: the pool-safety diagnostic and leak monitor for PostgreSQL advisory locks.

pub mod analysis;
pub mod keys;
pub mod model;
pub mod monitor;
pub mod quote;
pub mod report_of;
pub mod rules;
pub mod silences;
