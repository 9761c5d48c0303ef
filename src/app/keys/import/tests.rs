use clap::Parser;

use super::*;
use crate::cli::keys::KeysCommand;
use crate::keys::Dictionary;

/// `keys` alone.
#[derive(Debug, Parser)]
struct Harness {
    #[command(flatten)]
    keys: KeysArgs,
}

fn parse(line: &str) -> KeysArgs {
    Harness::try_parse_from(["keys", "import"].into_iter().chain(line.split(' ')))
        .unwrap_or_else(|e| panic!("{e}"))
        .keys
}

fn import_of(args: &KeysArgs) -> &ImportArgs {
    let KeysCommand::Import(import) = &args.command else { panic!("not import") };
    import
}

struct Answer {
    code: u8,
    out: String,
    err: String,
}

/// What becomes of rows in a database of that encoding. What is printed must be a dictionary.
fn rows_in(encoding: &str, line: &str, rows: &[&[Option<&str>]]) -> Answer {
    let args = parse(line);
    let own = |row: &&[Option<&str>]| row.iter().map(|value| value.map(str::to_owned)).collect();
    let read = TableRows { encoding: encoding.to_owned(), rows: rows.iter().map(own).collect() };
    let table = Table { read, origin: "keys of the\nworld".to_owned() };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&args, import_of(&args), &table, &mut out, &mut err).unwrap();
    let answer = Answer { code, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() };
    Dictionary::parse("import.toml", &answer.out).unwrap_or_else(|problems| panic!("{problems:?}\n{}", answer.out));
    answer
}

fn import(line: &str, rows: &[&[Option<&str>]]) -> Answer {
    rows_in("UTF8", line, rows)
}

#[test]
fn the_columns_that_are_named_are_read() {
    let args = parse("--from-table t --class-column c --objid-column o --note-column n");
    assert_eq!(select(&args, import_of(&args)).unwrap().columns, ["name", "c", "o", "n"]);
    let wrong = |line: &str| {
        let args = parse(line);
        select(&args, import_of(&args)).unwrap_err()
    };
    assert!(wrong("--from-table a.b.c --key-column k").contains("double quotes"));
    assert!(wrong("--from-table t --key-column k --format json").contains("TOML"));
    assert!(wrong("--from-table t --key-column k --table x").contains("--from-table SCHEMA.TABLE"));
    assert!(wrong("--from-table t --hash md5-64 --class-column c").contains("64 bits"));
    for refused in [
        "--from-table t",
        "--key-column k",
        "--from-table t --key-column k --hash crc32",
        "--from-table t --objid-column o",
    ] {
        assert!(
            Harness::try_parse_from(["keys", "import"].into_iter().chain(refused.split(' '))).is_err(),
            "{refused}"
        );
    }
}

#[test]
fn rows_become_entries_in_the_order_of_names() {
    let line = "--from-table t --key-column k --kind-column kind --owner-column o --max-hold-column m --kind job";
    let answer = import(
        line,
        &[
            &[Some("b"), Some("(1,-42)"), Some("Leader"), Some(" "), None],
            &[Some("a"), Some("18446744073709551611"), None, Some("Bil\"ling\n"), Some("@ 1 hour 30 mins")],
            &[Some("c"), Some("1001/0/29749"), Some("lease"), None, Some("soon")],
        ],
    );
    assert_eq!(
        answer.out,
        "# keys of the\u{fffd}world, by pglockwatch keys import\n\n\
         [[key]]\nname = \"a\"\nkey = -5\nkind = \"job\"\nowner = \"Bil\\\"ling\"\nmax_hold = \"1h 30m\"\n\n\
         [[key]]\nname = \"b\"\npair = [1, -42]\nkind = \"leader\"\n\n\
         [[key]]\nname = \"c\"\nkey = \"1001/0/29749\"\nkind = \"job\"\n"
    );
    assert_eq!(answer.err.lines().count(), 2, "{}", answer.err);
    assert!(answer.err.contains("`lease` is none of mutex, job") && answer.err.contains("`soon` is no length of time"));
    assert_eq!(answer.code, GOOD);
}

