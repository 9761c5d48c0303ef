//! Errors of the client and of the server, told in one sentence and a hint.
//!
//! Knows SQLSTATEs and the ways in which connecting fails. The whole chain of causes is told: the client's own
//! `Display` hides it. What the server says may hold anything, and is made one line.

use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::conninfo::{Address, Endpoint};
use super::refused;
use super::tls::{NAME_VERDICT, TlsError};
use crate::analysis::report::{Failure, FailureKind};

/// Why one address could not be connected to, before it is known whether another can.
#[derive(Debug)]
pub(crate) struct ConnectFailure {
    /// host:port
    pub address: String,
    /// Which kind.
    pub kind: FailureKind,
    /// The end of the sentence "cannot connect to host:port: ...".
    pub reason: String,
    /// What to do.
    pub hints: Vec<String>,
    /// Whether the server refused this kind of encryption: the other kind may work.
    pub other_encryption: bool,
    /// The server answered and refused us: another server is not tried, as in libpq.
    pub refused_for_good: bool,
}

impl ConnectFailure {
    /// A failure that the next address may not share.
    pub fn new(address: &Address, kind: FailureKind, reason: impl Into<String>) -> Self {
        Self {
            address: address.name(),
            kind,
            reason: reason.into(),
            hints: Vec::new(),
            other_encryption: false,
            refused_for_good: false,
        }
    }

    /// The same with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// All that was tried, in one failure. The first decides the kind: the others were tried because of it.
pub(crate) fn cannot_connect(tried: Vec<ConnectFailure>) -> Failure {
    let reasons: Vec<String> = tried.iter().map(|failure| format!("{}: {}", failure.address, failure.reason)).collect();
    let kind = tried.first().map_or(FailureKind::Connect, |failure| failure.kind);
    let mut hints: Vec<String> = Vec::new();
    for hint in tried.into_iter().flat_map(|failure| failure.hints) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    Failure { kind, message: format!("cannot connect to {}", reasons.join("; ")), hints }
}

/// No answer in time.
pub fn timed_out(name: &str, connecting: bool, after: Duration) -> Failure {
    let after = if after < Duration::from_millis(100) {
        format!("{} ms", after.as_millis())
    } else {
        format!("{:.1} s", after.as_secs_f64())
    };
    let message = if connecting {
        format!("cannot connect to {name}: no answer within {after}")
    } else {
        format!("{name} has not answered for {after}")
    };
    let hint = if connecting {
        "Something accepts connections there and says nothing, or packets to it are dropped: is it PostgreSQL, is it \
         stopped, is there a firewall?"
    } else {
        "The server is stopped, cut off or overloaded. The connection is kept, and used again when it answers."
    };
    Failure { kind: FailureKind::Timeout, message, hints: vec![hint.to_owned()] }
}

/// What the client says when there is no connection, or could not be. `offered`: TLS was only used because the server
/// has it.
pub(crate) fn connect_failure(error: &tokio_postgres::Error, address: &Address, offered: bool) -> ConnectFailure {
    if let Some(db) = error.as_db_error() {
        return refused::by_server(db, address);
    }
    if let Some(unfit) = source::<TlsError>(error) {
        let mut failure = ConnectFailure::new(address, FailureKind::Tls, &unfit.message);
        failure.hints.extend(unfit.hint.clone());
        failure.other_encryption = offered;
        return failure;
    }
    let reason = reason(error);
    // The client does not tell kinds of error apart but by these words.
    let what = error.to_string();
    if what.contains("TLS") {
        let reason = reason.replace(NAME_VERDICT, "the host's name is not in it");
        let mut failure = ConnectFailure::new(address, FailureKind::Tls, format!("TLS failed: {reason}"));
        failure.hints.push(tls_hint(&reason).to_owned());
        failure.other_encryption = true;
        return failure;
    }
    if reason.contains("password missing") {
        let mut failure =
            ConnectFailure::new(address, FailureKind::Auth, "the server asks for a password, and there is none").hint(
                "Set PGPASSWORD, add a line to the password file (~/.pgpass), or give a DSN with it by --dsn-file.",
            );
        failure.refused_for_good = true;
        return failure;
    }
    if what.contains("authentication") {
        let hint = if reason.contains("channel binding") {
            "channel_binding=require needs TLS and a password that is kept as SCRAM-SHA-256."
        } else {
            "Passwords (SCRAM, MD5, plain) and certificates are supported; Kerberos, by GSSAPI or SSPI, is not."
        };
        let mut failure =
            ConnectFailure::new(address, FailureKind::Auth, format!("authentication failed: {reason}")).hint(hint);
        failure.refused_for_good = true;
        return failure;
    }
    io_failure(error, address, reason)
}

fn io_failure(error: &tokio_postgres::Error, address: &Address, reason: String) -> ConnectFailure {
    let io = source::<io::Error>(error);
    let kind = io.map(io::Error::kind);
    if error.is_closed() || matches!(kind, Some(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)) {
        return closed_early(address);
    }
    if let Some(hint) = zone_hint(address) {
        return ConnectFailure::new(address, FailureKind::Connect, reason).hint(hint);
    }
    let what = error.to_string();
    // What the operating system says is about the address, what the client says about the answer.
    let by_client = io.is_some_and(|io| io.raw_os_error().is_none());
    let not_postgres = by_client && matches!(kind, Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput))
        || reason.contains("bytes remaining");
    if not_postgres || what.contains("unexpected message") || what.contains("parsing") {
        let reason = format!("the answer is not PostgreSQL's protocol ({reason})");
        return ConnectFailure::new(address, FailureKind::Connect, reason)
            .hint("Is that the port of PostgreSQL or of a pooler?");
    }
    unreachable(kind, address, reason)
}

