use std::time::Duration;

use super::*;
use crate::keys::key::{from_bigint, from_pair, parse};
use crate::keys::{CountRange, Kind, Matcher, Scope};

fn dictionary(text: &str) -> Dictionary {
    Dictionary::parse("keys.toml", text).unwrap_or_else(|problems| {
        let told: Vec<String> = problems.iter().map(Problem::to_string).collect();
        panic!("{}", told.join("\n"))
    })
}

/// Line, column and message of every problem.
fn problems(text: &str) -> Vec<String> {
    let problems = Dictionary::parse("keys.toml", text).err().unwrap_or_default();
    problems.iter().map(|p| format!("{}:{}: {}", p.line, p.column, p.message)).collect()
}

fn matcher(fields: &str) -> Matcher {
    dictionary(&format!("[[key]]\nname = \"sync_inventory\"\n{fields}\n")).keys[0].declared.value.matcher.clone()
}

#[test]
fn an_entry_with_every_field() {
    let text = r##"
[[key]]
name = "nightly-report"
key = 612001
kind = "job"
owner = "billing"
team = "payments"
contact = "#payments-oncall"
note = "rolls up yesterday"
runbook = "https://wiki/x"
scope = "transaction"
long_lived = true
waiters = "expected"
holders = "0..4"
max_hold = "1h30m"
applications = ["report-*", "batch"]
databases = ["app"]
targets = ["orders-*"]
"##;
    let dictionary = dictionary(text);
    let entry = &dictionary.keys[0].declared.value;
    assert_eq!(entry.name, "nightly-report");
    assert_eq!(entry.matcher, Matcher::Exact(from_bigint(612_001)));
    assert_eq!((entry.kind, entry.scope, entry.long_lived), (Kind::Job, Some(Scope::Transaction), true));
    assert_eq!(entry.owner.as_deref(), Some("billing"));
    assert_eq!(entry.team.as_deref(), Some("payments"));
    assert_eq!(entry.contact.as_deref(), Some("#payments-oncall"));
    assert_eq!(entry.note.as_deref(), Some("rolls up yesterday"));
    assert_eq!(entry.runbook.as_deref(), Some("https://wiki/x"));
    assert!(entry.waiters_expected);
    assert_eq!(entry.holders, Some(CountRange(0..=4)));
    assert_eq!(entry.max_hold, Some(Duration::from_secs(5400)));
    assert!(entry.applications.matches("report-7") && !entry.applications.matches("web"));
    assert!(entry.covers("orders-eu", Some("app")));
    assert!(
        !entry.covers("orders-eu", Some("shop")) && !entry.covers("x", Some("app")) && !entry.covers("orders-", None)
    );
}

#[test]
fn what_an_entry_does_not_say_follows_from_its_kind() {
    let entry = |kind: &str| {
        let text = format!("[[key]]\nname = \"x\"\nkey = 1\n{kind}\n");
        let entry = &dictionary(&text).keys[0].declared.value;
        (entry.kind, entry.long_lived, entry.max_hold)
    };
    assert_eq!(entry(""), (Kind::Mutex, false, None));
    assert_eq!(entry("kind = \"job\""), (Kind::Job, false, Some(Duration::from_secs(900))));
    assert_eq!(entry("kind = \"migration\""), (Kind::Migration, false, Some(Duration::from_secs(3600))));
    assert_eq!(entry("kind = \"leader\""), (Kind::Leader, true, None));
    assert_eq!(entry("kind = \"registration\""), (Kind::Registration, true, None));
    assert_eq!(entry("kind = \"leader\"\nlong_lived = false"), (Kind::Leader, false, None));
    assert_eq!(entry("kind = \"job\"\nlong_lived = true"), (Kind::Job, true, None));
}

