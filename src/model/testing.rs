//! Snapshots made by hand, for the unit tests of whatever decides.

use std::time::Duration;

use chrono::TimeDelta;

use super::{
    AdvisoryKey, Backend, BackendState, KeyNumbers, LockMode, LockObject, LockOwner, LockRow, Locks, Pid,
    PreparedTransaction, Server, Snapshot, Time, VirtualTransaction,
};

/// The database that all keys of these tests are in.
pub(crate) const DATABASE: u32 = 16_384;

/// A moment so many seconds after the tests' beginning of time.
pub(crate) fn at(seconds: f64) -> Time {
    Time::from_timestamp(1_800_000_000, 0).unwrap()
        + TimeDelta::from_std(Duration::from_secs_f64(seconds + 10_000.0)).unwrap()
}

/// A bigint key.
pub(crate) fn key(value: u32) -> AdvisoryKey {
    AdvisoryKey { database: DATABASE, numbers: KeyNumbers { classid: 0, objid: value, objsubid: 1 } }
}

/// A server to which things happen, and which can be polled.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// What a poll shows.
    pub(crate) snapshot: Snapshot,
    now: f64,
}

impl World {
    /// A quiet server of PostgreSQL 15.
    pub(crate) fn new() -> Self {
        let server = Server {
            version: "15.18".to_owned(),
            version_num: 150_018,
            in_recovery: false,
            started_at: at(-5_000.0),
            role: "mon".to_owned(),
            sees_all_sessions: true,
            can_signal: true,
            max_connections: 100,
            max_locks_per_transaction: 64,
            max_prepared_transactions: 0,
            databases: vec![(DATABASE, "app".into())],
        };
        let snapshot = Snapshot {
            before_locks: at(0.0),
            sampled_at: at(0.0),
            monotonic: Duration::ZERO,
            poll_duration: Duration::from_millis(2),
            locks: Locks::default(),
            backends: Vec::new(),
            prepared: Vec::new(),
            server,
            own_pid: 1,
            behind_pooler: false,
            poolers: Vec::new(),
            lock_table_full: false,
            leases: Vec::new(),
        };
        Self { snapshot, now: 0.0 }
    }

    /// Lets time pass to this second.
    pub(crate) fn to(&mut self, seconds: f64) -> &mut Self {
        self.now = seconds;
        self
    }

    /// A session that connected long ago and is idle since now.
    pub(crate) fn connect(&mut self, pid: Pid, application: &str) -> &mut Self {
        self.snapshot.backends.push(Backend {
            pid,
            leader_pid: None,
            backend_type: "client backend".into(),
            datid: Some(DATABASE),
            database: Some("app".into()),
            user: Some("app".into()),
            application: application.into(),
            client_addr: Some("10.0.0.7".into()),
            client_port: Some(50_000 + pid),
            backend_start: Some(at(-1_000.0 + f64::from(pid) / 1_000.0)),
            xact_start: None,
            query_start: Some(at(self.now)),
            state_change: Some(at(self.now)),
            state: Some(BackendState::Idle),
            has_written: false,
            query: Some("SELECT 1".into()),
            calls_advisory: false,
            calls_session_advisory: false,
            lent_to_us: false,
        });
        self
    }

    /// The session, to be changed.
    pub(crate) fn backend(&mut self, pid: Pid) -> &mut Backend {
        self.snapshot.backends.iter_mut().find(|backend| backend.pid == pid).unwrap()
    }

    /// The session begins a statement of its own transaction.
    pub(crate) fn begin(&mut self, pid: Pid, query: &str) -> &mut Self {
        let now = at(self.now);
        let backend = self.backend(pid);
        backend.query = Some(query.into());
        backend.calls_advisory = query.contains("advisory");
        backend.calls_session_advisory = query.contains("advisory_lock");
        backend.state = Some(BackendState::Active);
        backend.query_start = Some(now);
        backend.state_change = Some(now);
        backend.xact_start = Some(now);
        self.local(pid, 7)
    }

    /// The session's statement and transaction end.
    pub(crate) fn end(&mut self, pid: Pid) -> &mut Self {
        let now = at(self.now);
        let backend = self.backend(pid);
        backend.state = Some(BackendState::Idle);
        backend.state_change = Some(now);
        backend.xact_start = None;
        self.local(pid, 0)
    }

