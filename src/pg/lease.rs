//! Reading the lease tables that the config names, in the same poll as the locks but in transactions of their own: what
//! is wrong with such a table must not lose the locks.
//!
//! Knows how expiries are stored and which error means what; whether a lease is late enough to be spoken of is not its
//! business.
//!
//! An expiry may be a `timestamptz`, a `timestamp` or `date` (read in the TimeZone of our session, for the column has
//! none), or a number: seconds since 1970, or milli- or microseconds if it is so large that seconds would be beyond the
//! year 5000. Infinite ones, and numbers of 0 and less, are none. The type decides at run time, by way of text, so that
//! one statement serves all.

use std::time::{Duration, Instant};

use tokio_postgres::SimpleQueryRow;
use tokio_postgres::error::{DbError, Severity, SqlState};

use super::client::Client;
use super::read_error::ReadError;
use super::{failure, query, rows, text};
use crate::model::{Lease, LeaseProblem, LeaseRead, LeaseTable, Leases, Time};
use crate::quote::identifier;

/// So many rows of a table are sent.
const MOST_ROWS: usize = 1_000;
/// Bytes of a name and of a holder that are sent.
const TEXT_BYTES: usize = 200;
/// Who has the table locked may keep us for so long.
const LOCK_TIMEOUT: Duration = Duration::from_millis(100);
/// The most that one table may take; a large one needs a view of its live rows.
const MOST: Duration = Duration::from_secs(2);
/// With less time than this it is not tried.
const LEAST: Duration = Duration::from_millis(20);
/// Longer thresholds would leave the range of times.
const LONGEST_OVERDUE: Duration = Duration::from_secs(1_000 * 366 * 86_400);

/// The number of result sets of [`message`].
const SETS: usize = 3;

/// Reads all tables, before `until`. After an error that ends the connection the rest is not tried: see whether it is
/// closed.
pub(super) fn read_all(client: &mut Client, tables: &[LeaseTable], until: Instant) -> (Vec<LeaseRead>, bool) {
    let mut lost = false;
    let mut reads = Vec::with_capacity(tables.len());
    for (place, table) in tables.iter().enumerate() {
        let left = u32::try_from(tables.len() - place).unwrap_or(u32::MAX);
        let share = until.saturating_duration_since(Instant::now()) / left;
        let outcome = if lost {
            Err(problem("was not read: the connection was lost", "The next poll tries again."))
        } else if share < LEAST {
            Err(problem("was not read: the locks took all the time that a poll has", "A longer --timeout may help."))
        } else {
            read(client, table, share.min(MOST)).unwrap_or_else(|error| {
                lost = !goes_on(&error) || client.simple_query("ROLLBACK").is_err();
                Err(problem_of(&error, table))
            })
        };
        reads.push(LeaseRead { lease: table.lease.clone(), table: name(table), outcome });
    }
    (reads, lost)
}

/// What is said of tables that were not asked for, because the server answers emergency questions only.
pub(super) fn not_read(tables: &[LeaseTable]) -> Vec<LeaseRead> {
    let outcome =
        || Err(problem("was not read: the server answers only what needs no lock", "See the other findings."));
    tables
        .iter()
        .map(|table| LeaseRead { lease: table.lease.clone(), table: name(table), outcome: outcome() })
        .collect()
}

/// The table as it is written in SQL.
fn name(table: &LeaseTable) -> String {
    format!("{}.{}", identifier(&table.schema), identifier(&table.table))
}

fn problem(what: &str, hint: &str) -> LeaseProblem {
    LeaseProblem { what: what.to_owned(), hint: hint.to_owned(), grant: None }
}

