//! All names together: dictionary first, then the well-known catalogue.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::ranges::Ranges;
use super::well_known::{self, PerDatabase};
use super::{Dictionary, Entry, HolderEntry, Matcher, Name, Silence, Source, key};
use crate::model::KeyNumbers;

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

/// The names that a target's keys may have. A clone shares what is large.
///
/// A look-up of a key without a name allocates nothing but, once per database, the keys that follow from the
/// database's name.
#[derive(Debug, Clone, Default)]
pub struct KeyBook {
    entries: Arc<[Arc<Entry>]>,
    inputs: Arc<[Option<String>]>,
    holders: Arc<[Arc<HolderEntry>]>,
    silences: Arc<[Arc<Silence>]>,
    index: Arc<Index>,
    without_well_known: bool,
    databases: Arc<RwLock<HashMap<String, Arc<DatabaseKeys>>>>,
}

/// The entries by what they match; numbers are places in `entries`.
#[derive(Debug, Default)]
struct Index {
    exact: HashMap<KeyNumbers, Vec<usize>>,
    classes: HashMap<u32, Vec<usize>>,
    ranges: Ranges,
    formulas: Vec<usize>,
    counted: Vec<usize>,
}

/// The keys that follow from the name of one database.
#[derive(Debug, Default)]
struct DatabaseKeys {
    entries: HashMap<KeyNumbers, Vec<usize>>,
    well_known: HashMap<KeyNumbers, Vec<&'static PerDatabase>>,
}

/// So many databases are remembered before all are forgotten: far more than a server has, so that only one where
/// databases come and go for ever gets there.
const MOST_DATABASES: usize = 4096;

impl Index {
    fn new(entries: &[Arc<Entry>]) -> Self {
        let mut index = Self { exact: HashMap::with_capacity(entries.len()), ..Self::default() };
        let mut ranges = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            if entry.holders.is_some() {
                index.counted.push(place);
            }
            match &entry.matcher {
                Matcher::Exact(_) | Matcher::OneOf(_) => {
                    for key in entry.matcher.exact() {
                        index.exact.entry(*key).or_default().push(place);
                    }
                }
                Matcher::Class(class) => index.classes.entry(class.cast_unsigned()).or_default().push(place),
                Matcher::Range(range) => ranges.push((range.clone(), place)),
                Matcher::PerDatabase(_) => index.formulas.push(place),
            }
        }
        index.ranges = Ranges::new(ranges.into_iter());
        index
    }
}

