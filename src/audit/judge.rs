//! What the statements of a role mean together.

use std::collections::BTreeMap;

use super::PROBE;
use super::statement::{Form, Verb, calls};
use crate::model::StatementRow;

/// So many locks more than unlocks are needed to speak of few: work that is going on explains some.
const MISSING: u64 = 10;

/// What is unsafe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unsafe {
    /// Session locks through a pool that hands out its connections per transaction.
    TransactionPool,
    /// Locked in one form, unlocked in another: the unlock hits nothing.
    WrongForm,
    /// Locked, never unlocked.
    NoUnlock,
    /// Unlocked much more seldom than locked.
    FewUnlocks,
    /// The planner decides how many locks a statement takes.
    PlannerChooses,
}

impl Unsafe {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::TransactionPool => "transaction-pool",
            Self::WrongForm => "wrong-form",
            Self::NoUnlock => "no-unlock",
            Self::FewUnlocks => "few-unlocks",
            Self::PlannerChooses => "planner-chooses",
        }
    }
}

/// A role of a database that comes through a pool, and in which mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOf {
    /// The role.
    pub role: String,
    /// The database.
    pub database: String,
    /// `transaction` or `statement`.
    pub mode: String,
}

/// One finding about a role in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFinding {
    /// What is unsafe.
    pub what: Unsafe,
    /// The role.
    pub role: String,
    /// The database.
    pub database: String,
    /// One sentence.
    pub summary: String,
    /// What to change, in one sentence.
    pub change: String,
    /// The statements that show it, the most frequent first.
    pub statements: Vec<String>,
}

/// How often a role used the functions of one form and mode on session locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// Waits for the lock.
    pub locks: u64,
    /// Tries it.
    pub tries: u64,
    /// Gives it back.
    pub unlocks: u64,
}

/// How a role uses advisory locks in a database.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RoleUse {
    /// The role.
    pub role: String,
    /// The database.
    pub database: String,
    /// Session locks, by form and whether they are shared.
    pub session: BTreeMap<(Form, bool), Use>,
    /// Calls of `pg_advisory_unlock_all`.
    pub unlock_all: u64,
    /// Calls of the transaction functions.
    pub transaction: u64,
    /// Its statements, the most frequent first.
    pub statements: Vec<StatementRow>,
}

/// Adds up what each role does. With `nested_are_counted` (`pg_stat_statements.track = all`) what stands inside a body has
/// a row of its own.
pub fn uses(rows: &[StatementRow], nested_are_counted: bool) -> Vec<RoleUse> {
    let mut uses: BTreeMap<(&str, &str), RoleUse> = BTreeMap::new();
    for row in rows {
        // Our own looks are nobody's code.
        if row.query.contains(&format!("/* {PROBE} ")) {
            continue;
        }
        let mut calls = calls(&row.query);
        calls.retain(|call| !(call.nested && nested_are_counted));
        if calls.is_empty() {
            continue;
        }
        let role = uses.entry((&row.role, &row.database)).or_insert_with(|| RoleUse {
            role: row.role.clone(),
            database: row.database.clone(),
            ..RoleUse::default()
        });
        for call in calls {
            if call.transaction {
                role.transaction += row.calls;
            } else if call.verb == Verb::UnlockAll {
                role.unlock_all += row.calls;
            } else if let Some(form) = call.form {
                let entry = role.session.entry((form, call.shared)).or_default();
                *match call.verb {
                    Verb::Lock => &mut entry.locks,
                    Verb::Try => &mut entry.tries,
                    Verb::Unlock | Verb::UnlockAll => &mut entry.unlocks,
                } += row.calls;
            }
        }
        role.statements.push(row.clone());
    }
    let mut uses: Vec<RoleUse> = uses.into_values().collect();
    for role in &mut uses {
        role.statements.sort_by_key(|row| std::cmp::Reverse(row.calls));
    }
    uses
}

/// What is unsafe about these.
pub fn judge(uses: &[RoleUse], pools: &[PoolOf]) -> Vec<AuditFinding> {
    let mut findings: Vec<AuditFinding> = uses.iter().flat_map(|role| of_role(role, pools)).collect();
    findings.sort_by(|a, b| (a.what, &a.database, &a.role).cmp(&(b.what, &b.database, &b.role)));
    findings
}

fn mode(shared: bool) -> &'static str {
    if shared { "shared" } else { "exclusive" }
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

