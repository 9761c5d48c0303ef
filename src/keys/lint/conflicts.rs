//! Entries that name the same key, or that have the same name in different files.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use super::Place;
use crate::keys::problem::Problem;
use crate::keys::{Matcher, key};
use crate::model::KeyNumbers;

/// Adds every conflict, each once: at the later of the two entries.
pub(super) fn add(problems: &mut Vec<(usize, Problem)>, places: &[Place<'_>]) {
    names(problems, places);
    exact(problems, places);
    let class = |place: &Place<'_>| match &place.entry().matcher {
        Matcher::Class(class) => Some(*class),
        _ => None,
    };
    grouped(problems, places, class, |class| format!("`class` {class}"));
    formulas(problems, places);
    ranges(problems, places);
}

/// Within one file such a name is an error already.
fn names(problems: &mut Vec<(usize, Problem)>, places: &[Place<'_>]) {
    let mut first: HashMap<&str, Vec<&Place<'_>>> = HashMap::new();
    for place in places {
        let name = place.key.declared.value.name.as_str();
        let earlier = first.entry(name).or_default();
        if let Some(other) = earlier.iter().find(|other| other.file != place.file && other.looked.meets(place.looked)) {
            let message = format!("two entries are called \"{name}\": the other is in {}", other.named_at(place.file));
            let source = &place.looked.dictionary.source;
            let span = place.key.declared.name_span.clone();
            problems.push((place.file, source.problem(crate::keys::problem::Level::Lint, span, message)));
        }
        earlier.push(place);
    }
}

fn exact(problems: &mut Vec<(usize, Problem)>, places: &[Place<'_>]) {
    let mut first: HashMap<KeyNumbers, Vec<&Place<'_>>> = HashMap::new();
    for place in places {
        for numbers in place.entry().matcher.exact() {
            let earlier = first.entry(*numbers).or_default();
            report(problems, earlier, place, &format!("`{}`", key::text(*numbers)));
            earlier.push(place);
        }
    }
    // A formula collides with a constant only in a database that is named.
    for place in places {
        let Matcher::PerDatabase(formula) = &place.entry().matcher else { continue };
        for database in place.entry().databases.plain() {
            for numbers in formula.keys(database) {
                let others = first.get(&numbers).map(Vec::as_slice).unwrap_or_default();
                let what = format!("`{}` in database {database}", key::text(numbers));
                report(problems, others, place, &what);
            }
        }
    }
}

fn formulas(problems: &mut Vec<(usize, Problem)>, places: &[Place<'_>]) {
    // Few entries are formulas, and equal ones are equal in every database.
    let formula = |place: &Place<'_>| match &place.entry().matcher {
        Matcher::PerDatabase(formula) => Some(formula.clone()),
        _ => None,
    };
    grouped(problems, places, formula, |formula| format!("preset {}", formula.preset()));
}

/// Entries with an equal subject.
fn grouped<T: Eq + std::hash::Hash>(
    problems: &mut Vec<(usize, Problem)>,
    places: &[Place<'_>],
    subject: impl Fn(&Place<'_>) -> Option<T>,
    text: impl Fn(&T) -> String,
) {
    let mut first: HashMap<T, Vec<&Place<'_>>> = HashMap::new();
    for place in places {
        let Some(subject) = subject(place) else { continue };
        match first.entry(subject) {
            Slot::Occupied(mut slot) => {
                report(problems, slot.get(), place, &text(slot.key()));
                slot.get_mut().push(place);
            }
            Slot::Vacant(slot) => {
                slot.insert(vec![place]);
            }
        }
    }
}

fn report(problems: &mut Vec<(usize, Problem)>, earlier: &[&Place<'_>], place: &Place<'_>, what: &str) {
    // An entry may name one key twice, as `golang-migrate` of a database without a name does.
    let other = |other: &&&Place<'_>| !std::ptr::eq(other.key, place.key) && other.meets(place);
    if let Some(other) = earlier.iter().find(other) {
        problems.push(place.problem(&format!(
            "{what} is the key of two names: \"{}\" ({}) and \"{}\"",
            other.entry().name,
            other.named_at(place.file),
            place.entry().name
        )));
    }
}

/// Ranges that share a key, each told once with the first that it meets.
fn ranges(problems: &mut Vec<(usize, Problem)>, places: &[Place<'_>]) {
    let mut sorted: Vec<(i64, i64, usize, &Place<'_>)> = places
        .iter()
        .enumerate()
        .filter_map(|(number, place)| match &place.entry().matcher {
            Matcher::Range(range) => Some((*range.start(), *range.end(), number, place)),
            _ => None,
        })
        .collect();
    sorted.sort_by_key(|(from, to, number, _)| (*from, *to, *number));
    let mut open: Vec<(i64, i64, usize, &Place<'_>)> = Vec::new();
    for range in sorted {
        let (from, _, number, place) = range;
        open.retain(|(_, to, ..)| *to >= from);
        if let Some((_, to, other_number, other)) = open.iter().find(|(.., other)| other.meets(place)) {
            let last = (*to).min(range.1);
            let (place, other) = if number > *other_number { (place, *other) } else { (*other, place) };
            let which = if from == last { format!("{from}") } else { format!("{from} to {last}") };
            problems.push(place.problem(&format!(
                "the ranges of \"{}\" ({}) and \"{}\" overlap: both name {which}",
                other.entry().name,
                other.named_at(place.file),
                place.entry().name
            )));
        }
        open.push(range);
    }
}