/// One message, one transaction, one moment: the settings; what is true of the table; its rows.
fn message(table: &LeaseTable, timeout: Duration) -> String {
    let lock = timeout.min(LOCK_TIMEOUT).as_millis().max(1);
    let overdue = table.overdue_after.min(LONGEST_OVERDUE).as_micros();
    let taken = table.taken.as_ref().map_or_else(|| "NULL::timestamptz".to_owned(), |taken| moment(taken));
    let leases = format!(
        "WITH lease AS (SELECT l.{name}::text AS name, l.{holder}::text AS holder, {expires} AS expires, {taken} AS taken \
         FROM {table} AS l)",
        name = identifier(&table.name),
        holder = identifier(&table.holder),
        expires = moment(&table.expires),
        table = name(table),
    );
    let type_of = |column: &str| {
        format!(
            "encode(textsend(pg_typeof((SELECT l.{} FROM {} AS l LIMIT 1))::text), 'escape')",
            identifier(column),
            name(table)
        )
    };
    format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;{own_time}SET LOCAL search_path = pg_catalog, pg_temp;\
         SELECT set_config(name, value, true) FROM (VALUES ('client_encoding', \
         CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END), \
         ('lock_timeout', '{lock}'), ('datestyle', 'ISO'), ('jit', 'off'), \
         ('max_parallel_workers_per_gather', '0')) AS setting (name, value);\
         {leases} SELECT encode(timestamptz_send(now()), 'hex'), count(*), \
         count(*) FILTER (WHERE expires <= now() - {overdue} * interval '1 microsecond'), {expires_type}, {taken_type}, \
         encode(textsend(current_setting('TimeZone')), 'escape'), encode(textsend(current_database()::text), 'escape') \
         FROM lease;\
         {leases} SELECT {name}, {holder}, encode(timestamptz_send(expires), 'hex'), \
         encode(timestamptz_send(taken), 'hex') FROM lease ORDER BY expires, name, holder LIMIT {MOST_ROWS};COMMIT",
        expires_type = type_of(&table.expires),
        taken_type = table.taken.as_ref().map_or_else(|| "NULL".to_owned(), |taken| type_of(taken)),
        own_time = query::own_time(timeout),
        name = sent("name"),
        holder = sent("holder"),
    )
}

fn sent(column: &str) -> String {
    format!("encode(substring(textsend({column}) for {TEXT_BYTES}), 'escape')")
}

/// A column as a `timestamptz`; NULL if its type is none of those of [`is_moment`].
fn moment(column: &str) -> String {
    let column = format!("l.{}", identifier(column));
    format!(
        "CASE WHEN pg_typeof({column})::oid IN (1082, 1114, 1184) \
         THEN (SELECT CASE WHEN isfinite(t) THEN t END FROM (SELECT {column}::text::timestamptz AS t) AS s) \
         WHEN pg_typeof({column})::oid IN (20, 21, 23, 700, 701, 1700) \
         THEN (SELECT CASE WHEN n >= 1e17 THEN NULL WHEN n >= 1e14 THEN to_timestamp(n / 1e6) \
         WHEN n >= 1e11 THEN to_timestamp(n / 1e3) WHEN n > 0 THEN to_timestamp(n) END \
         FROM (SELECT {column}::text::float8 AS n) AS s) END"
    )
}

/// Whether [`moment`] reads this type.
fn is_moment(type_name: &str) -> bool {
    has_no_zone(type_name)
        || matches!(
            type_name,
            "timestamp with time zone" | "bigint" | "smallint" | "integer" | "real" | "double precision" | "numeric"
        )
}

fn has_no_zone(type_name: &str) -> bool {
    matches!(type_name, "date" | "timestamp without time zone")
}

/// The leases, or what is wrong with the table although it could be read.
fn read(client: &mut Client, table: &LeaseTable, timeout: Duration) -> Result<Result<Leases, LeaseProblem>, ReadError> {
    let sets = rows::result_sets(client.simple_query(&message(table, timeout))?, SETS)?;
    let [_, facts, leases] = sets.as_slice() else {
        return Err(rows::RowError::Sets { got: sets.len(), expected: SETS }.into());
    };
    let facts = facts.first().ok_or(rows::RowError::Empty("facts of the lease table"))?;
    let expires_type = string(facts, 3)?.unwrap_or_default();
    let taken_type = string(facts, 4)?;
    let columns =
        [(&table.expires, Some(expires_type.clone())), (table.taken.as_ref().unwrap_or(&table.name), taken_type)];
    for (column, type_name) in columns {
        if let Some(type_name) = type_name.filter(|type_name| !is_moment(type_name)) {
            let what = format!("cannot be read: its column {} is of type {type_name}, not a time", identifier(column));
            let hint = "Name a view that shows the expiry as timestamptz, or as seconds since 1970.";
            return Ok(Err(problem(&what, hint)));
        }
    }
    let lease = |row: &SimpleQueryRow| {
        Ok::<_, rows::RowError>(Lease {
            name: string(row, 0)?,
            holder: string(row, 1)?,
            expires: moment_of(row, 2)?,
            taken: moment_of(row, 3)?,
        })
    };
    Ok(Ok(Leases {
        database: string(facts, 6)?.unwrap_or_default(),
        at: moment_of(facts, 0)?.ok_or(rows::RowError::Column { set: SET, column: 0 })?,
        total: number(facts, 1)?,
        overdue: number(facts, 2)?,
        assumed_zone: string(facts, 5)?.filter(|_| has_no_zone(&expires_type)),
        rows: leases.iter().map(lease).collect::<Result<_, _>>()?,
    }))
}

