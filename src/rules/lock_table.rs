//! `lock-table-pressure` and `lock-table-full`: the shared lock table, and who takes most of it.

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::analysis::{Hold, HolderRef};

/// Advisory locks are at least as many as the table's nominal size.
#[derive(Debug)]
pub struct LockTablePressure;

/// The server answered 53200: no place is left.
#[derive(Debug)]
pub struct LockTableFull;

impl Rule for LockTablePressure {
    fn name(&self) -> &'static str {
        "lock-table-pressure"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let slots = context.observed.snapshot.server.nominal_lock_slots();
        let locks = context.observed.holds.len() as u64;
        if slots == 0 || locks < slots || context.observed.snapshot.lock_table_full {
            return Vec::new();
        }
        let mut draft = draft(context, self.name(), Severity::Warning);
        draft.summary = format!(
            "{locks} advisory locks are held; the lock table is made for {slots} locks of all kinds{}.",
            hog(context)
        );
        draft.detail.push(
            "The table can grow over its nominal size until spare shared memory is used up; then no session gets a \
             lock and no new session can log in."
                .to_owned(),
        );
        vec![draft]
    }
}

impl Rule for LockTableFull {
    fn name(&self) -> &'static str {
        "lock-table-full"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        if !context.observed.snapshot.lock_table_full {
            return Vec::new();
        }
        let mut draft = draft(context, self.name(), Severity::Critical);
        draft.summary =
            format!("The shared lock table is full: the server answers \"out of shared memory\"{}.", hog(context));
        draft.detail.push("New logins fail, and so does every statement that needs one more lock.".to_owned());
        vec![draft]
    }
}

/// The session with the most advisory locks, and how many.
fn most<'a>(context: &Context<'a>) -> Option<(HolderRef, Vec<&'a Hold>)> {
    let observed = context.observed;
    let holder = observed.holders().max_by_key(|holder| observed.places_of(*holder).len())?;
    Some((holder, observed.holds_of(holder).collect()))
}

fn hog(context: &Context<'_>) -> String {
    most(context).map_or_else(String::new, |(holder, holds)| {
        format!("; {} holds {}", words::holder_label(context, holder), words::count(holds.len(), "lock", "locks"))
    })
}

fn draft(context: &Context<'_>, rule: &'static str, severity: Severity) -> Draft {
    let draft = Draft::new(rule, Subject::Target, severity, Action::Investigate);
    match most(context) {
        Some((holder, holds)) => draft.with_holder(context, holder).with_holds(&holds),
        None => draft,
    }
}
