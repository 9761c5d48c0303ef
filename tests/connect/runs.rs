//! One run of psql and one of ours, and what became of each.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;

use crate::support::command::{pglockwatch, run};

/// What a session says of itself, both asked the same way: `public.whoami` in [`super::world`].
const COLUMNS: [&str; 4] = ["owner", "team", "contact", "note"];
/// Both give up long before.
const AT_MOST: Duration = Duration::from_secs(60);

/// What a client is started with.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The connection string, if there is one.
    pub dsn: Option<String>,
    /// Variables beside HOME and PATH.
    pub env: BTreeMap<String, String>,
}

/// A session that was opened: role and database; address and port; TLS and the client's certificate; a setting.
pub type Session = Vec<String>;

/// Runs psql: the session, or what it says.
pub fn psql(program: &Path, home: &Path, start: &Start) -> Result<Session, String> {
    let mut command = Command::new(program);
    command.env_clear().current_dir(home).env("HOME", home).env("LC_ALL", "C").envs(&start.env);
    let select = format!("SELECT {} FROM public.whoami", COLUMNS.join(", "));
    command.args(["-X", "-w", "-A", "-t", "-F", "\x1f", "-c", &select]);
    if let Some(dsn) = &start.dsn {
        command.args(["-d", dsn]);
    }
    // It repeats what it was given, which need not be UTF-8 any more when it has undone the percent-encoding.
    let output = command.timeout(AT_MOST).output().unwrap();
    if output.status.success() {
        let row = String::from_utf8(output.stdout).unwrap();
        return Ok(row.trim_end_matches('\n').split('\x1f').map(str::to_owned).collect());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Runs pglockwatch, through the one command that shows what stands in a table.
pub fn ours(home: &Path, start: &Start) -> Result<Session, String> {
    let mut command = pglockwatch(home);
    command.envs(&start.env);
    command.args(["keys", "import", "--from-table", "public.whoami", "--key-column", "key", "--timeout", "20s"]);
    for column in COLUMNS {
        command.args([format!("--{column}-column"), column.to_owned()]);
    }
    if let Some(dsn) = &start.dsn {
        command.args(["--dsn", dsn]);
    }
    let ran = run(command, AT_MOST);
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    if ran.code != Some(0) {
        return Err(ran.stderr.trim().to_owned());
    }
    let read: toml::Table = ran.stdout.parse().unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let entry = &read["key"][0];
    // A text that is empty has no line of its own.
    let text = |column: &&str| entry.get(*column).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
    Ok(COLUMNS.iter().map(text).collect())
}
