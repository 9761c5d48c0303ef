//! Everything that is wrong or doubtful in the dictionaries, all files at once.
//!
//! Pure: texts and the present day come in, problems go out.

mod conflicts;

use std::collections::BTreeSet;

use chrono::NaiveDate;

use super::problem::{Level, Problem};
use super::{Dictionary, Entry, Silence, well_known};
use crate::keys::dictionary::{Declared, DeclaredKey};

/// A file to look at.
#[derive(Debug, Clone, Copy)]
pub struct File<'a> {
    /// Its name as it was given.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// What else may stand at its top: empty for a dictionary, the config's own fields and tables for the config.
    pub other_tables: &'a [&'a str],
    /// The targets that use it; empty: all of them.
    pub targets: &'a [&'a str],
}

/// What lint must know beside the files.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The present day, in UTC.
    pub today: NaiveDate,
    /// How many targets there are.
    pub targets: usize,
    /// The names of all rules. Empty: a silence's rules are not checked.
    pub rules: &'a [&'a str],
}

/// What lint found.
#[derive(Debug, Clone, Default)]
pub struct Lint {
    /// Every problem, file by file, in the order of the file.
    pub problems: Vec<Problem>,
    /// How many `[[key]]`, `[[holder]]` and `[[silence]]` can be used.
    pub counts: [usize; 3],
}

/// One file with what could be read of it.
struct Looked<'a> {
    file: File<'a>,
    dictionary: Dictionary,
}

impl Looked<'_> {
    /// Whether some target uses both files.
    fn meets(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.file.targets, other.file.targets);
        mine.is_empty() || theirs.is_empty() || mine.iter().any(|target| theirs.contains(target))
    }
}

/// One entry and the file it stands in.
#[derive(Clone, Copy)]
struct Place<'a> {
    file: usize,
    looked: &'a Looked<'a>,
    key: &'a DeclaredKey,
}

impl Place<'_> {
    fn entry(&self) -> &Entry {
        &self.key.declared.value
    }

    /// Whether both entries can be valid for one lock.
    fn meets(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.entry(), other.entry());
        self.looked.meets(other.looked)
            && mine.databases.may_overlap(&theirs.databases)
            && mine.targets.may_overlap(&theirs.targets)
    }

    /// Where the entry's name stands, seen from a problem in that file.
    fn named_at(&self, from: usize) -> String {
        let source = &self.looked.dictionary.source;
        let line = source.line(self.key.declared.name_span.start);
        if from == self.file { format!("line {line}") } else { format!("{}:{line}", source.name()) }
    }

    /// A problem with what the entry names.
    fn problem(&self, message: &str) -> (usize, Problem) {
        let source = &self.looked.dictionary.source;
        (self.file, source.problem(Level::Lint, self.key.declared.subject_span.clone(), message))
    }
}

/// Looks at all files together.
pub fn lint(files: &[File<'_>], settings: Settings<'_>) -> Lint {
    let mut problems: Vec<(usize, Problem)> = Vec::new();
    let mut looked = Vec::with_capacity(files.len());
    for (number, file) in files.iter().enumerate() {
        let (dictionary, errors) = Dictionary::read(file.name, file.text, file.other_tables);
        problems.extend(errors.into_iter().map(|problem| (number, problem)));
        looked.push(Looked { file: *file, dictionary });
    }
    let places: Vec<Place<'_>> = looked
        .iter()
        .enumerate()
        .flat_map(|(file, looked)| looked.dictionary.keys.iter().map(move |key| Place { file, looked, key }))
        .collect();
    conflicts::add(&mut problems, &places);
    if settings.targets > 1 {
        problems.extend(places.iter().filter_map(boundless_holders));
    }
    let mut names: BTreeSet<&str> = well_known::all_names().collect();
    names.extend(places.iter().map(|place| place.entry().name.as_str()));
    for (number, looked) in looked.iter().enumerate() {
        for silence in &looked.dictionary.silences {
            problems.extend(silence_problems(looked, silence, settings, &names).map(|problem| (number, problem)));
        }
    }
    problems.sort_by_key(|(file, problem)| (*file, problem.line, problem.column));
    let count = |of: fn(&Dictionary) -> usize| looked.iter().map(|looked| of(&looked.dictionary)).sum();
    Lint {
        problems: problems.into_iter().map(|(_, problem)| problem).collect(),
        counts: [count(|d| d.keys.len()), count(|d| d.holders.len()), count(|d| d.silences.len())],
    }
}

/// `holders` of an entry that is valid everywhere, where there are several targets: each would need that many.
fn boundless_holders(place: &Place<'_>) -> Option<(usize, Problem)> {
    let entry = place.entry();
    let boundless = entry.databases.is_empty() && entry.targets.is_empty() && place.looked.file.targets.is_empty();
    let span = place.key.holders_span.clone().filter(|_| boundless && entry.holders.is_some())?;
    let message = format!(
        "`holders` of \"{}\" would be expected on every target: say on which with `databases` or `targets`",
        entry.name
    );
    Some((place.file, place.looked.dictionary.source.problem(Level::Lint, span, message)))
}

/// A silence that has run out, or that can never match.
fn silence_problems(
    looked: &Looked<'_>,
    silence: &Declared<Silence>,
    settings: Settings<'_>,
    names: &BTreeSet<&str>,
) -> impl Iterator<Item = Problem> {
    let what = &silence.value;
    let mut found = Vec::new();
    if let Some(until) = what.until.filter(|until| *until < settings.today) {
        let message = format!("this silence ran out after {until} and does nothing: {}", what.reason);
        found.push((silence.subject_span.clone(), message));
    }
    let unknown = |rule: &&String| !settings.rules.is_empty() && !settings.rules.contains(&rule.as_str());
    for rule in what.rules.iter().filter(unknown) {
        found.push((silence.name_span.clone(), format!("this silence names a rule that there is not: `{rule}`")));
    }
    for name in what.names.iter().filter(|name| !names.contains(name.as_str())) {
        let message = format!("this silence names a key that nothing is called: \"{name}\"");
        found.push((silence.name_span.clone(), message));
    }
    found.into_iter().map(|(span, message)| looked.dictionary.source.problem(Level::Lint, span, message))
}

#[cfg(test)]
mod tests;
