//! pglockwatch: the pool-safety diagnostic and leak monitor for PostgreSQL advisory locks.

pub mod analysis;
pub mod keys;
pub mod model;
pub mod quote;
pub mod rules;
