//! `keys import`: from the rows of a key table to the text of a dictionary.
//!
//! It decides which columns are read and what becomes of a row; reading them is done by who calls. What it prints can
//! always be loaded: a row that could not be is left out or becomes a comment, and is told.

mod toml_text;

use std::collections::HashSet;
use std::io::{self, Write};

use super::{BAD, GOOD, is_json};
use crate::cli::keys::{ImportArgs, KeysArgs};
use crate::keys::hash::Algorithm;
use crate::keys::problem::printable;
use crate::keys::{Kind, Scope, key};
use crate::pg::{Select, TableRows};
use crate::quote::table_name;
use toml_text::{glob_of, quoted};

/// More rows are no list of keys: it is the wrong table, or one of jobs that needs a view.
const MOST_ROWS: usize = 100_000;
/// The most that a dictionary may have: longer files are not read.
const MOST_BYTES: usize = 16_000_000;

/// A table that was read.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// What [`select`] asked for.
    pub read: TableRows,
    /// Which table of which database and server, for people.
    pub origin: String,
}

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Key,
    Class,
    Objid,
    Input,
    Kind,
    Owner,
    Team,
    Contact,
    Note,
    Runbook,
    Scope,
    MaxHold,
}

/// The texts that are taken over as they are, and their names in the dictionary.
const TEXTS: [(Field, &str); 5] = [
    (Field::Owner, "owner"),
    (Field::Team, "team"),
    (Field::Contact, "contact"),
    (Field::Note, "note"),
    (Field::Runbook, "runbook"),
];

/// The columns that are named, in the order in which they are read.
fn columns(args: &ImportArgs) -> Vec<(Field, &str)> {
    let named = [
        (Field::Name, Some(&args.name_column)),
        (Field::Key, args.key_column.as_ref()),
        (Field::Class, args.class_column.as_ref()),
        (Field::Objid, args.objid_column.as_ref()),
        (Field::Input, args.input_column.as_ref()),
        (Field::Kind, args.kind_column.as_ref()),
        (Field::Owner, args.owner_column.as_ref()),
        (Field::Team, args.team_column.as_ref()),
        (Field::Contact, args.contact_column.as_ref()),
        (Field::Note, args.note_column.as_ref()),
        (Field::Runbook, args.runbook_column.as_ref()),
        (Field::Scope, args.scope_column.as_ref()),
        (Field::MaxHold, args.max_hold_column.as_ref()),
    ];
    named.into_iter().filter_map(|(field, column)| Some((field, column?.as_str()))).collect()
}

/// What must be read.
///
/// # Errors
/// A sentence that says what is wrong with what was typed.
pub fn select(args: &KeysArgs, import: &ImportArgs) -> Result<Select, String> {
    if is_json(args) {
        return Err("keys import prints a dictionary, which is TOML: leave --format out".to_owned());
    }
    if args.schema.is_some() || args.table.is_some() {
        return Err("--schema and --table belong to formulas: write --from-table SCHEMA.TABLE".to_owned());
    }
    if let (Some(hash), Some(_)) = (import.hash, &import.class_column)
        && !hash.is_int4()
    {
        let name = hash.name();
        return Err(format!("{name} has 64 bits and does not fit into a pair: leave --class-column out"));
    }
    let (schema, table) = table_name(&import.from_table).ok_or_else(|| {
        "--from-table: write TABLE or SCHEMA.TABLE, a name with a dot or a quote in it in double quotes".to_owned()
    })?;
    let columns = columns(import).into_iter().map(|(_, column)| column.to_owned()).collect();
    Ok(Select { schema, table, columns, limit: MOST_ROWS + 1 })
}

