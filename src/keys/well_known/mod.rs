//! The built-in names: which advisory keys popular software takes.
//!
//! A built-in name is a claim. A number that nobody would choose by accident, or a formula over the database's own
//! name, is named outright. Small numbers belong to several tools and to everybody's own code: they are named only if
//! the holder's application name, user or statement agrees, and then as "may be".
//!
//! This module is data and its look-up. It knows no dictionary: who calls it asks the dictionary first.

mod extension;
mod hints;
mod migrations;
mod per_database;
mod reversible;
mod row;
mod services;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use super::presets::PresetConstant;
use super::{Kind, LookUp, Name, Source};
use crate::model::KeyNumbers;

use hints::Agreement;
pub(super) use per_database::PerDatabase;
pub use row::Row;

/// Words that speak for a product, where several rows share them.
const AIRFLOW: &[&str] = &["airflow", "dag_run", "task_instance"];
const CODER: &[&str] = &["coder", "coderd"];
const CONCOURSE: &[&str] = &["concourse", "atc"];
const IMMICH: &[&str] = &["immich"];
const SPICEDB: &[&str] = &["spicedb", "relation_tuple", "relation_tuple_transaction"];
const TERRAFORM: &[&str] = &["terraform", "opentofu", "tofu", "terraform_remote_state", "global_states_id_seq"];

/// All keys that are the same everywhere.
pub fn constants() -> impl Iterator<Item = &'static Row> {
    migrations::ROWS.iter().chain(services::ROWS).chain(services::COMMON)
}

/// Every built-in name.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    let rows = constants().map(|row| row.name);
    rows.chain(per_database::names()).chain(hints::names()).chain(reversible::NAMES).chain(extension::NAMES)
}

/// A name before it becomes a [`Name`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    name: &'static str,
    /// With what the key's own numbers add to the name.
    label: Option<String>,
    kind: Kind,
    note: Cow<'static, str>,
    /// What speaks for it; nothing where the number speaks for itself.
    agreement: Option<Agreement>,
}

impl Found {
    fn new(name: &'static str, kind: Kind, note: impl Into<Cow<'static, str>>) -> Self {
        Self { name, label: None, kind, note: note.into(), agreement: None }
    }

    fn labelled(mut self, label: String) -> Self {
        self.label = Some(label);
        self
    }

    fn only(mut self, agreement: Agreement) -> Self {
        self.agreement = Some(agreement);
        self
    }
}

impl From<Found> for Name {
    fn from(found: Found) -> Self {
        // A claim that rests on a statement's text alone must not excuse a leak.
        let long_lived = found.kind.is_long_lived() && matches!(found.agreement, None | Some(Agreement::Application));
        Self {
            name: found.name.to_owned(),
            label: found.label.unwrap_or_else(|| found.name.to_owned()),
            source: Source::WellKnown,
            kind: found.kind,
            long_lived,
            waiters_expected: false,
            max_hold: found.kind.default_max_hold(),
            note: Some(found.note.into_owned()),
            may_be: found.agreement.is_some(),
            entry: None,
        }
    }
}

/// The rows by key and by first number.
struct Index {
    keys: HashMap<KeyNumbers, Vec<&'static Row>>,
    classes: HashMap<u32, Vec<&'static Row>>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index { keys: HashMap::new(), classes: HashMap::new() };
    for row in constants() {
        match row.key {
            PresetConstant::Key(key) => index.keys.entry(key).or_default().push(row),
            PresetConstant::Class(class) => index.classes.entry(class.cast_unsigned()).or_default().push(row),
        }
    }
    index
});

/// The built-in names of a key. `formulas` are those whose key in the lock's own database this is.
pub(super) fn names(key: KeyNumbers, known: LookUp<'_>, formulas: &[&'static PerDatabase]) -> Vec<Name> {
    let found = find(key, known, formulas);
    found.into_iter().map(Name::from).collect()
}

fn find(key: KeyNumbers, known: LookUp<'_>, formulas: &[&'static PerDatabase]) -> Vec<Found> {
    if key.is_extension() {
        return extension::names(key);
    }
    let mut found: Vec<Found> = formulas.iter().map(|formula| formula.found()).collect();
    add_rows(&mut found, INDEX.keys.get(&key), known);
    if found.is_empty() && key.objsubid == 2 {
        add_rows(&mut found, INDEX.classes.get(&key.classid), known);
    }
    if found.is_empty() {
        found.extend(reversible::name(key));
    }
    if found.is_empty() {
        found.extend(hints::any_key(key, known));
    }
    found
}

fn add_rows(found: &mut Vec<Found>, rows: Option<&Vec<&'static Row>>, known: LookUp<'_>) {
    for row in rows.into_iter().flatten() {
        let name = Found::new(row.name, row.kind, row.note);
        if row.hints.is_empty() {
            found.push(name);
        } else if let Some(agreement) = hints::agreement(row.hints, known) {
            found.push(name.only(agreement));
        }
    }
}

/// Every built-in name that could be meant by a key, whatever circumstances say, with its note: for `keys decode`.
pub fn candidates(key: KeyNumbers) -> Vec<(&'static str, &'static str)> {
    let class = if key.objsubid == 2 { INDEX.classes.get(&key.classid) } else { None };
    INDEX
        .keys
        .get(&key)
        .into_iter()
        .chain(class)
        .flatten()
        .filter(|row| !row.hints.is_empty())
        .map(|row| (row.name, row.note))
        .collect()
}
