//! PostgreSQL's own hashes, asked of real servers: `hashtext` and `hashtextextended` of thousands of texts.

use std::fmt::Write as _;

use pglockwatch::app::demo::Binaries;
use pglockwatch::keys::hash::{hashtext, hashtextextended};
use postgres::{Client, NoTls, SimpleQueryMessage};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::support::{say, server};

/// How many texts go into one statement.
const BATCH: usize = 500;

#[test]
fn on_postgresql_12() {
    on_major(12);
}

#[test]
fn on_postgresql_15_or_what_the_machine_has() {
    ask(&server::any());
}

#[test]
fn on_postgresql_18() {
    on_major(18);
}

fn on_major(major: u32) {
    match server::of_major(major) {
        Some(binaries) => ask(&binaries),
        None => say(&format!("SKIPPED: PostgreSQL {major}'s hashes; it is not on this machine (tests/run fetches it)")),
    }
}

fn ask(binaries: &Binaries) {
    let cluster = server::start(binaries, &[]);
    hashes_agree_with_the_server(&mut cluster.config().connect(NoTls).unwrap());
}

/// Every length from 0 to 600, some long ones, texts that quoting could break, and 3,000 random ones with random seeds.
fn hashes_agree_with_the_server(client: &mut Client) {
    let mut runner = TestRunner::deterministic();
    // U+0000 is the one character that PostgreSQL's text cannot hold.
    let text = prop::collection::vec(any::<char>().prop_filter("no NUL", |c| *c != '\0'), 0..40);
    let pair = (text, prop_oneof![Just(0_i64), Just(1), Just(-1), Just(i64::MIN), Just(i64::MAX), any::<i64>()]);
    let of_length = |length: usize| "größe_日".chars().cycle().take(length).collect::<String>();
    let mut cases: Vec<(String, i64)> = (0..=600).map(|length| (of_length(length), 0)).collect();
    // By the byte too: the hash takes twelve at a time.
    cases.extend((0..=64).map(|length| ("x".repeat(length), 7)));
    cases.extend([4095, 8192, 65_537, 1_000_000].map(|length| (of_length(length), -7)));
    cases.extend(["'", "\\", "a'b\\c\"d", "\n\t\u{1b}", "日本語", "😀😀"].map(|text| (text.to_owned(), 1 << 32)));
    for _ in 0..3000 {
        let (chars, seed) = pair.new_tree(&mut runner).expect("a value can be made").current();
        cases.push((chars.into_iter().collect(), seed));
    }
    let checked: usize = cases.chunks(BATCH).map(|batch| check(client, batch)).sum();
    assert_eq!(checked, cases.len());
}

/// Asks for one batch and compares; returns how many were compared.
fn check(client: &mut Client, batch: &[(String, i64)]) -> usize {
    let rows: Vec<String> = batch
        .iter()
        .enumerate()
        .map(|(place, (text, seed))| {
            // As hex, so that no quoting comes between the text and its bytes; the smallest bigint needs its quotes.
            let mut hex = String::with_capacity(2 * text.len());
            text.bytes().for_each(|byte| write!(hex, "{byte:02x}").unwrap());
            format!("({place}, convert_from(decode('{hex}', 'hex'), 'UTF8'), '{seed}'::bigint)")
        })
        .collect();
    let sql = format!(
        "SELECT hashtext(t), hashtextextended(t, s) FROM (VALUES {}) AS v(n, t, s) ORDER BY n",
        rows.join(", ")
    );
    let mut answers =
        client.simple_query(&sql).expect("the server hashes").into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                let number = |place: usize| row.get(place).expect("no hash of a text is NULL").to_owned();
                Some((number(0), number(1)))
            }
            _ => None,
        });
    for (text, seed) in batch {
        let (int4, int8) = answers.next().expect("one row for each text");
        assert_eq!(hashtext(text.as_bytes()).to_string(), int4, "hashtext of {text:?}");
        assert_eq!(hashtextextended(text.as_bytes(), *seed).to_string(), int8, "hashtextextended of {text:?}, {seed}");
    }
    batch.len()
}