#[test]
fn rows_without_a_usable_key_or_name_are_told_and_left_out() {
    let line = "--from-table t --class-column c --objid-column o";
    let answer = import(
        line,
        &[
            &[Some("good"), Some("4294967295"), Some("-2147483648")],
            &[Some("null"), None, Some("1")],
            &[Some("null second"), Some("1"), None],
            &[Some("wide"), Some("4294967296"), Some("1")],
            &[None, Some("1"), Some("2")],
            &[Some(" "), Some("1"), Some("3")],
        ],
    );
    assert_eq!(answer.out.matches("[[key]]").count(), 1, "{}", answer.out);
    assert!(answer.out.contains("pair = [-1, -2147483648]\n"), "{}", answer.out);
    for told in [
        "\"null\": c is NULL",
        "\"null second\": o is NULL",
        "`4294967296` is no int4",
        "a row without a name",
        "name is empty",
    ] {
        assert!(answer.err.contains(told), "no {told:?} in {}", answer.err);
    }
    let nothing = import("--from-table t --key-column k", &[&[Some("x"), Some("18446744073709551616")]]);
    assert_eq!(nothing.code, BAD);
    assert!(nothing.err.contains("does not fit into 64 bits"), "{}", nothing.err);
}

#[test]
fn a_second_row_of_a_name_becomes_a_comment() {
    let answer = import(
        "--from-table t --key-column k --note-column n",
        &[&[Some("x"), Some("1"), None], &[Some("x"), Some("2"), Some("a\nb")], &[Some("y"), Some("2"), None]],
    );
    assert!(
        answer.out.contains("# [[key]]\n# name = \"x\"\n# key = 2\n# note = \"a\\nb\"\n\n[[key]]\nname = \"y\""),
        "{}",
        answer.out
    );
    assert!(answer.err.contains("another row has this name"), "{}", answer.err);
}

#[test]
fn hashed_texts_keep_what_is_hashed() {
    let answer = import(
        "--from-table t --hash hashtext --input-column i --class-column c --database a*b",
        &[&[Some("a"), Some("7"), Some("tenant\u{1b}:ä")], &[Some("same"), Some("-1"), Some("same")]],
    );
    assert!(answer.out.contains("hash = \"hashtext\"\ninput = \"tenant\\u001B:ä\"\nclass = 7\n"), "{}", answer.out);
    assert!(answer.out.contains("hash = \"hashtext\"\nclass = -1\ndatabases = [\"a\\\\*b\"]\n"), "{}", answer.out);
    // A name that had to be changed is still hashed as it was.
    let answer = import("--from-table t --hash crc32", &[&[Some("n\u{202e}")]]);
    assert!(answer.out.contains("name = \"n\u{fffd}\"\nhash = \"crc32\"\ninput = \"n\\u202E\"\n"), "{}", answer.out);
    let latin = [&[Some("größe")][..], &[Some("plain")]];
    let answer = rows_in("LATIN1", "--from-table t --hash hashtext", &latin);
    assert!(answer.err.contains("encoding LATIN1") && !answer.out.contains("größe"), "{}", answer.err);
    assert_eq!(rows_in("LATIN1", "--from-table t --hash crc32", &latin).err, "");
    let answer = rows_in("SQL_ASCII", "--from-table t --hash hashtext", &[&[Some("gr\u{fffd}sse")], &[Some("größe")]]);
    assert_eq!(answer.out.matches("[[key]]").count(), 1, "{}", answer.out);
}

#[test]
fn far_too_many_rows_are_no_list_of_keys() {
    let row: &[Option<&str>] = &[Some("x"), Some("1")];
    let answer = import("--from-table t --key-column k", &vec![row; MOST_ROWS + 1]);
    assert_eq!((answer.code, answer.out.as_str()), (BAD, ""));
    assert!(answer.err.contains("make a view"), "{}", answer.err);
}
