//! The key dictionary: `[[key]]`, `[[holder]]` and `[[silence]]` of a TOML text.
//!
//! It opens no file: who calls hands in the file's name and its text. Every problem of a file is collected, each with
//! its place, before any is told.
//!
//! There are two kinds of problems. What cannot mean anything (syntax, an unknown field, a wrong type, a value out of
//! range, a name that two entries of one file share) is an [error](super::problem::Level::Error) and the file is not
//! used. What means something doubtful (two names on one key, overlapping ranges, a silence that has run out) is only
//! told by [`lint`](super::lint): at run time the rule `key-collision` shows such keys as they are held.

mod fields;
mod key_entry;
mod key_matcher;
mod others;
mod pieces;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::problem::{Problem, SourceText};
use super::{Entry, HolderEntry, Silence};
use fields::{Fields, Reporter};

/// The tables of a dictionary.
pub const TABLES: [&str; 3] = ["key", "holder", "silence"];

/// Something declared, with the places that a problem would point to.
#[derive(Debug, Clone)]
pub struct Declared<T> {
    /// What is declared.
    pub value: Arc<T>,
    /// Where its name stands; of a silence, where the table begins.
    pub name_span: Range<usize>,
    /// Where it says what it covers: the value of `key`, `range`, `until` and so on.
    pub subject_span: Range<usize>,
}

impl<T> Declared<T> {
    /// The same, read from a piece of the text that begins at that byte.
    fn shifted(self, begin: usize) -> Self {
        Self { name_span: shifted(&self.name_span, begin), subject_span: shifted(&self.subject_span, begin), ..self }
    }
}

fn shifted(span: &Range<usize>, begin: usize) -> Range<usize> {
    begin + span.start..begin + span.end
}

/// A `[[key]]` entry with what it was made of.
#[derive(Debug, Clone)]
pub struct DeclaredKey {
    /// The entry.
    pub declared: Declared<Entry>,
    /// The text that was hashed, where the entry is a hash or a preset over a text.
    pub input: Option<String>,
    /// Where `holders` stands, if it is given.
    pub holders_span: Option<Range<usize>>,
}

/// What one file declares.
#[derive(Debug, Clone)]
pub struct Dictionary {
    /// The file.
    pub source: SourceText,
    /// Its `[[key]]` entries in the order of the file.
    pub keys: Vec<DeclaredKey>,
    /// Its `[[holder]]` entries.
    pub holders: Vec<Declared<HolderEntry>>,
    /// Its `[[silence]]` entries.
    pub silences: Vec<Declared<Silence>>,
}

impl Dictionary {
    /// The dictionary of a file that holds nothing else.
    ///
    /// # Errors
    /// Every problem of the file, in the order of the file, with line, column and excerpt. `file` is only for these.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        Self::parse_beside(file, text, &[])
    }

    /// The dictionary in a file that may have other tables and fields at its top, as the config file has.
    ///
    /// # Errors
    /// As [`parse`](Self::parse): syntax, the dictionary's tables, and names at the top that are not among `others`.
    pub fn parse_beside(file: &str, text: &str, others: &[&str]) -> Result<Self, Vec<Problem>> {
        match Self::read(file, text, others) {
            (dictionary, problems) if problems.is_empty() => Ok(dictionary),
            (_, problems) => Err(problems),
        }
    }

    /// The dictionary's tables of a file that is parsed already; other names at its top are not looked at.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), without the syntax. `text` is what `table` was parsed from: problems show its lines.
    pub fn parse_tables(file: &str, text: &str, table: &DeTable<'_>) -> Result<Self, Vec<Problem>> {
        let source = SourceText::new(file, text);
        let mut report = Reporter::new(&source, false);
        let mut read = Read::default();
        read.add(table, &mut report);
        read.unique(&mut report);
        let problems = report.problems;
        if problems.is_empty() { Ok(read.into_dictionary(source)) } else { Err(in_order(problems)) }
    }

    /// What can be used of a file, and every problem of it: for lint.
    pub fn read(file: &str, text: &str, others: &[&str]) -> (Self, Vec<Problem>) {
        let source = SourceText::new(file, text);
        if let Some(read) = pieces::read(&source) {
            let mut report = Reporter::new(&source, false);
            read.unique(&mut report);
            let problems = report.problems;
            return (read.into_dictionary(source), in_order(problems));
        }
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut report = Reporter::new(&source, !errors.is_empty());
        for error in &errors {
            let message = sentence(error.message());
            report.error(error.span().unwrap_or(text.len()..text.len()), message);
        }
        // One broken line often breaks several rules of the language.
        report.problems.dedup_by_key(|problem| problem.line);
        let syntax: Vec<usize> = report.problems.iter().map(|problem| problem.line).collect();
        let mut read = Read::default();
        read.add(table.get_ref(), &mut report);
        read.unique(&mut report);
        top_level(table.get_ref(), others, &mut report);
        let mut problems = report.problems;
        // What follows from a broken line is no news.
        let own = problems.split_off(syntax.len());
        problems.extend(own.into_iter().filter(|problem| !syntax.contains(&problem.line)));
        (read.into_dictionary(source), in_order(problems))
    }
}

