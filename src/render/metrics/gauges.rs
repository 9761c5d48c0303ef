//! What the last Report shows. After a failed poll, and after silence, only `up` is left: no old value is served as if
//! it were fresh.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::applications::Applications;
use super::families::{Families, Family, Type, Value};
use super::labels::{OTHER, POOLED, database, declared_name, name, text};
use crate::analysis::report::{LockReport, PoolReport, ServerReport, Severity, TargetReport};
use crate::model::Pid;
use crate::rules;

/// The labels of series about leaks.
const LEAK: [&str; 3] = ["datname", "application_name", "lock"];

/// The families that one Report fills: always the same ones in the same order.
pub(super) fn rows(report: &TargetReport, applications: &Applications, clients: bool) -> Families {
    let rows = Rows { report, applications };
    let mut families = Families::default();
    rows.add_server(&mut families);
    rows.add_locks(&mut families);
    rows.add_waits(&mut families);
    rows.add_findings(&mut families);
    rows.add_leases(&mut families);
    rows.add_pools(&mut families, clients);
    families
}

/// Nearly always a text of the report as it is.
type Label<'a> = Cow<'a, str>;

struct Rows<'a> {
    report: &'a TargetReport,
    applications: &'a Applications,
}

impl<'a> Rows<'a> {
    /// Database, application group and name, as the series about leaks have them. Behind a pooler whose clients take
    /// turns the application is the last borrower's: it is not named.
    fn leak_labels<'b>(&self, lock: &'b LockReport) -> [Label<'b>; 3] {
        let pooled = lock.holder.pooler.as_ref().is_some_and(|pooler| pooler.pool_mode.is_shared());
        let application = if pooled { POOLED.into() } else { self.applications.label(&lock.holder.application_group) };
        [database(lock), application, name(lock)]
    }

    /// How many locks of this kind there are with the same labels.
    fn count<const N: usize>(
        &self,
        counted: impl Fn(&LockReport) -> bool,
        labels: impl Fn(&'a LockReport) -> [Label<'a>; N],
    ) -> BTreeMap<[Label<'a>; N], u64> {
        let mut rows = BTreeMap::new();
        for lock in self.report.locks.iter().filter(|lock| counted(lock)) {
            *rows.entry(labels(lock)).or_default() += 1;
        }
        rows
    }

    fn add_server(&self, families: &mut Families) {
        let mut gauge = |name, help, value: &dyn Fn(&ServerReport) -> Value| {
            let family: &mut Family = families.add(name, help, Type::Gauge);
            if let Some(server) = &self.report.server {
                family.row(&[], value(server));
            }
        };
        gauge(
            "pglockwatch_sees_all_sessions",
            "Whether our role sees the state of all sessions (0: judged blind, grant pg_monitor)",
            &|server| u64::from(server.sees_all_sessions).into(),
        );
        gauge("pglockwatch_hidden_holders", "Holders of advisory locks whose state we may not see", &|server| {
            (server.hidden_holders as u64).into()
        });
        gauge("pglockwatch_in_recovery", "Whether the server is a standby", &|server| {
            u64::from(server.in_recovery).into()
        });
        gauge(
            "pglockwatch_server_start_time_seconds",
            "When the server started, by its own clock, since 1970",
            &|server| (server.started_at.timestamp_micros() as f64 / 1e6).into(),
        );
        gauge(
            "pglockwatch_lock_table_ratio",
            "Advisory locks against the nominal size of the shared lock table (may go over 1)",
            &|server| server.lock_table_ratio.into(),
        );
    }

    fn add_locks(&self, families: &mut Families) {
        let labels = |lock: &'a LockReport| {
            let state = match lock.holder.pid {
                Some(_) => lock.holder.state.unwrap_or("hidden"),
                None => "prepared",
            };
            let [mode, scope, state] = [lock.mode.name(), lock.past.scope.name(), state].map(Cow::Borrowed);
            [database(lock), name(lock), mode, scope, state]
        };
        families.add("pglockwatch_locks", "Granted advisory locks, by the state of their holder", Type::Gauge).table(
            ["datname", "lock", "mode", "scope", "state"],
            self.count(|_| true, labels),
            false,
        );
        families
            .add(
                "pglockwatch_idle_held_locks",
                "Advisory locks held by sessions that have been idle for the idle threshold or longer",
                Type::Gauge,
            )
            .table(LEAK, self.count(|lock| lock.holder.long_idle, |lock| self.leak_labels(lock)), true);
        families
            .add(
                "pglockwatch_idle_holder_max_seconds",
                "How long the session that has been idle longest with an advisory lock has been idle",
                Type::Gauge,
            )
            .table(LEAK, self.longest_idle(), false);
        let carried = |lock: &LockReport| lock.rules.contains(&"carried-lock");
        families
            .add(
                "pglockwatch_carried_locks",
                "Advisory locks that were carried over other work by busy sessions",
                Type::Gauge,
            )
            .table(LEAK, self.count(carried, |lock| self.leak_labels(lock)), true);
        let prepared = |lock: &LockReport| lock.holder.pid.is_none() && lock.holder.gid.is_some();
        families
            .add("pglockwatch_prepared_held_locks", "Advisory locks held by prepared transactions", Type::Gauge)
            .table(["datname"], self.count(prepared, |lock| [database(lock)]), true);
        families
            .add(
                "pglockwatch_holders",
                "Sessions and prepared transactions that hold a lock with a declared name",
                Type::Gauge,
            )
            .table(["datname", "lock"], self.holders(), false);
    }

    fn longest_idle(&self) -> BTreeMap<[Label<'a>; 3], f64> {
        let mut rows: BTreeMap<[Label<'a>; 3], f64> = BTreeMap::new();
        for lock in self.report.locks.iter().filter(|lock| lock.holder.state == Some("idle")) {
            let idle = lock.holder.state_for.unwrap_or_default().as_secs_f64();
            let row = rows.entry(self.leak_labels(lock)).or_default();
            *row = row.max(idle);
        }
        rows
    }

    fn holders(&self) -> BTreeMap<[Label<'a>; 2], u64> {
        let mut who: BTreeMap<[Label<'a>; 2], BTreeSet<_>> = BTreeMap::new();
        for lock in &self.report.locks {
            if let Some(declared) = declared_name(lock) {
                let row = who.entry([database(lock), declared]).or_default();
                row.insert((lock.holder.pid, lock.holder.gid.as_deref()));
            }
        }
        who.into_iter().map(|(labels, who)| (labels, who.len() as u64)).collect()
    }

    fn add_waits(&self, families: &mut Families) {
        let waits = self.waits();
        let waiters = waits.iter().map(|(labels, (count, _))| (labels.clone(), *count)).collect();
        families.add("pglockwatch_waiters", "Sessions that wait for an advisory lock", Type::Gauge).table(
            ["datname", "lock"],
            waiters,
            true,
        );
        let longest = waits.into_iter().map(|(labels, (_, waited))| (labels, waited.as_secs_f64())).collect();
        families
            .add(
                "pglockwatch_longest_wait_seconds",
                "How long the session that has waited longest for an advisory lock has waited",
                Type::Gauge,
            )
            .table(["datname", "lock"], longest, true);
    }

    /// How many wait for each name, and how long the longest. A session waits for one lock at a time, but it stands at
    /// each holder of a shared lock. Who queues behind another waiter only, the lock being free at that instant,
    /// stands at none.
    fn waits(&self) -> BTreeMap<[Label<'a>; 2], (u64, Duration)> {
        let mut rows: BTreeMap<[Label<'a>; 2], (u64, Duration)> = BTreeMap::new();
        let mut seen: BTreeSet<Pid> = BTreeSet::new();
        let mut count = |pid: Pid, labels: &dyn Fn() -> [Label<'a>; 2], waited: Duration| {
            if seen.insert(pid) {
                let row = rows.entry(labels()).or_default();
                *row = (row.0 + 1, row.1.max(waited));
            }
        };
        for lock in &self.report.locks {
            for waiter in &lock.waiters {
                count(waiter.pid, &|| [database(lock), name(lock)], waiter.waited.duration);
            }
        }
        for wait in self.report.waits.iter().filter(|wait| wait.advisory) {
            count(wait.pid, &|| [Cow::Borrowed(""), Cow::Borrowed(OTHER)], wait.waited.duration);
        }
        rows
    }

    fn add_findings(&self, families: &mut Families) {
        let findings = families.add("pglockwatch_findings", "What is wrong now, by rule and severity", Type::Gauge);
        let mut counts: HashMap<(&str, Severity), u64> = HashMap::new();
        for finding in self.report.findings.iter().filter(|finding| finding.silenced.is_none()) {
            *counts.entry((finding.rule, finding.severity)).or_default() += 1;
        }
        for rule in rules::ALL {
            for severity in Severity::WORST_FIRST {
                let count = counts.get(&(rule.name(), severity)).copied().unwrap_or_default();
                findings.row(&[("rule", rule.name()), ("severity", severity.name())], count);
            }
        }
        let mut silenced: BTreeMap<[String; 1], u64> = BTreeMap::new();
        for finding in self.report.findings.iter().filter(|finding| finding.silenced.is_some()) {
            *silenced.entry([finding.rule.to_owned()]).or_default() += 1;
        }
        families
            .add(
                "pglockwatch_silenced_findings",
                "Findings that a silence of the dictionary covers, by rule",
                Type::Gauge,
            )
            .table(["rule"], silenced, true);
    }

    fn add_leases(&self, families: &mut Families) {
        let mut rows: BTreeMap<[String; 2], u64> = BTreeMap::new();
        // Of a table that could not be read nothing is known, not even that there is none.
        for table in self.report.leases.iter().filter(|table| table.problem.is_none()) {
            rows.insert([table.database.clone().unwrap_or_default(), table.lease.clone()], table.overdue);
        }
        let nothing = self.report.leases.is_empty();
        families
            .add(
                "pglockwatch_leases_overdue",
                "Rows of a lease table that are past their expiry for the wait threshold or longer",
                Type::Gauge,
            )
            .table(["datname", "lease"], rows, nothing);
    }

    fn add_pools(&self, families: &mut Families, clients: bool) {
        let mut add = |name, help, number: &dyn Fn(&PoolReport) -> usize| {
            let mut rows: BTreeMap<[Label<'_>; 4], u64> = BTreeMap::new();
            for pool in &self.report.pools {
                let client = pool.client_addr.as_deref().filter(|_| clients).unwrap_or_default().into();
                let application = self.applications.label(&pool.application);
                let [database, user] = [&pool.database, &pool.user].map(|name| text(name.as_deref()));
                *rows.entry([database, user, application, client]).or_default() += number(pool) as u64;
            }
            let family = families.add(name, help, Type::Gauge);
            for (labels, value) in rows {
                let names = ["datname", "usename", "application_name", "client_addr"];
                let shown = if clients { 4 } else { 3 };
                let labels: Vec<(&str, &str)> = names.into_iter().zip(labels.iter().map(AsRef::as_ref)).collect();
                family.row(&labels[..shown], value);
            }
        };
        add("pglockwatch_pool_sessions", "Sessions of a client pool", &|pool| pool.sessions);
        add("pglockwatch_pool_lock_sessions", "Sessions of a client pool that hold an advisory lock", &|pool| {
            pool.holding
        });
    }
}
