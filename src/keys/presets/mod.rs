//! Presets: the formulas and constants of popular software under names that the dictionary and `keys hash` take.
//!
//! Pure. A preset says which parameters it needs; [`Arguments`] holds their values; [`Preset::keys`] computes. A
//! preset that needs the database's name and is given none stands for one key per database: a [`DatabaseFormula`].

pub mod formulas;
mod phash2;
mod table;
#[cfg(test)]
mod vectors;

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use super::{Kind, well_known};
use crate::model::KeyNumbers;

/// What a parameter is when it is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// It must be given.
    Required,
    /// The entry's own name (`keys hash`: the name that was typed).
    Name,
    /// The name of the lock's own database.
    Database,
    /// This text.
    Text(&'static str),
    /// This number.
    Integer(i64),
    /// A number that must be given, from 0 to 2^32-1: an oid.
    RequiredOid,
    /// A number that may be left out: the preset then means every key with this first number.
    AnyInteger,
}

/// A parameter of a preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// The field's name in the dictionary.
    pub name: &'static str,
    /// What it is when it is not given.
    pub fallback: Fallback,
}

impl Parameter {
    /// Whether its value is a number.
    pub fn is_integer(self) -> bool {
        matches!(self.fallback, Fallback::Integer(_) | Fallback::RequiredOid | Fallback::AnyInteger)
    }
}

/// What a preset gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresetKeys {
    /// These keys: one, or several where the software itself has several spellings.
    Exact(Vec<KeyNumbers>),
    /// Every two-int4 key with this first number.
    Class(i32),
}

type Compute = fn(&Arguments) -> Result<PresetKeys, String>;

/// A preset.
#[derive(Clone, Copy)]
pub struct Preset {
    /// Its name in the dictionary.
    pub name: &'static str,
    /// The name that people know.
    pub title: &'static str,
    /// What such a lock is for.
    pub kind: Kind,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    source: Source,
}

/// How a preset's key comes about.
#[derive(Clone, Copy)]
enum Source {
    Formula(Compute),
    Constant(PresetConstant),
}

/// A key that is the same everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresetConstant {
    /// This key.
    Key(KeyNumbers),
    /// Every two-int4 key with this first number.
    Class(i32),
}

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Preset").field(&self.name).finish()
    }
}

impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Preset {}

impl std::hash::Hash for Preset {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Preset {
    /// The keys that it gives for these arguments.
    ///
    /// # Errors
    /// A sentence, where an argument is not of the form that the formula needs.
    pub fn keys(&self, arguments: &Arguments) -> Result<PresetKeys, String> {
        match self.source {
            Source::Formula(compute) => compute(arguments),
            Source::Constant(PresetConstant::Key(key)) => Ok(PresetKeys::Exact(vec![key])),
            Source::Constant(PresetConstant::Class(class)) => Ok(PresetKeys::Class(class)),
        }
    }

    /// The parameter that a bare name stands for: the one that an entry's name would fill, else the only one that must
    /// be given, else the software's own name for what is locked.
    pub fn name_parameter(&self) -> Option<&'static str> {
        let of = |wanted: fn(&Parameter) -> bool| self.parameters.iter().find(|parameter| wanted(parameter));
        let required = self.parameters.iter().filter(|parameter| parameter.fallback == Fallback::Required).count();
        of(|parameter| parameter.fallback == Fallback::Name)
            .or_else(|| of(|parameter| parameter.fallback == Fallback::Required).filter(|_| required == 1))
            .or_else(|| of(|parameter| matches!(parameter.name, "input" | "slot" | "queue")).filter(|_| required == 0))
            .map(|parameter| parameter.name)
    }

    /// Whether a name is all that it needs to compute keys.
    pub fn is_name_hash(&self) -> bool {
        self.name_parameter().is_some_and(|name| {
            self.parameters.iter().all(|parameter| {
                parameter.name == name
                    || !matches!(
                        parameter.fallback,
                        Fallback::Required | Fallback::RequiredOid | Fallback::Database | Fallback::AnyInteger
                    )
            })
        })
    }

    /// Whether it is a formula over the database's name.
    pub fn takes_database(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.fallback == Fallback::Database)
    }

    /// The keys that it gives for a bare name; none where a name is not what it needs.
    pub fn keys_of_name(&self, name: &str) -> Vec<KeyNumbers> {
        let Some(parameter) = self.name_parameter().filter(|_| self.is_name_hash()) else { return Vec::new() };
        let arguments = Arguments::default().with(parameter, Argument::Text(name.to_owned()));
        let keys = arguments.complete(self, name).ok().map(|arguments| self.keys(&arguments));
        match keys {
            Some(Ok(PresetKeys::Exact(keys))) => keys,
            _ => Vec::new(),
        }
    }
}