/// Tells the names at the top of a file that mean nothing there.
fn top_level(table: &DeTable<'_>, others: &[&str], report: &mut Reporter<'_>) {
    let known: Vec<&str> = TABLES.iter().chain(others).copied().collect();
    for name in table.keys() {
        let text: &str = name.get_ref();
        if !known.contains(&text) {
            let hint = fields::closest(text, known.iter().copied())
                .map_or_else(|| format!("it may have: {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
            report.error(name.span(), format!("the file has no table or field `{text}` at its top: {hint}"));
        }
    }
}

fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems
}

/// What the parser says, on one line.
fn sentence(message: &str) -> String {
    format!("this is not TOML: {}", message.lines().collect::<Vec<_>>().join(", "))
}

/// What has been read so far.
#[derive(Default)]
struct Read {
    keys: Vec<DeclaredKey>,
    holders: Vec<Declared<HolderEntry>>,
    silences: Vec<Declared<Silence>>,
}

impl Read {
    /// Adds what a table declares.
    fn add(&mut self, table: &DeTable<'_>, report: &mut Reporter<'_>) {
        each(table, "key", report, |fields| self.keys.extend(key_entry::read(fields)));
        each(table, "holder", report, |fields| self.holders.extend(others::holder(fields)));
        each(table, "silence", report, |fields| self.silences.extend(others::silence(fields)));
    }

    /// Adds what the piece of the text that begins at that byte declares.
    fn append(&mut self, piece: Self, begin: usize) {
        self.keys.extend(piece.keys.into_iter().map(|key| DeclaredKey {
            declared: key.declared.shifted(begin),
            holders_span: key.holders_span.map(|span| shifted(&span, begin)),
            ..key
        }));
        self.holders.extend(piece.holders.into_iter().map(|holder| holder.shifted(begin)));
        self.silences.extend(piece.silences.into_iter().map(|silence| silence.shifted(begin)));
    }

    /// Tells names that are there twice.
    fn unique(&self, report: &mut Reporter<'_>) {
        let keys = self.keys.iter().map(|key| (key.declared.value.name.as_str(), key.declared.name_span.clone()));
        unique(keys, "[[key]]", report);
        let holders = self.holders.iter().map(|holder| (holder.value.name.as_str(), holder.name_span.clone()));
        unique(holders, "[[holder]]", report);
    }

    fn into_dictionary(self, source: SourceText) -> Dictionary {
        Dictionary { source, keys: self.keys, holders: self.holders, silences: self.silences }
    }
}

/// Reads every table of that name.
fn each(table: &DeTable<'_>, name: &str, report: &mut Reporter<'_>, mut read: impl FnMut(&mut Fields<'_, '_, '_>)) {
    let Some(value) = table.get(name) else { return };
    let wrong = |report: &mut Reporter<'_>, span| {
        report.error(span, format!("`{name}` must be a list of tables: write [[{name}]] above each"));
    };
    let Some(array) = value.get_ref().as_array() else {
        wrong(report, value.span());
        return;
    };
    for item in array {
        match item.get_ref() {
            DeValue::Table(fields) => {
                read(&mut Fields::new(fields, item.span(), report));
            }
            _ => wrong(report, item.span()),
        }
    }
}

/// Tells names that two entries share.
fn unique<'n>(names: impl Iterator<Item = (&'n str, Range<usize>)>, what: &str, report: &mut Reporter<'_>) {
    let mut first: HashMap<&str, usize> = HashMap::with_capacity(names.size_hint().0);
    for (name, span) in names {
        if let Some(&earlier) = first.get(name) {
            let line = report.source.line(earlier);
            report.error(span, format!("two {what} entries are called \"{name}\": the first is in line {line}"));
        } else {
            first.insert(name, span.start);
        }
    }
}
