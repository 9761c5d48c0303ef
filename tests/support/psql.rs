//! A person's psql: whatever is printed is typed into it as it stands.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::{say, server};

/// psql beside the server's programs, else that of `PATH`, which on Debian is a script that takes longer to start.
fn program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PROGRAM.get_or_init(|| {
        let beside = server::any().folder.join("psql");
        let starts = |program: &PathBuf| {
            Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let found = [beside, PathBuf::from("psql")].into_iter().find(starts);
        if found.is_none() {
            say("SKIPPED: whatever is to be typed into psql, which is not here.");
        }
        found
    });
    found.as_ref()
}

/// Whether there is one. Where there is none that is said, once.
pub fn is_here() -> bool {
    program().is_some()
}

/// Types SQL, and backslash commands; returns what is printed. The error is what it said to stderr, even where it went
/// on. `to` says where, `options` are the session's.
pub fn typed(to: &[&str], options: &str, sql: &str) -> Result<Vec<String>, String> {
    let mut command = Command::new(program().ok_or("there is no psql")?);
    command.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-"]).args(to);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    // An empty variable is none.
    command.env("PGOPTIONS", options).env("PGCLIENTENCODING", "UTF8").env("LC_ALL", "C.UTF-8");
    let mut psql = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end before it has read everything: what it said tells why.
    let _ = psql.stdin.take().unwrap().write_all(format!("{sql}\n").as_bytes());
    let output = psql.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() || !said.is_empty() {
        return Err(said);
    }
    Ok(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}
