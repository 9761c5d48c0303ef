use super::*;
use crate::keys::KeyBook;
use crate::keys::key::{from_bigint, from_pair, parse};

fn look_up(key: KeyNumbers, known: LookUp<'_>) -> Vec<Name> {
    KeyBook::default().names(key, known)
}

/// Name and whether it is only a "may be", of every name.
fn names(text: &str, known: LookUp<'_>) -> Vec<(String, bool)> {
    look_up(parse(text).unwrap(), known).into_iter().map(|name| (name.name, name.may_be)).collect()
}

fn in_database(database: &str) -> LookUp<'_> {
    LookUp { database: Some(database), ..LookUp::default() }
}

/// Keys that are named outright, in database app_production, with the name.
#[rustfmt::skip]
const OUTRIGHT: &[(&str, &str)] = &[
    ("4615154450383096620", "Rails migrations"),
    ("2307577224067799112", "sqlx migrations"),
    ("1005908165", "golang-migrate"),
    ("4200097840", "golang-migrate"),
    ("2783953652", "Grafana migrations"),
    ("-612613158729947910", "pg-boss"),
    ("-4084020775019814396", "pg-boss"),
    ("77433833903597", "Flyway"),
    ("77430801598678", "Flyway"),
    ("(-1497367772,-977423767)", "liquibase-sessionlock"),
    ("2686470616", "Atlas"),
    ("361947982", "Atlas"),
    ("526800194", "Atlas"),
    ("(2,1178397720)", "Concourse"),
    ("(2,-1402787153)", "Concourse"),
    ("(2,1441783593)", "Concourse"),
    ("(2,-686783856)", "Concourse"),
    ("(2,-1563716370)", "Concourse"),
    ("(2,565056103)", "Concourse"),
    ("(2,1748775906)", "Concourse"),
    ("(2,-1429347273)", "Concourse"),
    ("(2,1420677669)", "Concourse"),
    ("1589904169", "@pgkit/migrator"),
    ("832201495", "Wolverine"),
    ("-956706791", "Wolverine"),
    ("7241865325823964", "node-pg-migrate"),
    ("72707369", "Prisma Migrate"),
    ("4097083626", "goose"),
    ("9628173550095224", "tern"),
    ("3853314791062309107", "Kysely migrations"),
    ("-8525285245963000605", "postgres-migrations or Supabase Storage"),
    ("-8575985245963000605", "Supabase Storage"),
    ("-5525285245963000611", "Supabase Storage"),
    ("4727445306447283", "graphile-migrate"),
    ("12388221127840347", "pgroll"),
    ("75474063", "Sqitch"),
    ("4966325471869609408", "Sequel migrations"),
    ("4036779288569897133", "reshape"),
    ("12340078987004321", "pgBackRest"),
    ("3865661975", "Boundary"),
    ("4353719051050729648", "Zero"),
    ("173844314", "Zero"),
    ("-1826769654", "Zero"),
    ("41730001", "Marten"),
    ("(16185446,-2147467264)", "pg_repack"),
    ("(1982010642,16384)", "pgai"),
    ("8318549251334697844", "sqlx::test"),
    ("(0,822708183)", "SAQ"),
    ("-988976779", "pg_partman"),
    ("-1853951700", "pg_partman"),
    ("487439991", "pg_partman"),
    ("-264774437", "pg_partman"),
    ("-1869749899", "pg_partman"),
    ("(1734705784,1726799227)", "pg_partman"),
    ("(2070001301,1726799227)", "pg_partman"),
    ("-1010065801", "WAL-G"),
    ("771584809", "WAL-G"),
    ("-1768572819", "Electric"),
    ("1856466978", "claircore or remind101/migrate"),
    ("0/4/9", "Citus"),
    ("0/102008/5", "Citus"),
    ("0/102008/4", "Citus"),
    ("1001/0/29749", "TimescaleDB"),
    ("77/3/11", "pg_auto_failover"),
];