#[test]
fn keys_are_named_in_every_way() {
    assert_eq!(matcher("key = -5"), Matcher::Exact(from_bigint(-5)));
    assert_eq!(matcher("key = 18446744073709551611"), Matcher::Exact(from_bigint(-5)));
    assert_eq!(matcher("key = 0xFFFFFFFFFFFFFFFB"), Matcher::Exact(from_bigint(-5)));
    assert_eq!(matcher("key = \"0xFFFFFFFFFFFFFFFB\""), Matcher::Exact(from_bigint(-5)));
    assert_eq!(matcher("key = 612_001"), Matcher::Exact(from_bigint(612_001)));
    assert_eq!(matcher("key = \"1001/0/29749\""), Matcher::Exact(parse("1001/0/29749").unwrap()));
    assert_eq!(matcher("pair = [1, 42]"), Matcher::Exact(from_pair(1, 42)));
    assert_eq!(matcher("pair = [-1, 4294967295]"), Matcher::Exact(from_pair(-1, -1)));
    assert_eq!(matcher("class = 4294967294"), Matcher::Class(-2));
    assert_eq!(matcher("range = [-5, 1999]"), Matcher::Range(-5..=1999));
    assert_eq!(matcher("hash = \"hashtext\""), Matcher::Exact(from_bigint(370_782_098)));
    assert_eq!(matcher("hash = \"hashtext\"\ninput = \"pg_backup\""), Matcher::Exact(from_bigint(-1_010_065_801)));
    assert_eq!(
        matcher("hash = \"hashtext\"\ninput = \"default\"\nclass = 100"),
        Matcher::Exact(from_pair(100, 822_708_183))
    );
    assert_eq!(
        matcher("hash = \"hashtextextended\"\ninput = \"a\"\nseed = 1"),
        Matcher::Exact(from_bigint(3_325_245_193_489_759_299))
    );
    assert_eq!(matcher("preset = \"wal-g\""), Matcher::Exact(from_bigint(-1_010_065_801)));
    assert_eq!(
        matcher("preset = \"rails-migrations\"\ndatabase = \"app_production\""),
        Matcher::Exact(from_bigint(4_615_154_450_383_096_620))
    );
    assert_eq!(
        matcher("preset = \"golang-migrate\"\ndatabase = \"app_production\""),
        Matcher::OneOf(vec![from_bigint(1_005_908_165), from_bigint(4_200_097_840)])
    );
    assert_eq!(matcher("preset = \"commanded-eventstore\"\noid = 16400"), Matcher::Class(16400));
    let Matcher::PerDatabase(formula) = matcher("preset = \"rails-migrations\"") else { panic!() };
    assert_eq!(formula.keys("app_production"), [from_bigint(4_615_154_450_383_096_620)]);
}

#[test]
fn a_preset_brings_its_kind_along() {
    let text = "[[key]]\nname = \"schema\"\npreset = \"rails-migrations\"\n[[key]]\nname = \"m\"\npreset = \"goose\"\nkind = \"mutex\"\n";
    let dictionary = dictionary(text);
    let kinds: Vec<Kind> = dictionary.keys.iter().map(|key| key.declared.value.kind).collect();
    assert_eq!(kinds, [Kind::Migration, Kind::Mutex]);
}

#[test]
fn holders_and_silences_with_every_field() {
    let text = r#"
[[holder]]
name = "GoodJob workers"
applications = ["good_job*"]
users = ["app"]
databases = ["app*"]
clients = ["10.0.0.0/8", "::1"]
expected = true
max_hold = "2h"
[[silence]]
rules = ["key-hoard"]
names = ["nightly-report"]
keys = ["6", 7, "(1,42)"]
applications = ["web*"]
users = ["app"]
databases = ["app"]
reason = "OPS-4711"
until = "2026-12-31"
"#;
    let dictionary = dictionary(text);
    let holder = &dictionary.holders[0].value;
    assert!(holder.expected && holder.max_hold == Some(Duration::from_secs(7200)));
    assert!(holder.matches(Some("good_job 3"), Some("app"), Some("app2"), Some("10.1.2.3")));
    assert!(holder.matches(Some("good_job 3"), Some("app"), Some("app2"), Some("::1")));
    assert!(!holder.matches(Some("good_job 3"), Some("app"), Some("app2"), Some("11.1.2.3")));
    assert!(!holder.matches(Some("good_job 3"), None, Some("app2"), Some("10.1.2.3")));
    assert!(!holder.matches(Some("good_job 3"), Some("app"), Some("app2"), None));
    let silence = &dictionary.silences[0].value;
    assert_eq!(silence.keys, [from_bigint(6), from_bigint(7), from_pair(1, 42)]);
    assert_eq!(silence.reason, "OPS-4711");
    assert_eq!(silence.until.map(|until| until.to_string()).as_deref(), Some("2026-12-31"));
    assert!(silence.applications.matches("web-1") && silence.names == ["nightly-report"]);
}

