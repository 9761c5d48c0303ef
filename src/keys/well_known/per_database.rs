//! Keys that are computed from the name of the database they are taken in.

use super::Found;
use crate::keys::Kind;
use crate::keys::presets::formulas;
use crate::model::KeyNumbers;

/// A formula over the database's name, its other parameters at their defaults.
#[derive(Debug)]
pub(in crate::keys) struct PerDatabase {
    name: &'static str,
    kind: Kind,
    note: &'static str,
    keys: fn(&str) -> Vec<KeyNumbers>,
}

/// All of them.
static FORMULAS: [PerDatabase; 5] = [
    PerDatabase {
        name: "Rails migrations",
        kind: Kind::Migration,
        note: "of this database, held for the whole db:migrate",
        keys: |database| vec![formulas::rails(database)],
    },
    PerDatabase {
        name: "sqlx migrations",
        kind: Kind::Migration,
        note: "of this database; also Windmill, Lakekeeper and Matrix Authentication Service",
        keys: |database| vec![formulas::sqlx(database)],
    },
    PerDatabase {
        name: "Grafana migrations",
        kind: Kind::Migration,
        note: "of this database, held for the whole migration at start-up",
        keys: |database| vec![formulas::grafana(database)],
    },
    PerDatabase {
        name: "golang-migrate",
        kind: Kind::Migration,
        note: "of this database, table public.schema_migrations, held for the whole run",
        keys: |database| formulas::golang_migrate(database, "public", "schema_migrations").to_vec(),
    },
    PerDatabase {
        name: "pg-boss",
        kind: Kind::Mutex,
        note: "of this database, schema pgboss, milliseconds to seconds",
        keys: pg_boss,
    },
];

/// What pg-boss 10 to 12 append to the schema's name for each of its locks. Those about a table name it: the common
/// table is `job` up to version 10 and `job_common` after it.
const PG_BOSS_SUFFIXES: [&str; 13] = [
    "",
    "create-queue",
    "delete-queue",
    "queue-stats",
    "queue-stats-insert",
    "jobfailJobsByTimeout",
    "jobfailJobsByHeartbeat",
    "jobdeletion",
    "jobcleanupDependencies",
    "job_commonfailJobsByTimeout",
    "job_commonfailJobsByHeartbeat",
    "job_commondeletion",
    "job_commoncleanupDependencies",
];

fn pg_boss(database: &str) -> Vec<KeyNumbers> {
    PG_BOSS_SUFFIXES.iter().map(|suffix| formulas::pg_boss(database, "pgboss", suffix)).collect()
}

/// Their names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMULAS.iter().map(|formula| formula.name)
}

impl PerDatabase {
    /// Every formula with its keys in that database.
    pub(in crate::keys) fn all(database: &str) -> impl Iterator<Item = (KeyNumbers, &'static Self)> {
        FORMULAS.iter().flat_map(move |formula| (formula.keys)(database).into_iter().map(move |key| (key, formula)))
    }

    pub(super) fn found(&self) -> Found {
        Found::new(self.name, self.kind, self.note)
    }
}
