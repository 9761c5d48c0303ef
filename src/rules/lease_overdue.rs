//! `lease-overdue`: a row of a lease table that the config names is past its expiry. And a lease table that cannot be
//! read, for blind is not clean.

use std::time::Duration;

use super::{Context, Draft, Rule, Subject, words};
use crate::analysis::report::{Action, Severity};
use crate::model::{Lease, LeaseRead, Leases, age};

/// So many leases of a table are findings of their own; the others share one.
const ONE_BY_ONE: usize = 20;

/// See the module.
#[derive(Debug)]
pub struct LeaseOverdue;

/// How long a lease is past its expiry; nothing where it is not, or never expires.
pub fn expired_for(leases: &Leases, lease: &Lease) -> Option<Duration> {
    lease.expires.filter(|expires| *expires <= leases.at).map(|expires| age(leases.at, expires))
}

/// Whether a lease has been past its expiry for this long.
pub fn is_overdue(leases: &Leases, lease: &Lease, wait: Duration) -> bool {
    expired_for(leases, lease).is_some_and(|expired| expired >= wait)
}

impl Rule for LeaseOverdue {
    fn name(&self) -> &'static str {
        "lease-overdue"
    }

    fn judge(&self, context: &Context<'_>, _before: &[Draft]) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for read in &context.observed.snapshot.leases {
            match &read.outcome {
                Ok(leases) => drafts.extend(self.overdue(context, read, leases)),
                Err(problem) => {
                    let action = if problem.grant.is_some() { Action::Grant } else { Action::Investigate };
                    let mut draft = self.draft(read, None, Severity::Unknown, action);
                    draft.summary = format!("The lease table {} ({}) {}.", read.table, read.lease, problem.what);
                    draft.detail.push(problem.hint.clone());
                    drafts.push(draft);
                }
            }
        }
        drafts
    }
}

impl LeaseOverdue {
    fn draft(&self, read: &LeaseRead, row: Option<(String, String)>, severity: Severity, action: Action) -> Draft {
        let subject = Subject::Lease { lease: read.lease.clone(), row };
        Draft::new(self.name(), subject, severity, action)
    }

    fn overdue(&self, context: &Context<'_>, read: &LeaseRead, leases: &Leases) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
        let overdue = leases.rows.iter().filter(|lease| is_overdue(leases, lease, context.thresholds.wait));
        for lease in overdue {
            if drafts.len() == ONE_BY_ONE {
                break;
            }
            let [name, holder] = [&lease.name, &lease.holder].map(|text| text.clone().unwrap_or_default());
            let mut draft = self.draft(read, Some((name.clone(), holder)), Severity::Warning, Action::Investigate);
            // Two rows that nobody can tell apart are one.
            if drafts.iter().any(|known| known.subject == draft.subject) {
                continue;
            }
            let expired = expired_for(leases, lease).unwrap_or_default();
            let who = lease.holder.as_ref().map_or_else(|| "nobody".to_owned(), |holder| format!("\"{holder}\""));
            draft.summary = format!(
                "The lease \"{name}\" of {who} in {} ({}) ran out {} ago.",
                read.table,
                read.lease,
                words::duration(expired)
            );
            if let Some(taken) = lease.taken {
                draft.detail.push(format!("It was taken {} ago.", words::duration(age(leases.at, taken))));
            }
            draft.detail.extend(assumed_zone(leases));
            drafts.push(draft);
        }
        let shown = u64::try_from(drafts.len()).unwrap_or(u64::MAX);
        if drafts.len() == ONE_BY_ONE && leases.overdue > shown {
            let mut rest = self.draft(read, None, Severity::Warning, Action::Investigate);
            rest.summary =
                format!("{} more leases in {} ({}) have run out.", leases.overdue - shown, read.table, read.lease);
            rest.detail.extend(assumed_zone(leases));
            drafts.push(rest);
        }
        drafts
    }
}

fn assumed_zone(leases: &Leases) -> Option<String> {
    leases.assumed_zone.as_ref().map(|zone| {
        format!("The expiry's column has no time zone: it was read in {zone}, the TimeZone of pglockwatch's session.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Observed;
    use crate::analysis::{Grouping, TargetNames, Thresholds, Tracker};
    use crate::keys::KeyBook;
    use crate::model::testing::{World, at};
    use crate::model::{LeaseProblem, Snapshot};

    fn lease(name: &str, expires: Option<f64>) -> Lease {
        Lease {
            name: Some(name.to_owned()),
            holder: Some("worker-1".to_owned()),
            expires: expires.map(at),
            taken: Some(at(-60.0)),
        }
    }

    fn read(rows: Vec<Lease>) -> LeaseRead {
        let total = rows.len() as u64;
        let overdue = rows.iter().filter(|lease| lease.expires.is_some_and(|expires| expires <= at(90.0))).count();
        let leases = Leases {
            database: "app".to_owned(),
            at: at(100.0),
            total,
            overdue: overdue as u64,
            assumed_zone: None,
            rows,
        };
        LeaseRead { lease: "work".to_owned(), table: "public.leases".to_owned(), outcome: Ok(leases) }
    }

    fn judge(read: LeaseRead) -> Vec<Draft> {
        let mut snapshot: Snapshot = World::new().snapshot;
        snapshot.leases = vec![read];
        let (book, grouping) = (KeyBook::new(&[]), Grouping::default());
        let names = TargetNames { target: "t", book: &book, grouping: &grouping };
        let observed: Observed = Tracker::default().observe(snapshot, names);
        let context =
            Context { observed: &observed, thresholds: &Thresholds::default(), book: &book, short_observation: true };
        LeaseOverdue.judge(&context, &[])
    }

    #[test]
    fn a_lease_is_overdue_from_the_threshold_on() {
        let drafts = judge(read(vec![
            lease("long past", Some(10.0)),
            lease("just so", Some(90.0)),
            lease("not yet", Some(90.5)),
            lease("to come", Some(110.0)),
            lease("never", None),
        ]));
        let summaries: Vec<&str> = drafts.iter().map(|draft| draft.summary.as_str()).collect();
        assert_eq!(
            summaries,
            [
                "The lease \"long past\" of \"worker-1\" in public.leases (work) ran out 1m30s ago.",
                "The lease \"just so\" of \"worker-1\" in public.leases (work) ran out 10s ago.",
            ]
        );
        assert!(drafts.iter().all(|draft| draft.severity == Severity::Warning));
    }

    #[test]
    fn many_are_told_in_one_sentence_and_equal_ones_once() {
        let rows = (0..50).map(|number| lease(&format!("row {number}"), Some(f64::from(number)))).collect();
        let drafts = judge(read(rows));
        assert_eq!(drafts.len(), ONE_BY_ONE + 1);
        assert!(drafts[ONE_BY_ONE].summary.starts_with("30 more leases in public.leases"));
        assert_eq!(judge(read(vec![lease("a", Some(1.0)), lease("a", Some(2.0))])).len(), 1);
    }

    #[test]
    fn a_table_that_cannot_be_read_is_not_clean() {
        let problem = LeaseProblem { what: "cannot be read: x".to_owned(), hint: "Do y.".to_owned(), grant: None };
        let drafts = judge(LeaseRead { outcome: Err(problem), ..read(Vec::new()) });
        assert_eq!(drafts[0].summary, "The lease table public.leases (work) cannot be read: x.");
        assert_eq!((drafts[0].severity, drafts.len()), (Severity::Unknown, 1));
    }
}