/// A link-local IPv6 address reaches nothing without its zone (RFC 4007), and the client drops the zone.
fn zone_hint(address: &Address) -> Option<&'static str> {
    let Endpoint::Host { name, addr } = &address.endpoint else { return None };
    let written = name.split('%').next().and_then(|name| name.parse().ok());
    match addr.or(written) {
        Some(IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
            Some("Link-local addresses (fe80::...) cannot be used: give a name, or an address that needs no zone.")
        }
        _ => None,
    }
}

/// Nobody answers at an address that was only asked whether it is alive.
pub(crate) fn not_alive(error: &io::Error, address: &Address) -> ConnectFailure {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => closed_early(address),
        // A read that ran out of time.
        io::ErrorKind::WouldBlock => unreachable(Some(io::ErrorKind::TimedOut), address, String::new()),
        kind => unreachable(Some(kind), address, plain(&error.to_string())),
    }
}

fn closed_early(address: &Address) -> ConnectFailure {
    let reason = "the connection was closed before the server had answered";
    ConnectFailure::new(address, FailureKind::Connect, reason)
        .hint("It may be starting, stopping or out of connections; or it is not PostgreSQL.")
}

fn unreachable(kind: Option<io::ErrorKind>, address: &Address, reason: String) -> ConnectFailure {
    let failure = |reason: String| ConnectFailure::new(address, FailureKind::Connect, reason);
    match (kind, &address.endpoint) {
        (Some(io::ErrorKind::TimedOut), _) => ConnectFailure::new(address, FailureKind::Timeout, "no answer in time")
            .hint("Packets to it may be dropped, or it is stopped: is the address right, is there a firewall?"),
        (Some(io::ErrorKind::ConnectionRefused), Endpoint::Host { .. }) => {
            failure(reason).hint("Is PostgreSQL running there, and does it listen on that address?")
        }
        (Some(io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused), Endpoint::Socket(folder)) => {
            failure(reason).hint(format!(
                "Is PostgreSQL running on this machine, with its socket in {}? Name another folder or a host with host=.",
                folder.display()
            ))
        }
        _ if reason.contains("lookup") => {
            failure(reason).hint("The host's name cannot be resolved: is it spelled right, is it in DNS?")
        }
        _ => failure(reason),
    }
}

fn tls_hint(reason: &str) -> &'static str {
    if reason.contains("does not support TLS") {
        "Turn ssl on in the server, or use sslmode=prefer."
    } else if reason.contains("the host's name is not in it") {
        "The server's certificate is for another host: connect by a name that is in it, or use sslmode=verify-ca."
    } else if reason.contains("certificate verify failed") {
        "The server's certificate is not signed by an authority of sslrootcert, or has expired."
    } else {
        "Compare sslmode, sslcert and sslrootcert with what the server offers."
    }
}

/// What to do when there is no room for locks left.
pub(super) const LOCK_TABLE_HINT: &str = "The shared lock table is full, so that new sessions cannot even log in: end the session \
     that hoards locks, or raise max_locks_per_transaction.";

/// Why a poll failed on an open connection.
pub(crate) fn poll_failure(error: &tokio_postgres::Error, name: &str) -> Failure {
    let Some(db) = error.as_db_error() else {
        let reason = if error.is_closed() { "the connection was closed".to_owned() } else { reason(error) };
        return Failure {
            kind: FailureKind::Connect,
            message: format!("the connection to {name} is lost: {reason}"),
            hints: vec!["The server may have been restarted or cut off.".to_owned()],
        };
    };
    let code = db.code();
    let said = one_line(db.message());
    let (kind, message, hint) = if *code == SqlState::OUT_OF_MEMORY {
        (FailureKind::LockTableFull, format!("{name} has no room for locks left: {said}"), LOCK_TABLE_HINT)
    } else if *code == SqlState::QUERY_CANCELED {
        (
            FailureKind::Timeout,
            format!("the poll of {name} was cancelled: {said}"),
            "The server is overloaded, or the timeout is too short.",
        )
    } else if *code == SqlState::LOCK_NOT_AVAILABLE {
        (
            FailureKind::Timeout,
            format!("somebody keeps a lock on a system catalog of {name}: {said}"),
            "Look for LOCK TABLE, VACUUM FULL or CLUSTER of a pg_ table.",
        )
    } else if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        (FailureKind::Query, format!("{name} refused the query: {said}"), refused::REVOKED)
    } else if code.code().starts_with("57P") {
        (
            FailureKind::Connect,
            format!("the connection to {name} was ended: {said}"),
            "The server was stopped or restarted, or somebody ended the session.",
        )
    } else {
        (
            FailureKind::Query,
            format!("{name} refused the query: {said} (SQLSTATE {})", code.code()),
            "pglockwatch knows PostgreSQL 12 to 18 and PgBouncer in front of them.",
        )
    };
    Failure { kind, message, hints: vec![hint.to_owned()] }
}

