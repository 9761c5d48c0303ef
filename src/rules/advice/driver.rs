//! Which driver a session uses, as far as it says so itself, and what its pool does with a session lock.
//!
//! Pure. A driver is known by the `application_name` that it sets by default, or by the tags `db_driver` and
//! `framework` that sqlcommenter puts behind a statement. What the pools do was seen with each of them: a session lock
//! was taken, the connection given back, and `pg_locks` read.

use crate::model::Backend;

/// What a driver calls itself, and what to do with it.
const DRIVERS: &[(&[&str], &str)] = &[
    (
        &["jdbc"],
        "JDBC: close() gives the connection back to a pool (HikariCP) with its lock. Lock and unlock on one \
         Connection, the unlock in a finally block before close().",
    ),
    (
        &["asyncpg"],
        "asyncpg: its pool frees session locks when a connection is given back. Look for a reset that was replaced, or \
         for a connection that is never given back.",
    ),
    (
        &["psycopg", "sqlalchemy", "django"],
        "psycopg, SQLAlchemy: their pools take a connection back with its lock. Lock and unlock within one `with` block \
         of the connection, the unlock in its finally.",
    ),
    (
        &["database/sql", "pgx", "lib/pq", "gorm"],
        "Go: database/sql and pgxpool take a connection back with its lock, and the next call may run on another one. \
         Take a connection of its own (db.Conn, pgxpool's Acquire), lock and unlock on it, then give it back.",
    ),
    (
        &["node-postgres", "postgres.js", "knex", "sequelize", "typeorm"],
        "Node.js: pg, postgres.js and knex take a connection back with its lock, and pool.query uses any connection. \
         Lock and unlock on one client of pool.connect(), then release() it.",
    ),
];

/// What to do in the drivers of these sessions, each said once.
pub fn hints<'a>(backends: impl Iterator<Item = &'a Backend>) -> Vec<&'static str> {
    let mut hints: Vec<&'static str> = Vec::new();
    for name in backends.flat_map(names) {
        let known = DRIVERS.iter().find(|(words, _)| words.iter().any(|word| name.contains(word)));
        if let Some((_, hint)) = known
            && !hints.contains(hint)
        {
            hints.push(hint);
        }
    }
    hints
}

/// What the session says of its driver, in lower case.
fn names(backend: &Backend) -> Vec<String> {
    let query = backend.query.as_deref().unwrap_or_default();
    let tags = ["db_driver='", "framework='"].into_iter().filter_map(|tag| {
        let (_, rest) = query.rsplit_once(tag)?;
        // sqlcommenter writes values percent-encoded.
        rest.split('\'').next().map(|value| value.replace("%2F", "/"))
    });
    std::iter::once(backend.application.to_lowercase()).chain(tags.map(|name| name.to_lowercase())).collect()
}
