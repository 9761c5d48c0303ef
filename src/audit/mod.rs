//! `audit`: which code uses advisory locks unsafely, before it leaks. From statements and settings that a server counted,
//! and from what a log says, to findings.
//!
//! Pure. Who reads the server is [`pg`](crate::pg). Here is what its numbers mean. It never cries wolf: transaction locks are
//! clean, an unlock of everything counts for every form, and locks that were only tried may have been refused.

mod judge;
pub mod log;
mod statement;

pub use judge::{AuditFinding, PoolOf, RoleUse, Unsafe, Use, judge, uses};
pub use statement::{Call, Form, Verb, calls};

use crate::analysis::report::Failure;
use crate::model::{Pooler, PoolerServer, ServerFacts};

/// Each statement of a probe begins its comment so.
pub const PROBE: &str = "pglockwatch probe";

/// What became of one server.
#[derive(Debug, Clone)]
pub struct ServerAudit {
    /// The target's name.
    pub target: String,
    /// What was read and found, or why nothing was.
    pub outcome: Result<Judged, Failure>,
}

/// What was read of a server, and what is unsafe in it.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What the server said.
    pub facts: ServerFacts,
    /// How each role uses advisory locks.
    pub uses: Vec<RoleUse>,
    /// What is unsafe.
    pub findings: Vec<AuditFinding>,
    /// Why PgBouncers said nothing: a sentence each.
    pub silent: Vec<String>,
}

/// The roles whose pools hand out connections per transaction or statement. Only pools that have a server connection now
/// are known.
fn shared_pools(poolers: &[Pooler]) -> Vec<PoolOf> {
    let servers = poolers.iter().filter_map(|pooler| pooler.said.as_ref().ok()).flat_map(|said| &said.servers);
    let pool = |server: &PoolerServer| PoolOf {
        role: server.user.clone(),
        database: server.server_database.clone().unwrap_or_else(|| server.database.clone()),
        mode: server.pool_mode.name().to_owned(),
    };
    servers.filter(|server| server.pool_mode.is_shared()).map(pool).collect()
}

impl Judged {
    /// Judges what a server said, and its PgBouncers.
    pub fn of(facts: ServerFacts, poolers: &[Pooler]) -> Self {
        let uses = uses(&facts.statements, facts.track == "all");
        let findings = judge(&uses, &shared_pools(poolers));
        let silent = poolers.iter().filter_map(|pooler| pooler.said.as_ref().err().cloned()).collect();
        Self { facts, uses, findings, silent }
    }

    /// What keeps us from judging: a sentence, and what to do.
    pub fn blind(&self) -> Option<(String, String)> {
        if let Some(blind) = &self.facts.blind {
            return Some(blind.clone());
        }
        if let Some(silent) = self.silent.first() {
            return Some((format!("{silent}."), "Which roles come through its pools is not known.".to_owned()));
        }
        (self.facts.hidden > 0).then(|| {
            let role = crate::quote::identifier(&self.facts.role);
            (
                format!(
                    "The texts of {} statements of other roles are hidden from role {}.",
                    self.facts.hidden, self.facts.role
                ),
                format!("Run as a superuser:  GRANT pg_read_all_stats TO {role};"),
            )
        })
    }
}

/// What it all comes down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is unsafe.
    Safe,
    /// Something is.
    Unsafe,
    /// Nothing was found, and not everything could be looked at.
    Unknown,
}

impl Verdict {
    /// Of all servers and the log.
    pub fn of(servers: &[ServerAudit], log: Option<&log::LogReport>) -> Self {
        let found =
            servers.iter().any(|server| server.outcome.as_ref().is_ok_and(|judged| !judged.findings.is_empty()));
        if found || log.is_some_and(|log| log.failed_unlock_count + log.deadlock_count > 0) {
            Self::Unsafe
        } else if log.is_some_and(|log| log.unreadable > 0)
            || servers.iter().any(|server| server.outcome.as_ref().map_or(true, |judged| judged.blind().is_some()))
        {
            Self::Unknown
        } else {
            Self::Safe
        }
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "ok",
            Self::Unsafe => "unsafe",
            Self::Unknown => "unknown",
        }
    }
}
