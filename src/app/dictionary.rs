//! `keys`: what its commands work on.

use std::io;

use crate::app::keys::import::Table;
use crate::app::keys::{self, Given};
use crate::app::{output, table};
use crate::cli::GlobalArgs;
use crate::cli::keys::{KeysArgs, KeysCommand};
use crate::config;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::keys::KeyBook;
use crate::keys::lint::{self, File};
use crate::rules;
use crate::settings::{LintFile, LintFiles, Settings, Surroundings};

/// Runs a `keys` command. The answer is printed as a whole, so that a closed pipe is noticed in one place.
pub(super) fn keys(args: &KeysArgs, global: GlobalArgs, around: Surroundings<'_>) -> Result<Exit> {
    let (mut book, mut found, mut table) = (KeyBook::default(), LintFiles::default(), Table::default());
    match &args.command {
        // It tells the errors of the files itself: nothing is built from them.
        KeysCommand::Lint => found = LintFiles::read(&global, around)?,
        KeysCommand::Import(import) => table = table::read(args, import, global, around)?,
        KeysCommand::Decode { .. } | KeysCommand::Hash { .. } | KeysCommand::List => {
            book = Settings::new(global, around)?.whole_book(around)?.as_ref().clone();
        }
    }
    let targets: Vec<Vec<&str>> =
        found.files.iter().map(|file| file.targets.iter().map(String::as_str).collect()).collect();
    let files: Vec<File<'_>> =
        found.files.iter().zip(&targets).map(|(file, targets)| as_given(file, targets)).collect();
    let names: Vec<&str> = rules::ALL.iter().map(|rule| rule.name()).collect();
    let settings = lint::Settings { today: chrono::Utc::now().date_naive(), targets: found.targets, rules: &names };
    let given = Given { book: &book, files: &files, settings, table: &table };
    let mut answer = Vec::new();
    let code = keys::run(args, &given, &mut answer, &mut io::stderr()).map_err(Error::output)?;
    output::print(answer)?;
    Ok(Exit::from(code))
}

fn as_given<'a>(file: &'a LintFile, targets: &'a [&'a str]) -> File<'a> {
    let other_tables = if file.is_config { config::FIELDS } else { &[] };
    File { name: &file.name, text: &file.text, other_tables, targets }
}
