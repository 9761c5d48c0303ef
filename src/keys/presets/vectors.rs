//! Every preset against numbers that were read from `pg_locks` or computed independently.

use proptest::prelude::*;

use super::*;
use crate::keys::key::text;

/// Preset, its parameters as `name=value`, the key text(s).
#[rustfmt::skip]
const VECTORS: &[(&str, &[&str], &[&str])] = &[
    ("rails-migrations", &["database=app_production"], &["4615154450383096620"]),
    ("rails-migrations", &["database=postgres"], &["737815420147457505"]),
    ("sqlx-migrations", &["database=app_production"], &["2307577224067799112"]),
    ("sqlx-migrations", &["database=postgres"], &["368907709894077238"]),
    ("golang-migrate", &["database=app_production"], &["1005908165", "4200097840"]),
    ("golang-migrate", &["database=postgres", "schema=public", "table=schema_migrations"], &["3280485947", "143310882"]),
    ("grafana-migrations", &["database=app_production"], &["2783953652"]),
    ("grafana-migrations", &["database=postgres"], &["3057848503"]),
    ("flyway", &[], &["77433833903597"]),
    ("flyway", &["table=schema_version"], &["77430801598678"]),
    ("liquibase-sessionlock", &[], &["(-1497367772,-977423767)"]),
    ("atlas", &[], &["2686470616"]),
    ("atlas", &["input=atlas_migrate_diff"], &["361947982"]),
    ("atlas", &["input=atlas_lint"], &["526800194"]),
    ("concourse-component", &["input=scheduler"], &["(2,1178397720)"]),
    ("concourse-component", &["input=tracker"], &["(2,-1402787153)"]),
    ("concourse-component", &["input=pipeline_pauser"], &["(2,1420677669)"]),
    ("coder", &["input=example"], &["4966507373198555965"]),
    ("good-job", &["input=6ba7b810-9dad-11d1-80b4-00c04fd430c8"], &["3114638038839931509"]),
    ("message-db", &["input=account"], &["-2132379389342958165"]),
    ("with-advisory-lock", &["input=my_lock"], &["(1202238042,0)"]),
    ("with-advisory-lock", &["input=ct_3bc4f163"], &["(813324139,0)"]),
    ("django-pglocks-1", &["input=my-task"], &["290144734"]),
    ("django-pglocks-2", &["input=my-task"], &["6162896891462894108"]),
    ("django-pglock", &["input=my-task"], &["2036191094223570773"]),
    ("distributedlock", &["input=MyLock"], &["(-1679399172,2061500415)"]),
    ("distributedlock", &["input=MyLongLockName"], &["-1728247129133641821"]),
    ("npm-advisory-lock", &["input=my-job"], &["(-242434711,-781670434)"]),
    ("pgkit-migrator", &[], &["1589904169"]),
    ("wolverine", &[], &["832201495"]),
    ("wolverine", &["schema=public"], &["-956706791"]),
    ("wolverine-scheduled-jobs", &[], &["-34011047"]),
    ("pg-boss", &["database=app_production"], &["-612613158729947910"]),
    ("pg-boss", &["database=app_production", "suffix=queue-stats"], &["-4084020775019814396"]),
    ("supabase-storage", &["input=event:upgrade-lock"], &["2726110501"]),
    ("supabase-storage-prefix", &["input=bucket/top"], &["-6983322390908570850"]),
    ("infisical", &["input=org-email-domain-creation"], &["1218391406"]),
    ("sqlx-lock", &["input=my first Postgres advisory lock!"], &["-5560419505042474287"]),
    ("saq", &[], &["(0,822708183)"]),
    ("ecto-migrations", &["repo=Ecto.Integration.AdvisoryLockPoolRepo"], &["129653361"]),
    ("pg-repack", &["oid=16384"], &["(16185446,-2147467264)"]),
    ("pgai-index", &["oid=16384"], &["(1982010642,16384)"]),
    ("pg-partman-partition-data", &["table=public.events"], &["(1734705784,1726799227)"]),
    ("pg-partman-undo-partition", &["table=public.events"], &["(2070001301,1726799227)"]),
    ("pgmq", &["input=my_queue"], &["191642509"]),
    ("electric", &[], &["-1768572819"]),
    ("zero-migrate-schema", &[], &["173844314"]),
    ("zero-replication-slot", &[], &["-1826769654"]),
    ("zitadel", &["oid=1259", "input=123456789"], &["(1259,1014187944)"]),
    // Constants.
    ("prisma-migrate", &[], &["72707369"]),
    ("goose", &[], &["4097083626"]),
    ("tern", &[], &["9628173550095224"]),
    ("kysely-migrations", &[], &["3853314791062309107"]),
    ("postgres-migrations", &[], &["-8525285245963000605"]),
    ("supabase-storage-multitenant", &[], &["-8575985245963000605"]),
    ("supabase-storage-move-jobs", &[], &["-5525285245963000611"]),
    ("graphile-migrate", &[], &["4727445306447283"]),
    ("node-pg-migrate", &[], &["7241865325823964"]),
    ("pgroll", &[], &["12388221127840347"]),
    ("sqitch", &[], &["75474063"]),
    ("reshape", &[], &["4036779288569897133"]),
    ("sequel-migrations", &[], &["4966325471869609408"]),
    ("pgbackrest", &[], &["12340078987004321"]),
    ("boundary", &[], &["3865661975"]),
    ("dbos-migrations", &[], &["1234567890"]),
    ("zero-ddl", &[], &["4353719051050729648"]),
    ("marten-apply-changes", &[], &["4004"]),
    ("wolverine-migrations", &[], &["4006"]),
    ("marten-daemon-base", &[], &["4444"]),
    ("marten-sharded-tenancy", &[], &["41730001"]),
    ("authentik-migrations", &[], &["1000"]),
    ("terraform-create", &[], &["-1"]),
    ("lemmy-migrations", &[], &["0"]),
    ("airflow-migrations", &[], &["1"]),
    ("airflow-scheduler", &[], &["2"]),
    ("spicedb-gc", &[], &["1"]),
    ("spicedb-leader", &[], &["2"]),
    ("concourse-migrations", &[], &["5"]),
    ("concourse-scanning", &[], &["6"]),
    ("sequin-partitions", &[], &["22938"]),
    ("sqlx-test", &[], &["8318549251334697844"]),
    ("pg-partman-maintenance", &[], &["-988976779"]),
    ("pg-partman-maintenance-procedure", &[], &["-1853951700"]),
    ("pg-partman-drop-id", &[], &["487439991"]),
    ("pg-partman-drop-time", &[], &["-264774437"]),
    ("pg-partman-undo", &[], &["-1869749899"]),
    ("pg-partman-analyze", &[], &["-2081281770"]),
    ("pg-partman-constraints", &[], &["-796481577"]),
    ("wal-g", &[], &["-1010065801"]),
    ("wal-g-greenplum", &[], &["771584809"]),
    // Computed independently from the formulas.
    ("dbos-datasource-migrations", &["schema=dbos"], &["-539682970964697559"]),
    ("dbos-job", &["schema=dbos", "app=shop", "job=sweep"], &["-735532217836717372"]),
    ("good-job-process", &["input=6ba7b810-9dad-11d1-80b4-00c04fd430c8"], &["-5412408926918051682"]),
    ("marten-daemon", &["shard=Trip:All"], &["255106635"]),
    ("hatchet", &["input=replay_707d0855"], &["-4195224360876369947"]),
    ("claircore", &["input=garbage-collection"], &["-5176715297593093589"]),
    ("prefect", &["uuid=6ba7b810-9dad-11d1-f0b4-00c04fd430c8"], &["8121116854028873928"]),
    ("bytebase", &["input=shop/7"], &["(1005,-1174917447)"]),
    ("commanded-eventstore", &["oid=16400", "id=12"], &["(16400,12)"]),
    ("sourcegraph-locker", &["input=codeintel", "id=7"], &["(1285144674,7)"]),
    ("closure-tree", &["input=Category"], &["(942728814,0)"]),
    ("symfony-lock", &["input=invoice"], &["2422544196"]),
    ("rails-migrations", &["database=größe"], &["3163561066261125285"]),
    ("golang-migrate", &["database=größe", "schema=s", "table=t"], &["2303584108", "2874063376"]),
    ("flyway", &["schema=größe", "table=😀"], &["77430834911089"]),
    ("ecto-migrations", &["repo=MyApp.Repo"], &["41811489"]),
    ("distributedlock", &["input=日本"], &["-5490585093105001916"]),
    ("pgkit-migrator", &["table=a\"b"], &["4072231744"]),
];

