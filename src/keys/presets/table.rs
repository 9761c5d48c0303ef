//! The presets that compute: one row each.

use super::{Arguments, DATABASE, Fallback, Parameter, Preset, PresetKeys, Source, formulas, phash2};
use crate::keys::Kind;
use crate::keys::hash::{crc32, fnv1_32, fnv1_64, fnv1a_64, hashtext, hashtextextended};
use crate::keys::key::{from_bigint, from_pair};
use crate::model::KeyNumbers;

const fn parameter(name: &'static str, fallback: Fallback) -> Parameter {
    Parameter { name, fallback }
}

const fn text(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, Fallback::Text(default))
}

const DATABASE_NAME: Parameter = parameter(DATABASE, Fallback::Database);
const INPUT: Parameter = parameter("input", Fallback::Name);
const OID: Parameter = parameter("oid", Fallback::RequiredOid);

const fn row(
    name: &'static str,
    title: &'static str,
    kind: Kind,
    parameters: &'static [Parameter],
    compute: super::Compute,
) -> Preset {
    Preset { name, title, kind, parameters, source: Source::Formula(compute) }
}

#[allow(clippy::unnecessary_wraps, reason = "every row computes with one signature, and some can fail")]
fn one(key: KeyNumbers) -> Result<PresetKeys, String> {
    Ok(PresetKeys::Exact(vec![key]))
}

/// The oid as the second number's 32 bits.
fn oid(arguments: &Arguments) -> Result<u32, String> {
    number(arguments, "oid")
}

/// A number of 32 bits, signed or not.
fn number(arguments: &Arguments, name: &str) -> Result<u32, String> {
    let value = arguments.integer(name).unwrap_or_default();
    let signed = i32::try_from(value).map(i32::cast_unsigned);
    signed.or_else(|_| u32::try_from(value)).map_err(|_| format!("`{name}` = {value} does not fit into 32 bits"))
}

/// The pair of a first number and a second that may be left out.
fn class_or_pair(class: i32, second: Option<i64>) -> Result<PresetKeys, String> {
    let Some(second) = second else { return Ok(PresetKeys::Class(class)) };
    let bits = i32::try_from(second).or_else(|_| u32::try_from(second).map(u32::cast_signed));
    one(from_pair(class, bits.map_err(|_| format!("`id` = {second} does not fit into 32 bits"))?))
}

