//! What `pg_stat_statements` counted of advisory lock functions, and the settings that decide how a leak ends. Read once.
//!
//! Knows where the extension may be, and how its columns were renamed: `mean_time` is `mean_exec_time` since version 1.8,
//! which came with PostgreSQL 13. What the statements mean is not decided here.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use tokio_postgres::error::SqlState;

use super::client::Client;
use super::read_error::ReadError;
use super::{failure, query, rows, text};
use crate::analysis::report::Failure;
use crate::model::{ServerFacts, Setting, StatementRow};
use crate::quote::identifier;

/// More statements than these are not read.
const MOST: usize = 5_000;
/// Bytes of a statement that are sent.
const QUERY_BYTES: usize = 8_192;

/// The settings that decide how a leak ends, or how many locks there may be. `reset_val` is read: for this transaction some
/// are our own.
const SETTINGS: &str = "'idle_session_timeout', 'idle_in_transaction_session_timeout', 'lock_timeout', \
     'statement_timeout', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count', \
     'client_connection_check_interval', 'max_locks_per_transaction', 'log_min_error_statement'";

/// The number of result sets of [`facts`] and of [`statements`].
const FACTS_SETS: usize = 4;

fn facts(timeout: Duration, version_num: u32) -> String {
    let stats = if version_num >= 150_000 { "USAGE" } else { "MEMBER" };
    let has = |relation: &str, column: &str| {
        format!(
            "EXISTS (SELECT FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE c.relnamespace = \
             e.extnamespace AND c.relname = '{relation}' AND a.attname = '{column}')"
        )
    };
    format!(
        "{begin}{own_time}SET LOCAL search_path = pg_catalog, pg_temp;\
         SELECT set_config(name, value, true) FROM (VALUES ('client_encoding', 'SQL_ASCII'), \
         ('lock_timeout', '500'), ('jit', 'off')) AS setting (name, value);\
         SELECT current_setting('server_version'), encode(textsend(current_user::text), 'escape'), \
         pg_has_role('pg_read_all_stats', '{stats}'), \
         coalesce(current_setting('pg_stat_statements.track', true), '');\
         SELECT encode(textsend(n.nspname::text), 'escape'), {}, {} FROM pg_extension AS e JOIN pg_namespace AS n \
         ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements';\
         SELECT name, reset_val || CASE WHEN unit IS NULL OR reset_val IN ('0', '-1') THEN '' ELSE unit END, NULL, NULL \
         FROM pg_settings WHERE name IN ({SETTINGS}) \
         UNION ALL SELECT split_part(one, '=', 1), encode(textsend(substr(one, strpos(one, '=') + 1)), 'escape'), \
         encode(textsend(r.rolname::text), 'escape'), encode(textsend(d.datname::text), 'escape') \
         FROM pg_db_role_setting AS s LEFT JOIN pg_roles AS r ON r.oid = s.setrole \
         LEFT JOIN pg_database AS d ON d.oid = s.setdatabase CROSS JOIN unnest(s.setconfig) AS one \
         WHERE split_part(one, '=', 1) IN ({SETTINGS}) ORDER BY 1, 3 NULLS FIRST, 4 NULLS FIRST",
        has("pg_stat_statements", "mean_exec_time"),
        has("pg_stat_statements_info", "dealloc"),
        begin = query::BEGIN,
        own_time = query::own_time(timeout),
    )
}

/// Its sets: how many texts are hidden; the statements; how often statements were thrown away.
fn statements(schema: &str, mean_exec_time: bool, info: bool) -> String {
    let schema = identifier(schema);
    let mean = if mean_exec_time { "mean_exec_time" } else { "mean_time" };
    let calls = ["advisory_", "ADVISORY_", "Advisory_"]
        .map(|name| format!("position('{name}'::bytea in textsend(s.query)) > 0"))
        .join(" OR ");
    let dropped =
        if info { format!("(SELECT dealloc FROM {schema}.pg_stat_statements_info)") } else { "NULL".to_owned() };
    format!(
        "SELECT count(*) FILTER (WHERE query = '<insufficient privilege>'), {dropped} FROM {schema}.pg_stat_statements;\
         SELECT encode(textsend(coalesce(r.rolname::text, s.userid::text)), 'escape'), \
         encode(textsend(coalesce(d.datname::text, s.dbid::text)), 'escape'), s.calls, s.{mean}, \
         encode(substring(textsend(s.query) for {QUERY_BYTES}), 'escape') \
         FROM {schema}.pg_stat_statements AS s LEFT JOIN pg_roles AS r ON r.oid = s.userid \
         LEFT JOIN pg_database AS d ON d.oid = s.dbid WHERE {calls} ORDER BY s.calls DESC LIMIT {};COMMIT",
        MOST + 1
    )
}