impl KeyBook {
    /// The names that these dictionaries give, and the well-known ones.
    pub fn new<'a>(dictionaries: impl IntoIterator<Item = &'a Dictionary>) -> Self {
        let dictionaries: Vec<&Dictionary> = dictionaries.into_iter().collect();
        let keys = || dictionaries.iter().flat_map(|dictionary| &dictionary.keys);
        let entries: Arc<[_]> = keys().map(|key| Arc::clone(&key.declared.value)).collect();
        let holders = dictionaries.iter().flat_map(|dictionary| &dictionary.holders);
        let silences = dictionaries.iter().flat_map(|dictionary| &dictionary.silences);
        Self {
            index: Arc::new(Index::new(&entries)),
            entries,
            inputs: keys().map(|key| key.input.clone()).collect(),
            holders: holders.map(|holder| Arc::clone(&holder.value)).collect(),
            silences: silences.map(|silence| Arc::clone(&silence.value)).collect(),
            without_well_known: false,
            databases: Arc::default(),
        }
    }

    /// The same book without the built-in names.
    #[must_use]
    pub fn without_well_known(mut self) -> Self {
        self.without_well_known = true;
        self
    }

    /// The names of a key, best rank only: exact dictionary entries, else classes and ranges, else well-known.
    /// Several dictionary names of equal rank are all returned.
    pub fn names(&self, key: KeyNumbers, known: LookUp<'_>) -> Vec<Name> {
        let of_database = known.database.and_then(|database| self.of_database(database));
        let mut names = Vec::new();
        self.add(&mut names, key, known, self.index.exact.get(&key));
        if let Some(keys) = &of_database {
            self.add(&mut names, key, known, keys.entries.get(&key));
        }
        if names.is_empty() {
            if key.objsubid == 2 {
                self.add(&mut names, key, known, self.index.classes.get(&key.classid));
            } else if let Some(number) = key::bigint(key) {
                self.index.ranges.containing(number, |place| self.add_one(&mut names, key, known, place));
            }
        }
        if names.is_empty() { self.built_in(key, known, of_database.as_deref()) } else { names }
    }

    /// The built-in names of a key, whatever the dictionary says.
    pub fn well_known_names(&self, key: KeyNumbers, known: LookUp<'_>) -> Vec<Name> {
        let of_database = known.database.and_then(|database| self.of_database(database));
        self.built_in(key, known, of_database.as_deref())
    }

    fn built_in(&self, key: KeyNumbers, known: LookUp<'_>, of_database: Option<&DatabaseKeys>) -> Vec<Name> {
        if self.without_well_known {
            return Vec::new();
        }
        let formulas = of_database.and_then(|keys| keys.well_known.get(&key));
        well_known::names(key, known, formulas.map(Vec::as_slice).unwrap_or_default())
    }

    fn add(&self, names: &mut Vec<Name>, key: KeyNumbers, known: LookUp<'_>, places: Option<&Vec<usize>>) {
        for &place in places.into_iter().flatten() {
            self.add_one(names, key, known, place);
        }
    }

    fn add_one(&self, names: &mut Vec<Name>, key: KeyNumbers, known: LookUp<'_>, place: usize) {
        let entry = self.entries.get(place).filter(|entry| entry.covers(known.target, known.database));
        names.extend(entry.map(|entry| Name {
            name: entry.name.clone(),
            label: entry.label(key),
            source: Source::Dictionary,
            kind: entry.kind,
            long_lived: entry.long_lived,
            waiters_expected: entry.waiters_expected,
            max_hold: entry.max_hold,
            note: entry.note.clone(),
            may_be: false,
            entry: Some(Arc::clone(entry)),
        }));
    }

    /// The keys that follow from a database's name, computed once per database.
    fn of_database(&self, database: &str) -> Option<Arc<DatabaseKeys>> {
        if self.without_well_known && self.index.formulas.is_empty() {
            return None;
        }
        // What a thread left behind when it panicked is whole: entries are only ever put in complete.
        if let Some(keys) = self.databases.read().unwrap_or_else(PoisonError::into_inner).get(database) {
            return Some(Arc::clone(keys));
        }
        let keys = Arc::new(self.compute(database));
        let mut databases = self.databases.write().unwrap_or_else(PoisonError::into_inner);
        if databases.len() >= MOST_DATABASES {
            databases.clear();
        }
        databases.insert(database.to_owned(), Arc::clone(&keys));
        Some(keys)
    }

    fn compute(&self, database: &str) -> DatabaseKeys {
        let mut keys = DatabaseKeys::default();
        for &place in &self.index.formulas {
            if let Some(Matcher::PerDatabase(formula)) = self.entries.get(place).map(|entry| &entry.matcher) {
                for key in formula.keys(database) {
                    keys.entries.entry(key).or_default().push(place);
                }
            }
        }
        for (key, formula) in PerDatabase::all(database) {
            keys.well_known.entry(key).or_default().push(formula);
        }
        keys
    }

    /// Whether the other one surely gives the same names: it is this one, or a clone of it.
    pub fn names_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entries, &other.entries) && self.without_well_known == other.without_well_known
    }

    /// The places of the entries that say how many holders there should be.
    pub fn counted(&self) -> &[usize] {
        &self.index.counted
    }

    /// All `[[key]]` entries.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// All `[[key]]` entries, each with the text that was hashed for it, if one was.
    pub fn entries_with_inputs(&self) -> impl Iterator<Item = (&Arc<Entry>, Option<&str>)> {
        self.entries.iter().zip(self.inputs.iter().map(Option::as_deref))
    }

    /// All `[[holder]]` entries.
    pub fn holders(&self) -> &[Arc<HolderEntry>] {
        &self.holders
    }

    /// All `[[silence]]` entries.
    pub fn silences(&self) -> &[Arc<Silence>] {
        &self.silences
    }

    /// Whether the built-in names are part of it.
    pub fn knows_well_known(&self) -> bool {
        !self.without_well_known
    }
}

#[cfg(test)]
mod tests;
