//! The rules: one file each. From [`Observed`](crate::analysis::Observed) to findings.
//!
//! Pure, like everything that decides. A rule says what is wrong and how bad; the wording of advice is in
//! [`advice`], who absorbs whom is here. To add a rule: its file, its line in [`ALL`], its page, a case.

mod aborted_transaction_holder;
pub mod advice;
mod blocked_waiters;
mod by_entry;
mod carried_lock;
pub mod companions;
mod draft;
mod hidden_deadlock;
mod hidden_sessions;
mod holder_count;
mod idle_holder;
mod idle_in_transaction_holder;
mod key_collision;
mod key_hoard;
pub mod lease_overdue;
mod lock_cycle;
mod lock_table;
mod overlong_hold;
pub mod pages;
mod pool_starved;
mod pooler_session_lock;
mod prepared_transaction_holder;
mod scope_violation;
mod shared_key;
mod standby_lock;
#[cfg(test)]
mod tests;
mod unexpected_holder;
pub mod words;

use crate::analysis::Numbered;
use crate::model::Pid;
pub use draft::{Context, Draft, Subject};
pub use hidden_sessions::hidden_holders;

/// One rule.
pub trait Rule: std::fmt::Debug + Sync {
    /// The name that users, scripts and Prometheus know it by.
    fn name(&self) -> &'static str;

    /// What it finds. `before` has the findings of the rules that stand before it in [`ALL`], absorbed or not.
    fn judge(&self, context: &Context<'_>, before: &[Draft]) -> Vec<Draft>;

    /// Whether a finding of this rule says all that the other one, of another rule, says, and more. Asked only of
    /// findings that name a session of this one first.
    fn absorbs(&self, _mine: &Draft, _other: &Draft) -> bool {
        false
    }
}

/// All rules, in the order in which they judge and absorb.
pub const ALL: &[&dyn Rule] = &[
    &idle_holder::IdleHolder,
    &idle_in_transaction_holder::IdleInTransactionHolder,
    &aborted_transaction_holder::AbortedTransactionHolder,
    &carried_lock::CarriedLock,
    &prepared_transaction_holder::PreparedTransactionHolder,
    &hidden_deadlock::HiddenDeadlock,
    &lock_cycle::LockCycle,
    &blocked_waiters::BlockedWaiters,
    &key_hoard::KeyHoard,
    &pool_starved::PoolStarved,
    &pooler_session_lock::PoolerSessionLock,
    &unexpected_holder::UnexpectedHolder,
    &scope_violation::ScopeViolation,
    &overlong_hold::OverlongHold,
    &holder_count::HolderCount,
    &key_collision::KeyCollision,
    &shared_key::SharedKey,
    &lock_table::LockTablePressure,
    &lock_table::LockTableFull,
    &hidden_sessions::HiddenSessions,
    &standby_lock::StandbyLock,
    &lease_overdue::LeaseOverdue,
];

/// The rules that judge one session by its state; a session gets at most one of them.
pub fn is_state_rule(name: &str) -> bool {
    matches!(name, "idle-holder" | "carried-lock" | "idle-in-transaction-holder" | "aborted-transaction-holder")
}

/// Judges by all rules and lets the more specific finding absorb the general one: one situation, one finding.
pub fn judge(context: &Context<'_>) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for rule in ALL {
        let found = rule.judge(context, &drafts);
        drafts.extend(found);
    }
    let mut absorbed = vec![false; drafts.len()];
    // Thousands of findings must not have each pair looked at.
    let mut by_session: Numbered<Pid, Vec<usize>> = Numbered::default();
    for (place, draft) in drafts.iter().enumerate() {
        by_session.entry(draft.pids.first().copied().unwrap_or_default()).or_default().push(place);
    }
    for rule in ALL {
        for mine in (0..drafts.len()).filter(|&place| drafts[place].rule == rule.name()).collect::<Vec<_>>() {
            let others = drafts[mine].pids.iter().filter_map(|pid| by_session.get(pid)).flatten();
            for other in others.copied().collect::<Vec<_>>() {
                let of_another = drafts[other].rule != rule.name();
                if absorbed[mine] || absorbed[other] || !of_another || !rule.absorbs(&drafts[mine], &drafts[other]) {
                    continue;
                }
                absorbed[other] = true;
                let (severity, waiters) = (drafts[other].severity, drafts[other].waiters.clone());
                let taker = &mut drafts[mine];
                taker.severity = taker.severity.max(severity);
                taker.waiters.extend(waiters);
                context.sort_waiters(&mut taker.waiters);
            }
        }
    }
    let mut absorbed = absorbed.into_iter();
    drafts.retain(|_| !absorbed.next().unwrap_or_default());
    drafts
}
