//! The runner of the case files in `tests/cases`: their format is described in the README there.

pub mod advice;
pub mod expect;
pub mod format;
pub mod play;
pub mod pool;
pub mod shape;
