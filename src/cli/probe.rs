//! `probe`: what was typed.

use clap::{Args, ValueEnum};

/// What a probe does, for its help: it takes locks, which nobody expects of us.
pub(super) const LONG_ABOUT: &str = "\
Find out through an application's DSN whether a session advisory lock is safe there.

It is the only command that takes advisory locks: on keys (1885826167, N), whose first number is the letters pglw and \
whose second is a random one for each run. First it finds out without locks whether a client keeps its backend while \
others are busy, and what becomes of the backend when the client leaves. A session lock is taken only where both are \
well, so that it cannot stay behind. At the end it looks into pg_locks whether any is left.

It opens up to five connections, and changes no data.";

/// `probe`
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 safe; 1 unsafe: locks stay behind, or are dropped; 3 could not
judge; 2 bad usage. It ends within 6 times --timeout and 8 seconds.

Examples:
  pglockwatch probe --dsn 'postgres://app@pooler:6432/app'
  pglockwatch probe --dsn-file /etc/app/database.dsn --format json")]
pub struct ProbeArgs {
    /// How to print what was found
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ProbeFormat::Text)]
    pub format: ProbeFormat,
}

/// The formats of `probe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProbeFormat {
    /// For people.
    Text,
    /// For programs; schema 1.
    Json,
}
