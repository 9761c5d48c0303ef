//! One `[[key]]`.

use std::ops::Range;
use std::sync::Arc;

use super::fields::{Fields, Value};
use super::key_matcher::{self, Matched};
use super::{Declared, DeclaredKey};
use crate::keys::{CountRange, Entry, Kind, Matcher, Scope};

/// The fields of an entry beside those that say which keys it names.
const FIELDS: [&str; 15] = [
    "name",
    "kind",
    "owner",
    "team",
    "contact",
    "note",
    "runbook",
    "scope",
    "long_lived",
    "waiters",
    "holders",
    "max_hold",
    "applications",
    "databases",
    "targets",
];

/// The entry, if it can be used at all; its problems are told.
pub(super) fn read(fields: &mut Fields<'_, '_, '_>) -> Option<DeclaredKey> {
    let name = fields.required("name", "a [[key]]");
    let matched = key_matcher::read(fields, name.as_deref().unwrap_or_default());
    let parameters = key_matcher::parameters(fields);
    fields.only(&[&FIELDS, &key_matcher::FIELDS, &parameters], "a [[key]]");

    let kinds = Kind::ALL.map(|kind| (kind.name(), kind));
    let said = fields.choice("kind", &kinds);
    let preset_kind = matched.as_ref().and_then(|matched| matched.kind);
    let kind = said.or(preset_kind).unwrap_or_default();
    let long_lived = fields.boolean("long_lived");
    let max_hold = fields.duration("max_hold");
    // Who says that hours are normal does not mean a job's 15 minutes.
    let default_max_hold = if long_lived == Some(true) { None } else { kind.default_max_hold() };
    let holders = holders(fields);
    let scopes = Scope::ALL.map(|scope| (scope.name(), scope));
    let entry = Entry {
        name: name.clone().unwrap_or_default(),
        // A stand-in for what is wrong: such an entry is not returned, but its other fields are looked at.
        matcher: matched.as_ref().map_or(Matcher::OneOf(Vec::new()), |matched| matched.matcher.clone()),
        kind,
        owner: fields.text("owner"),
        team: fields.text("team"),
        contact: fields.text("contact"),
        note: fields.text("note"),
        runbook: fields.text("runbook"),
        scope: fields.choice("scope", &scopes),
        long_lived: long_lived.unwrap_or_else(|| kind.is_long_lived()),
        waiters_expected: fields.choice("waiters", &[("unexpected", false), ("expected", true)]).unwrap_or_default(),
        holders,
        max_hold: max_hold.or(default_max_hold),
        applications: fields.globs("applications"),
        databases: fields.globs("databases"),
        targets: fields.globs("targets"),
    };
    let (_, Matched { input, span, .. }) = (name?, matched?);
    let place = |field: &str| fields.get(field).map(toml::Spanned::span);
    Some(DeclaredKey {
        declared: Declared { value: Arc::new(entry), name_span: place("name").unwrap_or_default(), subject_span: span },
        input,
        holders_span: place("holders"),
    })
}

/// `holders`: a number, or two with `..` between, both included.
fn holders(fields: &mut Fields<'_, '_, '_>) -> Option<CountRange> {
    let value = fields.get("holders")?;
    let Some(text) = value.get_ref().as_str() else {
        let count = fields.integer("holders", value, "a number of sessions", 0, i128::from(u32::MAX))?;
        let count = u32::try_from(count).ok()?;
        return Some(CountRange(count..=count));
    };
    let range = text
        .split_once("..")
        .and_then(|(least, most)| Some((least.trim().parse::<u32>().ok()?, most.trim().parse::<u32>().ok()?)))
        .filter(|(least, most)| least <= most);
    if range.is_none() {
        wrong_holders(fields, value, text);
    }
    range.map(|(least, most)| CountRange(least..=most))
}

fn wrong_holders(fields: &mut Fields<'_, '_, '_>, value: Value<'_>, text: &str) {
    let span: Range<usize> = value.span();
    let message = format!("`holders` cannot be `{text}`: write a number such as 1, or a range such as \"0..4\"");
    fields.report.error(span, message);
}
