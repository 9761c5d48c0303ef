//! Servers that are not there, do not answer, refuse, or stop; files that cannot be read. Each is one plain sentence
//! and the right exit code, in time, and never shows a password.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::Duration;

use pglockwatch::app::demo::Cluster;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::session::{single, superuser, wait_until};
use crate::support::{full, server};

/// In every DSN here; it must not be seen anywhere.
const SECRET: &str = "hunter2-Geheim";
/// What a loaded machine may need to start a process, beyond what is promised.
const SLACK: Duration = Duration::from_millis(1500);
/// `check` promises observe + timeout + this.
const LATENESS: Duration = Duration::from_millis(500);

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn check(home: &Path, args: &[&str]) -> Ran {
    let mut command = pglockwatch(home);
    command.arg("check").args(args);
    run(command, Duration::from_secs(60))
}

fn dsn(cluster: &Cluster, rest: &str) -> String {
    format!("host={} port={} dbname=postgres {rest}", cluster.host(), cluster.port())
}

/// Exit code 3; one sentence, hints indented below it; nothing of a crash, of the library or of the password.
fn assert_plain_failure(ran: &Ran, sentence: &str) {
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let mut lines = ran.stderr.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("pglockwatch: ") && first.contains(sentence), "no sentence with {sentence:?}: {ran:?}");
    assert!(lines.all(|line| line.starts_with(' ') || line.contains(" | ")), "more than one sentence: {ran:?}");
    assert_discreet(ran);
}

fn assert_discreet(ran: &Ran) {
    for words in [SECRET, "panicked", "RUST_BACKTRACE", "Error {", "Os {", "unwrap"] {
        assert!(!ran.stderr.contains(words) && !ran.stdout.contains(words), "{words:?} is in the output: {ran:?}");
    }
}

/// The error of the one target in the JSON output.
fn error_of(ran: &Ran) -> Value {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(report["status"], "unknown");
    let target = &report["targets"][0];
    assert!(target["server"].is_null() && target["findings"] == Value::Array(Vec::new()), "{target}");
    target["error"].clone()
}

#[test]
fn no_server_is_refused_at_once() {
    let home = home();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let dsn = format!("host=127.0.0.1 port={port} user=mon password={SECRET}");
    let ran = check(home.path(), &["--dsn", &dsn, "--format", "json"]);
    assert_plain_failure(&ran, &format!("cannot connect to 127.0.0.1:{port}"));
    let error = error_of(&ran);
    assert_eq!(error["kind"], "connect");
    assert!(ran.took < Duration::from_secs(5), "{ran:?}");
}

#[test]
fn an_unknown_host_is_named() {
    let home = home();
    let dsn = format!("postgres://mon:{SECRET}@no-such-host.invalid/postgres");
    let ran = check(home.path(), &["--dsn", &dsn, "--format", "json", "--timeout", "5s"]);
    assert_plain_failure(&ran, "no-such-host.invalid");
    assert_eq!(error_of(&ran)["kind"], "connect");
}

