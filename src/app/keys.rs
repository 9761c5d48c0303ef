//! `pglockwatch keys`: decode, hash, lint, list, import.
//!
//! It writes to what it is given and opens nothing: files and tables are read, and the day is told, by who calls.

mod decode;
mod hash;
pub(super) mod import;
mod lint;
mod list;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use serde_json::Value;

use crate::cli::keys::{KeysArgs, KeysCommand, KeysFormat};
use crate::keys::presets::{self, Argument, Arguments, Preset, PresetKeys};
use crate::keys::{KeyBook, key, lint::File, lint::Settings};

/// What the commands work on.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The names. For `lint`, which tells errors itself, an empty one will do.
    pub book: &'a KeyBook,
    /// The dictionaries and the config file, for `lint`.
    pub files: &'a [File<'a>],
    /// The day, and what else `lint` must know.
    pub settings: Settings<'a>,
    /// The table, for `import`.
    pub table: &'a import::Table,
}

/// Exit codes: all is well, something is wrong with what was asked for, it was asked wrongly.
const GOOD: u8 = 0;
const BAD: u8 = 1;
const USAGE: u8 = 2;

/// Runs a `keys` command: the answer goes to `out`, complaints to `err`. Returns the exit code: 0, or 1 if `lint`
/// found something or `import` nothing to use, or 2 if a KEY is no key.
///
/// # Errors
/// Only those of writing.
pub fn run(args: &KeysArgs, given: &Given<'_>, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    match &args.command {
        KeysCommand::Decode { keys } => decode::run(args, keys, given.book, out, err),
        KeysCommand::Hash { names } => hash::run(args, names, out),
        KeysCommand::Lint => lint::run(args, given, out),
        KeysCommand::List => list::run(args, given.book, out),
        KeysCommand::Import(import) => import::run(args, import, given.table, out, err),
    }
}

/// The keys of a preset as texts, with what was typed as its parameters and `name` for the one that a name stands for.
///
/// # Errors
/// A sentence that says what is missing or wrong.
fn preset_keys(args: &KeysArgs, preset: &Preset, name: Option<&str>) -> Result<Vec<String>, String> {
    let mut arguments = Arguments::default();
    let typed = [("database", &args.database), ("schema", &args.schema), ("table", &args.table)];
    for parameter in preset.parameters {
        if let Some((_, Some(value))) = typed.iter().find(|(option, _)| *option == parameter.name) {
            arguments = arguments.with(parameter.name, Argument::Text(value.clone()));
        }
    }
    if let (Some(parameter), Some(name)) = (preset.name_parameter(), name) {
        arguments = arguments.with(parameter, Argument::Text(name.to_owned()));
    }
    let arguments = arguments.complete(preset, name.unwrap_or(preset.name)).map_err(|parameter| match parameter {
        "database" | "schema" | "table" => format!("needs --{parameter}"),
        _ => format!("needs `{parameter}`, which only a dictionary can give"),
    })?;
    if preset.takes_database() && !arguments.has(presets::DATABASE) {
        return Err("needs --database".to_owned());
    }
    preset.keys(&arguments).map(|keys| match keys {
        PresetKeys::Exact(keys) => keys.into_iter().map(key::text).collect(),
        PresetKeys::Class(class) => vec![format!("({class},*)")],
    })
}

fn is_json(args: &KeysArgs) -> bool {
    args.format == KeysFormat::Json
}

/// One JSON object, and a line break.
fn write_json(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}