/// Prints the dictionary; tells what was left out, and why.
pub(super) fn run(
    args: &KeysArgs,
    import: &ImportArgs,
    table: &Table,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<u8> {
    let mut rows: Vec<&Vec<Option<String>>> = table.read.rows.iter().collect();
    if rows.len() > MOST_ROWS {
        let from = &import.from_table;
        tell(err, &format!("{from} has more than {MOST_ROWS} rows: make a view of those that name keys"))?;
        return Ok(BAD);
    }
    // A table has no order of its own: the same rows must give the same text.
    rows.sort();
    let importer = Importer { args, import, columns: columns(import), encoding: &table.read.encoding };
    let mut names = HashSet::new();
    let mut text = format!("# {}, by pglockwatch keys import\n", printable(&table.origin));
    for values in &rows {
        let mut remarks = Vec::new();
        let row = Row { columns: &importer.columns, values };
        let who = row.get(Field::Name).map_or_else(|| "a row without a name".to_owned(), |name| format!("\"{name}\""));
        match importer.entry(row, &mut remarks) {
            Ok((name, entry)) if !names.contains(&name) => {
                names.insert(name);
                text.push('\n');
                text.push_str(&entry);
            }
            Ok((_, entry)) => {
                remarks.push("another row has this name: it is printed as a comment".to_owned());
                text.push_str("\n# Another row has this name: give one of them a name of its own.\n");
                text.extend(entry.lines().flat_map(|line| ["# ", line, "\n"]));
            }
            Err(why) => remarks.push(format!("{why}: it is left out")),
        }
        for remark in remarks {
            tell(err, &format!("{who}: {remark}"))?;
        }
    }
    if text.len() > MOST_BYTES {
        tell(err, "the dictionary is larger than the 16 MB that are read of a file: import it in parts, from views")?;
    }
    out.write_all(text.as_bytes())?;
    if rows.is_empty() {
        tell(err, &format!("{} has no row", import.from_table))?;
    }
    Ok(if names.is_empty() && !rows.is_empty() { BAD } else { GOOD })
}

fn tell(err: &mut dyn Write, sentence: &str) -> io::Result<()> {
    writeln!(err, "pglockwatch: {}", printable(sentence))
}

/// One row.
#[derive(Clone, Copy)]
struct Row<'a> {
    columns: &'a [(Field, &'a str)],
    values: &'a [Option<String>],
}

impl<'a> Row<'a> {
    /// The value of a column that was named; nothing where it is NULL.
    fn get(self, field: Field) -> Option<&'a str> {
        let place = self.columns.iter().position(|(named, _)| *named == field)?;
        self.values.get(place)?.as_deref()
    }

    /// The same, where there must be one.
    fn needed(self, field: Field) -> Result<&'a str, String> {
        let column = self.columns.iter().find(|(named, _)| *named == field).map_or("", |(_, column)| *column);
        self.get(field).ok_or_else(|| format!("{column} is NULL"))
    }
}

/// What all rows have in common.
struct Importer<'a> {
    args: &'a KeysArgs,
    import: &'a ImportArgs,
    columns: Vec<(Field, &'a str)>,
    encoding: &'a str,
}

