//! Which keys a `[[key]]` names: exactly one of key, pair, class, range, hash and preset.

use std::ops::Range;

use super::fields::{Fields, Value, closest};
use crate::keys::hash::{Algorithm, hashtextextended};
use crate::keys::presets::{self, Argument, Arguments, DatabaseFormula, Fallback, Preset, PresetKeys};
use crate::keys::{Kind, Matcher, key};

/// The fields that say it, and `input`, `class` and `seed` for a hash.
pub(super) const FIELDS: [&str; 8] = ["key", "pair", "class", "range", "hash", "preset", "input", "seed"];

/// The parameters that an entry may have beside: its preset's; of a preset that is not known, those of any.
pub(super) fn parameters(fields: &Fields<'_, '_, '_>) -> Vec<&'static str> {
    let Some(name) = fields.get("preset").and_then(|value| value.get_ref().as_str()) else { return Vec::new() };
    let names = |preset: Preset| preset.parameters.iter().map(|parameter| parameter.name);
    match presets::find(name) {
        Some(preset) => names(preset).collect(),
        None => presets::all().flat_map(names).collect(),
    }
}

/// What an entry names.
pub(super) struct Matched {
    pub(super) matcher: Matcher,
    /// Where it says so.
    pub(super) span: Range<usize>,
    /// The text that was hashed.
    pub(super) input: Option<String>,
    /// What a lock of the preset is for.
    pub(super) kind: Option<Kind>,
}

impl Matched {
    fn plain(matcher: Matcher, span: Range<usize>) -> Self {
        Self { matcher, span, input: None, kind: None }
    }
}

/// What the entry names, if it can be told; problems are told.
pub(super) fn read(fields: &mut Fields<'_, '_, '_>, name: &str) -> Option<Matched> {
    let hashed = fields.get("hash").is_some();
    let given: Vec<&str> = ["key", "pair", "class", "range", "hash", "preset"]
        .into_iter()
        .filter(|field| fields.get(field).is_some() && !(hashed && *field == "class"))
        .collect();
    let (field, value) = match *given.as_slice() {
        [field] => (field, fields.get(field)?),
        [] => {
            let message = format!("\"{name}\" names no key: give it one of key, pair, class, range, hash, preset");
            fields.report.missing(fields.span.clone(), message);
            return None;
        }
        [first, second, ..] => {
            let span = fields.get(second).map_or_else(|| fields.span.clone(), toml::Spanned::span);
            let message = format!("`{first}` and `{second}` exclude each other: an entry names its keys in one way");
            fields.report.error(span, message);
            return None;
        }
    };
    let takes_input = matches!(field, "hash" | "preset");
    for parameter in ["input", "seed"] {
        if let (Some(value), false) = (fields.get(parameter), takes_input) {
            fields.report.error(value.span(), format!("`{parameter}` goes with `hash`, not with `{field}`"));
        }
    }
    match field {
        "key" => Some(Matched::plain(Matcher::Exact(fields.key("key", value)?), value.span())),
        "pair" => pair(fields, value),
        "class" => Some(Matched::plain(Matcher::Class(fields.int4("class", value)?), value.span())),
        "range" => range(fields, value),
        "hash" => hash(fields, value, name),
        _ => preset(fields, value, name),
    }
}

fn two<'t>(fields: &mut Fields<'_, '_, '_>, name: &str, value: Value<'t>, wanted: &str) -> Option<[Value<'t>; 2]> {
    let array = value.get_ref().as_array().map(|array| array.iter().collect::<Vec<_>>());
    if let Some([first, second]) = array.as_deref() {
        return Some([*first, *second]);
    }
    match array {
        Some(_) => fields.report.error(value.span(), format!("`{name}` must be {wanted}")),
        None => fields.wrong_type(name, value, wanted),
    }
    None
}

fn pair(fields: &mut Fields<'_, '_, '_>, value: Value<'_>) -> Option<Matched> {
    let [first, second] = two(fields, "pair", value, "two numbers, as [1, 42]")?;
    let (first, second) = (fields.int4("pair", first), fields.int4("pair", second));
    Some(Matched::plain(Matcher::Exact(key::from_pair(first?, second?)), value.span()))
}

fn range(fields: &mut Fields<'_, '_, '_>, value: Value<'_>) -> Option<Matched> {
    let [first, last] = two(fields, "range", value, "the first and the last bigint key, as [1000, 1999]")?;
    let mut end = |value| {
        let numbers = fields.key("range", value)?;
        if key::bigint(numbers).is_none() {
            fields.report.error(value.span(), "`range` is of bigint keys: for pairs there is `class`");
        }
        key::bigint(numbers)
    };
    let (from, to) = (end(first), end(last));
    let (from, to) = (from?, to?);
    if from > to {
        fields.report.error(value.span(), format!("`range` is empty: {from} is greater than {to}"));
        return None;
    }
    Some(Matched::plain(Matcher::Range(from..=to), value.span()))
}

