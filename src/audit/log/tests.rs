use super::*;

fn read(log: &[u8]) -> LogReport {
    let mut reader = LogReader::default();
    reader.read(&mut &log[..]).unwrap();
    reader.into_report()
}

/// Pid, user, database, application and key of each unlock that failed.
fn unlocks(log: &str) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    read(log.as_bytes())
        .failed_unlocks
        .iter()
        .map(|unlock| {
            let Origin { pid, user, database, application, .. } = &unlock.origin;
            let key = unlock.key.map_or_else(|| "-".to_owned(), key::text);
            let names = [pid, user, database, application].map(text).join(" ");
            format!("{names} {} {key}", unlock.mode)
        })
        .collect()
}

#[test]
fn prefixes_that_people_use() {
    for (prefix, who) in [
        ("2026-11-29 23:18:41.893 UTC [5234] web@postgres my app ", "5234 web postgres my app"),
        ("2026-11-29 23:18:41.893 UTC [5234] ", "5234 - - -"),
        ("2026-11-29 23:18:41 UTC:10.0.0.7(51234):web@app:[5234]:", "5234 web app -"),
        ("2026-11-29 23:18:41 CET [5234]: [3-1] user=web,db=app,app=my app,client=10.0.0.7 ", "5234 web app my app"),
        ("2026-11-29 23:18:41 CET [5234]: [3-1] user=web,db=app,app=[unknown],client=[local] ", "5234 web app -"),
        ("Nov 29 23:18:41 db1 postgres[5234]: [3-1] ", "5234 - - -"),
        ("", "- - - -"),
    ] {
        let log = format!(
            "{prefix}WARNING:  you don't own a lock of type ExclusiveLock\n{prefix}STATEMENT:  select \
             pg_advisory_unlock(612001)\n\t /* two\n\t lines */;\n"
        );
        assert_eq!(unlocks(&log), [format!("{who} ExclusiveLock 612001")], "{prefix}");
    }
}

#[test]
fn messages_of_several_sessions_may_be_mixed() {
    let log = "[1] WARNING:  you don't own a lock of type ExclusiveLock\n\
               [2] WARNING:  you don't own a lock of type ShareLock\n\
               [2] STATEMENT:  select pg_advisory_unlock_shared(3, -4);\n\
               [1] CONTEXT:  SQL statement \"SELECT pg_advisory_unlock(88)\"\n\
               \tPL/pgSQL function inline_code_block line 1 at PERFORM\n\
               [1] STATEMENT:  do $$ begin perform pg_advisory_unlock(77 + 11); end $$;\n\
               [1] WARNING:  you don't own a lock of type ExclusiveLock\n\
               [3] ERROR:  syntax error\n\
               [3] STATEMENT:  select pg_advisory_unlock(5)\n";
    assert_eq!(unlocks(log), ["1 - - - ExclusiveLock 88", "2 - - - ShareLock (3,-4)", "1 - - - ExclusiveLock -"]);
    assert_eq!(read(log.as_bytes()).without_statement, 1);
}

#[test]
fn csv_records_span_lines() {
    let log = "2026-11-29 23:18:41.893 UTC,\"web\",\"postgres\",5234,\"[local]\",6b0cb2d1.1472,1,\"SELECT\",2026-11-29 \
               23:18:41 UTC,3/11,0,WARNING,01000,\"you don't own a lock of type ExclusiveLock\",,,,,,\"select \
               pg_advisory_unlock(612001) -- \"\"a\"\", b\n /* two\n lines */;\",,,\"my app\",\"client backend\",,522\n";
    assert_eq!(unlocks(log), ["5234 web postgres my app ExclusiveLock 612001"]);
    assert_eq!(unlocks(&log.replace(",\"client backend\",,522", "")), unlocks(log), "12 and 13 have fewer columns");
}

#[test]
fn json_lines() {
    let log = r#"{"timestamp":"2026-11-29 23:18:41.894 UTC","user":"web","dbname":"app","pid":5234,"message":"you don't own a lock of type ShareLock","statement":"select pg_advisory_unlock_shared(3, -4);","application_name":"my app"}
{"broken
"#;
    assert_eq!(unlocks(log), ["5234 web app my app ShareLock (3,-4)"]);
    assert_eq!(read(log.as_bytes()).unknown_lines, 1);
}

#[test]
fn a_file_that_is_no_log_is_known_among_others() {
    let mut reader = LogReader::default();
    let log = "[1] LOG:  statement: select\n\t1\n[1] LOG:  done\n".repeat(100);
    let by_syslog = "Nov 29 23:18:41 db postgres[7]: [3-1] LOG:  statement: select\n".to_owned()
        + &"Nov 29 23:18:41 db postgres[7]: [3-2] #0111\n".repeat(5);
    for (text, unreadable) in [(log.as_str(), 0), (&by_syslog, 0), ("", 0), ("\n\n", 0), ("\u{1f}\u{fffd}\nx\n", 1)] {
        let before = std::mem::take(&mut reader.report.unreadable);
        reader.read(&mut text.as_bytes()).unwrap();
        assert_eq!((before, reader.report.unreadable), (0, unreadable), "{text:?}");
    }
}

#[test]
fn deadlocks_name_their_keys() {
    let log = "[1] ERROR:  deadlock detected\n\
               [1] DETAIL:  Process 1 waits for ShareLock on advisory lock [5,4294967295,4294967294,1]; blocked by process 2.\n\
               \tProcess 2 waits for ExclusiveLock on advisory lock [5,7,8,2]; blocked by process 1.\n\
               \tProcess 1: select pg_advisory_lock_shared(-2)\n\
               [1] HINT:  See server log for query details.\n\
               [1] STATEMENT:  select pg_advisory_lock_shared(-2)\n\
               [9] ERROR:  deadlock detected\n\
               [9] DETAIL:  Process 9 waits for ShareLock on transaction 7; blocked by process 8.\n";
    let report = read(log.as_bytes());
    assert_eq!(report.deadlock_count, 1);
    let keys: Vec<String> =
        report.deadlocks[0].keys.iter().map(|(oid, numbers)| format!("{oid} {}", key::text(*numbers))).collect();
    assert_eq!(keys, ["5 -2", "5 (7,8)"]);
    assert_eq!(report.deadlocks[0].statement.as_deref(), Some("select pg_advisory_lock_shared(-2)"));
}

#[test]
fn hostile_bytes_and_endless_lines_do_no_harm() {
    let mut log = b"\xff\xfe\0\x1b[31m\n{\"\n2026-11-29 23:18:41 UTC,\"open\n".to_vec();
    log.extend(std::iter::repeat_n(b'x', 3 * 1024 * 1024));
    log.extend(b"\n[1] WARNING:  you don't own a lock of type ExclusiveLock\n");
    assert_eq!(read(&log).failed_unlock_count, 1);
    let many = "[1] WARNING:  you don't own a lock of type ExclusiveLock\n".repeat(MOST + 500);
    let report = read(many.as_bytes());
    assert_eq!((report.failed_unlock_count, report.failed_unlocks.len()), (1_500, MOST));
}