/// All presets that compute.
pub(super) const FORMULAS: &[Preset] = &[
    // Over the database's name.
    row("rails-migrations", "Rails migrations", Kind::Migration, &[DATABASE_NAME], |a| {
        one(formulas::rails(a.text(DATABASE)))
    }),
    row("sqlx-migrations", "sqlx migrations", Kind::Migration, &[DATABASE_NAME], |a| {
        one(formulas::sqlx(a.text(DATABASE)))
    }),
    row("grafana-migrations", "Grafana migrations", Kind::Migration, &[DATABASE_NAME], |a| {
        one(formulas::grafana(a.text(DATABASE)))
    }),
    row(
        "golang-migrate",
        "golang-migrate",
        Kind::Migration,
        &[DATABASE_NAME, text("schema", "public"), text("table", "schema_migrations")],
        |a| {
            let keys = formulas::golang_migrate(a.text(DATABASE), a.text("schema"), a.text("table"));
            Ok(PresetKeys::Exact(keys.to_vec()))
        },
    ),
    row("pg-boss", "pg-boss", Kind::Mutex, &[DATABASE_NAME, text("schema", "pgboss"), text("suffix", "")], |a| {
        one(formulas::pg_boss(a.text(DATABASE), a.text("schema"), a.text("suffix")))
    }),
    // Other migration tools.
    row(
        "flyway",
        "Flyway",
        Kind::Migration,
        &[text("schema", "public"), text("table", "flyway_schema_history")],
        |a| one(formulas::flyway(a.text("schema"), a.text("table"))),
    ),
    row(
        "liquibase-sessionlock",
        "liquibase-sessionlock",
        Kind::Migration,
        &[text("table", "databasechangeloglock"), text("schema", "public")],
        |a| one(formulas::liquibase(a.text("table"), a.text("schema"))),
    ),
    row("atlas", "Atlas", Kind::Migration, &[text("input", "atlas_migrate_execute")], |a| {
        one(formulas::atlas(a.text("input")))
    }),
    row("ecto-migrations", "Ecto migrations", Kind::Migration, &[parameter("repo", Fallback::Required)], |a| {
        one(formulas::unsigned(phash2::ecto_lock(a.text("repo"))))
    }),
    row("pgkit-migrator", "@pgkit/migrator", Kind::Migration, &[text("table", "migration")], |a| {
        one(formulas::pgkit(a.text("table")))
    }),
    row("zero-migrate-schema", "Zero", Kind::Migration, &[text("schema", "zero_0/cdc")], |a| {
        one(formulas::hashtext_bigint(&format!("migrate-schema:{}", a.text("schema"))))
    }),
    row("dbos-datasource-migrations", "DBOS", Kind::Migration, &[parameter("schema", Fallback::Required)], |a| {
        one(formulas::sha256_big(&format!("dbos.datasource_migrations.{}", a.text("schema"))))
    }),
    // Queues, schedulers, leaders, event stores.
    row("good-job", "GoodJob", Kind::Job, &[INPUT], |a| {
        one(formulas::md5_first(&format!("good_jobs-{}", a.text("input"))))
    }),
    row("good-job-process", "GoodJob", Kind::Registration, &[INPUT], |a| {
        one(formulas::md5_first(&format!("good_job_processes-{}", a.text("input"))))
    }),
    row("message-db", "message-db", Kind::Mutex, &[INPUT], |a| one(formulas::md5_first(a.text("input")))),
    row("pgmq", "pgmq", Kind::Mutex, &[INPUT], |a| {
        one(formulas::hashtext_bigint(&format!("pgmq.queue_{}", a.text("input"))))
    }),
    row("saq", "SAQ", Kind::Leader, &[text("queue", "default"), parameter("keyspace", Fallback::Integer(0))], |a| {
        one(from_pair(number(a, "keyspace")?.cast_signed(), hashtext(a.text("queue").as_bytes())))
    }),
    row("concourse-component", "Concourse", Kind::Job, &[INPUT], |a| {
        one(from_pair(2, crc32(a.text("input").as_bytes()).cast_signed()))
    }),
    row("wolverine", "Wolverine", Kind::Leader, &[text("schema", "wolverine")], |a| {
        one(formulas::wolverine(a.text("schema")))
    }),
    row("wolverine-scheduled-jobs", "Wolverine", Kind::Job, &[text("schema", "wolverine")], |a| {
        one(formulas::wolverine(&format!("{}:scheduled-jobs", a.text("schema"))))
    }),
    row(
        "marten-daemon",
        "Marten",
        Kind::Leader,
        &[text("schema", "public"), parameter("shard", Fallback::Required)],
        |a| one(formulas::marten_daemon(a.text("schema"), a.text("shard"))),
    ),
    row("electric", "Electric", Kind::Leader, &[text("slot", "electric_slot_default")], |a| {
        one(formulas::hashtext_bigint(a.text("slot")))
    }),
    row("coder", "Coder", Kind::Mutex, &[INPUT], |a| {
        one(from_bigint(fnv1_64(a.text("input").as_bytes()).cast_signed()))
    }),
    row("hatchet", "Hatchet", Kind::Mutex, &[INPUT], |a| {
        one(from_bigint(fnv1a_64(a.text("input").as_bytes()).cast_signed()))
    }),
    row("claircore", "Clair", Kind::Job, &[INPUT], |a| {
        one(from_bigint(fnv1a_64(a.text("input").as_bytes()).cast_signed()))
    }),
    row("infisical", "Infisical", Kind::Mutex, &[INPUT], |a| one(formulas::infisical(a.text("input")))),
    row("supabase-storage", "Supabase Storage", Kind::Mutex, &[INPUT], |a| {
        one(formulas::supabase_storage(a.text("input")))
    }),
    row("supabase-storage-prefix", "Supabase Storage", Kind::Mutex, &[INPUT], |a| {
        one(from_bigint(hashtextextended(a.text("input").as_bytes(), 0)))
    }),
    row("zero-replication-slot", "Zero", Kind::Mutex, &[text("shard", "zero_0")], |a| {
        one(formulas::hashtext_bigint(&format!("replication-slot-management:{}", a.text("shard"))))
    }),
    row(
        "dbos-job",
        "DBOS",
        Kind::Job,
        &[
            parameter("schema", Fallback::Required),
            parameter("app", Fallback::Required),
            parameter("job", Fallback::Required),
        ],
        |a| {
            let (schema, app, job) = (a.text("schema"), a.text("app"), a.text("job"));
            one(formulas::sha256_big(&format!("dbos.background_job.{schema}.{app}.{job}")))
        },
    ),
    row("prefect", "Prefect", Kind::Mutex, &[parameter("uuid", Fallback::Required)], |a| {
        let uuid = a.text("uuid");
        formulas::prefect(uuid).map_or_else(|| Err(format!("`uuid` = `{uuid}` is not a uuid")), one)
    }),
    row(
        "bytebase",
        "Bytebase",
        Kind::Mutex,
        &[parameter("number", Fallback::Integer(1005)), parameter("input", Fallback::Required)],
        |a| one(from_pair(number(a, "number")?.cast_signed(), hashtext(a.text("input").as_bytes()))),
    ),
    row("zitadel", "ZITADEL", Kind::Mutex, &[OID, INPUT], |a| {
        one(from_pair(oid(a)?.cast_signed(), hashtext(a.text("input").as_bytes())))
    }),
    row(
        "commanded-eventstore",
        "Commanded EventStore",
        Kind::Registration,
        &[OID, parameter("id", Fallback::AnyInteger)],
        |a| class_or_pair(oid(a)?.cast_signed(), a.integer("id")),
    ),
    row("sourcegraph-locker", "Sourcegraph", Kind::Mutex, &[INPUT, parameter("id", Fallback::AnyInteger)], |a| {
        class_or_pair(fnv1_32(a.text("input").as_bytes()).cast_signed(), a.integer("id"))
    }),
    // Extensions and server tools.
    row("pg-repack", "pg_repack", Kind::Job, &[OID], |a| one(formulas::pg_repack(oid(a)?))),
    row("pgai-index", "pgai", Kind::Job, &[OID], |a| one(from_pair(1_982_010_642, oid(a)?.cast_signed()))),
    row("pg-partman-partition-data", "pg_partman", Kind::Job, &[parameter("table", Fallback::Required)], |a| {
        one(from_pair(hashtext(b"pg_partman partition_data_proc"), hashtext(a.text("table").as_bytes())))
    }),
    row("pg-partman-undo-partition", "pg_partman", Kind::Job, &[parameter("table", Fallback::Required)], |a| {
        one(from_pair(hashtext(b"pg_partman undo_partition_proc"), hashtext(a.text("table").as_bytes())))
    }),
    // Lock libraries: the name is the application's own.
    row("sqlx-lock", "sqlx PgAdvisoryLock", Kind::Mutex, &[INPUT], |a| one(formulas::sqlx_lock(a.text("input")))),
    row(
        "with-advisory-lock",
        "with_advisory_lock",
        Kind::Mutex,
        &[INPUT, parameter("prefix", Fallback::Integer(0))],
        |a| one(formulas::with_advisory_lock(a.text("input"), a.integer("prefix").unwrap_or_default())),
    ),
    row("closure-tree", "closure_tree", Kind::Mutex, &[INPUT], |a| one(formulas::closure_tree(a.text("input")))),
    row("django-pglocks-1", "django-pglocks 1", Kind::Mutex, &[INPUT], |a| {
        one(formulas::crc32_signed(a.text("input")))
    }),
    row("django-pglocks-2", "django-pglocks 2", Kind::Mutex, &[INPUT], |a| one(formulas::sha256_big(a.text("input")))),
    row("django-pglock", "django-pglock", Kind::Mutex, &[INPUT], |a| one(formulas::sha256_little(a.text("input")))),
    row("symfony-lock", "Symfony Lock", Kind::Mutex, &[INPUT], |a| one(formulas::crc32_unsigned(a.text("input")))),
    row("distributedlock", "DistributedLock", Kind::Mutex, &[INPUT], |a| {
        one(formulas::distributed_lock(a.text("input")))
    }),
    row("npm-advisory-lock", "npm advisory-lock", Kind::Mutex, &[INPUT], |a| {
        one(formulas::npm_advisory_lock(a.text("input")))
    }),
];
