//! Advisory keys and their names: key text, hashes, the dictionary, the well-known catalogue.
//!
//! This module knows numbers, texts and the dictionary's file format. It must know no server, no lock and no rule:
//! who calls it hands in the database's name and what is known of the holder.

mod book;
mod entry;
pub mod key;

pub use book::{KeyBook, LookUp};
pub use entry::{CountRange, Entry, Globs, HolderEntry, Kind, Matcher, Name, Scope, Silence, Source};
