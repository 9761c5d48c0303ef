//! `keys hash`: from a name to the keys that it gives.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{GOOD, is_json, preset_keys, write_json};
use crate::cli::keys::KeysArgs;
use crate::keys::hash::{Algorithm, Value as Hashed};
use crate::keys::presets::{self, Preset};
use crate::keys::problem::printable;

/// The column in which keys begin.
const WIDTH: usize = 34;

pub(super) fn run(args: &KeysArgs, names: &[String], out: &mut dyn Write) -> io::Result<u8> {
    if is_json(args) {
        let names: Vec<Value> = names.iter().map(|name| name_json(args, name)).collect();
        let formulas = args.database.as_ref().map(|_| {
            presets::all()
                .filter(Preset::takes_database)
                .map(|preset| preset_json(args, &preset, None))
                .collect::<Vec<_>>()
        });
        write_json(
            out,
            &json!({ "schema": 1, "names": names, "database": args.database, "database_presets": formulas }),
        )?;
        return Ok(GOOD);
    }
    for (place, name) in names.iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        writeln!(out, "\"{}\"", printable(name))?;
        if let Some(preset) = presets::find(name) {
            write_preset(args, &preset, None, out)?;
        }
        for algorithm in Algorithm::ALL {
            write_hash(algorithm, name, out)?;
        }
        for preset in presets::all().filter(Preset::is_name_hash) {
            // A name that a preset cannot take (a uuid, say) has no key there.
            if preset_keys(args, &preset, Some(name)).is_ok() {
                write_preset(args, &preset, Some(name), out)?;
            }
        }
    }
    if let Some(database) = &args.database {
        writeln!(out, "\ndatabase \"{}\"", printable(database))?;
        for preset in presets::all().filter(Preset::takes_database) {
            write_preset(args, &preset, None, out)?;
        }
    }
    Ok(GOOD)
}

fn write_hash(algorithm: Algorithm, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let hashed = algorithm.hash(name.as_bytes());
    let text = match hashed {
        Hashed::Int8(value) => value.to_string(),
        Hashed::Int4(value) if value < 0 => {
            format!("{value}, unsigned {}, in a pair (N,{value})", value.cast_unsigned())
        }
        Hashed::Int4(value) => format!("{value}, in a pair (N,{value})"),
    };
    writeln!(out, "  {:<WIDTH$}{text}", algorithm.name())
}

fn write_preset(args: &KeysArgs, preset: &Preset, name: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
    let text = preset_keys(args, preset, name).map_or_else(|why| format!("- ({why})"), |keys| keys.join(" or "));
    writeln!(out, "  {:<WIDTH$}{text}", format!("preset {}", preset.name))
}

fn preset_json(args: &KeysArgs, preset: &Preset, name: Option<&str>) -> Value {
    match preset_keys(args, preset, name) {
        Ok(keys) => json!({ "preset": preset.name, "software": preset.title, "keys": keys, "error": null }),
        Err(why) => json!({ "preset": preset.name, "software": preset.title, "keys": [], "error": why }),
    }
}

fn name_json(args: &KeysArgs, name: &str) -> Value {
    let hashes: Vec<Value> = Algorithm::ALL
        .iter()
        .map(|algorithm| {
            let hashed = algorithm.hash(name.as_bytes());
            let int4 = match hashed {
                Hashed::Int4(value) => Some(value),
                Hashed::Int8(_) => None,
            };
            let unsigned = int4.map(|value| value.cast_unsigned().to_string());
            json!({ "hash": algorithm.name(), "key": hashed.bigint().to_string(), "unsigned_key": unsigned, "int4": int4 })
        })
        .collect();
    let presets = presets::all()
        .filter(Preset::is_name_hash)
        .map(|preset| preset_json(args, &preset, Some(name)))
        .filter(|preset| preset["error"].is_null());
    json!({
        "name": name,
        "hashes": hashes,
        "presets": presets.collect::<Vec<_>>(),
        "preset": presets::find(name).map(|preset| preset_json(args, &preset, None)),
    })
}
