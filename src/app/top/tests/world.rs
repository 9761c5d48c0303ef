//! A screen with targets, and what happens to it.

use std::sync::Arc;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::analysis::report::{
    Action, Failure, FailureKind, Finding, HolderReport, LeaseReport, LeaseSubject, LeaseTableReport, LockReport,
    PoolReport, ReportedKeys, Severity, TargetReport, WaitReport, Waited,
};
use crate::app::top::event::{Effect, Event, Key};
use crate::app::top::state::{Declared, State, Target};
use crate::app::top::theme::Theme;
use crate::app::top::view;
use crate::model::Pid;
use crate::render::{fixture, style};

pub const SQL: &str = "SELECT CASE WHEN a.state = 'idle'\n  THEN pg_terminate_backend(a.pid)::text\n  ELSE 'nothing done'\nEND\nFROM pg_stat_activity a WHERE a.pid = 4711;";

/// A screen and its clock.
pub struct World {
    pub state: State,
    pub now: Duration,
}

impl World {
    /// One target, `primary`, that has not answered.
    pub fn new(size: (u16, u16)) -> Self {
        Self::of(&["primary"], size)
    }

    pub fn of(names: &[&str], size: (u16, u16)) -> Self {
        let declared = vec![Declared {
            name: "billing-close".to_owned(),
            keys: "77".to_owned(),
            kind: "job",
            facts: vec!["owner billing".to_owned()],
        }];
        let interval = Duration::from_secs(2);
        let targets = names.iter().map(|name| Target::new((*name).to_owned(), interval, declared.clone())).collect();
        Self { state: State::new(targets, interval, size), now: Duration::ZERO }
    }

    /// The example, shown for a while.
    pub fn example(size: (u16, u16)) -> Self {
        let mut world = Self::new(size);
        world.report(0, example());
        world
    }

    pub fn pass(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self.event(Event::Tick);
        self
    }

    pub fn event(&mut self, event: Event) -> Vec<Effect> {
        self.state.update(self.now, event)
    }

    pub fn key(&mut self, key: Key) -> Vec<Effect> {
        self.event(Event::Key(key))
    }

    pub fn keys(&mut self, typed: &str) -> &mut Self {
        for c in typed.chars() {
            self.key(Key::Char(c));
        }
        self
    }

    pub fn report(&mut self, target: usize, report: TargetReport) -> &mut Self {
        self.event(Event::Report { target, report: Arc::new(report), stretched_to: None });
        self
    }

    pub fn fail(&mut self, target: usize, retry_in: u64) -> &mut Self {
        let failure = Failure {
            kind: FailureKind::Connect,
            message: "cannot connect to 10.0.0.5:5432 (primary): connection refused".to_owned(),
            hints: vec!["Is PostgreSQL running there, and does it listen on that address?".to_owned()],
        };
        self.event(Event::Failed { target, failure, retry_in: Duration::from_secs(retry_in) });
        self
    }

    /// The screen as text, without blanks at the ends of lines.
    pub fn screen(&self) -> String {
        screen_in(&self.state, Theme { color: false })
    }
}