/// All presets: formulas first, then constants of the well-known catalogue.
pub fn all() -> impl Iterator<Item = Preset> {
    table::FORMULAS.iter().copied().chain(well_known::constants().filter_map(|row| {
        row.preset.map(|name| Preset {
            name,
            title: row.name,
            kind: row.kind,
            parameters: &[],
            source: Source::Constant(row.key),
        })
    }))
}

/// The preset of that name.
pub fn find(name: &str) -> Option<Preset> {
    static BY_NAME: LazyLock<HashMap<&str, Preset>> =
        LazyLock::new(|| all().map(|preset| (preset.name, preset)).collect());
    BY_NAME.get(name).copied()
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A text.
    Text(String),
    /// A number.
    Integer(i64),
}

/// The values of a preset's parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Arguments(Vec<(&'static str, Argument)>);

impl Arguments {
    /// With one value more; an earlier one of that name is replaced.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Argument) -> Self {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value));
        self
    }

    /// Whether there is a value of that name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// The text of that name; empty if there is none.
    fn text(&self, name: &str) -> &str {
        self.0
            .iter()
            .find_map(|(known, value)| match value {
                Argument::Text(text) if *known == name => Some(text.as_str()),
                _ => None,
            })
            .unwrap_or_default()
    }

    /// The number of that name.
    fn integer(&self, name: &str) -> Option<i64> {
        self.0.iter().find_map(|(known, value)| match value {
            Argument::Integer(value) if *known == name => Some(*value),
            _ => None,
        })
    }

    /// These values, and the fallbacks of the parameters that are not among them. A missing database stays missing.
    ///
    /// # Errors
    /// The name of a parameter that must be given and is not.
    pub fn complete(mut self, preset: &Preset, name: &str) -> Result<Self, &'static str> {
        for parameter in preset.parameters {
            if self.has(parameter.name) {
                continue;
            }
            match parameter.fallback {
                Fallback::Required | Fallback::RequiredOid => return Err(parameter.name),
                Fallback::Database | Fallback::AnyInteger => {}
                Fallback::Name => self = self.with(parameter.name, Argument::Text(name.to_owned())),
                Fallback::Text(text) => self = self.with(parameter.name, Argument::Text(text.to_owned())),
                Fallback::Integer(value) => self = self.with(parameter.name, Argument::Integer(value)),
            }
        }
        Ok(self)
    }
}

/// A preset over a database's name, with its other parameters: one key (or a few) per database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DatabaseFormula {
    preset: Preset,
    arguments: Arguments,
}

/// The name of the parameter that is the database.
pub const DATABASE: &str = "database";

impl DatabaseFormula {
    /// A formula out of a preset that takes the database's name, and its other parameters' values.
    pub fn new(preset: Preset, arguments: Arguments) -> Option<Self> {
        preset.takes_database().then_some(Self { preset, arguments })
    }

    /// The keys in that database.
    pub fn keys(&self, database: &str) -> Vec<KeyNumbers> {
        let arguments = self.arguments.clone().with(DATABASE, Argument::Text(database.to_owned()));
        match self.preset.keys(&arguments) {
            Ok(PresetKeys::Exact(keys)) => keys,
            Ok(PresetKeys::Class(_)) | Err(_) => Vec::new(),
        }
    }

    /// The preset's name.
    pub fn preset(&self) -> &'static str {
        self.preset.name
    }
}

/// What `keys hash --help` says of presets.
pub fn help() -> String {
    let mut help =
        String::from("Presets, for `preset = \"...\"` in a dictionary and as NAME here, with their parameters:\n");
    for preset in all() {
        let parameters: Vec<String> = preset
            .parameters
            .iter()
            .map(|parameter| {
                let value = match parameter.fallback {
                    Fallback::Required => "required".to_owned(),
                    Fallback::RequiredOid => "a number, required".to_owned(),
                    Fallback::AnyInteger => "a number, else every one".to_owned(),
                    Fallback::Name => "else the entry's name".to_owned(),
                    Fallback::Database => "else each lock's own".to_owned(),
                    Fallback::Text(text) => format!("else \"{text}\""),
                    Fallback::Integer(number) => format!("else {number}"),
                };
                format!("{} ({value})", parameter.name)
            })
            .collect();
        let line = format!("  {:<32}  {}", preset.name, parameters.join(", "));
        help.push_str(line.trim_end());
        help.push('\n');
    }
    help
}
