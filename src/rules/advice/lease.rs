//! What to do about leases: whom to look for, and what lets a lease table be read.
//!
//! Pure text from facts. No statement here changes a lease: how it is freed, only its application knows.

use super::facts::Facts;
use super::{VERIFY, words};
use crate::model::{LeaseProblem, LeaseRead};
use crate::quote;
use crate::rules::Subject;

fn read<'a>(facts: &Facts<'a>) -> Option<&'a LeaseRead> {
    let Subject::Lease { lease, .. } = &facts.draft.subject else { return None };
    facts.context.observed.snapshot.leases.iter().find(|read| read.lease == *lease)
}

fn problem<'a>(facts: &Facts<'a>) -> Option<&'a LeaseProblem> {
    read(facts)?.outcome.as_ref().err()
}

/// The statement that lets our role read the table, where that is what is missing.
pub fn grant(facts: &Facts<'_>) -> Option<String> {
    let read = read(facts)?;
    let usage = problem(facts)?.grant.as_ref()?;
    let role = quote::identifier(&facts.context.observed.snapshot.server.role);
    Some(format!("{usage}{role};\nGRANT SELECT ON {} TO {role};", read.table))
}

/// What to do where the table cannot be read for want of a right.
pub fn unread(facts: &Facts<'_>) -> Vec<String> {
    let hint = problem(facts).map(|problem| problem.hint.clone());
    let run = "Run the statements as the table's owner, in its database.".to_owned();
    hint.into_iter().chain([run, verify()]).collect()
}

/// What to do about a lease, or about a table that cannot be read.
pub fn steps(facts: &Facts<'_>) -> Vec<String> {
    if let Some(problem) = problem(facts) {
        return vec![problem.hint.clone(), verify()];
    }
    let holder = match &facts.draft.subject {
        Subject::Lease { row: Some((_, holder)), .. } if !holder.is_empty() => words::name(holder),
        _ => "the holder that the row names".to_owned(),
    };
    vec![
        format!("Find out whether {holder} still runs: an expiry ends no process."),
        "If it is dead, let another take the lease over, or free it as its application does.".to_owned(),
        "If it works, let it renew the lease or stop: another may take it at any moment, and both would work."
            .to_owned(),
        "If rows of finished work are kept, name a view of the live ones in [[target.lease]].".to_owned(),
        verify(),
    ]
}

fn verify() -> String {
    format!("{VERIFY}pglockwatch check")
}
