//! `keys lint`: every problem of the dictionaries.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{BAD, GOOD, Given, is_json, write_json};
use crate::cli::keys::KeysArgs;
use crate::keys::lint::{Lint, lint};

pub(super) fn run(args: &KeysArgs, given: &Given<'_>, out: &mut dyn Write) -> io::Result<u8> {
    let found = lint(given.files, given.settings);
    if is_json(args) {
        write_json(out, &json(given, &found))?;
    } else {
        write(given, &found, out)?;
    }
    Ok(if found.problems.is_empty() { GOOD } else { BAD })
}

fn write(given: &Given<'_>, found: &Lint, out: &mut dyn Write) -> io::Result<()> {
    for problem in &found.problems {
        writeln!(out, "{problem}\n")?;
    }
    let [keys, holders, silences] = found.counts;
    let files = given.files.len();
    if files == 0 {
        return writeln!(out, "nothing to look at: name dictionaries with --keys, or in the config file");
    }
    let problems = match found.problems.len() {
        0 => "no problem".to_owned(),
        1 => "1 problem".to_owned(),
        many => format!("{many} problems"),
    };
    let plural = if files == 1 { "file" } else { "files" };
    writeln!(out, "{problems} in {files} {plural}: {keys} [[key]], {holders} [[holder]], {silences} [[silence]]")
}

fn json(given: &Given<'_>, found: &Lint) -> Value {
    let problems: Vec<Value> = found
        .problems
        .iter()
        .map(|problem| {
            json!({ "file": &*problem.file, "line": problem.line, "column": problem.column,
                "level": problem.level.name(), "message": problem.message, "excerpt": problem.excerpt })
        })
        .collect();
    let files: Vec<&str> = given.files.iter().map(|file| file.name).collect();
    let [keys, holders, silences] = found.counts;
    json!({ "schema": 1, "files": files, "keys": keys, "holders": holders, "silences": silences, "problems": problems })
}