    /// One whole statement, done at once.
    pub(crate) fn run(&mut self, pid: Pid, query: &str) -> &mut Self {
        self.begin(pid, query).end(pid)
    }

    fn local(&mut self, pid: Pid, local: u32) -> &mut Self {
        self.each_row(|row| {
            if row.owner == LockOwner::Backend(pid) {
                row.virtualtransaction.local = local;
            }
        })
    }

    /// Changes the rows of locks.
    pub(crate) fn each_row(&mut self, change: impl Fn(&mut LockRow)) -> &mut Self {
        let changed = self.snapshot.locks.rows().map(|mut row| {
            change(&mut row);
            row
        });
        self.snapshot.locks = changed.collect();
        self
    }

    fn row(&mut self, pid: Pid, object: LockObject, mode: LockMode, granted: bool, waitstart: Option<Time>) {
        let idle = self.backend(pid).state == Some(BackendState::Idle);
        self.snapshot.locks.push(LockRow {
            object,
            mode,
            granted,
            owner: LockOwner::Backend(pid),
            virtualtransaction: VirtualTransaction { backend: pid, local: if idle { 0 } else { 7 } },
            waitstart,
        });
    }

    /// The session holds the key in this mode.
    pub(crate) fn hold_in(&mut self, pid: Pid, key: AdvisoryKey, mode: LockMode) -> &mut Self {
        self.row(pid, LockObject::Advisory(key), mode, true, None);
        self
    }

    /// The session holds the key.
    pub(crate) fn hold(&mut self, pid: Pid, key: AdvisoryKey) -> &mut Self {
        self.hold_in(pid, key, LockMode::Exclusive)
    }

    /// The session begins to wait for the key in this mode.
    pub(crate) fn wait_in(&mut self, pid: Pid, key: AdvisoryKey, mode: LockMode) -> &mut Self {
        self.begin(pid, "SELECT pg_advisory_lock(1)");
        let since = Some(at(self.now));
        self.row(pid, LockObject::Advisory(key), mode, false, since);
        self
    }

    /// The session begins to wait for the key.
    pub(crate) fn wait(&mut self, pid: Pid, key: AdvisoryKey) -> &mut Self {
        self.wait_in(pid, key, LockMode::Exclusive)
    }

    /// The session holds a table's lock.
    pub(crate) fn hold_table(&mut self, pid: Pid, table: &str) -> &mut Self {
        self.row(pid, relation(table), LockMode::AccessExclusive, true, None);
        self
    }

    /// The session begins to wait for a table's lock.
    pub(crate) fn wait_table(&mut self, pid: Pid, table: &str) -> &mut Self {
        self.begin(pid, "ALTER TABLE t ADD COLUMN c int");
        let since = Some(at(self.now));
        self.row(pid, relation(table), LockMode::AccessExclusive, false, since);
        self
    }

    /// A transaction was prepared now and holds the key.
    pub(crate) fn prepare(&mut self, slot: i32, gid: &str, key: AdvisoryKey) -> &mut Self {
        let virtualtransaction = VirtualTransaction { backend: -1, local: slot.cast_unsigned() };
        self.snapshot.prepared.push(PreparedTransaction {
            transaction: 700 + slot.cast_unsigned(),
            virtualtransaction,
            gid: gid.to_owned(),
            prepared: at(self.now),
            owner: "app".to_owned(),
            database: "app".to_owned(),
        });
        self.snapshot.locks.push(LockRow {
            object: LockObject::Advisory(key),
            mode: LockMode::Exclusive,
            granted: true,
            owner: LockOwner::Prepared(virtualtransaction),
            virtualtransaction,
            waitstart: None,
        });
        self
    }

    /// All rows of the session go.
    pub(crate) fn release(&mut self, pid: Pid) -> &mut Self {
        self.snapshot.locks.retain_owners(|owner| owner != LockOwner::Backend(pid));
        self
    }

    /// One poll.
    pub(crate) fn poll(&mut self) -> Snapshot {
        self.snapshot.before_locks = at(self.now);
        self.snapshot.sampled_at = at(self.now + 0.001);
        self.snapshot.monotonic = Duration::from_secs_f64(100_000.0 + self.now);
        self.snapshot.clone()
    }
}

fn relation(table: &str) -> LockObject {
    LockObject::Other { locktype: "relation".to_owned(), identity: table.to_owned() }
}
