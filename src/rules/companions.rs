//! Companions: sessions beside a holder that may be doing what its lock protects.

use std::collections::HashSet;

use super::Context;
use crate::analysis::HolderRef;
use crate::model::{Backend, BackendState, Pid, age};

/// So many are looked for: whoever leaks thousands of locks beside thousands of workers must not have each pair looked at.
pub const MOST_COMPANIONS: usize = 100;

/// Sessions of the same database, user and application group (the client address instead where a group is empty) that
/// do not wait for the holder's keys, whose last statement calls no advisory lock function, and that are active, in a
/// transaction, or ended a statement less than t ago. A second migrator that polls with try-lock is a victim, not a
/// worker: its last statement gives it away. Of more than [`MOST_COMPANIONS`] those that worked last.
pub fn companions(context: &Context<'_>, holder: Pid) -> Vec<Pid> {
    let Some(own) = context.backend(holder) else { return Vec::new() };
    let group = context.observed.group(own);
    let keys = || context.observed.holds_of(HolderRef::Session(holder));
    let queues: HashSet<Pid> = keys().flat_map(|hold| hold.waiters.iter()).copied().collect();
    let mut found: Vec<Pid> = context
        .observed
        .colleagues(own)
        // Those that work come first.
        .take_while(|(other, _)| works(context, other))
        .filter(|(other, _)| other.pid != holder && !other.calls_advisory)
        .filter(|(other, other_group)| akin(own, group, other, other_group))
        .filter(|(other, _)| !queues.contains(&other.pid))
        .map(|(other, _)| other.pid)
        .take(MOST_COMPANIONS)
        .collect();
    found.sort_unstable();
    found
}

/// The same application group; where one of the groups is empty, the same client address instead.
fn akin(own: &Backend, group: &str, other: &Backend, other_group: &str) -> bool {
    if group.is_empty() || other_group.is_empty() { own.client_addr == other.client_addr } else { group == other_group }
}

fn works(context: &Context<'_>, backend: &Backend) -> bool {
    match backend.state {
        Some(BackendState::Idle) => backend
            .state_change
            .is_some_and(|change| age(context.observed.snapshot.sampled_at, change) < context.thresholds.idle),
        Some(BackendState::Disabled) | None => false,
        Some(_) => true,
    }
}