#[test]
fn every_problem_of_a_file_is_told_at_once() {
    let text = r#"[[key]]
name = "a"
key = 612001
colour = "red"
max_hold = "10"

[[key]]
nam = "b"
pair = [1, 4294967296]

[[key]]
name = "a"
hash = "hashtxt"
long_lived = "yes"
kind = "jobs"

[[key]]
name = "c"
range = [5, 4]
holders = "4..0"
applications = ["[a"]

[[keys]]
name = "d"
"#;
    assert_eq!(
        problems(text),
        [
            "4:1: a [[key]] has no field `colour`: it may have: name, kind, owner, team, contact, note, runbook, scope, \
             long_lived, waiters, holders, max_hold, applications, databases, targets, key, pair, class, range, hash, \
             preset, input, seed",
            "5:12: `max_hold` cannot be `10`: write a length of time such as 90s, 15m or 1h30m",
            "7:1: a [[key]] needs a `name`",
            "8:1: a [[key]] has no field `nam`: did you mean `name`?",
            "9:12: `pair` is out of range for an int4: -2147483648 to 4294967295",
            "13:8: `hash` cannot be `hashtxt`: it is one of hashtext, hashtextextended, crc32, fnv1-32, fnv1a-32, \
             fnv1-64, fnv1a-64, md5-64, sha256-64 (did you mean `hashtext`?)",
            "14:14: `long_lived` must be true or false, not a text",
            "15:8: `kind` cannot be `jobs`: it is one of mutex, job, migration, leader, registration (did you mean \
             `job`?)",
            "19:9: `range` is empty: 5 is greater than 4",
            "20:11: `holders` cannot be `4..0`: write a number such as 1, or a range such as \"0..4\"",
            "21:17: `applications` has a pattern that is not a glob: unclosed character class; missing ']'",
            "23:3: the file has no table or field `keys` at its top: did you mean `key`?",
        ]
    );
}

#[test]
fn two_entries_of_one_name_are_told() {
    let text = "[[key]]\nname = \"a\"\nkey = 1\n[[key]]\nname = \"a\"\nkey = 2\n";
    assert_eq!(problems(text), ["5:8: two [[key]] entries are called \"a\": the first is in line 2"]);
}

#[test]
fn an_entry_names_its_keys_in_exactly_one_way() {
    let entry = |fields: &str| problems(&format!("[[key]]\nname = \"a\"\n{fields}\n"));
    assert_eq!(entry(""), ["1:1: \"a\" names no key: give it one of key, pair, class, range, hash, preset"]);
    assert_eq!(
        entry("key = 1\nclass = 2"),
        ["4:9: `key` and `class` exclude each other: an entry names its keys in one way"]
    );
    assert_eq!(entry("key = 1\ninput = \"x\""), ["4:9: `input` goes with `hash`, not with `key`"]);
    assert_eq!(
        entry("hash = \"md5-64\"\nclass = 2"),
        ["4:9: md5-64 has 64 bits and does not fit into a pair: leave `class` out"]
    );
    assert_eq!(entry("hash = \"crc32\"\nseed = 2"), ["4:8: `seed` goes with hashtextextended only"]);
    assert_eq!(entry("key = 1.5"), ["3:7: `key` must be a number, not a number with a fraction"]);
    assert_eq!(entry("range = [1, \"(1,2)\"]"), ["3:13: `range` is of bigint keys: for pairs there is `class`"]);
    assert_eq!(
        entry("range = 5"),
        ["3:9: `range` must be the first and the last bigint key, as [1000, 1999], not a number"]
    );
    assert_eq!(entry("pair = [1]"), ["3:8: `pair` must be two numbers, as [1, 42]"]);
    assert_eq!(entry("key = 99999999999999999999999999999999999999999999999999").len(), 1);
    assert!(entry("key = \"x\"")[0].starts_with("3:7: `x` is not an advisory key"));
}

