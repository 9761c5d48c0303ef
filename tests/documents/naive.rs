//! What the README says about the query that everybody has, tried on the demo's server.

use pglockwatch::app::demo::Planted;
use postgres::{Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

/// Runs the query where the README says that it misleads, and holds each sentence of the README's table against it.
pub fn misleads(query: &str, planted: &Planted) {
    let config: Config = planted.dsn.parse().unwrap();
    let mut superuser = config.connect(NoTls).unwrap();
    let rows = run(&mut superuser, query);
    let of = |application: &str| -> Vec<&SimpleQueryRow> {
        rows.iter().filter(|row| row.get("application_name") == Some(application)).collect()
    };

    let mut prepared =
        superuser.simple_query("SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid IS NULL").unwrap();
    prepared.retain(|message| matches!(message, SimpleQueryMessage::Row(_)));
    assert_eq!(prepared.len(), 1, "a prepared transaction holds a lock");
    assert!(rows.iter().all(|row| row.get("objid") != Some("4242")), "and the query has no row for it");

    let last = rows.last().unwrap();
    assert_eq!(last.get("application_name"), Some("api"), "the leak on a busy connection is the last row");
    assert!(last.get("held_for").unwrap() < "00:00:02", "{:?}", last.get("held_for"));
    assert!(!last.get("query").unwrap().contains("advisory"), "and shows a request that did not take the lock");

    let (leader, leak) = (of("scheduler")[0], of("report-worker")[0]);
    assert_eq!(leader.get("state"), leak.get("state"), "a leader looks like a leak");

    let migrators = of("prisma");
    // Which of them is older depends on which of two sessions began its statement first: by a moment.
    let mut granted: Vec<_> = migrators.iter().map(|row| row.get("granted").unwrap()).collect();
    granted.sort_unstable();
    assert_eq!(granted, ["f", "t"], "the migration at work stands beside who waits for it");

    assert_eq!(of("mailer").len(), 4, "a starved pool is four rows");
    let rails = of("rails")[0];
    assert_eq!((rails.get("classid"), rails.get("objid")), (Some("1074549381"), Some("1051052844")));

    same_numbers(query, &config, &mut superuser);
    blind(query, &config, &mut superuser);
}

/// 42, (0,42), and 42 in another database.
fn same_numbers(query: &str, config: &Config, superuser: &mut Client) {
    let mut elsewhere = config.clone().dbname("postgres").connect(NoTls).unwrap();
    let mut pair = config.connect(NoTls).unwrap();
    let mut bigint = config.connect(NoTls).unwrap();
    elsewhere.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    pair.batch_execute("SELECT pg_advisory_lock(0, 42)").unwrap();
    bigint.batch_execute("SELECT pg_advisory_lock(42)").unwrap();
    let rows = run(superuser, query);
    let same = rows.iter().filter(|row| (row.get("classid"), row.get("objid")) == (Some("0"), Some("42")));
    assert_eq!(same.filter(|row| row.get("granted") == Some("t")).count(), 3);
}

fn blind(query: &str, config: &Config, superuser: &mut Client) {
    superuser.batch_execute("CREATE ROLE blind LOGIN").unwrap();
    let mut blind = config.clone().user("blind").connect(NoTls).unwrap();
    let rows = run(&mut blind, query);
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row.get("state").is_none() && row.get("held_for").is_none()));
}

fn run(client: &mut Client, query: &str) -> Vec<SimpleQueryRow> {
    let messages = client.simple_query(query).unwrap();
    messages
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        })
        .collect()
}
