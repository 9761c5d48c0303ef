//! Loads that are dear in one respect each, made of the sessions of the shared load.

use pglockwatch::model::{
    AdvisoryKey, Backend, BackendState, KeyNumbers, LockMode, LockObject, LockOwner, LockRow, Locks, Snapshot,
    VirtualTransaction,
};

use crate::load;

/// The shapes, each with a size and its double: the time should at most double.
pub const SHAPES: [(&str, Shape, [usize; 2]); 5] = [
    ("locks of 500 sessions", more_of_each, [10_000, 20_000]),
    ("sessions with ten locks each", tens, [1_000, 2_000]),
    ("locks in one session", hoard, [50_000, 100_000]),
    ("waiters for one key", queue, [500, 1_000]),
    ("prepared transactions", prepared, [500, 1_000]),
];

/// What a poll sees of a load of this size.
pub type Shape = fn(usize, u32) -> Snapshot;

fn key(number: usize) -> AdvisoryKey {
    let number = u32::try_from(number).unwrap_or_default();
    AdvisoryKey { database: 16_384, numbers: KeyNumbers { classid: 0, objid: number, objsubid: 1 } }
}

fn row(owner: LockOwner, number: usize, granted: bool) -> LockRow {
    LockRow {
        object: LockObject::Advisory(key(number)),
        mode: LockMode::Exclusive,
        granted,
        owner,
        virtualtransaction: VirtualTransaction { backend: 1, local: u32::from(!granted) },
        waitstart: (!granted).then(|| load::time(-30.0)),
    }
}

/// The sessions of the shared load, without their locks.
fn sessions(count: usize, poll: u32) -> Snapshot {
    let mut snapshot = load::snapshot(count * load::PER_SESSION, poll);
    snapshot.locks = Locks::default();
    snapshot
}

fn owner(backend: &Backend) -> LockOwner {
    LockOwner::Backend(backend.pid)
}

/// The shared load in all but this: however many locks there are, they are those of 500 sessions.
fn more_of_each(size: usize, poll: u32) -> Snapshot {
    const SESSIONS: usize = 500;
    let mut snapshot = sessions(SESSIONS, poll);
    let each = size / SESSIONS;
    let held = (0..size).map(|number| row(owner(&snapshot.backends[number / each]), number, true));
    let waiting = (1..SESSIONS).step_by(load::WAITERS);
    let waits = waiting.map(|session| row(owner(&snapshot.backends[session]), (session - 1) * each, false));
    snapshot.locks = held.chain(waits).collect();
    snapshot
}

fn tens(size: usize, poll: u32) -> Snapshot {
    let mut snapshot = sessions(size, poll);
    let places = (0..size * 10).map(|number| (number, &snapshot.backends[number / 10]));
    snapshot.locks = places.map(|(number, backend)| row(owner(backend), number, true)).collect();
    snapshot
}

fn hoard(size: usize, poll: u32) -> Snapshot {
    let mut snapshot = sessions(1, poll);
    let hoarder = owner(&snapshot.backends[0]);
    snapshot.locks = (0..size).map(|number| row(hoarder, number, true)).collect();
    snapshot
}

fn queue(size: usize, poll: u32) -> Snapshot {
    let mut snapshot = sessions(size + 1, poll);
    for backend in &mut snapshot.backends[1..] {
        backend.state = Some(BackendState::Active);
    }
    let rows = snapshot.backends.iter().enumerate();
    snapshot.locks = rows.map(|(place, backend)| row(owner(backend), 7, place == 0)).collect();
    snapshot
}

fn prepared(size: usize, poll: u32) -> Snapshot {
    let mut snapshot = sessions(1, poll);
    for number in 0..size {
        let local = u32::try_from(number).unwrap_or_default() + 1;
        let virtualtransaction = VirtualTransaction { backend: -1, local };
        snapshot.prepared.push(pglockwatch::model::PreparedTransaction {
            transaction: local,
            virtualtransaction,
            gid: format!("gid {number}"),
            prepared: load::time(-1_000.0),
            owner: "app".to_owned(),
            database: "app".to_owned(),
        });
        snapshot.locks.push(row(LockOwner::Prepared(virtualtransaction), number, true));
    }
    snapshot
}
