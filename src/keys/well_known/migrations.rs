//! Schema-migration tools that take the same key everywhere.

use super::row::{Row, bigint, pair};
use crate::keys::Kind::{Migration, Mutex};

/// The rows, tool by tool.
#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    bigint("prisma-migrate", "Prisma Migrate", 72_707_369, Migration, "held for the whole migrate command"),
    pair("liquibase-sessionlock", -1_497_367_772, -977_423_767, Migration,
        "held for the whole update, schema public"),
    bigint("goose", "goose", 4_097_083_626, Migration, "crc32('goose'), held for the whole run"),
    bigint("tern", "tern", 9_628_173_550_095_224, Migration, "held for the whole run"),
    bigint("atlas-apply", "Atlas", 2_686_470_616, Migration,
        "FNV-1 of 'atlas_migrate_execute', held while migrations are applied"),
    bigint("atlas-diff", "Atlas", 361_947_982, Migration, "FNV-1 of 'atlas_migrate_diff', held for the whole diff"),
    bigint("atlas-lint", "Atlas", 526_800_194, Migration, "FNV-1 of 'atlas_lint', held for the whole lint"),
    bigint("sqitch", "Sqitch", 75_474_063, Migration, "held for the whole deploy or revert"),
    bigint("sequel-migrations", "Sequel migrations", 4_966_325_471_869_609_408, Migration,
        "held for the whole run"),
    bigint("node-pg-migrate", "node-pg-migrate", 7_241_865_325_823_964, Migration, "held for the whole run"),
    bigint("kysely-migrations", "Kysely migrations", 3_853_314_791_062_309_107, Migration, "held for the whole run"),
    bigint("graphile-migrate", "graphile-migrate", 4_727_445_306_447_283, Migration,
        "held for the whole migrate or watch step"),
    bigint("postgres-migrations", "postgres-migrations or Supabase Storage", -8_525_285_245_963_000_605, Migration,
        "one key of two products, held for the whole run"),
    bigint("pgkit-default", "@pgkit/migrator", 1_589_904_169, Migration,
        "table \"migration\" of @pgkit/migrator or @slonik/migrator, held for the whole run").no_preset(),
    bigint("pgroll", "pgroll", 12_388_221_127_840_347, Migration, "taken for an instant while its state schema is set up"),
    bigint("reshape", "reshape", 4_036_779_288_569_897_133, Migration, "held for the whole migrate or complete"),
    bigint("claircore-migrations", "claircore or remind101/migrate", 1_856_466_978, Migration,
        "crc32('migrations'), held for the whole run"),
    bigint("sqlx-test", "sqlx::test", 8_318_549_251_334_697_844, Mutex,
        "\"sqlxtest\" in ASCII, taken for an instant by tests"),
    bigint("supabase-storage-multitenant", "Supabase Storage", -8_575_985_245_963_000_605, Migration,
        "multitenant migrations"),
    bigint("zero-ddl", "Zero", 4_353_719_051_050_729_648, Mutex,
        "taken by an event trigger inside other people's DDL, held until that transaction ends"),
    bigint("zero-schema", "Zero", 173_844_314, Migration,
        "hashtext('migrate-schema:zero_0/cdc')").no_preset(),
    // Numbers that anybody may use.
    bigint("marten-apply-changes", "Marten", 4004, Migration, "schema changes at start-up").only_with(&["marten"]),
    bigint("wolverine-migrations", "Wolverine", 4006, Migration, "schema changes at start-up")
        .only_with(&["wolverine", "marten"]),
    bigint("authentik-migrations", "authentik migrations", 1000, Migration, "held for the whole migration at start-up")
        .only_with(&["authentik"]),
    bigint("lemmy-migrations", "Lemmy migrations", 0, Migration, "never unlocked on purpose, ends with the connection")
        .only_with(&["lemmy"]),
    bigint("dbos-migrations", "DBOS", 1_234_567_890, Migration, "migration of its system database, seconds")
        .only_with(&["dbos"]),
    bigint("airflow-migrations", "Airflow", 1, Migration, "MIGRATIONS, held for the whole run")
        .only_with(super::AIRFLOW),
    bigint("concourse-migrations", "Concourse", 5, Migration, "migration at start-up").only_with(super::CONCOURSE),
    bigint("immich-migrations", "Immich", 200, Migration, "migrations").only_with(super::IMMICH),
    bigint("infisical-migrations", "Infisical", 2023, Migration, "boot migration").only_with(&["infisical"]),
    bigint("bytebase-migrations", "Bytebase", 1002, Migration, "migration").only_with(&["bytebase"]),
];