/// Reads over a connection that is used for nothing else.
pub(super) fn read(
    client: &mut Client,
    address: &str,
    version_num: u32,
    timeout: Duration,
) -> Result<ServerFacts, Failure> {
    try_read(client, version_num, timeout).map_err(|error| match error {
        ReadError::Client(error) => failure::poll_failure(&error, address),
        ReadError::Rows(error) => failure::unreadable(&error, address),
    })
}

fn try_read(client: &mut Client, version_num: u32, timeout: Duration) -> Result<ServerFacts, ReadError> {
    let sets = rows::result_sets(client.simple_query(&facts(timeout, version_num))?, FACTS_SETS)?;
    let [_, first, extension, settings] = sets.as_slice() else {
        return Err(rows::RowError::Sets { got: sets.len(), expected: FACTS_SETS }.into());
    };
    let first = first.first().ok_or(rows::RowError::Empty("facts"))?;
    let mut facts = ServerFacts {
        version: needed(first, 0)?.split_whitespace().next().unwrap_or_default().to_owned(),
        role: needed(first, 1)?,
        sees_all: needed(first, 2)? == "t",
        track: needed(first, 3)?,
        settings: settings.iter().map(setting).collect::<Result<_, _>>()?,
        ..ServerFacts::default()
    };
    let Some(extension) = extension.first() else {
        facts.blind = Some((
            "The extension pg_stat_statements is not in this database.".to_owned(),
            "Put it into shared_preload_libraries, restart the server, and run CREATE EXTENSION pg_stat_statements here."
                .to_owned(),
        ));
        return Ok(facts);
    };
    let message = statements(&needed(extension, 0)?, needed(extension, 1)? == "t", needed(extension, 2)? == "t");
    let messages = match client.simple_query(&message) {
        Ok(messages) => messages,
        Err(error) => {
            facts.blind = Some(refused(&error).ok_or(error)?);
            return Ok(facts);
        }
    };
    let sets = rows::result_sets(messages, 2)?;
    let [counts, statements] = sets.as_slice() else {
        return Err(rows::RowError::Sets { got: sets.len(), expected: 2 }.into());
    };
    let counts = counts.first().ok_or(rows::RowError::Empty("counts"))?;
    facts.hidden = number(counts, 0)?;
    facts.dropped = string(counts, 1)?.and_then(|text| text.parse().ok());
    facts.truncated = statements.len() > MOST;
    facts.statements = statements.iter().take(MOST).map(statement).collect::<Result<_, _>>()?;
    Ok(facts)
}

/// The library is not loaded (55000), or its view is forbidden or taking too long: there is something to say about it.
fn refused(error: &tokio_postgres::Error) -> Option<(String, String)> {
    let db = error.as_db_error()?;
    let said = format!("pg_stat_statements cannot be read: {}.", failure::one_line(db.message()));
    let code = db.code();
    let hint = if *code == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE {
        "Put pg_stat_statements into shared_preload_libraries and restart the server."
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        "Grant the role USAGE on the schema and SELECT on the view."
    } else if *code == SqlState::QUERY_CANCELED {
        "A longer --timeout may help."
    } else {
        "See the server's log."
    };
    Some((said, hint.to_owned()))
}

const SET: &str = "statements";

fn string(row: &SimpleQueryRow, column: usize) -> Result<Option<String>, rows::RowError> {
    let cell = row.try_get(column).map_err(|_| rows::RowError::Column { set: SET, column })?;
    Ok(cell.map(|escaped| text::from_escaped(escaped, QUERY_BYTES)))
}

fn needed(row: &SimpleQueryRow, column: usize) -> Result<String, rows::RowError> {
    string(row, column)?.ok_or(rows::RowError::Column { set: SET, column })
}

fn number<T: std::str::FromStr>(row: &SimpleQueryRow, column: usize) -> Result<T, rows::RowError> {
    needed(row, column)?.parse().map_err(|_| rows::RowError::Column { set: SET, column })
}

fn setting(row: &SimpleQueryRow) -> Result<Setting, rows::RowError> {
    let of = match (string(row, 2)?, string(row, 3)?) {
        (Some(role), Some(database)) => Some(format!("role {role} in {database}")),
        (Some(role), None) => Some(format!("role {role}")),
        (None, Some(database)) => Some(format!("database {database}")),
        (None, None) => None,
    };
    Ok(Setting { name: needed(row, 0)?, value: needed(row, 1)?, of })
}

fn statement(row: &SimpleQueryRow) -> Result<StatementRow, rows::RowError> {
    Ok(StatementRow {
        role: needed(row, 0)?,
        database: needed(row, 1)?,
        calls: number(row, 2)?,
        mean_ms: number(row, 3)?,
        query: needed(row, 4)?,
    })
}
