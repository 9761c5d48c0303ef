use super::*;
use crate::keys::key::{from_bigint, from_pair, parse};

fn book(text: &str) -> KeyBook {
    let dictionary = Dictionary::parse("keys.toml", text).unwrap_or_else(|problems| panic!("{problems:?}"));
    KeyBook::new(&[dictionary])
}

fn labels(book: &KeyBook, key: &str, known: LookUp<'_>) -> Vec<String> {
    book.names(parse(key).unwrap(), known).into_iter().map(|name| name.label).collect()
}

const CASE: &str = r#"
[[key]]
name = "nightly-report"
key = 612001
[[key]]
name = "one-user"
pair = [1, 42]
[[key]]
name = "customer-rebuild"
class = 2
[[key]]
name = "legacy-jobs"
range = [1000, 1999]
[[key]]
name = "sync_inventory"
hash = "hashtext"
[[key]]
name = "nightly"
hash = "hashtext"
class = 100
[[key]]
name = "rollup"
hash = "hashtextextended"
"#;

#[test]
fn exact_keys_classes_ranges_and_hashes_have_their_names() {
    let book = book(CASE);
    let known = LookUp { database: Some("postgres"), ..LookUp::default() };
    for (key, expected) in [
        ("612001", "nightly-report"),
        ("(1,42)", "one-user"),
        ("(2,1234)", "customer-rebuild(1234)"),
        ("(2,-1)", "customer-rebuild(-1)"),
        ("1000", "legacy-jobs"),
        ("1999", "legacy-jobs"),
        ("370782098", "sync_inventory"),
    ] {
        assert_eq!(labels(&book, key, known), [expected], "{key}");
    }
    let nightly = crate::keys::hash::hashtext(b"nightly");
    assert_eq!(book.names(from_pair(100, nightly), known)[0].name, "nightly");
    let rollup = crate::keys::hash::hashtextextended(b"rollup", 0);
    assert_eq!(book.names(from_bigint(rollup), known)[0].name, "rollup");
    for key in ["999", "2000", "(1,43)", "42", "2/1234/1", "0/612001/2", "0/612001/9999"] {
        assert_eq!(labels(&book, key, known), Vec::<String>::new(), "{key}");
    }
    let class = &book.names(from_pair(2, 7), known)[0];
    assert_eq!((class.name.as_str(), class.label.as_str()), ("customer-rebuild", "customer-rebuild(7)"));
    assert_eq!(class.source, Source::Dictionary);
    assert!(class.entry.as_ref().is_some_and(|entry| entry.name == "customer-rebuild"));
}

#[test]
fn exact_matches_hide_classes_and_ranges_and_equals_are_all_returned() {
    let text = r#"
[[key]]
name = "range"
range = [0, 100]
[[key]]
name = "overlapping"
range = [50, 200]
[[key]]
name = "exact"
key = 60
[[key]]
name = "also exact"
key = "0x3C"
[[key]]
name = "class"
class = 7
[[key]]
name = "pair"
pair = [7, 1]
"#;
    let book = book(text);
    let known = LookUp::default();
    assert_eq!(labels(&book, "60", known), ["exact", "also exact"]);
    assert_eq!(labels(&book, "70", known), ["range", "overlapping"]);
    assert_eq!(labels(&book, "(7,1)", known), ["pair"]);
    assert_eq!(labels(&book, "(7,2)", known), ["class(2)"]);
}

#[test]
fn databases_and_targets_filter_before_rank_decides() {
    let text = r#"
[[key]]
name = "in app"
key = 5
databases = ["app*"]
[[key]]
name = "on orders"
key = 5
targets = ["orders-*"]
databases = ["shop"]
[[key]]
name = "range"
range = [0, 10]
"#;
    let book = book(text);
    let at = |target, database| labels(&book, "5", LookUp { database, target, ..LookUp::default() });
    assert_eq!(at("x", Some("app2")), ["in app"]);
    assert_eq!(at("orders-eu", Some("shop")), ["on orders"]);
    assert_eq!(at("x", Some("shop")), ["range"]);
    assert_eq!(at("orders-eu", None), ["range"], "a database without a name is in no list");
}

#[test]
fn the_dictionary_wins_over_built_in_names_which_can_be_left_out() {
    let text = "[[key]]\nname = \"ours\"\nkey = 72707369\n[[key]]\nname = \"wide\"\nrange = [4097083000, 4097084000]\n";
    let book = book(text);
    assert_eq!(labels(&book, "72707369", LookUp::default()), ["ours"]);
    assert_eq!(labels(&book, "4097083626", LookUp::default()), ["wide"]);
    assert_eq!(labels(&book, "75474063", LookUp::default()), ["Sqitch"]);
    let without = book.without_well_known();
    assert_eq!(labels(&without, "75474063", LookUp::default()), Vec::<String>::new());
    assert_eq!(labels(&without, "1001/0/29749", LookUp::default()), Vec::<String>::new());
    assert_eq!(labels(&without, "72707369", LookUp::default()), ["ours"]);
}

#[test]
fn presets_without_a_database_match_in_each_database_by_its_own_name() {
    let text = "[[key]]\nname = \"schema\"\npreset = \"rails-migrations\"\nowner = \"platform\"\n";
    for book in [book(text), book(text).without_well_known()] {
        let at = |database| labels(&book, "4615154450383096620", LookUp { database, ..LookUp::default() });
        assert_eq!(at(Some("app_production")), ["schema"]);
        assert_eq!(at(Some("app_staging")), Vec::<String>::new());
        assert_eq!(at(None), Vec::<String>::new());
    }
}

#[test]
fn a_preset_with_two_spellings_names_both() {
    let text = "[[key]]\nname = \"schema\"\npreset = \"golang-migrate\"\ndatabase = \"app_production\"\n";
    let book = book(text).without_well_known();
    assert_eq!(labels(&book, "1005908165", LookUp::default()), ["schema"]);
    assert_eq!(labels(&book, "4200097840", LookUp::default()), ["schema"]);
    assert_eq!(book.entries()[0].matcher.text(), "1005908165 or 4200097840");
}

#[test]
fn several_files_are_one_book() {
    let parse = |text| Dictionary::parse("x", text).unwrap();
    let book = KeyBook::new(&[
        parse("[[key]]\nname = \"a\"\nkey = 5\n[[holder]]\nname = \"h\"\nusers = [\"x\"]\n"),
        parse("[[key]]\nname = \"b\"\nkey = 5\n[[silence]]\nrules = [\"r\"]\nreason = \"s\"\n"),
    ]);
    assert_eq!(labels(&book, "5", LookUp::default()), ["a", "b"]);
    assert_eq!((book.entries().len(), book.holders().len(), book.silences().len()), (2, 1, 1));
}

#[test]
fn more_databases_than_are_remembered_change_no_name() {
    let book = KeyBook::default();
    let key = from_bigint(4_615_154_450_383_096_620);
    for number in 0..MOST_DATABASES + 10 {
        let name = format!("db{number}");
        assert!(book.names(key, LookUp { database: Some(&name), ..LookUp::default() }).is_empty());
    }
    assert!(book.databases.read().unwrap().len() <= MOST_DATABASES);
    let known = LookUp { database: Some("app_production"), ..LookUp::default() };
    assert_eq!(book.names(key, known)[0].name, "Rails migrations");
}