impl Importer<'_> {
    /// The name and the text of an entry; what it had to do without goes to the remarks.
    fn entry(&self, row: Row<'_>, remarks: &mut Vec<String>) -> Result<(String, String), String> {
        let named = row.needed(Field::Name)?;
        let name = printable(named);
        if name.trim().is_empty() {
            return Err("the name is empty".to_owned());
        }
        let key = self.key(row, named, &name)?;
        if name != named {
            remarks.push("its name has control characters: they are replaced".to_owned());
        }
        let mut entry = format!("[[key]]\nname = {}\n{key}", quoted(&name));
        let mut add = |field: &str, value: String| entry.extend([field, " = ", &value, "\n"]);
        if let Some(kind) =
            word(row, Field::Kind, &Kind::ALL.map(|kind| (kind.name(), kind)), remarks).or(self.import.kind)
        {
            add("kind", quoted(kind.name()));
        }
        for (field, dictionary_name) in TEXTS {
            if let Some(text) = row.get(field).map(str::trim).filter(|text| !text.is_empty()) {
                add(dictionary_name, quoted(text));
            }
        }
        if let Some(scope) = word(row, Field::Scope, &Scope::ALL.map(|scope| (scope.name(), scope)), remarks) {
            add("scope", quoted(scope.name()));
        }
        if let Some(most) = row.get(Field::MaxHold) {
            // An interval is read in the style that begins with an @.
            match humantime::parse_duration(most.trim_start_matches('@').trim()) {
                Ok(most) if !most.is_zero() => add("max_hold", quoted(&humantime::format_duration(most).to_string())),
                _ => remarks.push(format!("`{most}` is no length of time: max_hold is left out")),
            }
        }
        if let Some(database) = &self.args.database {
            add("databases", format!("[{}]", quoted(&glob_of(database))));
        }
        Ok((name, entry))
    }

    /// The lines that say which key it is.
    fn key(&self, row: Row<'_>, named: &str, name: &str) -> Result<String, String> {
        if self.import.key_column.is_some() {
            let numbers = key::parse(row.needed(Field::Key)?).map_err(|error| error.to_string())?;
            return Ok(match (key::bigint(numbers), key::pair(numbers)) {
                (Some(number), _) => format!("key = {number}\n"),
                (_, Some((first, second))) => format!("pair = [{first}, {second}]\n"),
                _ => format!("key = {}\n", quoted(&key::text(numbers))),
            });
        }
        let class = self.import.class_column.as_ref().map(|_| int4(row.needed(Field::Class)?)).transpose()?;
        if let Some(hash) = self.import.hash {
            let input = if self.import.input_column.is_some() { row.needed(Field::Input)? } else { named };
            self.can_be_hashed(hash, input)?;
            let input = if input == name { String::new() } else { format!("input = {}\n", quoted(input)) };
            let class = class.map_or_else(String::new, |class| format!("class = {class}\n"));
            return Ok(format!("hash = {}\n{input}{class}", quoted(hash.name())));
        }
        let class = class.ok_or("it names no key")?;
        if self.import.objid_column.is_none() {
            return Ok(format!("class = {class}\n"));
        }
        Ok(format!("pair = [{class}, {}]\n", int4(row.needed(Field::Objid)?)?))
    }

    /// PostgreSQL's own hashes are of the bytes in the database's encoding; a dictionary's are of UTF-8.
    fn can_be_hashed(&self, hash: Algorithm, input: &str) -> Result<(), String> {
        let encoding = self.encoding;
        let of_server = matches!(hash, Algorithm::Hashtext | Algorithm::Hashtextextended);
        if encoding == "SQL_ASCII" && input.contains(char::REPLACEMENT_CHARACTER) {
            return Err("the text that is hashed is not UTF-8".to_owned());
        }
        if of_server && !input.is_ascii() && !["UTF8", "SQL_ASCII"].contains(&encoding) {
            let hash = hash.name();
            return Err(format!("in a database with the encoding {encoding} its {hash} is another than in UTF-8"));
        }
        Ok(())
    }
}

/// One of these words, in whatever case.
fn word<T: Copy>(row: Row<'_>, field: Field, words: &[(&str, T)], remarks: &mut Vec<String>) -> Option<T> {
    let text = row.get(field).map(str::trim).filter(|text| !text.is_empty())?;
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, value)| *value);
    if found.is_none() {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        remarks.push(format!("`{text}` is none of {}: it is left out of the entry", words.join(", ")));
    }
    found
}

/// An int4, or the unsigned number that `pg_locks` shows of one.
fn int4(text: &str) -> Result<i32, String> {
    let number = text.trim().parse::<i64>().ok();
    let signed = number
        .and_then(|number| i32::try_from(number).ok().or_else(|| u32::try_from(number).ok().map(u32::cast_signed)));
    signed.ok_or_else(|| format!("`{text}` is no int4"))
}

#[cfg(test)]
mod tests;
