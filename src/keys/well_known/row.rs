//! The shape of a row of the catalogue.

use crate::keys::Kind;
use crate::keys::key::{from_bigint, from_pair};
use crate::keys::presets::PresetConstant;

/// A key that popular software takes, the same in every installation.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The preset's name in the dictionary, where it has one.
    pub preset: Option<&'static str>,
    /// The name that people know.
    pub name: &'static str,
    /// The key.
    pub key: PresetConstant,
    /// What the lock is for.
    pub kind: Kind,
    /// What else is known of it.
    pub note: &'static str,
    /// Empty: the number speaks for itself. Else it is a number that anybody may use, and it is only named if one of
    /// these words stands in the holder's application name, user or statement.
    pub hints: &'static [&'static str],
}

/// A row for a bigint that speaks for itself.
pub(super) const fn bigint(preset: &'static str, name: &'static str, key: i64, kind: Kind, note: &'static str) -> Row {
    Row { preset: Some(preset), name, key: PresetConstant::Key(from_bigint(key)), kind, note, hints: &[] }
}

/// A row for a pair that speaks for itself.
pub(super) const fn pair(name: &'static str, first: i32, second: i32, kind: Kind, note: &'static str) -> Row {
    Row { preset: None, name, key: PresetConstant::Key(from_pair(first, second)), kind, note, hints: &[] }
}

/// A row for all pairs with a first number that speaks for itself.
pub(super) const fn class(name: &'static str, first: i32, kind: Kind, note: &'static str) -> Row {
    Row { preset: None, name, key: PresetConstant::Class(first), kind, note, hints: &[] }
}

impl Row {
    /// The same row without a preset: its key is a preset with a parameter's default already.
    pub(super) const fn no_preset(mut self) -> Self {
        self.preset = None;
        self
    }

    /// The same row, only to be named where circumstances speak for it.
    pub(super) const fn only_with(mut self, hints: &'static [&'static str]) -> Self {
        self.hints = hints;
        self
    }
}
