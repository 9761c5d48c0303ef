//! Keys that extensions take with lock tags of their own: objsubid is neither 1 nor 2.

use super::{Agreement, Found};
use crate::keys::Kind;
use crate::model::KeyNumbers;

/// The names that it gives.
pub(super) const NAMES: [&str; 3] = ["Citus", "pg_auto_failover", "TimescaleDB"];

/// The names of an extension's key. Number 10 belongs to two extensions.
pub(super) fn names(key: KeyNumbers) -> Vec<Found> {
    match key.objsubid {
        10 => [citus(key), auto_failover(key)].into_iter().flatten().map(|f| f.only(Agreement::Statement)).collect(),
        11 => auto_failover(key).into_iter().collect(),
        29_749 => vec![
            Found::new("TimescaleDB", Kind::Job, "held while the background job runs")
                .labelled(format!("TimescaleDB job {}", key.classid)),
        ],
        _ => citus(key).into_iter().collect(),
    }
}

/// Citus's `AdvisoryLocktagClass`. 3 and 11 are not defined.
fn citus(key: KeyNumbers) -> Option<Found> {
    let wide = u64::from(key.classid) << 32 | u64::from(key.objid);
    let (kind, what) = match key.objsubid {
        4 => (Kind::Mutex, format!("metadata of shard {wide}")),
        5 => (Kind::Mutex, format!("shard {wide}")),
        6 => (Kind::Job, format!("job {wide}")),
        7 => (Kind::Job, format!("rebalance of colocation {wide}")),
        8 => (Kind::Mutex, format!("shards {} of colocation {}", key.classid, key.objid)),
        9 => operation(key),
        10 => (Kind::Job, format!("cleanup {wide}")),
        12 => (Kind::Mutex, "logical replication".to_owned()),
        13 => (Kind::Job, format!("placement of colocation {wide}")),
        14 => (Kind::Job, format!("background task {wide}")),
        15 => (Kind::Mutex, format!("DDL on object {} of class {}", key.objid, key.classid)),
        16 => (Kind::Job, format!("move of shard {wide}")),
        _ => return None,
    };
    let found = Found::new("Citus", kind, what.clone());
    Some(found.labelled(format!("Citus {what}")))
}

/// Citus's operations of which one may run at a time.
fn operation(key: KeyNumbers) -> (Kind, String) {
    let (kind, what) = match key.objid {
        0 => (Kind::Job, "transaction recovery"),
        1 => (Kind::Job, "split without blocking"),
        2 => (Kind::Job, "create_distributed_table_concurrently"),
        3 => (Kind::Mutex, "default colocation"),
        4 => (Kind::Leader, "background task monitor"),
        other => return (Kind::Mutex, format!("operation {other}")),
    };
    (kind, what.to_owned())
}

/// pg_auto_failover's monitor: a formation, or a group of nodes in one.
fn auto_failover(key: KeyNumbers) -> Option<Found> {
    let what = match key.objsubid {
        10 => "a formation".to_owned(),
        11 => format!("node group {}", key.objid),
        _ => return None,
    };
    let found = Found::new("pg_auto_failover", Kind::Mutex, format!("monitor's lock on {what}"));
    Some(found.labelled(format!("pg_auto_failover {what}")))
}
