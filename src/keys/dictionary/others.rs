//! One `[[holder]]`, one `[[silence]]`.

use core::net::IpAddr;
use std::sync::Arc;

use chrono::NaiveDate;
use ipnet::IpNet;

use super::Declared;
use super::fields::Fields;
use crate::keys::{HolderEntry, Silence};
use crate::model::KeyNumbers;

const HOLDER: [&str; 7] = ["name", "applications", "users", "databases", "clients", "expected", "max_hold"];
const SILENCE: [&str; 8] = ["rules", "names", "keys", "applications", "users", "databases", "reason", "until"];

/// The entry, if it can be used at all; its problems are told.
pub(super) fn holder(fields: &mut Fields<'_, '_, '_>) -> Option<Declared<HolderEntry>> {
    fields.only(&[&HOLDER], "a [[holder]]");
    let name = fields.required("name", "a [[holder]]");
    if !HOLDER[1..5].iter().any(|field| fields.get(field).is_some()) {
        let message = "a [[holder]] needs one or more of applications, users, databases, clients";
        fields.report.missing(fields.span.clone(), message);
    }
    let entry = HolderEntry {
        name: name.clone().unwrap_or_default(),
        applications: fields.globs("applications"),
        users: fields.globs("users"),
        databases: fields.globs("databases"),
        clients: clients(fields),
        expected: fields.boolean("expected").unwrap_or_default(),
        max_hold: fields.duration("max_hold"),
    };
    name?;
    let name_span = fields.get("name").map(toml::Spanned::span).unwrap_or_default();
    Some(Declared { value: Arc::new(entry), subject_span: name_span.clone(), name_span })
}

/// Networks as `10.0.0.0/8`, or single addresses.
fn clients(fields: &mut Fields<'_, '_, '_>) -> Vec<IpNet> {
    let mut nets = Vec::new();
    for (text, span) in fields.texts("clients") {
        let net = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        match net {
            Some(net) => nets.push(net),
            None => fields.report.error(
                span,
                format!("`clients` cannot have `{text}`: write networks such as 10.0.0.0/8 or addresses such as ::1"),
            ),
        }
    }
    nets
}

/// The silence, if it can be used at all; its problems are told.
pub(super) fn silence(fields: &mut Fields<'_, '_, '_>) -> Option<Declared<Silence>> {
    fields.only(&[&SILENCE], "a [[silence]]");
    let reason = fields.required("reason", "a [[silence]]");
    if !SILENCE[..6].iter().any(|field| fields.get(field).is_some()) {
        let message = "a [[silence]] needs one or more of rules, names, keys, applications, users, databases: \
                       else it would silence everything";
        fields.report.missing(fields.span.clone(), message);
        return None;
    }
    let plain = |texts: Vec<(String, _)>| texts.into_iter().map(|(text, _)| text).collect();
    let (until, until_span) = until(fields);
    let silence = Silence {
        rules: plain(fields.texts("rules")),
        names: plain(fields.texts("names")),
        keys: keys(fields),
        applications: fields.globs("applications"),
        users: fields.globs("users"),
        databases: fields.globs("databases"),
        reason: reason?,
        until,
    };
    let subject_span = until_span.unwrap_or_else(|| fields.span.clone());
    Some(Declared { value: Arc::new(silence), name_span: fields.span.clone(), subject_span })
}

/// Keys as numbers or as key texts.
fn keys(fields: &mut Fields<'_, '_, '_>) -> Vec<KeyNumbers> {
    let Some(value) = fields.get("keys") else { return Vec::new() };
    let Some(array) = value.get_ref().as_array() else {
        fields.wrong_type("keys", value, "a list of keys, as [612001, \"(1,42)\"]");
        return Vec::new();
    };
    if array.is_empty() {
        fields.report.error(value.span(), "`keys` is empty: name something or leave the field out");
    }
    array.iter().filter_map(|item| fields.key("keys", item)).collect()
}

/// The last day, as a text or as a date.
fn until(fields: &mut Fields<'_, '_, '_>) -> (Option<NaiveDate>, Option<std::ops::Range<usize>>) {
    let Some(value) = fields.get("until") else { return (None, None) };
    let text = match value.get_ref().as_datetime() {
        Some(date) => date.to_string(),
        None => match fields.text("until") {
            Some(text) => text,
            None => return (None, Some(value.span())),
        },
    };
    let day = NaiveDate::parse_from_str(&text, "%Y-%m-%d").ok();
    if day.is_none() {
        fields.report.error(value.span(), format!("`until` cannot be `{text}`: write a day such as 2026-12-31"));
    }
    (day, Some(value.span()))
}