#[test]
fn what_speaks_for_itself_is_named_outright() {
    for (key, name) in OUTRIGHT {
        assert_eq!(names(key, in_database("app_production")), [((*name).to_owned(), false)], "{key}");
    }
}

/// Keys that anybody may use, the words that speak for a product, and its name.
#[rustfmt::skip]
const WITH_HINTS: &[(&str, &str, &str)] = &[
    ("0", "lemmy", "Lemmy migrations"),
    ("1", "Airflow Scheduler", "Airflow"),
    ("2", "airflow", "Airflow"),
    ("1", "spicedb", "SpiceDB"),
    ("2", "spicedb", "SpiceDB"),
    ("1", "coderd", "Coder"),
    ("10", "coder", "Coder"),
    ("5", "concourse", "Concourse"),
    ("6", "concourse", "Concourse"),
    ("(7,12)", "atc", "Concourse"),
    ("42", "immich", "Immich"),
    ("1337", "immich", "Immich"),
    ("1000", "authentik", "authentik migrations"),
    ("1001", "n8n", "n8n"),
    ("1001", "bytebase", "Bytebase"),
    ("(1005,-1174917447)", "bytebase", "Bytebase"),
    ("2023", "infisical", "Infisical"),
    ("4004", "marten", "Marten"),
    ("4006", "wolverine", "Wolverine"),
    ("4444", "marten", "Marten"),
    ("1234567890", "dbos_transact", "DBOS"),
    ("22938", "sequin", "Sequin"),
    ("-1", "terraform", "Terraform pg backend"),
    ("17", "opentofu", "Terraform pg backend"),
    ("(0,0)", "saq", "SAQ"),
    ("(0,-5)", "saq", "SAQ"),
    ("(4,2)", "clair", "Clair"),
    ("99", "que", "Que"),
    ("3114638038839931509", "bin/good_job start", "GoodJob"),
    ("424242424242", "wolverine-advisory-lock:app", "Wolverine"),
];

#[test]
fn numbers_that_anybody_may_use_are_named_only_if_something_agrees_and_then_as_may_be() {
    for (key, word, name) in WITH_HINTS {
        assert_eq!(names(key, in_database("app")), [], "{key}");
        let application = LookUp { application: word, ..in_database("app") };
        assert_eq!(names(key, application), [((*name).to_owned(), true)], "{key} {word}");
        let user = LookUp { user: word, ..in_database("app") };
        assert_eq!(names(key, user), [((*name).to_owned(), true)], "{key} {word}");
    }
    let query = LookUp { query: "INSERT INTO dag_run VALUES (1)", ..LookUp::default() };
    assert_eq!(names("1", query), [("Airflow".to_owned(), true)]);
}

#[test]
fn a_statement_alone_excuses_no_hold() {
    let key = from_bigint(2);
    let by_application = look_up(key, LookUp { application: "spicedb", ..LookUp::default() });
    assert!(by_application[0].long_lived && by_application[0].may_be);
    let by_statement = look_up(key, LookUp { query: "SELECT 1 FROM relation_tuple", ..LookUp::default() });
    assert!(!by_statement[0].long_lived && by_statement[0].name == "SpiceDB");
}

#[test]
fn holds_for_the_life_of_a_process_are_known_as_such() {
    for (key, long_lived) in
        [("3865661975", true), ("832201495", true), ("-1768572819", true), ("(0,822708183)", true), ("72707369", false)]
    {
        let found = look_up(parse(key).unwrap(), LookUp::default());
        assert_eq!(found[0].long_lived, long_lived, "{key}");
    }
    let migration = &look_up(from_bigint(72_707_369), LookUp::default())[0];
    assert_eq!((migration.kind, migration.max_hold), (Kind::Migration, Kind::Migration.default_max_hold()));
}

#[test]
fn a_formula_holds_only_in_its_own_database() {
    assert_eq!(names("4615154450383096620", in_database("other")), []);
    assert_eq!(names("4615154450383096620", LookUp::default()), []);
    assert_eq!(names("737815420147457505", in_database("postgres")), [("Rails migrations".to_owned(), false)]);
}

