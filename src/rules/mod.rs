//! The rules: one file each. From [`Observed`](crate::analysis::Observed) to findings.
//!
//! Pure, like everything that decides. A rule says what is wrong and how bad; the wording of advice is in
//! [`advice`], who absorbs whom is here.

pub mod advice;
mod draft;

pub use draft::{Context, Draft, Subject};
