//! Keys out of which more than a name can be read.

use super::{Agreement, Found};
use crate::keys::Kind;
use crate::keys::key::bigint;
use crate::keys::presets::formulas::{FLYWAY, PG_REPACK_CLASS, ascii_name, flyway};
use crate::model::KeyNumbers;

/// The names that it gives.
pub(super) const NAMES: [&str; 3] = ["Flyway", "pg_repack", "DistributedLock"];

/// What the key says of itself.
pub(super) fn name(key: KeyNumbers) -> Option<Found> {
    of_flyway(key).or_else(|| of_pg_repack(key)).or_else(|| of_distributed_lock(key))
}

/// The upper half is "Fl" in ASCII, or one less where the table's hash is far below zero.
fn of_flyway(key: KeyNumbers) -> Option<Found> {
    let hash = bigint(key)?.checked_sub(FLYWAY)?;
    i32::try_from(hash).ok()?;
    let table = [("public", "flyway_schema_history"), ("public", "schema_version")]
        .into_iter()
        .find(|(schema, table)| flyway(schema, table) == key);
    let note = table.map_or_else(
        || format!("hash {hash} of its history table; held for the whole migration, idle in transaction meanwhile"),
        |(schema, table)| {
            format!("history table {schema}.{table}; held for the whole migration, idle in transaction meanwhile")
        },
    );
    Some(Found::new("Flyway", Kind::Migration, note))
}

fn of_pg_repack(key: KeyNumbers) -> Option<Found> {
    if key.objsubid != 2 || key.classid != PG_REPACK_CLASS.cast_unsigned() {
        return None;
    }
    let oid = key.objid ^ 0x8000_0000;
    let found = Found::new("pg_repack", Kind::Job, format!("held for the whole repack of the table with oid {oid}"));
    Some(found.labelled(format!("pg_repack of table oid {oid}")))
}

/// A pair can be a name by accident: one in several hundred random ones reads like this, so it only may be.
fn of_distributed_lock(key: KeyNumbers) -> Option<Found> {
    let name = ascii_name(key)?;
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/')) {
        return None;
    }
    let found = Found::new("DistributedLock", Kind::Mutex, format!("the pair spells \"{name}\""));
    Some(found.labelled(format!("DistributedLock({name})")).only(Agreement::Statement))
}
