//! The load that benches share: made from one seed, so that each run has the same.

use std::fmt::Write as _;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use fastrand::Rng;
use pglockwatch::model::{
    AdvisoryKey, Backend, BackendState, KeyNumbers, LockMode, LockObject, LockOwner, LockRow, Pid, Server, Snapshot,
    Texts, Time, VirtualTransaction,
};

const SEED: u64 = 612_001;
const DATABASE: u32 = 16_384;

/// Locks per session.
pub const PER_SESSION: usize = 20;

/// One in so many sessions waits for a key that somebody holds.
pub const WAITERS: usize = 10;

/// A moment so many seconds after the load's beginning.
pub fn time(seconds: f64) -> Time {
    let offset = TimeDelta::from_std(Duration::from_secs_f64(seconds + 1e6)).unwrap_or_default();
    DateTime::from_timestamp(1_800_000_000, 0).unwrap_or_default() + offset
}

/// What poll number `poll` sees of so many locks: sessions with twenty each, two in three of them at rest, the others at
/// work, and sessions that wait. Twice the locks are twice of everything.
pub fn snapshot(locks: usize, poll: u32) -> Snapshot {
    let mut random = Rng::with_seed(SEED);
    let mut texts = Texts::default();
    let now = f64::from(poll) * 5.0;
    let sessions = locks.div_ceil(PER_SESSION);
    let mut rows = Vec::with_capacity(locks + sessions / WAITERS);
    let mut backends = Vec::with_capacity(sessions);
    let key = |number: usize| {
        let number = u64::try_from(number).unwrap_or_default().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let [high, low] = [number >> 32, number & 0xFFFF_FFFF].map(|half| u32::try_from(half).unwrap_or_default());
        AdvisoryKey { database: DATABASE, numbers: KeyNumbers { classid: high, objid: low, objsubid: 1 } }
    };
    let row = |pid: Pid, key: AdvisoryKey, granted: bool| LockRow {
        object: LockObject::Advisory(key),
        mode: LockMode::Exclusive,
        granted,
        owner: LockOwner::Backend(pid),
        virtualtransaction: VirtualTransaction { backend: pid, local: u32::from(!granted) },
        waitstart: (!granted).then(|| time(-30.0)),
    };
    for session in 0..sessions {
        let pid = Pid::try_from(session + 100).unwrap_or_default();
        let mut backend = backend(pid, session % 3 != 2, &mut random, &mut texts, now);
        let own = session * PER_SESSION..((session + 1) * PER_SESSION).min(locks);
        rows.extend(own.map(|number| row(pid, key(number), true)));
        if session % WAITERS == 1 {
            backend.state = Some(BackendState::Active);
            rows.push(row(pid, key((session - 1) * PER_SESSION), false));
        }
        backends.push(backend);
    }
    Snapshot {
        before_locks: time(now - 0.002),
        sampled_at: time(now),
        monotonic: Duration::from_secs_f64(now),
        poll_duration: Duration::from_millis(5),
        locks: rows.into_iter().collect(),
        backends,
        prepared: Vec::new(),
        server: server(),
        own_pid: 1,
        behind_pooler: false,
        poolers: Vec::new(),
        lock_table_full: false,
        leases: Vec::new(),
    }
}

/// One that has rested since long ago, or that began a statement just now.
fn backend(pid: Pid, rests: bool, random: &mut Rng, texts: &mut Texts, now: f64) -> Backend {
    let since = if rests { -f64::from(random.u16(..)) - 60.0 } else { now - 0.5 };
    Backend {
        pid,
        leader_pid: None,
        backend_type: texts.of("client backend"),
        datid: Some(DATABASE),
        database: Some(texts.of("app")),
        user: Some(texts.of("app")),
        application: texts.of(&format!("worker-{}", random.u8(..) % 40)),
        client_addr: Some(texts.of(&format!("10.0.{}.{}", random.u8(..) % 4, random.u8(..)))),
        client_port: Some(i32::from(random.u16(..))),
        backend_start: Some(time(-500_000.0 + f64::from(pid))),
        xact_start: None,
        query_start: Some(time(since)),
        state_change: Some(time(since)),
        state: Some(if rests { BackendState::Idle } else { BackendState::Active }),
        has_written: false,
        query: Some(
            format!("SELECT * FROM orders WHERE customer = {} ORDER BY placed_at DESC LIMIT 20", random.u32(..)).into(),
        ),
        calls_advisory: false,
        calls_session_advisory: false,
        lent_to_us: false,
    }
}

fn server() -> Server {
    Server {
        version: "15.18".to_owned(),
        version_num: 150_018,
        in_recovery: false,
        started_at: time(-900_000.0),
        role: "mon".to_owned(),
        sees_all_sessions: true,
        can_signal: true,
        max_connections: 10_000,
        max_locks_per_transaction: 64,
        max_prepared_transactions: 0,
        databases: vec![(DATABASE, "app".into())],
    }
}

/// A dictionary of so many entries with six fields each.
pub fn dictionary(entries: usize) -> String {
    let mut text = String::new();
    for number in 0..entries {
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "[[key]]\nname = \"job-{number}\"\nkey = {}\nowner = \"module-{}\"\nteam = \"team-{}\"\nkind = \"job\"\n\
             note = \"entry number {number}\"\n\n",
            number * 7 + 1,
            number % 97,
            number % 13,
        );
    }
    text
}