const SET: &str = "lease table";

fn cell(row: &SimpleQueryRow, column: usize) -> Result<Option<&str>, rows::RowError> {
    row.try_get(column).map_err(|_| rows::RowError::Column { set: SET, column })
}

fn string(row: &SimpleQueryRow, column: usize) -> Result<Option<String>, rows::RowError> {
    Ok(cell(row, column)?.map(|escaped| text::from_escaped(escaped, TEXT_BYTES)))
}

fn number(row: &SimpleQueryRow, column: usize) -> Result<u64, rows::RowError> {
    let number = cell(row, column)?.and_then(|text| text.parse().ok());
    number.ok_or(rows::RowError::Column { set: SET, column })
}

/// Nothing also for a moment so far away that it cannot be written: it does not come.
fn moment_of(row: &SimpleQueryRow, column: usize) -> Result<Option<Time>, rows::RowError> {
    Ok(cell(row, column)?.and_then(rows::time))
}

/// Whether the connection can be used again.
fn goes_on(error: &ReadError) -> bool {
    let ReadError::Client(error) = error else { return false };
    let severity = error.as_db_error().and_then(DbError::parsed_severity);
    error.as_db_error().is_some() && !matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

/// What it means for whoever wrote the config.
fn problem_of(error: &ReadError, table: &LeaseTable) -> LeaseProblem {
    match error {
        ReadError::Rows(error) => {
            problem(&format!("cannot be read: {error}"), "Connect to the server itself, not to a proxy.")
        }
        ReadError::Client(error) => match error.as_db_error() {
            Some(db) => refused(db, table),
            None => problem("was not read: the connection was lost", "The next poll tries again."),
        },
    }
}

fn refused(db: &DbError, table: &LeaseTable) -> LeaseProblem {
    let said = failure::one_line(db.message());
    let cannot = format!("cannot be read: {said}");
    let code = db.code();
    if [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].contains(code) {
        problem(
            &cannot,
            "Is it in the database that dsn names? Its name is written as psql's \\d shows it; capital letters matter.",
        )
    } else if *code == SqlState::UNDEFINED_COLUMN {
        problem(&cannot, "Columns are named as psql's \\d shows them; capital letters matter.")
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        let grant = format!("GRANT USAGE ON SCHEMA {} TO ", identifier(&table.schema));
        LeaseProblem { grant: Some(grant), ..problem(&cannot, "The role needs SELECT on it, and USAGE on its schema.") }
    } else if *code == SqlState::LOCK_NOT_AVAILABLE {
        problem("was not read: somebody has it locked", "The next poll tries again.")
    } else if *code == SqlState::QUERY_CANCELED {
        problem(
            "was not read: it took too long",
            "A large table needs a view that shows the live leases only: name that.",
        )
    } else {
        problem(&cannot, "The statement that reads it was refused: see the server's log.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_config_says_is_quoted() {
        let table = LeaseTable {
            lease: "x".to_owned(),
            schema: "Ops".to_owned(),
            table: "a\"; DROP TABLE x; --".to_owned(),
            name: "n\"ame".to_owned(),
            holder: "user".to_owned(),
            expires: "Until".to_owned(),
            taken: Some("taken'".to_owned()),
            overdue_after: Duration::from_secs(10),
        };
        let message = message(&table, Duration::from_secs(1));
        for part in [
            "FROM \"Ops\".\"a\"\"; DROP TABLE x; --\" AS l",
            "l.\"n\"\"ame\"::text",
            "l.\"user\"::text",
            "l.\"Until\"::text::timestamptz",
            "l.\"taken'\"::text",
            "now() - 10000000 * interval",
        ] {
            assert!(message.contains(part), "no {part} in {message}");
        }
        assert_eq!(message.matches("DROP").count(), message.matches("\"a\"\"; DROP TABLE x; --\"").count());
    }
}
