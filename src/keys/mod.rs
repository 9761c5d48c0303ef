//! Advisory keys and their names: key text, hashes, the dictionary, the well-known catalogue.
//!
//! This module knows numbers, texts and the dictionary's file format. It must know no server, no lock and no rule:
//! who calls it hands in the database's name and what is known of the holder. It opens no file and reads no clock.

mod book;
pub mod dictionary;
mod entry;
mod globs;
pub mod hash;
pub mod key;
pub mod lint;
pub mod presets;
pub mod problem;
mod ranges;
pub mod well_known;

pub use book::{KeyBook, LookUp};
pub use dictionary::Dictionary;
pub use entry::{CountRange, Entry, HolderEntry, Kind, Matcher, Name, Scope, Silence, Source};
pub use globs::Globs;
pub use presets::DatabaseFormula;
pub use problem::Problem;
