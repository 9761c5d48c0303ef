//! One table of the file, read field by field: every wrong field is told, and what is right is taken.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::keys::globs::GlobCache;
use crate::keys::problem::{Level, Problem, SourceText};
use crate::keys::{Globs, key};
use crate::model::KeyNumbers;

/// A value with its place.
pub(super) type Value<'t> = &'t Spanned<DeValue<'t>>;

/// Where problems go.
pub(super) struct Reporter<'s> {
    pub(super) source: &'s SourceText,
    pub(super) problems: Vec<Problem>,
    pub(super) globs: GlobCache,
    /// The file's syntax is broken: what is missing may only have been lost.
    pub(super) broken: bool,
}

impl<'s> Reporter<'s> {
    /// No problem yet.
    pub(super) fn new(source: &'s SourceText, broken: bool) -> Self {
        Self { source, problems: Vec::new(), globs: GlobCache::default(), broken }
    }

    /// Something is wrong there.
    pub(super) fn error(&mut self, span: Range<usize>, message: impl AsRef<str>) {
        self.problems.push(self.source.problem(Level::Error, span, message));
    }

    /// Something is not there.
    pub(super) fn missing(&mut self, span: Range<usize>, message: impl AsRef<str>) {
        if !self.broken {
            self.error(span, message);
        }
    }
}

/// One table.
pub(super) struct Fields<'r, 's, 't> {
    /// Its fields: few, so that a walk over them beats a search.
    entries: Vec<(&'t Spanned<DeString<'t>>, Value<'t>)>,
    /// The table's own place.
    pub(super) span: Range<usize>,
    pub(super) report: &'r mut Reporter<'s>,
}

impl<'r, 's, 't> Fields<'r, 's, 't> {
    /// The fields of a table that stands at that place.
    pub(super) fn new(table: &'t DeTable<'t>, span: Range<usize>, report: &'r mut Reporter<'s>) -> Self {
        Self { entries: table.iter().collect(), span, report }
    }