#[test]
fn wrong_presets_and_parameters_are_told() {
    let entry = |fields: &str| problems(&format!("[[key]]\nname = \"a\"\n{fields}\n"));
    assert_eq!(
        entry("preset = \"rails-migration\""),
        ["3:10: there is no preset `rails-migration`: did you mean `rails-migrations`?"]
    );
    assert_eq!(
        entry("preset = \"zzz\"\ndatabase = \"x\""),
        ["3:10: there is no preset `zzz`: `pglockwatch keys hash --help` lists them"]
    );
    assert_eq!(entry("preset = \"pg-repack\""), ["3:10: preset pg-repack needs the parameter `oid`"]);
    assert_eq!(entry("preset = \"pg-repack\"\noid = -1"), ["4:7: `oid` is out of range for 32 bits: 0 to 4294967295"]);
    assert_eq!(entry("preset = \"goose\"\ninput = \"x\""), ["4:9: preset goose has no parameter `input`"]);
    assert_eq!(entry("preset = \"prefect\"\nuuid = \"x\""), ["3:10: preset prefect: `uuid` = `x` is not a uuid"]);
    assert!(entry("preset = \"goose\"\ndatabase = \"x\"")[0].starts_with("4:1: a [[key]] has no field `database`"));
}

#[test]
fn holders_and_silences_that_cover_everything_are_refused() {
    let text = r#"
[[holder]]
name = "x"
clients = ["10.0.0.0/8", "10.0.0.0/33"]
[[holder]]
name = "y"
[[silence]]
reason = "r"
[[silence]]
rules = []
[[silence]]
rules = "idle-holder"
reason = " "
until = "31.12.2026"
"#;
    assert_eq!(
        problems(text),
        [
            "4:26: `clients` cannot have `10.0.0.0/33`: write networks such as 10.0.0.0/8 or addresses such as ::1",
            "5:1: a [[holder]] needs one or more of applications, users, databases, clients",
            "7:1: a [[silence]] needs one or more of rules, names, keys, applications, users, databases: else it would \
             silence everything",
            "9:1: a [[silence]] needs a `reason`",
            "10:9: `rules` is empty: name something or leave the field out",
            "12:9: `rules` must be a list of texts, as [\"one\", \"two\"], not a text",
            "13:10: `reason` must not be empty and not hold control characters",
            "14:9: `until` cannot be `31.12.2026`: write a day such as 2026-12-31",
        ]
    );
}

#[test]
fn broken_syntax_is_told_without_what_only_follows_from_it() {
    let found = problems("[[key]]\nname = \"a\nkey = 5\n\n[[key]]\nkey = = 5\nname = \"b\"\nname = \"c\"\n");
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found.iter().all(|problem| problem.contains("this is not TOML")), "{found:#?}");
    assert!(found[0].starts_with("2:") && found[1].starts_with("6:") && found[2].starts_with("8:"), "{found:#?}");
}

#[test]
fn the_config_file_may_hold_the_same_tables() {
    let text = "interval = \"5s\"\n[web]\nlisten_address = [\"x\"]\n[[key]]\nname = \"a\"\nkey = 1\n";
    assert_eq!(problems(text).len(), 2);
    let dictionary = Dictionary::parse_beside("pglockwatch.toml", text, &["interval", "web"]).unwrap();
    assert_eq!(dictionary.keys.len(), 1);
    let table = DeTable::parse(text).unwrap();
    assert_eq!(Dictionary::parse_tables("pglockwatch.toml", text, table.get_ref()).unwrap().keys.len(), 1);
}

#[test]
fn tables_of_the_wrong_shape_are_told() {
    for (text, count) in
        [("key = 1", 1), ("[key]\nname = \"a\"", 1), ("key = [1, {name = \"a\", key = 5}]", 1), ("", 0)]
    {
        assert_eq!(problems(text).len(), count, "{text}: {:?}", problems(text));
    }
}

#[test]
fn a_config_file_in_a_dictionarys_place_does_not_show_its_password() {
    for text in ["host=h password=hunter2\n", "dsn = \"host=h password=hunter2\"\n", "[[target]]\ndsn=hunter2\n"] {
        let problems = Dictionary::parse("k.toml", text).unwrap_err();
        let shown: String = problems.iter().map(ToString::to_string).collect();
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
