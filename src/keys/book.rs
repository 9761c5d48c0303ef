//! All names together: dictionary first, then the well-known catalogue.

use std::sync::Arc;

use super::{Entry, HolderEntry, Name, Silence};
use crate::model::KeyNumbers;

/// A well-known formula over a database's name, with its other parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseFormula {}

/// What is known of a lock when its name is looked up.
#[derive(Debug, Clone, Copy, Default)]
pub struct LookUp<'a> {
    /// The lock's own database, where its name is known.
    pub database: Option<&'a str>,
    /// The target's name.
    pub target: &'a str,
    /// The holder's `application_name`.
    pub application: &'a str,
    /// The holder's user.
    pub user: &'a str,
    /// The holder's current or last statement.
    pub query: &'a str,
}

/// The names that a target's keys may have.
#[derive(Debug, Clone, Default)]
pub struct KeyBook {
    entries: Vec<Arc<Entry>>,
    holders: Vec<Arc<HolderEntry>>,
    silences: Vec<Arc<Silence>>,
}

impl KeyBook {
    /// The names of a key, best rank only: exact dictionary entries, else classes and ranges, else well-known.
    /// Several dictionary names of equal rank are all returned.
    pub fn names(&self, _key: KeyNumbers, _known: LookUp<'_>) -> Vec<Name> {
        Vec::new()
    }

    /// All `[[key]]` entries.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// All `[[holder]]` entries.
    pub fn holders(&self) -> &[Arc<HolderEntry>] {
        &self.holders
    }

    /// All `[[silence]]` entries.
    pub fn silences(&self) -> &[Arc<Silence>] {
        &self.silences
    }
}
