//! Some columns of one table that a user names, read once in a transaction that changes nothing.
//!
//! Knows encodings, limits and the errors of such a statement; what is in the columns is not its business. A view is
//! as good as a table; what it calls runs with our role's rights, and cannot write either.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use tokio_postgres::error::SqlState;

use super::client::Client;
use super::read_error::ReadError;
use super::{failure, query, rows, text};
use crate::analysis::report::{Failure, FailureKind};
use crate::quote::identifier;

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// The schema; nothing for what the role's search_path finds.
    pub schema: Option<String>,
    /// The table or view.
    pub table: String,
    /// The columns, in the order in which their values come.
    pub columns: Vec<String>,
    /// At most so many rows.
    pub limit: usize,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableRows {
    /// The database's encoding by PostgreSQL's name, such as `UTF8`.
    pub encoding: String,
    /// Each row's values as PostgreSQL writes them as text. Bytes that are not UTF-8 (in a database of the encoding
    /// SQL_ASCII) are U+FFFD.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Select {
    /// The table as it is written in SQL.
    pub fn name(&self) -> String {
        let schema = self.schema.iter().map(|schema| format!("{}.", identifier(schema)));
        schema.chain([identifier(&self.table)]).collect()
    }

    /// Values come as escaped bytes, so that nothing is lost in a database whose bytes need not be of one encoding.
    fn statement(&self) -> String {
        let value = |column: &String| {
            let column = identifier(column);
            format!("pg_catalog.encode(pg_catalog.textsend(named.{column}::pg_catalog.text), 'escape')")
        };
        let values: Vec<String> = self.columns.iter().map(value).collect();
        format!("SELECT {} FROM {} AS named LIMIT {}", values.join(", "), self.name(), self.limit)
    }
}

/// The transaction and its settings, in a message of their own: the next is read under them. Text is converted to
/// UTF-8 but where the server does not know what it is; intervals come in words.
fn begin(timeout: Duration) -> String {
    let statement = timeout.as_millis().max(1);
    // Nobody's work on the table should wait long behind us.
    let lock = (statement / 4).clamp(1, 2000);
    format!(
        "{begin}{own_time}SELECT pg_catalog.set_config(name, value, true), \
         pg_catalog.current_setting('server_encoding') FROM (VALUES ('client_encoding', \
         CASE pg_catalog.current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END), \
         ('lock_timeout', '{lock}'), ('standard_conforming_strings', 'on'), \
         ('intervalstyle', 'postgres_verbose')) AS setting (name, value)",
        begin = query::BEGIN,
        own_time = query::own_time(timeout),
    )
}

/// Reads over a connection that is used for nothing else.
pub(super) fn read(
    client: &mut Client,
    address: &str,
    select: &Select,
    timeout: Duration,
) -> Result<TableRows, Failure> {
    try_read(client, select, timeout).map_err(|error| match error {
        ReadError::Client(error) => refused(&error, address, select),
        ReadError::Rows(error) => failure::unreadable(&error, address),
    })
}

fn try_read(client: &mut Client, select: &Select, timeout: Duration) -> Result<TableRows, ReadError> {
    let begun = rows::result_sets(client.simple_query(&begin(timeout))?, 1)?;
    let read = rows::result_sets(client.simple_query(&select.statement())?, 1)?;
    client.simple_query("COMMIT")?;
    let [settings, values] = [begun, read].map(|sets| sets.into_iter().next().unwrap_or_default());
    let first = settings.first().ok_or(rows::RowError::Empty("settings"))?;
    let encoding = cell(first, 1)?.unwrap_or_default().to_owned();
    let row = |row: &SimpleQueryRow| {
        let value = |place| Ok(cell(row, place)?.map(|escaped| text::from_escaped(escaped, usize::MAX)));
        (0..select.columns.len()).map(value).collect::<Result<Vec<_>, rows::RowError>>()
    };
    Ok(TableRows { encoding, rows: values.iter().map(row).collect::<Result<_, _>>()? })
}

fn cell(row: &SimpleQueryRow, column: usize) -> Result<Option<&str>, rows::RowError> {
    row.try_get(column).map_err(|_| rows::RowError::Column { set: "table", column })
}

/// Why the server would not let us read. The connection is not used again.
fn refused(error: &tokio_postgres::Error, address: &str, select: &Select) -> Failure {
    let Some(db) = error.as_db_error() else {
        return Failure { hints: vec!["Start the command again.".to_owned()], ..failure::poll_failure(error, address) };
    };
    let code = db.code();
    let (kind, hint) = if *code == SqlState::UNDEFINED_TABLE {
        (FailureKind::Query, "Is it in this database? Name its schema too: --from-table SCHEMA.TABLE.")
    } else if *code == SqlState::INVALID_SCHEMA_NAME {
        (FailureKind::Query, "Is it in this database? A table whose name has a dot is written in double quotes.")
    } else if *code == SqlState::UNDEFINED_COLUMN {
        (
            FailureKind::Query,
            "Columns are named as psql's \\d shows them; capital letters matter. The names are read from the column name, \
             or from --name-column.",
        )
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        (FailureKind::Query, "The role needs SELECT on these columns, and USAGE on the schema.")
    } else if *code == SqlState::LOCK_NOT_AVAILABLE {
        (FailureKind::Timeout, "Somebody changes the table now: try again later.")
    } else if *code == SqlState::QUERY_CANCELED {
        (FailureKind::Timeout, "The table is large, or the server is overloaded: a longer --timeout may help.")
    } else {
        (FailureKind::Query, "")
    };
    // The server repeats how we call the table.
    let said = failure::one_line(db.message()).replacen("column named.", "column ", 1);
    Failure {
        kind,
        message: format!("cannot read {} on {address}: {said}", select.name()),
        hints: (!hint.is_empty()).then(|| hint.to_owned()).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_in_the_statement() {
        let select = Select {
            schema: Some("Ops".to_owned()),
            table: "a\"; DROP TABLE x; --".to_owned(),
            columns: vec!["lockKey".to_owned(), "n\nl".to_owned()],
            limit: 7,
        };
        assert_eq!(select.name(), "\"Ops\".\"a\"\"; DROP TABLE x; --\"");
        let statement = select.statement();
        for part in ["textsend(named.\"lockKey\"::", "textsend(named.U&\"n\\+00000Al\"::", "x; --\" AS named LIMIT 7"] {
            assert!(statement.contains(part), "no {part} in {statement}");
        }
    }
}
