//! `audit`: what was typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `audit`
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 1 something is unsafe; else 3 not everything could be judged (no
pg_stat_statements, texts of other roles hidden, no connection, a file that is
no server log); else 0. Bad usage: 2.

With --log a server is asked only if --dsn, --dsn-file or the config names one.

Examples:
  pglockwatch audit -d 'host=db1 user=mon dbname=app'
  pglockwatch audit --log /var/log/postgresql/postgresql-15-main.log
  zcat postgresql.log.*.gz | pglockwatch audit --log - --format json")]
pub struct AuditArgs {
    /// How to print it
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = AuditFormat::Text)]
    pub format: AuditFormat,
    /// A server log to search: stderr, csvlog or jsonlog; - for standard input; repeatable
    #[arg(long = "log", value_name = "FILE")]
    pub logs: Vec<PathBuf>,
}

/// The formats of `audit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// For people.
    Text,
    /// For programs; schema 1.
    Json,
}