#[test]
fn a_listener_that_is_no_postgresql_is_said_to_be_none() {
    let home = home();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn(move || {
        for stream in listener.incoming() {
            use std::io::Write as _;
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let dsn = format!("host=127.0.0.1 port={port} user=mon password={SECRET}");
    let ran = check(home.path(), &["--dsn", &dsn, "--timeout", "3s"]);
    assert_plain_failure(&ran, "127.0.0.1");
    assert!(ran.took < Duration::from_secs(3) + LATENESS + SLACK, "{ran:?}");
}

#[test]
fn a_connection_string_in_place_of_a_name_is_never_shown() {
    let (home, uri) = (home(), format!("postgres://mon:{SECRET}@db1/app"));
    for name in ["PGHOST", "PGDATABASE", "PGUSER"] {
        let mut command = pglockwatch(home.path());
        command.arg("check").env("PGHOST", "127.0.0.1").env("PGPORT", "1").env(name, &uri);
        assert_plain_failure(&run(command, Duration::from_secs(60)), &format!("(from {name}) is a whole connection"));
    }
    for dsn in [format!("host={uri}"), format!("host=h dbname={uri}"), format!("dbname='host=h password={SECRET}'")] {
        let ran = check(home.path(), &["--dsn", &dsn]);
        assert_plain_failure(&ran, "is a whole connection string");
        assert!(ran.stdout.is_empty(), "{ran:?}");
    }
}

/// What is refused for one role or one database is not said to be the whole server's trouble.
#[test]
fn a_refusal_says_what_helps_against_it() {
    let (home, cluster) = (home(), server::start(&server::any(), &[]));
    let mut admin = superuser(&cluster);
    for sql in [
        "CREATE ROLE limited LOGIN CONNECTION LIMIT 0",
        "CREATE ROLE mon LOGIN",
        "CREATE DATABASE limited CONNECTION LIMIT 0",
        "CREATE DATABASE mule ENCODING 'MULE_INTERNAL' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    ] {
        admin.batch_execute(sql).unwrap();
    }
    let other = "the locks of all databases are seen from any of them";
    for (role, database, sentence, hint) in [
        ("limited", "postgres", "too many connections for role", "The role has a limit of its own"),
        ("mon", "limited", "too many connections for database", other),
        ("mon", "mule", "MULE_INTERNAL", other),
        ("mon", "template0", "not currently accepting connections", other),
    ] {
        let dsn =
            format!("host={} port={} user={role} dbname={database} password={SECRET}", cluster.host(), cluster.port());
        let ran = check(home.path(), &["--dsn", &dsn]);
        assert_plain_failure(&ran, sentence);
        assert!(ran.stderr.contains(hint) && !ran.stderr.contains("All connections are in use"), "{ran:?}");
    }
}

/// A standby refuses serializable transactions, and a deferrable one waits until no other can disturb it: a server, a
/// database or a role with such defaults is looked at all the same.
#[test]
fn whatever_isolation_is_the_default_the_server_is_looked_at() {
    let home = home();
    let strict = "options='-c default_transaction_isolation=serializable -c default_transaction_deferrable=on' \
                  user=postgres";
    let looks = |cluster: &Cluster| {
        let ran = check(home.path(), &["--dsn", &dsn(cluster, strict), "--timeout", "5s"]);
        assert!(ran.code == Some(0) && ran.stdout.contains("1 advisory lock held"), "{ran:?}");
        let ran = run(
            {
                let mut command = pglockwatch(home.path());
                command.args(["audit", "--dsn", &dsn(cluster, strict), "--timeout", "5s"]);
                command
            },
            Duration::from_secs(60),
        );
        assert!(ran.stdout.contains("\nlock_timeout ") && !ran.stderr.contains("cannot"), "{ran:?}");
    };
    let standby = server::start_with(&server::any(), &[], |folder| {
        std::fs::write(folder.data().join("standby.signal"), "").unwrap();
    });
    let mut holder = superuser(&standby);
    holder.batch_execute("SELECT pg_advisory_lock(5)").unwrap();
    looks(&standby);
    let primary = server::start(&server::any(), &[]);
    let (mut holder, mut writer) = (superuser(&primary), superuser(&primary));
    holder.batch_execute("SELECT pg_advisory_lock(5)").unwrap();
    writer.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; CREATE TABLE t ()").unwrap();
    looks(&primary);
}

/// On a hardened server the hint is about the right that was taken away, and not about CONNECT.
#[test]
fn a_right_that_was_revoked_from_everybody_is_said_to_be_missing() {
    let (home, cluster) = (home(), server::start(&server::any(), &[]));
    let mut admin = superuser(&cluster);
    admin.batch_execute("CREATE ROLE mon LOGIN; GRANT pg_monitor TO mon").unwrap();
    for (object, what, right) in [
        ("FUNCTION pg_lock_status()", "function pg_lock_status", "EXECUTE"),
        ("FUNCTION pg_stat_get_activity(int)", "function pg_stat_get_activity", "EXECUTE"),
        ("TABLE pg_database", "table pg_database", "SELECT"),
    ] {
        admin.batch_execute(&format!("REVOKE {right} ON {object} FROM PUBLIC")).unwrap();
        let ran = check(home.path(), &["--dsn", &dsn(&cluster, &format!("user=mon password={SECRET}"))]);
        assert_plain_failure(&ran, &format!("permission denied for {what}"));
        assert!(ran.stderr.contains("revoked from PUBLIC") && !ran.stderr.contains("CONNECT"), "{ran:?}");
        admin.batch_execute(&format!("GRANT {right} ON {object} TO PUBLIC")).unwrap();
    }
}

/// A server that asks `app` for a password and trusts `postgres`.
fn with_passwords() -> Cluster {
    let settings = ["password_encryption=scram-sha-256".to_owned()];
    let cluster = server::start_with(&server::any(), &settings, |folder| {
        let lines = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(folder.data().join("pg_hba.conf"), lines).unwrap();
    });
    let sql = format!("CREATE ROLE app LOGIN PASSWORD '{SECRET}'; GRANT pg_monitor TO app");
    superuser(&cluster).batch_execute(&sql).unwrap();
    cluster
}

#[test]
fn passwords_wrong_missing_and_right() {
    let home = home();
    let cluster = with_passwords();

    let wrong = dsn(&cluster, &format!("user=app password={SECRET}-not"));
    let ran = check(home.path(), &["--dsn", &wrong, "--format", "json"]);
    assert_plain_failure(&ran, "password");
    assert_eq!(error_of(&ran)["kind"], "auth");

    let ran = check(home.path(), &["--dsn", &dsn(&cluster, "user=app"), "--format", "json"]);
    assert_plain_failure(&ran, "password");
    assert_eq!(error_of(&ran)["kind"], "auth");

    let ran = check(home.path(), &["--dsn", &dsn(&cluster, &format!("user=app password={SECRET}"))]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_discreet(&ran);

    let mut command = pglockwatch(home.path());
    command.args(["check", "--dsn", &dsn(&cluster, "user=app")]).env("PGPASSWORD", SECRET);
    let ran = run(command, Duration::from_secs(30));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_discreet(&ran);
}

#[test]
fn a_dsn_that_cannot_be_read_is_not_quoted() {
    let home = home();
    for (dsn, sentence) in [
        (format!("postgres://app:{SECRET}@host:notaport/db"), "port"),
        (format!("host=h password='{SECRET}"), "quot"),
        (format!("host=h nosuchoption=1 password={SECRET}"), "nosuchoption"),
        (format!("host=h requirepeer=root password={SECRET}"), "requirepeer"),
        (format!("host=h password={SECRET} gssencmode=require"), "gssencmode"),
    ] {
        let ran = check(home.path(), &["--dsn", &dsn]);
        assert_plain_failure(&ran, sentence);
        assert_eq!(ran.stdout, "", "bad usage is told on stderr only");
    }
}

#[test]
fn a_dictionary_that_cannot_be_read_is_shown_with_its_place() {
    let home = home();
    let keys = home.path().join("keys.toml");
    for (text, place, words) in [
        ("[[key]]\nname = \"a\"\nkey = \n", "keys.toml:3:", ""),
        ("[[key]]\nname = \"a\"\nkey = 1\ncolour = \"red\"\n", "keys.toml:4:1", "colour"),
        ("[[key]]\nname = \"a\"\nkey = \"twelve\"\n", "keys.toml:3:", "twelve"),
        ("[[key]]\nname = \"a\"\n", "keys.toml:", "a"),
        ("[[silence]]\nkeys = [\"6\"]\n", "keys.toml:", "reason"),
    ] {
        std::fs::write(&keys, text).unwrap();
        let ran = check(home.path(), &["--dsn", "host=127.0.0.1 port=1", "--keys", "keys.toml"]);
        assert_plain_failure(&ran, place);
        assert!(ran.stderr.contains(words), "{words:?} is not named: {ran:?}");
        assert_eq!(ran.stdout, "", "a broken dictionary is told on stderr only");
    }
    let ran = check(home.path(), &["--dsn", "host=127.0.0.1 port=1", "--keys", "missing.toml"]);
    assert_plain_failure(&ran, "missing.toml");
}

#[test]
fn bad_usage_of_check_is_3_and_of_others_2() {
    let home = home();
    for args in [&["--no-such-option"][..], &["--observe", "soon"], &["--format", "xml"], &["--key", "1//2"]] {
        let ran = check(home.path(), args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
        assert!(!ran.stderr.is_empty());
        assert_discreet(&ran);
    }
    let mut command = pglockwatch(home.path());
    command.args(["top", "--no-such-option"]);
    assert_eq!(run(command, Duration::from_secs(30)).code, Some(2));
}

#[test]
fn top_once_without_a_server_fails_with_1() {
    let home = home();
    let mut command = pglockwatch(home.path());
    command.args(["top", "--once", "--dsn", &format!("host=127.0.0.1 port=1 password={SECRET}")]);
    let ran = run(command, Duration::from_secs(30));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.starts_with("pglockwatch: cannot connect"), "{ran:?}");
    assert_discreet(&ran);
}

#[test]
fn one_of_two_targets_down_is_3_unless_something_is_critical() {
    let home = home();
    let cluster = server::start(&server::any(), &[]);
    let up = dsn(&cluster, "user=postgres");
    let ran = check(home.path(), &["--dsn", &up, "--dsn", "host=127.0.0.1 port=1", "--format", "json"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(report["targets"][0]["error"].is_null() && !report["targets"][1]["error"].is_null(), "{report}");

    let mut client = superuser(&cluster);
    client.batch_execute("SELECT pg_advisory_lock(1)").unwrap();
    sleep(Duration::from_millis(1200));
    let thresholds = ["--idle-threshold", "1s", "--critical-after", "1s"];
    let args = [&["--dsn", &up, "--dsn", "host=127.0.0.1 port=1"][..], &thresholds].concat();
    let ran = check(home.path(), &args);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn a_role_that_sees_nothing_is_told_what_to_ask_for() {
    let home = home();
    let cluster = server::start(&server::any(), &[]);
    let mut client = superuser(&cluster);
    client.batch_execute("CREATE ROLE mon LOGIN; SELECT pg_advisory_lock(1), pg_advisory_lock(2)").unwrap();
    let ran = check(home.path(), &["--dsn", &dsn(&cluster, "user=mon")]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stdout.contains("GRANT pg_monitor TO mon"), "{ran:?}");
    assert!(!ran.stdout.contains("nothing wrong"), "blind is not clean: {ran:?}");
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_backend_that_stops_in_the_middle_is_given_up_in_time() {
    let home = home();
    let cluster = server::start(&server::any(), &[]);
    let dsn = dsn(&cluster, "user=postgres");
    let path = home.path().to_owned();
    let checking = spawn(move || check(&path, &["--dsn", &dsn, "--observe", "4s", "--timeout", "1500ms"]));
    let mut client = superuser(&cluster);
    let ours = "FROM pg_stat_activity WHERE application_name = 'pglockwatch'";
    assert!(wait_until(&mut client, &format!("SELECT EXISTS (SELECT {ours})"), Duration::from_secs(10)));
    sleep(Duration::from_millis(500));
    let backend = single(&mut client, &format!("SELECT pid {ours}")).unwrap().parse().unwrap();
    signal(backend, Signal::STOP);
    let ran = checking.join().unwrap();
    signal(backend, Signal::CONT);
    assert_plain_failure(&ran, "127.0.0.1");
    assert!(ran.took < Duration::from_millis(5500) + LATENESS + SLACK, "{ran:?}");
}

#[test]
fn nothing_is_left_on_the_server() {
    let home = home();
    let cluster = server::start(&server::any(), &[]);
    let ran = check(home.path(), &["--dsn", &dsn(&cluster, "user=postgres"), "--observe", "1s", "--interval", "200ms"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let gone = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pglockwatch')";
    assert!(wait_until(&mut superuser(&cluster), gone, Duration::from_secs(5)), "its session is still there");
    let log = std::fs::read_to_string(cluster.folder().join("log")).unwrap();
    let rude = log.lines().filter(|line| line.contains("unexpected EOF") || line.contains("ERROR"));
    assert_eq!(rude.collect::<Vec<_>>(), Vec::<&str>::new(), "it did not say goodbye");
}

#[test]
fn a_full_lock_table_is_reported_over_the_open_connection() {
    let home = home();
    let settings = full::SETTINGS.map(str::to_owned);
    let cluster = server::start(&server::any(), &settings);
    let dsn = dsn(&cluster, "user=postgres");
    let path = home.path().to_owned();
    let checking =
        spawn(move || check(&path, &["--dsn", &dsn, "--observe", "8s", "--interval", "250ms", "--format", "json"]));
    let mut hoarder = superuser(&cluster);
    let pid = single(&mut hoarder, "SELECT pg_backend_pid()").unwrap();
    let ours = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pglockwatch')";
    assert!(wait_until(&mut hoarder, ours, Duration::from_secs(10)));
    sleep(Duration::from_secs(1));
    while !checking.is_finished() {
        full::fill(&cluster, || {
            let failed = hoarder.batch_execute(full::TAKE_ALL).unwrap_err();
            assert_eq!(failed.code().map(|code| code.code().to_owned()).as_deref(), Some("53200"));
        });
    }
    let ran = checking.join().unwrap();
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let findings = report["targets"][0]["findings"].as_array().unwrap();
    let full = findings.iter().find(|finding| finding["rule"] == "lock-table-full").unwrap();
    assert_eq!(full["severity"], "critical");
    assert!(full.to_string().contains(&pid), "it does not name the session that hoards ({pid}): {full}");
    assert_discreet(&ran);
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let home = home();
    let cluster = server::start(&server::any(), &[]);
    let mut client = superuser(&cluster);
    // More than a pipe holds.
    client.batch_execute("SELECT count(pg_advisory_lock(g)) FROM generate_series(1, 3000) g").unwrap();
    for format in ["json", "table"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pglockwatch"))
            .args(["check", "--format", format, "--dsn", &dsn(&cluster, "user=postgres")])
            .env("HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
        assert!(output.status.code().is_some(), "{format}: ended by a signal");
    }
}

#[test]
fn a_full_disk_is_told_and_is_no_success() {
    let home = home();
    for (args, code) in [
        (&["--help"][..], 1),
        (&["--version"], 1),
        (&["check", "--help"], 3),
        (&["keys", "hash", "x"], 1),
        (&["completions", "bash"], 1),
        (&["man"], 1),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_pglockwatch"))
            .args(args)
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(full)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.starts_with("pglockwatch: ") && said.contains("No space left"), "{args:?}: {said}");
    }
}
