//! `pglockwatch keys`: what was typed, without meaning.

use std::ffi::OsString;

use clap::{Args, Subcommand, ValueEnum};

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
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Every problem of the key dictionaries, with file, line and column; exit code 1 if there is one
    Lint,
    /// The entries of the key dictionaries
    List,
}

impl KeysArgs {
    /// Whether the command needs the dictionaries to be free of errors. `lint` tells the errors itself: for it the
    /// files are read, and nothing is built from them.
    pub fn needs_book(&self) -> bool {
        !matches!(self.command, KeysCommand::Lint)
    }
}

/// The command line with a blank before every argument that begins with a hyphen and a digit, up to `--`.
///
/// No option of ours begins so, but clap would take `-1,-2` and `-0x5` for one. With a blank they are values, and
/// blanks around a key mean nothing.
pub fn protect_numbers(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut ours = true;
    let protect = |argument: OsString| {
        ours = ours && argument != "--";
        match argument.as_encoded_bytes() {
            [b'-', digit, ..] if ours && digit.is_ascii_digit() => {
                let mut protected = OsString::from(" ");
                protected.push(argument);
                protected
            }
            _ => argument,
        }
    };
    line.into_iter().map(protect).collect()
}