    /// The value of a field.
    pub(super) fn get(&self, name: &str) -> Option<Value<'t>> {
        self.entries.iter().find(|(field, _)| field.get_ref() == name).map(|(_, value)| *value)
    }

    /// Tells every field that is in none of these lists.
    pub(super) fn only(&mut self, known: &[&[&str]], what: &str) {
        for (name, _) in &self.entries {
            let text: &str = name.get_ref();
            if known.iter().any(|names| names.contains(&text)) {
                continue;
            }
            let all = || known.iter().flat_map(|names| names.iter()).copied();
            let hint = closest(text, all()).map_or_else(
                || format!("it may have: {}", all().collect::<Vec<_>>().join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            self.report.error(name.span(), format!("{what} has no field `{text}`: {hint}"));
        }
    }

    /// A field that is a text.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.word(name).map(str::to_owned)
    }

    /// The same, only to be looked at.
    fn word(&mut self, name: &str) -> Option<&'t str> {
        let value = self.get(name)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.wrong_type(name, value, "a text in quotes");
        }
        text
    }

    /// A field that must be there, be a text, not empty and on one line.
    pub(super) fn required(&mut self, name: &str, what: &str) -> Option<String> {
        let Some(value) = self.get(name) else {
            self.report.missing(self.span.clone(), format!("{what} needs a `{name}`"));
            return None;
        };
        let text = self.text(name)?;
        if text.trim().is_empty() || text.chars().any(crate::quote::is_unsafe) {
            let message = format!("`{name}` must not be empty and not hold control characters");
            self.report.error(value.span(), message);
            return None;
        }
        Some(text)
    }

    /// A field that is true or false.
    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            self.wrong_type(name, value, "true or false");
        }
        boolean
    }

    /// A field that is one of these words.
    pub(super) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let value = self.get(name)?;
        let text = self.word(name)?;
        let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, chosen)| *chosen);
        if chosen.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            let hint = closest(text, words.iter().copied()).map(|near| format!(" (did you mean `{near}`?)"));
            let hint = hint.unwrap_or_default();
            self.report
                .error(value.span(), format!("`{name}` cannot be `{text}`: it is one of {}{hint}", words.join(", ")));
        }
        chosen
    }

    /// A field that is a length of time, not zero.
    pub(super) fn duration(&mut self, name: &str) -> Option<Duration> {
        let value = self.get(name)?;
        let text = self.word(name)?;
        match humantime::parse_duration(text) {
            Ok(duration) if !duration.is_zero() => Some(duration),
            _ => {
                let message = format!("`{name}` cannot be `{text}`: write a length of time such as 90s, 15m or 1h30m");
                self.report.error(value.span(), message);
                None
            }
        }
    }

    /// A field that is a list of texts, not empty; with the place of each.
    pub(super) fn texts(&mut self, name: &str) -> Vec<(String, Range<usize>)> {
        let Some(value) = self.get(name) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(name, value, "a list of texts, as [\"one\", \"two\"]");
            return Vec::new();
        };
        if array.is_empty() {
            self.report.error(value.span(), format!("`{name}` is empty: name something or leave the field out"));
        }
        let mut texts = Vec::with_capacity(array.len());
        for item in array {
            match item.get_ref().as_str() {
                Some(text) => texts.push((text.to_owned(), item.span())),
                None => self.wrong_type(name, item, "a list of texts, as [\"one\", \"two\"]"),
            }
        }
        texts
    }

    /// A field that is a list of globs.
    pub(super) fn globs(&mut self, name: &str) -> Globs {
        let texts = self.texts(name);
        let (patterns, spans): (Vec<String>, Vec<_>) = texts.into_iter().unzip();
        if patterns.is_empty() {
            return Globs::default();
        }
        match Globs::cached(patterns, &mut self.report.globs) {
            Ok(globs) => globs,
            Err((place, why)) => {
                let span = spans.get(place).cloned().unwrap_or_default();
                self.report.error(span, format!("`{name}` has a pattern that is not a glob: {why}"));
                Globs::default()
            }
        }
    }

    /// The key that a value means: a number, or a key text.
    pub(super) fn key(&mut self, name: &str, value: Value<'_>) -> Option<KeyNumbers> {
        if let Some(text) = value.get_ref().as_str() {
            return key::parse(text).map_err(|error| self.report.error(value.span(), error.to_string())).ok();
        }
        self.integer(name, value, "a bigint", i128::from(i64::MIN), i128::from(u64::MAX)).map(|bits| {
            #[allow(clippy::cast_possible_truncation, reason = "64 bits, signed or not, as just checked")]
            key::from_bigint(bits as i64)
        })
    }

    /// A value that is an int4, signed or not.
    pub(super) fn int4(&mut self, name: &str, value: Value<'_>) -> Option<i32> {
        self.integer(name, value, "an int4", i128::from(i32::MIN), i128::from(u32::MAX)).map(|bits| {
            #[allow(clippy::cast_possible_truncation, reason = "32 bits, signed or not, as just checked")]
            {
                bits as i32
            }
        })
    }

    /// A value that is a number within limits.
    pub(super) fn integer(
        &mut self,
        name: &str,
        value: Value<'_>,
        what: &str,
        least: i128,
        most: i128,
    ) -> Option<i128> {
        let Some(integer) = value.get_ref().as_integer() else {
            self.wrong_type(name, value, "a number");
            return None;
        };
        let parsed = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let fits = parsed.filter(|number| (least..=most).contains(number));
        if fits.is_none() {
            self.report.error(value.span(), format!("`{name}` is out of range for {what}: {least} to {most}"));
        }
        fits
    }

    /// Tells that a value is of a wrong type.
    pub(super) fn wrong_type(&mut self, name: &str, value: Value<'_>, wanted: &str) {
        let found = match value.get_ref() {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.report.error(value.span(), format!("`{name}` must be {wanted}, not {found}"));
    }
}

/// The word that was probably meant.
pub(super) fn closest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    words
        .map(|word| (strsim::damerau_levenshtein(text, word), word))
        .filter(|(distance, word)| *distance <= 1 + word.len() / 5)
        .min()
        .map(|(_, word)| word)
}
