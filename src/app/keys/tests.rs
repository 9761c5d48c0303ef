use clap::{CommandFactory, Parser};

use super::*;
use crate::cli::keys::protect_numbers;
use crate::keys::Dictionary;

/// `keys` as it stands below a program with an option of its own that may stand anywhere.
#[derive(Debug, Parser)]
struct Harness {
    #[arg(long, global = true)]
    config: Option<String>,
    #[arg(short = 'd', long, global = true)]
    dsn: Vec<String>,
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, clap::Subcommand)]
enum Commands {
    Keys(KeysArgs),
}

const DICTIONARY: &str = r##"
[[key]]
name = "nightly-report"
key = 612001
kind = "job"
owner = "billing"
team = "payments"
contact = "#payments-oncall"
note = "rolls up \u001b[31myesterday"
[[key]]
name = "customer-rebuild"
class = 2
databases = ["app"]
[[key]]
name = "schema"
preset = "rails-migrations"
[[key]]
name = "pg_backup"
key = 5
[[holder]]
name = "GoodJob workers"
applications = ["good_job*"]
clients = ["10.0.0.0/8"]
expected = true
"##;

struct Answer {
    code: u8,
    out: String,
    err: String,
}

fn ask_with(text: &str, line: &[&str]) -> Answer {
    let line = ["pglockwatch", "keys"].iter().chain(line).map(std::ffi::OsString::from);
    let parsed = Harness::try_parse_from(protect_numbers(line)).unwrap_or_else(|e| panic!("{e}"));
    let Commands::Keys(args) = parsed.command;
    let book = Dictionary::parse("keys.toml", text).map(|dictionary| KeyBook::new(&[dictionary])).unwrap_or_default();
    let files = [File { name: "keys.toml", text, other_tables: &[], targets: &[] }];
    let settings = Settings { today: "2026-11-29".parse().unwrap(), targets: 1, rules: &[] };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let given = Given { book: &book, files: &files, settings, table: &import::Table::default() };
    let code = run(&args, &given, &mut out, &mut err).unwrap();
    Answer { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

fn ask(line: &[&str]) -> Answer {
    ask_with(DICTIONARY, line)
}

fn json(line: &[&str]) -> Value {
    serde_json::from_str(&ask(line).out).unwrap()
}

#[test]
fn clap_finds_nothing_wrong_with_the_arguments() {
    Harness::command().debug_assert();
}

#[test]
fn a_key_may_begin_with_a_hyphen_and_options_may_follow_it() {
    for line in [
        ["decode", "-5", "--database", "app"].as_slice(),
        &["decode", "0xFFFFFFFFFFFFFFFB", "--database", "app"],
        &["decode", "-5", "--database=app", "--config", "x"],
        &["--database", "app", "decode", "-5"],
        &["decode", "--database", "app", "--", "-5"],
        &["decode", "-5", "-d", "host=x", "--database", "app"],
    ] {
        let answer = ask(line);
        assert_eq!(answer.code, 0, "{line:?} {}", answer.err);
        assert!(answer.out.starts_with("-5 "), "{line:?}: {}", answer.out);
    }
    let pair = ask(&["decode", "-1,-2", "-0x5", "(-1, -2)", "--format", "json"]);
    let values: Value = serde_json::from_str(&pair.out).unwrap();
    let texts: Vec<&str> =
        values["keys"].as_array().unwrap().iter().map(|k| k["key"]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["(-1,-2)", "-5", "(-1,-2)"]);
}

#[test]
fn numbers_are_protected_and_nothing_else_is() {
    let protect = |line: &[&str]| -> Vec<String> {
        let line = line.iter().map(std::ffi::OsString::from);
        protect_numbers(line).into_iter().map(|arg| arg.into_string().unwrap()).collect()
    };
    assert_eq!(
        protect(&["p", "keys", "decode", "-5", "-d", "x", "--key", "-1,-2", "-", "--5", "-x5"]),
        ["p", "keys", "decode", " -5", "-d", "x", "--key", " -1,-2", "-", "--5", "-x5"]
    );
    for untouched in
        [&["p", "guard", "-5", "--", "kill", "-9", "5"][..], &["p", "keys", "hash", "-5"], &["p", "keys", "-5"]]
    {
        assert_eq!(protect(untouched), untouched);
    }
}

#[test]
fn a_name_that_is_a_negative_number_is_hashed_as_it_stands() {
    // SELECT hashtext('-5'), hashtext(' -5') on PostgreSQL 15: -1306458656, 1781105767.
    let answer = ask(&["hash", "-5", "--format", "json"]);
    assert!(answer.out.contains("-1306458656") && !answer.out.contains("1781105767"), "{}", answer.out);
}

#[test]
fn decode_shows_the_forms_the_names_and_what_a_sign_means() {
    let answer = ask(&["decode", "4294967295/3284901495/1", "--database", "app"]);
    assert_eq!(
        answer.out,
        "\
-1010065801    bigint, classid 4294967295, objid 3284901495
               unsigned 18446744072699485815   hex 0xFFFFFFFFC3CB9E77
               a negative 32-bit number, sign-extended: a hashtext or crc32 of some name
known          WAL-G   hashtext('pg_backup'), held for a whole backup
dictionary     no entry
made of        hashtext or preset electric of \"pg_backup\"
"
    );
}

#[test]
fn decode_shows_the_dictionarys_entry_without_what_a_terminal_would_obey() {
    let answer = ask(&["decode", "612001", "(2,-7)"]);
    assert_eq!(
        answer.out,
        "\
612001         bigint, classid 0, objid 612001
               hex 0x956A1
dictionary     nightly-report   job, owner billing, team payments, contact #payments-oncall, rolls up \u{fffd}[31myesterday

(2,-7)         pair of int4s, classid 2, objid 4294967289
               unsigned (2,4294967289)   hex (0x2,0xFFFFFFF9)
dictionary     customer-rebuild(-7)   mutex, only in app
"
    );
    assert!(ask(&["decode", "(2,-7)", "--database", "shop"]).out.contains("dictionary     no entry"));
}

#[test]
fn decode_tries_formulas_with_the_given_database() {
    let key = "4615154450383096620";
    let with = ask(&["decode", key, "--database", "app_production"]).out;
    assert!(with.contains("known                Rails migrations   of this database"), "{with}");
    assert!(with.contains("dictionary           schema   migration"), "{with}");
    let without = ask(&["decode", key, "-5", "77"]).out;
    assert_eq!(without.matches("--database").count(), 1, "said once: {without}");
    assert!(
        without.contains("no entry")
            && without.ends_with("\nWith --database NAME, formulas over a database's name are tried too.\n"),
        "{without}"
    );
}

#[test]
fn decode_works_backwards_from_every_hash_and_preset() {
    let text =
        "[[key]]\nname = \"my-task\"\nkey = 1\n[[key]]\nname = \"x\"\nhash = \"hashtext\"\ninput = \"invoice\"\n";
    for (key, expected) in [
        ("2036191094223570773", "made of              preset django-pglock of \"my-task\""),
        ("2422544196", "made of        crc32, unsigned or preset symfony-lock of \"invoice\""),
        ("-1872423100", "made of        crc32 or preset django-pglocks-1 of \"invoice\""),
    ] {
        let answer = ask_with(text, &["decode", key]).out;
        assert!(answer.contains(expected), "{key}: {answer}");
    }
    let hashtext = crate::keys::hash::hashtext(b"invoice");
    let answer = ask_with(text, &["decode", &format!("(77,{hashtext})")]).out;
    assert!(answer.contains("the second number is hashtext of \"invoice\""), "{answer}");
}

#[test]
fn decode_of_a_number_that_anybody_may_use_says_may_be() {
    let answer = ask(&["decode", "1", "1001/0/29749"]).out;
    assert!(answer.contains("may be         Airflow   MIGRATIONS"), "{answer}");
    assert!(answer.contains("may be         SpiceDB"), "{answer}");
    assert!(answer.contains("known          TimescaleDB job 1001   held while"), "{answer}");
    assert!(answer.contains("an extension's, classid 1001, objid 0, objsubid 29749"), "{answer}");
}

#[test]
fn what_is_no_key_goes_to_stderr_with_exit_code_2_and_the_rest_is_answered() {
    let answer = ask(&["decode", "x\u{1b}", "7"]);
    assert_eq!(answer.code, 2);
    assert!(answer.err.starts_with("pglockwatch: `x?` is not an advisory key: "), "{}", answer.err);
    assert!(answer.out.starts_with("7 "));
    let answer = ask(&["decode", "x", "7", "--format", "json"]);
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    assert!(answer.err.is_empty() && answer.code == 2);
    assert!(value["keys"][0]["error"].as_str().unwrap().contains("not an advisory key"));
    assert_eq!(value["keys"][1]["key"]["classid"], 0);
}

#[test]
fn decode_in_json_has_numbers_as_strings_and_all_names() {
    let value = json(&["decode", "-1010065801", "--format", "json"]);
    let key = &value["keys"][0];
    assert_eq!(key["key"]["text"], "-1010065801");
    assert_eq!(key["unsigned"], "18446744072699485815");
    assert_eq!(key["sign_extended"], true);
    assert_eq!(key["names"][0]["name"], "WAL-G");
    assert_eq!(key["made_of"][0]["text"], "pg_backup");
}

#[test]
fn hash_gives_every_hash_and_every_preset_over_a_name() {
    let answer = ask(&["hash", "my-task", "--database", "app_production"]).out;
    for expected in [
        "  preset django-pglock              2036191094223570773\n",
        "  preset django-pglocks-2           6162896891462894108\n",
        "  crc32                             290144734, in a pair (N,290144734)\n",
        "\ndatabase \"app_production\"\n",
        "  preset rails-migrations           4615154450383096620\n",
        "  preset golang-migrate             1005908165 or 4200097840\n",
    ] {
        assert!(answer.contains(expected), "{expected}: {answer}");
    }
    assert!(!answer.contains("preset prefect"), "not a uuid");
    let backup = ask(&["hash", "pg_backup"]).out;
    assert!(
        backup
            .contains("hashtext                          -1010065801, unsigned 3284901495, in a pair (N,-1010065801)")
    );
}

#[test]
fn hash_of_a_presets_name_gives_the_presets_key() {
    let answer = ask(&["hash", "flyway", "--table", "schema_version"]).out;
    assert!(answer.contains("  preset flyway                     77430801598678\n"), "{answer}");
    let answer = ask(&["hash", "rails-migrations", "pg-repack"]).out;
    assert!(answer.contains("  preset rails-migrations           - (needs --database)\n"), "{answer}");
    assert!(answer.contains("  preset pg-repack                  - (needs `oid`, which only a dictionary can give)\n"));
    let value = json(&["hash", "goose", "--format", "json"]);
    assert_eq!(value["names"][0]["preset"]["keys"][0], "4097083626");
    assert_eq!(value["names"][0]["hashes"][0]["hash"], "hashtext");
    assert!(value["names"][0]["hashes"][0]["key"].is_string());
}

#[test]
fn lint_tells_every_problem_and_exits_1() {
    let good = ask(&["lint"]);
    assert_eq!((good.code, good.out.as_str()), (0, "no problem in 1 file: 4 [[key]], 1 [[holder]], 0 [[silence]]\n"));
    let text = "[[key]]\nname = \"a\"\nkey = 5\ncolor = 1\n[[key]]\nname = \"b\"\nkey = 5\n";
    let bad = ask_with(text, &["lint"]);
    assert_eq!(bad.code, 1);
    assert!(
        bad.out.contains("keys.toml:7:7: `5` is the key of two names: \"a\" (line 2) and \"b\"\n  |\n7 | key = 5\n")
    );
    assert!(bad.out.ends_with("\n\n2 problems in 1 file: 2 [[key]], 0 [[holder]], 0 [[silence]]\n"), "{}", bad.out);
    let answer = ask_with(text, &["lint", "--format", "json"]);
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(answer.code, 1);
    assert_eq!(value["problems"][0]["level"], "error");
    assert_eq!(value["problems"][1]["level"], "lint");
    assert_eq!(value["problems"][1]["line"], 7);
}

#[test]
fn list_shows_what_is_declared() {
    let answer = ask(&["list"]).out;
    assert_eq!(
        answer,
        "\
NAME              KEY                                KIND       OWNER    TEAM      HOLD    VALID IN
nightly-report    612001                             job        billing  payments  <= 15m  everywhere
customer-rebuild  (2,*)                              mutex      -        -         -       app
schema            rails-migrations of each database  migration  -        -         <= 1h   everywhere
pg_backup         5                                  mutex      -        -         -       everywhere

HOLDER           APPLICATIONS  USERS  DATABASES  CLIENTS     HOLD
GoodJob workers  good_job*     -      -          10.0.0.0/8  expected
"
    );
    let value = json(&["list", "--format", "json", "--database", "app_production"]);
    assert_eq!(value["keys"].as_array().unwrap().len(), 3, "an entry of another database is left out");
    assert_eq!(value["keys"][1]["key"], "4615154450383096620");
    assert!(ask_with("", &["list"]).out.starts_with("no entry: "));
}

#[test]
fn the_help_of_hash_names_every_preset() {
    let help = presets::help();
    assert!(presets::all().all(|preset| help.contains(preset.name)));
    assert!(
        help.contains("database (else each lock's own), schema (else \"public\"), table (else \"schema_migrations\")")
    );
}
