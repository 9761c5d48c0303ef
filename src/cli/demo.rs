//! `pglockwatch demo`.

use std::path::PathBuf;

use clap::Args;

/// A throwaway PostgreSQL with planted leaks, and `top` on it.
///
/// Starts a server in a temporary folder, takes locks in it the way leaking applications do, and opens `top`.
/// When it ends, the server is stopped and the folder removed. It never touches another server. Root runs the
/// server as the user postgres.
#[derive(Debug, Clone, Default, Args)]
pub struct DemoArgs {
    /// The folder with PostgreSQL's server programs (initdb, postgres), where they are not found by themselves.
    #[arg(long, value_name = "FOLDER")]
    pub bindir: Option<PathBuf>,

    /// Wait until everything is planted, print one table and end. So without a terminal too.
    #[arg(long)]
    pub once: bool,
}
