use super::*;

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn settings(targets: usize) -> Settings<'static> {
    Settings { today: day("2026-11-29"), targets, rules: &["idle-holder", "key-hoard"] }
}

fn file<'a>(name: &'a str, text: &'a str) -> File<'a> {
    File { name, text, other_tables: &[], targets: &[] }
}

fn messages(files: &[File<'_>], targets: usize) -> Vec<String> {
    lint(files, settings(targets))
        .problems
        .iter()
        .map(|problem| format!("{}:{}:{}: {}", problem.file, problem.line, problem.column, problem.message))
        .collect()
}

#[test]
fn two_names_on_one_key_are_shown_with_both_places() {
    let text =
        "[[key]]\nname = \"nightly-report\"\nkey = 612001\n\n[[key]]\nname = \"billing-report\"\nkey = 0x956A1\n";
    let found = lint(&[file("keys.toml", text)], settings(1));
    assert_eq!(
        found.problems[0].to_string(),
        "keys.toml:7:7: `612001` is the key of two names: \"nightly-report\" (line 2) and \"billing-report\"\n  \
         |\n7 | key = 0x956A1\n  |       ^^^^^^^"
    );
    assert_eq!((found.problems.len(), found.problems[0].level), (1, Level::Lint));
    assert_eq!(found.counts, [2, 0, 0]);
}

#[test]
fn whatever_way_the_key_is_written_a_collision_is_found() {
    let text = r#"
[[key]]
name = "a"
hash = "hashtext"
input = "pg_backup"
[[key]]
name = "b"
key = "4294967295/3284901495/1"
[[key]]
name = "c"
preset = "wal-g"
[[key]]
name = "d"
pair = [1, 42]
[[key]]
name = "e"
key = "(1,42)"
[[key]]
name = "f"
class = 1
"#;
    let found = messages(&[file("k", text)], 1);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found[0].starts_with("k:8:7: `-1010065801` is the key of two names: \"a\" (line 3) and \"b\""),
        "{found:?}"
    );
    assert!(found[1].contains("\"a\" (line 3) and \"c\""));
    assert!(found[2].starts_with("k:17:7: `(1,42)` is the key of two names: \"d\""));
}

#[test]
fn entries_that_are_never_valid_together_do_not_collide() {
    let text = r#"
[[key]]
name = "a"
key = 1
databases = ["app"]
[[key]]
name = "b"
key = 1
databases = ["shop*"]
[[key]]
name = "c"
key = 1
databases = ["app"]
targets = ["x-*"]
[[key]]
name = "d"
key = 1
databases = ["shop_eu"]
"#;
    let found = messages(&[file("k", text)], 1);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("\"a\" (line 3) and \"c\""));
    assert!(found[1].contains("\"b\" (line 7) and \"d\""));
}

#[test]
fn overlapping_ranges_and_equal_classes_are_found() {
    let text = r#"
[[key]]
name = "wide"
range = [0, 10000]
[[key]]
name = "inner"
range = [100, 200]
[[key]]
name = "touching"
range = [10000, 10001]
[[key]]
name = "apart"
range = [10002, 10003]
[[key]]
name = "exact inside is fine"
key = 150
[[key]]
name = "class"
class = -1
[[key]]
name = "same class"
class = 4294967295
"#;
    let found = messages(&[file("k", text)], 1);
    assert_eq!(
        found,
        [
            "k:7:9: the ranges of \"wide\" (line 3) and \"inner\" overlap: both name 100 to 200",
            "k:10:9: the ranges of \"wide\" (line 3) and \"touching\" overlap: both name 10000",
            "k:22:9: `class` -1 is the key of two names: \"class\" (line 18) and \"same class\"",
        ]
    );
}