/// A login that has no end.
pub(crate) fn endless(address: &Address) -> ConnectFailure {
    ConnectFailure::new(address, FailureKind::Connect, "it sends without end, and the session does not begin")
        .hint("Something accepts connections there that does not log us in: is it PostgreSQL?")
}

/// An answer that cannot be read.
pub(crate) fn unreadable(error: &dyn StdError, name: &str) -> Failure {
    Failure {
        kind: FailureKind::Query,
        message: format!("the answer of {name} cannot be used: {error}"),
        hints: vec!["pglockwatch knows PostgreSQL 12 to 18 and PgBouncer in front of them.".to_owned()],
    }
}

/// The causes of an error, outermost first, each once, without what says nothing.
pub(crate) fn reason(error: &tokio_postgres::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut cause = StdError::source(error);
    while let Some(error) = cause {
        let part = plain(&error.to_string());
        // A cause that the error around it has told already.
        if !part.is_empty() && !parts.iter().any(|told| told.contains(&part)) {
            parts.push(part);
        }
        cause = error.source();
    }
    if parts.is_empty() {
        parts.push(plain(&error.to_string()));
    }
    parts.join(": ")
}

/// `Connection refused (os error 111)` as `connection refused`, and OpenSSL's errors without their places in its source.
fn plain(text: &str) -> String {
    let text = one_line(text);
    // error:code:library:function:reason:file:line:, and what the client appended to it.
    let parts: Vec<&str> = text.splitn(8, ':').collect();
    if let ["error", _, _, _, reason, _, _, rest] = parts.as_slice() {
        let rest = rest.trim_start_matches([':', ' ']);
        return if rest.is_empty() { (*reason).to_owned() } else { format!("{reason}: {rest}") };
    }
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if first.is_ascii_uppercase() && second.is_ascii_lowercase() => {
            format!("{}{}", first.to_ascii_lowercase(), chars.as_str())
        }
        _ => text.to_owned(),
    }
}

/// A text that a server chose, as one line without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if crate::quote::is_unsafe(c) { ' ' } else { c }).collect();
    clean.trim().chars().take(500).collect()
}

fn source<T: StdError + 'static>(error: &tokio_postgres::Error) -> Option<&T> {
    let mut cause = StdError::source(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_plainly() {
        assert_eq!(plain("Connection refused (os error 111)"), "connection refused");
        assert_eq!(plain("TLS is off"), "TLS is off");
        assert_eq!(
            plain("error:0A000086:SSL routines:tls_post:certificate verify failed:../a.c:1889:: hostname mismatch"),
            "certificate verify failed: hostname mismatch"
        );
        assert_eq!(plain("error:0A00010B:SSL routines::wrong version number:../a.c:354:"), "wrong version number");
        assert_eq!(one_line("a\nb\u{1b}[31m\u{202e}"), "a b [31m");
    }

    #[test]
    fn link_local_addresses_are_told_apart() {
        let hint = |name: &str, addr: Option<&str>| {
            let endpoint = Endpoint::Host { name: name.to_owned(), addr: addr.map(|addr| addr.parse().unwrap()) };
            zone_hint(&Address { endpoint, port: 5432 }).is_some()
        };
        assert!(hint("fe80::1%eth0", None) && hint("fe80::1", None) && hint("db", Some("fe80::1")));
        assert!(!hint("::1", None) && !hint("fe80", None) && !hint("db", Some("10.0.0.1")));
    }

    #[test]
    fn all_addresses_are_told_and_hints_once() {
        let address = |port| Address { endpoint: Endpoint::Host { name: "db".to_owned(), addr: None }, port };
        let tried = vec![
            ConnectFailure::new(&address(1), FailureKind::Tls, "x").hint("h"),
            ConnectFailure::new(&address(2), FailureKind::Connect, "y").hint("h"),
        ];
        let failure = cannot_connect(tried);
        assert_eq!(failure.message, "cannot connect to db:1: x; db:2: y");
        assert_eq!(failure.kind, FailureKind::Tls);
        assert_eq!(failure.hints, ["h"]);
    }
}