pub fn screen_in(state: &State, theme: Theme) -> String {
    let mut terminal = Terminal::new(TestBackend::new(state.size.0, state.size.1)).unwrap();
    terminal.draw(|frame| view::draw(state, theme, frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..state.size.1 {
        let mut line = String::new();
        let mut x = 0;
        while x < state.size.0 {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character hides the cell behind it.
            x += u16::try_from(style::width(symbol)).unwrap().max(1);
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

pub fn wait(pid: Pid, seconds: u64, object: &str, blocked_by: &[Pid], roots: &[Pid]) -> WaitReport {
    WaitReport {
        pid,
        object: object.to_owned(),
        advisory: object.parse::<i64>().is_ok(),
        mode: "ExclusiveLock",
        waited: Waited { duration: Duration::from_secs(seconds), ..Waited::default() },
        blocked_by: blocked_by.to_vec(),
        roots: roots.to_vec(),
    }
}

fn pool(application: &str, [sessions, active, idle, in_transaction, holding, waiting]: [usize; 6]) -> PoolReport {
    PoolReport {
        database: Some("app".into()),
        user: Some("app".into()),
        application: application.into(),
        client_addr: Some("10.0.0.7".into()),
        sessions,
        active,
        idle,
        idle_in_transaction: in_transaction,
        holding,
        waiting,
    }
}

pub fn expected(pid: Pid) -> LockReport {
    let holder = HolderReport { client_addr: None, ..fixture::holder(pid, "scheduler") };
    let mut lock = fixture::lock(fixture::key(28_319, Some("scheduler-leader")), holder, &[]);
    lock.hold_expected = true;
    lock
}

/// Two findings, a tree, three pools, a lock that is held on purpose and one with a long name in wide characters.
pub fn example() -> TargetReport {
    let mut report = fixture::example();
    let wide = "表".repeat(30);
    report.locks.push(expected(4100));
    report.locks.push(fixture::lock(fixture::key(-5, Some(&wide)), fixture::holder(4200, &wide), &[]));
    report.waits = vec![
        wait(4990, 178, "8675309", &[4711], &[4711]),
        wait(5012, 62, "8675309", &[4711, 4990], &[4711]),
        wait(5100, 3, "relation", &[4990], &[4711]),
    ];
    report.pools = vec![
        pool("api", [10, 2, 7, 1, 1, 1]),
        pool("migrator", [2, 2, 0, 0, 0, 2]),
        pool("report-worker", [1, 0, 1, 0, 1, 0]),
    ];
    report.findings[0].severity = Severity::Critical;
    report.findings[0].advice.action = Action::Terminate;
    report.findings[0].advice.sql = Some(SQL.to_owned());
    report.findings[0].advice.steps =
        vec!["Ask #platform-oncall whether a migration is running.".to_owned(), "Run the statement.".to_owned()];
    report.findings[0].advice.caveats = vec!["Pid 4990 gets the lock next.".to_owned()];
    report.findings[1].id = "77aa".to_owned();
    report
}

/// The example after the leak was freed: the first waiter has the lock.
pub fn freed() -> TargetReport {
    let mut report = example();
    report.findings.remove(0);
    report.locks[0].holder = fixture::holder(4990, "migrator").into();
    report.locks[0].waiters = report.locks[0].waiters.iter().skip(1).cloned().collect();
    report.locks[0].rules = [].into();
    report.waits = vec![wait(5012, 63, "8675309", &[4990], &[4990])];
    report.sampled_at = report.sampled_at.map(|at| at + Duration::from_secs(2));
    report.counts.waiters = 1;
    report
}

pub fn lease(name: &str, holder: Option<&str>, expires: i64) -> LeaseReport {
    let seconds = Duration::from_secs(expires.unsigned_abs());
    LeaseReport {
        name: Some(name.to_owned()),
        holder: holder.map(str::to_owned),
        taken: Some(fixture::time() - Duration::from_secs(300)),
        held_for: Some(Duration::from_secs(300)),
        expires: Some(if expires > 0 { fixture::time() + seconds } else { fixture::time() - seconds }),
        expires_in: (expires > 0).then_some(seconds),
        expired_for: (expires <= 0).then_some(seconds),
        overdue: expires <= -10,
    }
}

pub fn lease_table(name: &str, leases: Vec<LeaseReport>) -> LeaseTableReport {
    LeaseTableReport {
        lease: name.to_owned(),
        table: "public.leases".to_owned(),
        database: Some("app".to_owned()),
        problem: None,
        total: leases.len() as u64,
        overdue: leases.iter().filter(|lease| lease.overdue).count() as u64,
        leases,
    }
}

/// The example beside a table with an overdue lease, and one that cannot be read.
pub fn with_leases() -> TargetReport {
    let mut report = example();
    let never = LeaseReport { expires: None, expires_in: None, ..lease("registry", Some("node-1"), 1) };
    let leases = vec![lease("nightly", Some("worker-7"), -95), lease("hourly", Some("worker-3"), 200), never];
    let closed = LeaseTableReport {
        database: None,
        problem: Some("The lease table ops.jobs (jobs) cannot be read: permission denied for table jobs.".to_owned()),
        table: "ops.jobs".to_owned(),
        ..lease_table("jobs", Vec::new())
    };
    report.leases = vec![lease_table("work", leases), closed];
    let finding = |lease: &str, row: Option<(&str, &str)>, severity, summary: &str| Finding {
        lease: Some(LeaseSubject {
            lease: lease.to_owned(),
            row: row.map(|(name, holder)| (name.to_owned(), holder.to_owned())),
        }),
        id: format!("lease of {lease}"),
        summary: summary.to_owned(),
        detail: Vec::new(),
        key_reports: ReportedKeys::default(),
        key_count: 0,
        pids: Vec::new(),
        waiters: Vec::new(),
        longest_wait: None,
        held: None,
        ..fixture::finding("lease-overdue", severity, &report.locks[1])
    };
    let late = "The lease \"nightly\" of \"worker-7\" in public.leases (work) ran out 1m35s ago.";
    let mut late = finding("work", Some(("nightly", "worker-7")), Severity::Warning, late);
    late.advice.steps = vec!["Find out whether \"worker-7\" still runs: an expiry ends no process.".to_owned()];
    let closed = "The lease table ops.jobs (jobs) cannot be read: permission denied for table jobs.";
    let mut closed = finding("jobs", None, Severity::Unknown, closed);
    closed.advice.sql = Some("GRANT SELECT ON ops.jobs TO mon;".to_owned());
    report.findings.extend([late, closed]);
    report
}