#[test]
fn conflicts_across_files_name_the_other_file() {
    let common = "[[key]]\nname = \"a\"\nkey = 5\n";
    let orders = "[[key]]\nname = \"b\"\nkey = 5\n[[key]]\nname = \"a\"\nkey = 6\n";
    let found = messages(&[file("common.toml", common), file("orders.toml", orders)], 1);
    assert_eq!(
        found,
        [
            "orders.toml:3:7: `5` is the key of two names: \"a\" (common.toml:2) and \"b\"",
            "orders.toml:5:8: two entries are called \"a\": the other is in common.toml:2",
        ]
    );
    let for_one = File { targets: &["orders"], ..file("common.toml", common) };
    let for_other = File { targets: &["billing"], ..file("orders.toml", orders) };
    assert_eq!(messages(&[for_one, for_other], 2), Vec::<String>::new());
}

#[test]
fn formulas_collide_with_each_other_and_with_constants_of_named_databases() {
    let text = r#"
[[key]]
name = "rails"
preset = "rails-migrations"
[[key]]
name = "rails again"
preset = "rails-migrations"
databases = ["app_production"]
[[key]]
name = "constant"
key = 4615154450383096620
[[key]]
name = "grafana"
preset = "grafana-migrations"
databases = ["app_production"]
"#;
    let found = messages(&[file("k", text)], 1);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("preset rails-migrations is the key of two names") || found[1].contains("preset"));
    assert!(found.iter().any(|m| m.contains("`4615154450383096620` in database app_production")), "{found:?}");
}

#[test]
fn holders_without_a_place_matter_only_with_several_targets() {
    let text = "[[key]]\nname = \"a\"\nkey = 5\nholders = 1\n[[key]]\nname = \"b\"\nkey = 6\nholders = \"0..4\"\ntargets = [\"x\"]\n";
    assert_eq!(messages(&[file("k", text)], 1), Vec::<String>::new());
    let found = messages(&[file("k", text)], 2);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("k:4:11: `holders` of \"a\" would be expected on every target"), "{found:?}");
    let own = File { targets: &["orders"], ..file("k", text) };
    assert_eq!(messages(&[own], 2), Vec::<String>::new());
}

#[test]
fn a_silence_that_does_nothing_is_told() {
    let text = r#"
[[silence]]
rules = ["key-hoard"]
reason = "OPS-4711"
until = "2026-11-28"
[[silence]]
rules = ["key-hoard", "key-horde"]
names = ["Rails migrations", "nobody"]
reason = "OPS-4712"
until = 2026-11-29
"#;
    let found = messages(&[file("k", text)], 1);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0], "k:5:9: this silence ran out after 2026-11-28 and does nothing: OPS-4711");
    assert!(found.iter().any(|m| m.contains("`key-horde`")) && found.iter().any(|m| m.contains("\"nobody\"")));
}

#[test]
fn errors_and_doubts_of_all_files_come_together_and_in_order() {
    let broken = "[[key]]\nname = \"a\"\nkey = \n[[key]]\nname = \"c\"\nkey = 5\ncolour = 1\n";
    let other = "[[key]]\nname = \"b\"\nkey = 5\n";
    let found = lint(&[file("one", broken), file("two", other)], settings(1));
    let places: Vec<(&str, usize, Level)> = found.problems.iter().map(|p| (&*p.file, p.line, p.level)).collect();
    assert_eq!(places, [("one", 3, Level::Error), ("one", 7, Level::Error), ("two", 3, Level::Lint)]);
}

#[test]
fn a_file_with_two_dozen_different_mistakes_gets_as_many_messages_each_at_its_place() {
    let text = include_str!("mistakes.toml");
    let found = lint(&[file("mistakes.toml", text)], settings(1));
    let places: Vec<(usize, usize)> = found.problems.iter().map(|problem| (problem.line, problem.column)).collect();
    let expected = [
        [(4, 1), (7, 7), (10, 8), (13, 9), (16, 9), (19, 8), (23, 9), (24, 1)],
        [(27, 8), (29, 1), (34, 8), (38, 9), (42, 12), (46, 11), (50, 16), (54, 11)],
        [(57, 10), (61, 14), (62, 1), (65, 1), (68, 1), (73, 9), (74, 3), (78, 7)],
    ];
    assert_eq!(places, expected.concat());
    let mut messages: Vec<&str> = found.problems.iter().map(|problem| problem.message.as_str()).collect();
    messages.sort_unstable();
    messages.dedup();
    assert_eq!(messages.len(), places.len(), "no message is said twice");
}