fn keys(preset: &str, given: &[&str]) -> PresetKeys {
    let preset = find(preset).unwrap_or_else(|| panic!("there is no preset {preset}"));
    let mut arguments = Arguments::default();
    for given in given {
        let (name, value) = given.split_once('=').unwrap();
        let parameter = preset.parameters.iter().find(|parameter| parameter.name == name).unwrap();
        let value = if parameter.is_integer() {
            Argument::Integer(value.parse().unwrap())
        } else {
            Argument::Text(value.to_owned())
        };
        arguments = arguments.with(parameter.name, value);
    }
    let complete = arguments.complete(&preset, "the entry's name").unwrap();
    preset.keys(&complete).unwrap()
}

fn texts(keys: PresetKeys) -> Vec<String> {
    match keys {
        PresetKeys::Exact(keys) => keys.into_iter().map(text).collect(),
        PresetKeys::Class(class) => vec![format!("({class},*)")],
    }
}

#[test]
fn every_vector_is_computed() {
    for (preset, given, expected) in VECTORS {
        assert_eq!(texts(keys(preset, given)), *expected, "{preset} {given:?}");
    }
}

#[test]
fn every_formula_has_a_vector_and_a_name_of_its_own() {
    let mut names: Vec<&str> = all().map(|preset| preset.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    for formula in table::FORMULAS {
        assert!(VECTORS.iter().any(|(preset, ..)| *preset == formula.name), "{}", formula.name);
        assert!(formula.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
    }
}

#[test]
fn a_second_number_that_is_left_out_makes_a_class() {
    assert_eq!(texts(keys("commanded-eventstore", &["oid=16400"])), ["(16400,*)"]);
    assert_eq!(texts(keys("commanded-eventstore", &["oid=16400", "id=-1"])), ["(16400,-1)"]);
    let missing = Arguments::default().complete(&find("pg-repack").unwrap(), "x");
    assert_eq!(missing, Err("oid"));
    let wrong = Arguments::default().with("uuid", Argument::Text("no".to_owned()));
    assert_eq!(find("prefect").unwrap().keys(&wrong), Err("`uuid` = `no` is not a uuid".to_owned()));
}

#[test]
fn distributedlocks_short_names_can_be_read_back() {
    for name in ["MyLock", "a", "123456789", "lock:x/7"] {
        assert_eq!(formulas::ascii_name(formulas::distributed_lock(name)).as_deref(), Some(name));
    }
    assert_eq!(texts(keys("distributedlock", &["input=0123456789abcdef"])), [0x0123_4567_89ab_cdef_i64.to_string()]);
    assert_eq!(texts(keys("distributedlock", &["input=00000001,ffffffff"])), ["(1,-1)"]);
    assert_eq!(formulas::ascii_name(crate::keys::key::from_pair(1, 42)), None);
    assert_eq!(formulas::ascii_name(crate::keys::key::from_pair(0, 0)), None);
    assert_eq!(formulas::ascii_name(crate::keys::key::from_pair(-1, -1)), None);
}

proptest! {
    #[test]
    fn any_text_has_a_key_in_every_preset_over_a_name(name in "\\PC{0,80}") {
        for preset in all().filter(Preset::is_name_hash) {
            // Only a uuid has one there.
            prop_assert_eq!(preset.keys_of_name(&name).is_empty(), preset.name == "prefect", "{}", preset.name);
        }
        for preset in all().filter(|preset| preset.parameters.iter().any(|p| p.fallback == Fallback::Database)) {
            let arguments = Arguments::default().complete(&preset, "x").unwrap();
            let formula = DatabaseFormula::new(preset, arguments).unwrap();
            prop_assert!(!formula.keys(&name).is_empty());
        }
    }
}