#[test]
fn more_than_a_name_is_read_out_of_some_keys() {
    let label = |text: &str| look_up(parse(text).unwrap(), LookUp::default()).remove(0).label;
    assert_eq!(label("(16185446,-2147467264)"), "pg_repack of table oid 16384");
    assert_eq!(label("1001/0/29749"), "TimescaleDB job 1001");
    assert_eq!(label("0/4/9"), "Citus background task monitor");
    assert_eq!(label("1/2/5"), "Citus shard 4294967298");
    assert_eq!(label("(-1679399172,2061500415)"), "DistributedLock(MyLock)");
    let flyway = |bigint: i64| look_up(from_bigint(bigint), LookUp::default());
    assert_eq!(
        flyway(77_433_833_903_597)[0].note.as_deref().map(|n| n.contains("public.flyway_schema_history")),
        Some(true)
    );
    assert_eq!(flyway(0x466C_7977_6179 + i64::from(i32::MIN))[0].name, "Flyway");
    assert_eq!(flyway(0x466C_7977_6179 + i64::from(i32::MAX))[0].name, "Flyway");
    assert!(flyway(0x466C_7977_6179 + i64::from(i32::MAX) + 1).is_empty());
    assert!(flyway(i64::MIN).is_empty());
}

#[test]
fn numbers_that_belong_to_two_extensions_may_be_either_and_others_none() {
    assert_eq!(names("0/7/10", LookUp::default()), [("Citus".to_owned(), true), ("pg_auto_failover".to_owned(), true)]);
    for undefined in ["0/7/3", "0/7/0", "0/7/17", "0/7/29748", "1/2/65535"] {
        assert_eq!(names(undefined, LookUp::default()), [], "{undefined}");
    }
    for objsubid in (4..=16).filter(|number| *number != 11) {
        let found = names(&format!("0/1/{objsubid}"), LookUp::default());
        assert_eq!(found[0].0, "Citus", "{objsubid}");
    }
}

#[test]
fn few_pairs_read_like_a_name_by_accident() {
    let mut state = 1_u64;
    let mut named = 0;
    for _ in 0..100_000 {
        // A simple generator of pseudo-random numbers (an LCG with Knuth's constants) is random enough here.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let half = |shift: u32| u32::try_from(state >> shift & 0xFFFF_FFFF).unwrap();
        let key = KeyNumbers { classid: half(32), objid: half(11), objsubid: 2 };
        let found = look_up(key, LookUp::default());
        assert!(found.iter().all(|name| name.may_be));
        named += found.len();
    }
    assert!(named < 400, "{named}");
    for small in 0..2000 {
        assert!(look_up(from_pair(small, small * 7), LookUp::default()).is_empty());
        assert!(look_up(from_bigint(i64::from(small) * 1_000_003), in_database("app")).is_empty());
    }
}

#[test]
fn hostile_circumstances_change_nothing_but_a_may_be() {
    let long = "airflow ".repeat(10_000);
    for hostile in [
        "",
        "'; DROP TABLE x; --",
        "\u{1b}[31m\n\r\0",
        "\u{fffd}\u{fffd}",
        "日本語😀",
        "airflo",
        "a",
        long.trim_end_matches("airflow "),
    ] {
        let known =
            LookUp { database: Some(hostile), target: hostile, application: hostile, user: hostile, query: hostile };
        for key in ["1", "2", "-1", "0", "(0,0)", "(1,2)", "9/9/29749", "72707369", "123456789123"] {
            for name in look_up(parse(key).unwrap(), known) {
                assert!(all_names().any(|known| known == name.name), "{key}: {}", name.name);
                assert!(!name.label.chars().any(crate::quote::is_unsafe));
            }
        }
        assert_eq!(names("123456789123", known), []);
    }
}

#[test]
fn every_row_has_a_note_and_no_two_rows_are_the_same() {
    let mut seen = std::collections::HashSet::new();
    for row in constants() {
        assert!(!row.note.is_empty());
        assert!(seen.insert((format!("{:?}", row.key), row.name)), "{row:?}");
    }
}
