//! What to do when a server or a pooler answers a login with an error.
//!
//! Knows SQLSTATEs, and the routines of the server behind those that mean several things. Its messages may be translated
//! (`lc_messages`), its routines are not; the ones here were seen on PostgreSQL 12, 15 and 18.

use tokio_postgres::error::{DbError, SqlState};

use super::conninfo::Address;
use super::failure::{ConnectFailure, LOCK_TABLE_HINT, one_line};
use crate::analysis::report::FailureKind;

/// How PgBouncer, by version, says that it has no such database.
const NO_SUCH_DATABASE: [&str; 2] = ["does not exist", "no such database"];

const OTHER_DATABASE: &str =
    "Name another database, as dbname=postgres: the locks of all databases are seen from any of them.";

/// What to do about a hardened server.
pub(crate) const REVOKED: &str =
    "The role lacks a right that every role has unless it was revoked from PUBLIC: grant it to this role again.";

/// The failure for what the server said while we connected.
pub(crate) fn by_server(db: &DbError, address: &Address) -> ConnectFailure {
    let (kind, hint) = advice(db.code(), db.routine(), db.message());
    let mut failure = ConnectFailure::new(address, kind, one_line(db.message()));
    failure.hints.extend((!hint.is_empty()).then(|| hint.to_owned()));
    failure.other_encryption = *db.code() == SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
    failure.refused_for_good = *db.code() != SqlState::CANNOT_CONNECT_NOW;
    failure
}

fn advice(code: &SqlState, routine: Option<&str>, message: &str) -> (FailureKind, &'static str) {
    use FailureKind::{Auth, Config, Connect, LockTableFull};
    let by_database = routine == Some("CheckMyDatabase");
    match code {
        code if *code == SqlState::INVALID_PASSWORD => {
            (Auth, "The password is that of the DSN, of PGPASSWORD or of the password file, in this order.")
        }
        code if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            (Auth, "Does the role exist, may it log in, and does pg_hba.conf let it in from here?")
        }
        code if *code == SqlState::INVALID_CATALOG_NAME => {
            (Auth, "Name a database that is there: dbname=postgres is on most servers.")
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE && by_database => {
            (Auth, "The role needs the privilege CONNECT on this database.")
        }
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => (Auth, REVOKED),
        // A limit of this role, of this database, or of the server.
        code if *code == SqlState::TOO_MANY_CONNECTIONS && routine == Some("InitializeSessionUserId") => (
            Connect,
            "The role has a limit of its own: raise it (ALTER ROLE ... CONNECTION LIMIT), or end what uses its \
             connections.",
        ),
        code if *code == SqlState::TOO_MANY_CONNECTIONS && by_database => (Connect, OTHER_DATABASE),
        code if *code == SqlState::TOO_MANY_CONNECTIONS => (
            Connect,
            "All connections are in use. A role with pg_use_reserved_connections (PostgreSQL 16 and later) or a \
             superuser has some kept free.",
        ),
        // ALLOW_CONNECTIONS false.
        code if *code == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE && by_database => (Connect, OTHER_DATABASE),
        // MULE_INTERNAL, which has no conversion to UTF-8.
        code if *code == SqlState::FEATURE_NOT_SUPPORTED && routine == Some("InitializeClientEncoding") => {
            (Connect, OTHER_DATABASE)
        }
        code if *code == SqlState::CANNOT_CONNECT_NOW => {
            (Connect, "It is starting, stopping or recovering: wait a moment.")
        }
        code if *code == SqlState::OUT_OF_MEMORY => (LockTableFull, LOCK_TABLE_HINT),
        code if *code == SqlState::PROTOCOL_VIOLATION && NO_SUCH_DATABASE.iter().any(|says| message.contains(says)) => {
            (Auth, "Is the database one of PgBouncer's?")
        }
        code if *code == SqlState::PROTOCOL_VIOLATION && message.contains("options") => {
            (Config, "PgBouncer takes no startup options: leave options= and PGOPTIONS out.")
        }
        _ => (Connect, ""),
    }
}
