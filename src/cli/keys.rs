//! `pglockwatch keys`: what was typed, without meaning.

use std::ffi::OsString;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use crate::keys::Kind;
use crate::keys::hash::Algorithm;

/// Look up, compute and check advisory keys and their names
#[derive(Debug, Clone, Args)]
pub struct KeysArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: KeysCommand,

    /// How to print the answer
    #[arg(long, global = true, value_enum, default_value_t)]
    pub format: KeysFormat,

    /// The database that formulas over its name are computed for
    #[arg(long, global = true, value_name = "NAME")]
    pub database: Option<String>,

    /// The schema for formulas that take one (each has the software's own default)
    #[arg(long, global = true, value_name = "NAME")]
    pub schema: Option<String>,

    /// The table for formulas that take one (each has the software's own default)
    #[arg(long, global = true, value_name = "NAME")]
    pub table: Option<String>,
}

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum KeysFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object
    Json,
}

/// What to do with keys.
#[derive(Debug, Clone, Subcommand)]
pub enum KeysCommand {
    /// What a key is: its forms in pg_locks, its names, and the names it may have been made of
    Decode {
        /// A bigint (-5, 18446744073709551611, 0xFFFFFFFFFFFFFFFB), a pair (1,42), or classid/objid/objsubid
        #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
        keys: Vec<String>,
    },
    /// The keys that a name gives under every hash, and those of a preset
    #[command(after_long_help = crate::keys::presets::help())]
    Hash {
        /// A name to be hashed, or the name of a preset
        #[arg(required = true, value_name = "NAME", allow_negative_numbers = true)]
        names: Vec<String>,
    },
    /// Every problem of the key dictionaries, with file, line and column; exit code 1 if there is one
    Lint,
    /// The entries of the key dictionaries
    List,
    /// A dictionary from a key table that is kept in PostgreSQL, to stdout
    #[command(after_help = IMPORT_HELP)]
    // In a box, for it is by far the largest.
    Import(Box<ImportArgs>),
}

const IMPORT_HELP: &str = "\
The table, or a view, is only read. A row whose name or key cannot be used is told on stderr and left out. Columns are
named as psql's \\d shows them. With --database NAME the entries are valid in that database only.

Examples:
  pglockwatch keys import --from-table ops.lock_keys --key-column id --note-column description > keys.toml
  pglockwatch keys import --from-table locks --class-column classid --objid-column objid
  pglockwatch keys import --from-table jobs --name-column job --hash hashtext --kind job";

/// `keys import`
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["key_column", "class_column", "hash"]))]
pub struct ImportArgs {
    /// The table or view; a name with a dot in it stands in double quotes
    #[arg(long, value_name = "[SCHEMA.]TABLE")]
    pub from_table: String,
    /// The column with the names
    #[arg(long, value_name = "COLUMN", default_value = "name")]
    pub name_column: String,
    /// The column with the keys: a bigint, or a text such as (1,42)
    #[arg(long, value_name = "COLUMN", conflicts_with_all = ["class_column", "hash"])]
    pub key_column: Option<String>,
    /// The column with the first number of two-int4 keys; without --objid-column or --hash each names a whole class
    #[arg(long, value_name = "COLUMN")]
    pub class_column: Option<String>,
    /// The column with the second number of two-int4 keys
    #[arg(long, value_name = "COLUMN", requires = "class_column", conflicts_with = "hash")]
    pub objid_column: Option<String>,
    /// The hash that makes a key of a text, such as hashtext
    #[arg(long, value_name = "HASH", value_parser = hash_parser())]
    pub hash: Option<Algorithm>,
    /// The column with the texts that are hashed [default: the names]
    #[arg(long, value_name = "COLUMN", requires = "hash")]
    pub input_column: Option<String>,
    /// The kind of every entry, where its row says none: mutex, job, migration, leader or registration
    #[arg(long, value_name = "KIND", value_parser = kind_parser())]
    pub kind: Option<Kind>,
    /// The column with the kinds
    #[arg(long, value_name = "COLUMN")]
    pub kind_column: Option<String>,
    /// The column with the owners: modules or services
    #[arg(long, value_name = "COLUMN")]
    pub owner_column: Option<String>,
    /// The column with the teams
    #[arg(long, value_name = "COLUMN")]
    pub team_column: Option<String>,
    /// The column that says where to ask
    #[arg(long, value_name = "COLUMN")]
    pub contact_column: Option<String>,
    /// The column with notes
    #[arg(long, value_name = "COLUMN")]
    pub note_column: Option<String>,
    /// The column with links for on-call
    #[arg(long, value_name = "COLUMN")]
    pub runbook_column: Option<String>,
    /// The column that says session or transaction
    #[arg(long, value_name = "COLUMN")]
    pub scope_column: Option<String>,
    /// The column with the longest normal holds: an interval, or a text such as 15m
    #[arg(long, value_name = "COLUMN")]
    pub max_hold_column: Option<String>,
}

fn hash_parser() -> impl TypedValueParser<Value = Algorithm> {
    let names = Algorithm::ALL.map(Algorithm::name);
    PossibleValuesParser::new(names)
        .try_map(|name| Algorithm::from_name(&name).ok_or_else(|| format!("there is no hash {name}")))
}

fn kind_parser() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name))
        .try_map(|name| Kind::from_name(&name).ok_or_else(|| format!("there is no kind {name}")))
}

/// The command line with a blank before every argument behind `decode` that begins with a hyphen and a digit, up to `--`.
///
/// No option of ours begins so, but clap would take `-1,-2` and `-0x5` for one. With a blank they are values, and
/// blanks around a key mean nothing. In a name that is to be hashed they do, so nothing else gets one.
pub fn protect_numbers(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let (mut ours, mut keys) = (true, false);
    let protect = |argument: OsString| {
        ours = ours && argument != "--";
        keys = keys || argument == "decode";
        match argument.as_encoded_bytes() {
            [b'-', digit, ..] if ours && keys && digit.is_ascii_digit() => {
                let mut protected = OsString::from(" ");
                protected.push(argument);
                protected
            }
            _ => argument,
        }
    };
    line.into_iter().map(protect).collect()
}