/// As `pg_advisory_unlock(bigint)`.
fn unlock_function(form: Form, shared: bool) -> String {
    let arguments = if form == Form::Bigint { "bigint" } else { "int, int" };
    format!("pg_advisory_unlock{}({arguments})", if shared { "_shared" } else { "" })
}

fn of_role(role: &RoleUse, pools: &[PoolOf]) -> Vec<AuditFinding> {
    let mut findings = Vec::new();
    let pool = pools.iter().find(|pool| pool.role == role.role && pool.database == role.database);
    if let Some(pool) = pool.filter(|_| role.session.values().any(|used| used.locks + used.tries > 0)) {
        findings.push(finding(
            role,
            Unsafe::TransactionPool,
            &format!("takes session locks through a {} pool: they stay on connections that others get", pool.mode),
            "Use pg_advisory_xact_lock, or connect past the pooler for whatever takes session locks.",
            &[Verb::Lock, Verb::Try],
        ));
    }
    // Unlocks of a form and mode in which nothing is locked: what a lock in another form may have been meant for.
    let stray: Vec<(Form, bool)> = role
        .session
        .iter()
        .filter(|(_, used)| used.unlocks > 0 && used.locks + used.tries == 0)
        .map(|(&kind, _)| kind)
        .collect();
    for (&(form, shared), used) in &role.session {
        let taken = used.locks + used.tries;
        if taken == 0 || role.unlock_all > 0 {
            continue;
        }
        let what = format!("{} locks on {}", mode(shared), form.name());
        if used.unlocks == 0 {
            if let Some(&(other, other_shared)) = stray.first() {
                findings.push(finding(
                    role,
                    Unsafe::WrongForm,
                    &format!(
                        "takes {what} {}, but unlocks {} ones on {}: these are other locks, and the first ones stay",
                        times(taken),
                        mode(other_shared),
                        other.name()
                    ),
                    &format!("Unlock with {}, on the connection that locked.", unlock_function(form, shared)),
                    &[Verb::Lock, Verb::Try, Verb::Unlock],
                ));
            } else {
                findings.push(finding(
                    role,
                    Unsafe::NoUnlock,
                    &format!("takes {what} {} and never unlocks: they stay until the session ends", times(taken)),
                    &format!(
                        "Use pg_advisory_xact_lock, or unlock with {} on the connection that locked.",
                        unlock_function(form, shared)
                    ),
                    &[Verb::Lock, Verb::Try],
                ));
            }
        } else if used.locks.saturating_sub(used.unlocks) >= MISSING && used.unlocks < used.locks / 10 * 9 {
            findings.push(finding(
                role,
                Unsafe::FewUnlocks,
                &format!("takes {what} {} and unlocks {}", times(used.locks), times(used.unlocks)),
                "Unlock on every way out, errors too, on the connection that locked; pg_advisory_xact_lock does so by itself.",
                &[Verb::Lock, Verb::Unlock],
            ));
        }
    }
    let by_row = |row: &&StatementRow| calls(&row.query).iter().any(|call| call.by_row && takes_session_lock(call));
    let chosen: Vec<&StatementRow> = role.statements.iter().filter(by_row).collect();
    if !chosen.is_empty() {
        findings.push(AuditFinding {
            what: Unsafe::PlannerChooses,
            role: role.role.clone(),
            database: role.database.clone(),
            summary: format!(
                "Role {} in {} takes session locks in a condition or beside LIMIT: the planner may call the function for rows \
                 that are not in the result.",
                role.role, role.database
            ),
            change: "Choose the rows in a subquery first (WITH chosen AS MATERIALIZED (...)), then lock those.".to_owned(),
            statements: shown(chosen.into_iter()),
        });
    }
    findings
}

fn takes_session_lock(call: &super::Call) -> bool {
    !call.transaction && matches!(call.verb, Verb::Lock | Verb::Try)
}

fn finding(role: &RoleUse, what: Unsafe, does: &str, change: &str, verbs: &[Verb]) -> AuditFinding {
    let shows =
        |row: &&StatementRow| calls(&row.query).iter().any(|call| !call.transaction && verbs.contains(&call.verb));
    AuditFinding {
        what,
        role: role.role.clone(),
        database: role.database.clone(),
        summary: format!("Role {} in {} {does}.", role.role, role.database),
        change: change.to_owned(),
        statements: shown(role.statements.iter().filter(shows)),
    }
}

