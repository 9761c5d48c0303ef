//! `keys list`: the entries of the dictionaries.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::{Value, json};

use super::{GOOD, is_json, write_json};
use crate::cli::keys::KeysArgs;
use crate::keys::problem::printable;
use crate::keys::{Entry, Globs, HolderEntry, KeyBook};

pub(super) fn run(args: &KeysArgs, book: &KeyBook, out: &mut dyn Write) -> io::Result<u8> {
    let valid = |globs: &Globs| args.database.as_ref().is_none_or(|database| globs.matches(database));
    let entries: Vec<&Entry> = book.entries().iter().map(|entry| &**entry).filter(|e| valid(&e.databases)).collect();
    let holders: Vec<&HolderEntry> =
        book.holders().iter().map(|holder| &**holder).filter(|h| valid(&h.databases)).collect();
    if is_json(args) {
        let database = args.database.as_deref();
        let keys: Vec<Value> = entries.iter().map(|entry| entry_json(entry, database)).collect();
        let holders: Vec<Value> = holders.iter().map(|holder| holder_json(holder)).collect();
        write_json(out, &json!({ "schema": 1, "keys": keys, "holders": holders }))?;
        return Ok(GOOD);
    }
    if entries.is_empty() && holders.is_empty() {
        writeln!(out, "no entry: name dictionaries with --keys, or write [[key]] entries into the config file")?;
        return Ok(GOOD);
    }
    if !entries.is_empty() {
        write_entries(&entries, args.database.as_deref(), out)?;
    }
    if !holders.is_empty() {
        write_holders(&holders, !entries.is_empty(), out)?;
    }
    Ok(GOOD)
}

fn write_entries(entries: &[&Entry], database: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).force_no_tty();
    table.set_header(["NAME", "KEY", "KIND", "OWNER", "TEAM", "HOLD", "VALID IN"]);
    for entry in entries {
        table.add_row([
            printable(&entry.name),
            key_text(entry, database),
            entry.kind.name().to_owned(),
            cell(entry.owner.as_deref()),
            cell(entry.team.as_deref()),
            hold(entry),
            valid_in(entry),
        ]);
    }
    write_table(&table, out)
}

fn write_holders(holders: &[&HolderEntry], after_entries: bool, out: &mut dyn Write) -> io::Result<()> {
    if after_entries {
        writeln!(out)?;
    }
    let mut table = Table::new();
    table.load_style(NOTHING).force_no_tty();
    table.set_header(["HOLDER", "APPLICATIONS", "USERS", "DATABASES", "CLIENTS", "HOLD"]);
    for holder in holders {
        let clients: Vec<String> = holder.clients.iter().map(ToString::to_string).collect();
        let hold = match (holder.expected, holder.max_hold) {
            (_, Some(most)) => at_most(most),
            (true, None) => "expected".to_owned(),
            (false, None) => "-".to_owned(),
        };
        table.add_row([
            printable(&holder.name),
            globs(&holder.applications),
            globs(&holder.users),
            globs(&holder.databases),
            if clients.is_empty() { "-".to_owned() } else { clients.join(", ") },
            hold,
        ]);
    }
    write_table(&table, out)
}

/// Without the blanks at the ends that the table's columns leave.
fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    for line in table.lines() {
        let line = line.strip_prefix(' ').unwrap_or(&line);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// What the entry names; with a database, the key that a formula gives there.
fn key_text(entry: &Entry, database: Option<&str>) -> String {
    match (&entry.matcher, database) {
        (crate::keys::Matcher::PerDatabase(formula), Some(database)) => {
            let keys: Vec<String> = formula.keys(database).into_iter().map(crate::keys::key::text).collect();
            keys.join(" or ")
        }
        (matcher, _) => matcher.text(),
    }
}

fn cell(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), printable)
}

fn globs(globs: &Globs) -> String {
    if globs.is_empty() { "-".to_owned() } else { printable(&globs.patterns.join(", ")) }
}

fn at_most(most: Duration) -> String {
    format!("<= {}", humantime::format_duration(most))
}

fn hold(entry: &Entry) -> String {
    match (entry.long_lived, entry.max_hold) {
        (_, Some(most)) => at_most(most),
        (true, None) => "long".to_owned(),
        (false, None) => "-".to_owned(),
    }
}

fn valid_in(entry: &Entry) -> String {
    match (entry.databases.is_empty(), entry.targets.is_empty()) {
        (true, true) => "everywhere".to_owned(),
        (false, true) => globs(&entry.databases),
        (true, false) => format!("on {}", globs(&entry.targets)),
        (false, false) => format!("{} on {}", globs(&entry.databases), globs(&entry.targets)),
    }
}

fn entry_json(entry: &Entry, database: Option<&str>) -> Value {
    json!({
        "name": entry.name,
        "key": key_text(entry, database),
        "kind": entry.kind.name(),
        "owner": entry.owner,
        "team": entry.team,
        "contact": entry.contact,
        "note": entry.note,
        "runbook": entry.runbook,
        "scope": entry.scope.map(crate::keys::Scope::name),
        "long_lived": entry.long_lived,
        "waiters": if entry.waiters_expected { "expected" } else { "unexpected" },
        "holders": entry.holders.as_ref().map(|holders| [*holders.0.start(), *holders.0.end()]),
        "max_hold_seconds": entry.max_hold.map(|most| most.as_secs_f64()),
        "applications": entry.applications.patterns,
        "databases": entry.databases.patterns,
        "targets": entry.targets.patterns,
    })
}

fn holder_json(holder: &HolderEntry) -> Value {
    let clients: Vec<String> = holder.clients.iter().map(ToString::to_string).collect();
    json!({
        "name": holder.name,
        "applications": holder.applications.patterns,
        "users": holder.users.patterns,
        "databases": holder.databases.patterns,
        "clients": clients,
        "expected": holder.expected,
        "max_hold_seconds": holder.max_hold.map(|most| most.as_secs_f64()),
    })
}