fn hash(fields: &mut Fields<'_, '_, '_>, value: Value<'_>, name: &str) -> Option<Matched> {
    let choices = Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
    let algorithm = fields.choice("hash", &choices);
    let input = if fields.get("input").is_some() { fields.text("input") } else { Some(name.to_owned()) };
    let class = match fields.get("class") {
        Some(class) => Some((fields.int4("class", class)?, class.span())),
        None => None,
    };
    let seed = seed(fields, algorithm);
    let (algorithm, input) = (algorithm?, input?);
    let hashed = match seed {
        Some(seed) => crate::keys::hash::Value::Int8(hashtextextended(input.as_bytes(), seed)),
        None => algorithm.hash(input.as_bytes()),
    };
    let numbers = match (class, hashed) {
        (None, hashed) => key::from_bigint(hashed.bigint()),
        (Some((class, _)), crate::keys::hash::Value::Int4(hash)) => key::from_pair(class, hash),
        (Some((_, span)), crate::keys::hash::Value::Int8(_)) => {
            let message = format!("{} has 64 bits and does not fit into a pair: leave `class` out", algorithm.name());
            fields.report.error(span, message);
            return None;
        }
    };
    Some(Matched { input: Some(input), ..Matched::plain(Matcher::Exact(numbers), value.span()) })
}

/// The seed of hashtextextended, if one is given.
fn seed(fields: &mut Fields<'_, '_, '_>, algorithm: Option<Algorithm>) -> Option<i64> {
    let value = fields.get("seed")?;
    if !matches!(algorithm, None | Some(Algorithm::Hashtextextended)) {
        fields.report.error(value.span(), "`seed` goes with hashtextextended only");
        return None;
    }
    let seed = fields.integer("seed", value, "a bigint", i128::from(i64::MIN), i128::from(i64::MAX))?;
    i64::try_from(seed).ok()
}

fn preset(fields: &mut Fields<'_, '_, '_>, value: Value<'_>, name: &str) -> Option<Matched> {
    let text = fields.text("preset")?;
    let Some(preset) = presets::find(&text) else {
        let names: Vec<&str> = presets::all().map(|preset| preset.name).collect();
        let hint = closest(&text, names.into_iter()).map_or_else(
            || "`pglockwatch keys hash --help` lists them".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        fields.report.error(value.span(), format!("there is no preset `{text}`: {hint}"));
        return None;
    };
    for field in ["input", "seed"] {
        if let (Some(value), false) = (fields.get(field), preset.parameters.iter().any(|p| p.name == field)) {
            fields.report.error(value.span(), format!("preset {text} has no parameter `{field}`"));
        }
    }
    let arguments = arguments(fields, &preset)?;
    let arguments = match arguments.complete(&preset, name) {
        Ok(arguments) => arguments,
        Err(parameter) => {
            fields.report.missing(value.span(), format!("preset {text} needs the parameter `{parameter}`"));
            return None;
        }
    };
    let text_of = |parameter| fields.get(parameter).and_then(|value| value.get_ref().as_str());
    let input = preset.name_parameter().and_then(text_of).map(str::to_owned);
    let matched = |matcher| Matched { matcher, span: value.span(), input, kind: Some(preset.kind) };
    if let (false, Some(formula)) = (arguments.has(presets::DATABASE), DatabaseFormula::new(preset, arguments.clone()))
    {
        return Some(matched(Matcher::PerDatabase(formula)));
    }
    match preset.keys(&arguments) {
        Ok(PresetKeys::Class(class)) => Some(matched(Matcher::Class(class))),
        Ok(PresetKeys::Exact(keys)) => match *keys.as_slice() {
            [key] => Some(matched(Matcher::Exact(key))),
            _ => Some(matched(Matcher::OneOf(keys))),
        },
        Err(message) => {
            fields.report.error(value.span(), format!("preset {text}: {message}"));
            None
        }
    }
}

/// The parameters that the entry gives.
fn arguments(fields: &mut Fields<'_, '_, '_>, preset: &Preset) -> Option<Arguments> {
    let mut arguments = Arguments::default();
    for parameter in preset.parameters {
        let Some(value) = fields.get(parameter.name) else { continue };
        let argument = if parameter.is_integer() {
            let least = if parameter.fallback == Fallback::RequiredOid { 0 } else { i128::from(i32::MIN) };
            let number = fields.integer(parameter.name, value, "32 bits", least, i128::from(u32::MAX))?;
            Argument::Integer(i64::try_from(number).ok()?)
        } else {
            Argument::Text(fields.text(parameter.name)?)
        };
        arguments = arguments.with(parameter.name, argument);
    }
    Some(arguments)
}