/// A few statements are enough to find the code.
fn shown<'a>(rows: impl Iterator<Item = &'a StatementRow>) -> Vec<String> {
    rows.take(5).map(|row| row.query.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(role: &str, calls: u64, query: &str) -> StatementRow {
        StatementRow { role: role.to_owned(), database: "app".to_owned(), calls, mean_ms: 0.1, query: query.to_owned() }
    }

    /// What is found about statements that one role ran so often.
    fn found(statements: &[(u64, &str)]) -> Vec<Unsafe> {
        let rows: Vec<StatementRow> = statements.iter().map(|(calls, query)| row("web", *calls, query)).collect();
        judge(&uses(&rows, false), &[]).iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn clean_code_is_clean() {
        for clean in [
            &[(100, "SELECT pg_advisory_lock($1)"), (100, "SELECT pg_advisory_unlock($1)")][..],
            &[(100, "SELECT pg_advisory_lock($1)"), (95, "SELECT pg_advisory_unlock($1)")],
            &[(9, "SELECT pg_advisory_lock($1)"), (1, "SELECT pg_advisory_unlock($1)")],
            &[(100, "SELECT pg_try_advisory_lock($1, $2)"), (3, "SELECT pg_advisory_unlock($1, $2)")],
            &[(100, "SELECT pg_advisory_xact_lock($1)"), (7, "SELECT pg_try_advisory_xact_lock_shared($1, $2)")],
            &[(100, "SELECT pg_advisory_lock_shared($1)"), (100, "SELECT pg_advisory_unlock_all()")],
            &[(5, "SELECT id FROM jobs WHERE pg_try_advisory_xact_lock(id) LIMIT $1")],
            &[(5, "SELECT pg_advisory_unlock($1)")],
            &[(5, "SELECT $1 /* pg_advisory_lock(1) */")],
            &[(5, "SELECT pg_catalog.pg_try_advisory_lock($1, $2), $3 /* pglockwatch probe 1f 3 */")],
        ] {
            assert_eq!(found(clean), [], "{clean:?}");
        }
    }

    #[test]
    fn what_is_unsafe_is_named() {
        let lock = (50, "SELECT pg_advisory_lock($1)");
        assert_eq!(found(&[lock]), [Unsafe::NoUnlock]);
        assert_eq!(found(&[lock, (20, "SELECT pg_advisory_unlock($1)")]), [Unsafe::FewUnlocks]);
        assert_eq!(found(&[lock, (50, "SELECT pg_advisory_unlock($1, $2)")]), [Unsafe::WrongForm]);
        assert_eq!(found(&[lock, (50, "SELECT pg_advisory_unlock_shared($1)")]), [Unsafe::WrongForm]);
        assert_eq!(
            found(&[
                (5, "SELECT id FROM jobs WHERE pg_try_advisory_lock(id) LIMIT $1"),
                (5, "SELECT pg_advisory_unlock($1)")
            ]),
            [Unsafe::PlannerChooses]
        );
    }

    #[test]
    fn roles_are_judged_one_by_one_and_with_their_pool() {
        let rows = [
            row("web", 50, "SELECT pg_advisory_lock($1)"),
            row("job", 50, "SELECT pg_advisory_unlock($1)"),
            row("ok", 50, "SELECT pg_advisory_lock($1), pg_advisory_unlock($1)"),
        ];
        let pool =
            |role: &str| PoolOf { role: role.to_owned(), database: "app".to_owned(), mode: "transaction".to_owned() };
        let findings = judge(&uses(&rows, false), &[pool("ok"), pool("job")]);
        let found: Vec<_> = findings.iter().map(|finding| (finding.role.as_str(), finding.what)).collect();
        assert_eq!(found, [("ok", Unsafe::TransactionPool), ("web", Unsafe::NoUnlock)]);
        assert!(findings[1].change.contains("pg_advisory_unlock(bigint)"), "{findings:?}");
    }

    #[test]
    fn bodies_count_once() {
        let rows = [
            row("web", 10, "DO $$ BEGIN PERFORM pg_advisory_lock(1); END $$"),
            row("web", 10, "SELECT pg_advisory_lock($1)"),
        ];
        let locks = |all| uses(&rows, all)[0].session[&(Form::Bigint, false)].locks;
        assert_eq!((locks(false), locks(true)), (20, 10));
    }
}
