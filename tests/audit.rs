//! `audit` on real servers behind a real PgBouncer: who is named, who is not, and what a log of it says.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::{Binaries, Cluster};
use postgres::{Client, NoTls};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::pgbouncer::Pooler;
use crate::support::{say, server};

const SOON: Duration = Duration::from_secs(60);

const DICTIONARY: &str = "[[key]]\nname = \"nightly-report\"\nkey = 612001\n[[key]]\nname = \"cart\"\nclass = 7\n";

struct World {
    cluster: Cluster,
    home: TempDir,
    major: u32,
}

impl World {
    fn new(binaries: &Binaries) -> Self {
        let destination = if binaries.major >= 15 { "stderr,csvlog,jsonlog" } else { "stderr,csvlog" };
        let settings = [
            "logging_collector=on".to_owned(),
            format!("log_destination={destination}"),
            "log_directory=log".to_owned(),
            "log_filename=s.log".to_owned(),
            "log_line_prefix=%m [%p] %q%u@%d %a ".to_owned(),
            "log_min_error_statement=warning".to_owned(),
            "deadlock_timeout=100ms".to_owned(),
            "shared_preload_libraries=pg_stat_statements".to_owned(),
        ];
        let cluster = server::start(binaries, &settings);
        let world = Self { cluster, home: tempfile::tempdir().unwrap(), major: binaries.major };
        std::fs::write(world.home.path().join("keys.toml"), DICTIONARY).unwrap();
        let mut admin = world.client("postgres", "admin");
        admin
            .batch_execute(
                "CREATE ROLE app LOGIN; CREATE ROLE other LOGIN; CREATE ROLE clean LOGIN; CREATE ROLE blind LOGIN; \
                 CREATE ROLE mon LOGIN IN ROLE pg_monitor",
            )
            .unwrap();
        world
    }

    fn client(&self, user: &str, application: &str) -> Client {
        self.cluster.config().user(user).application_name(application).connect(NoTls).unwrap()
    }

    fn audit(&self, user: &str, args: &[&str]) -> Ran {
        let dsn = format!("host={} port={} user={user} dbname=postgres", self.cluster.host(), self.cluster.port());
        let mut command = pglockwatch(self.home.path());
        command.args(["audit", "--keys", "keys.toml", "--timeout", "30s", "--dsn", &dsn]).args(args);
        run(command, SOON)
    }

    fn log(&self, args: &[&str]) -> Ran {
        let mut command = pglockwatch(self.home.path());
        command.args(["audit", "--keys", "keys.toml", "--log"]).args(args);
        run(command, SOON)
    }

    /// The log in this format, once it has this text.
    fn log_file(&self, format: &str, has: &str) -> PathBuf {
        let path = self.cluster.folder().join("data/log").join(format!("s.{format}"));
        let began = Instant::now();
        while !std::fs::read_to_string(&path).unwrap_or_default().contains(has) {
            assert!(began.elapsed() < SOON, "no {has} in {}", path.display());
            std::thread::sleep(Duration::from_millis(50));
        }
        path
    }
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn who_is_unsafe_is_named_and_who_is_clean_is_not() {
    for major in [12, 15, 18] {
        let Some(binaries) = server::of_major(major) else {
            say(&format!("SKIPPED: audit on PostgreSQL {major}, which is not on this machine"));
            continue;
        };
        let world = World::new(&binaries);
        let mut admin = world.client("postgres", "admin");
        admin
            .batch_execute(
                "CREATE SCHEMA \"Stat s\"; GRANT USAGE ON SCHEMA \"Stat s\" TO PUBLIC; \
                 CREATE EXTENSION pg_stat_statements SCHEMA \"Stat s\"; ALTER ROLE app SET lock_timeout = '5s'",
            )
            .unwrap();
        // Without PgBouncer the same statements go straight to the server.
        let pooler = Pooler::start(&world.cluster, &[("pool", "pool_mode=transaction pool_size=3")], &[]);
        use_locks(&world, pooler.as_ref());
        the_first_two_are_named(&world);
        if let Some(pooler) = &pooler {
            who_comes_through_the_pool_is_named(&world, pooler);
        }
        who_may_not_see_is_told(&world);
        each_failed_unlock_is_in_the_log(&world);
    }
}

fn use_locks(world: &World, pooler: Option<&Pooler>) {
    let mut app = match pooler {
        Some(pooler) => Client::connect(&pooler.dsn_of("app", "pool"), NoTls).unwrap(),
        None => world.client("app", "app"),
    };
    for number in 0..20 {
        app.simple_query(&format!("SELECT pg_advisory_lock({})", 612_100 + number)).unwrap();
    }
    let mut other = world.client("other", "cart service");
    for _ in 0..3 {
        other.simple_query("SELECT pg_advisory_lock(7)").unwrap();
        other.simple_query("SELECT /* cart\nof */ pg_advisory_unlock(7, 1001)").unwrap();
    }
    let mut clean = world.client("clean", "good");
    for _ in 0..5 {
        clean.simple_query("SELECT pg_advisory_lock(1)").unwrap();
        clean.simple_query("SELECT pg_advisory_unlock(1)").unwrap();
        clean.simple_query("SELECT pg_advisory_xact_lock(2, 3)").unwrap();
    }
    world.client("postgres", "by \"hand\"").simple_query("SELECT pg_advisory_unlock(612001)").unwrap();
    deadlock(world);
}

/// Two sessions wait for each other's key until the server cancels one.
fn deadlock(world: &World) {
    let mut first = world.client("clean", "first");
    let mut second = world.client("clean", "second");
    first.simple_query("BEGIN; SELECT pg_advisory_xact_lock(612001)").unwrap();
    second.simple_query("BEGIN; SELECT pg_advisory_xact_lock(-7)").unwrap();
    let waits = std::thread::spawn(move || first.simple_query("SELECT pg_advisory_xact_lock(-7)").is_ok());
    let ended = second.simple_query("SELECT pg_advisory_xact_lock(612001)").is_ok();
    drop(second);
    assert!(!(waits.join().unwrap() && ended), "the server cancels one of them");
}

fn the_first_two_are_named(world: &World) {
    let ran = world.audit("mon", &["--format", "json"]);
    let document = json(&ran);
    let target = &document["targets"][0];
    let named: Vec<[&str; 3]> = target["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| ["finding", "role", "change"].map(|field| finding[field].as_str().unwrap()))
        .collect();
    assert_eq!(
        named,
        [
            ["wrong-form", "other", "Unlock with pg_advisory_unlock(bigint), on the connection that locked."],
            [
                "no-unlock",
                "app",
                "Use pg_advisory_xact_lock, or unlock with pg_advisory_unlock(bigint) on the connection that locked."
            ],
        ],
        "{target}"
    );
    assert_eq!((ran.code, &document["status"], &target["blind"]), (Some(1), &"unsafe".into(), &Value::Null));
    let statements = target["statements"].as_array().unwrap();
    let of_app: Vec<&Value> = statements.iter().filter(|row| row["role"] == "app").collect();
    assert_eq!((of_app.len(), &of_app[0]["calls"]), (1, &20.into()), "{target}");
    assert_eq!(of_app[0]["functions"][0]["form"], "bigint");
    assert!(statements.iter().any(|row| row["role"] == "clean"), "clean ones are listed too");
    let settings = target["settings"].as_array().unwrap();
    let has = |name: &str| settings.iter().any(|setting| setting["name"] == name);
    assert!(has("lock_timeout") && has("tcp_keepalives_idle") && has("idle_session_timeout") == (world.major >= 14));
    let value = |name: &str| settings.iter().find(|setting| setting["name"] == name).map(|setting| &setting["value"]);
    assert_eq!(value("lock_timeout"), Some(&"0".into()), "the server's, not that of our own transaction");
    let of_role = settings.iter().find(|setting| setting["of"] == "role app").unwrap();
    assert_eq!((&of_role["name"], &of_role["value"]), (&"lock_timeout".into(), &"5s".into()));
    let text = world.audit("mon", &[]).stdout;
    assert!(text.contains("2 of 4 roles with advisory locks unsafe"), "{text}");
}

fn who_comes_through_the_pool_is_named(world: &World, pooler: &Pooler) {
    let ran = world.audit("mon", &["--format", "json", "--pgbouncer", &pooler.stats_dsn()]);
    let document = json(&ran);
    let findings = document["targets"][0]["findings"].as_array().unwrap();
    let named: Vec<[&str; 2]> =
        findings.iter().map(|finding| ["finding", "role"].map(|field| finding[field].as_str().unwrap())).collect();
    assert_eq!(named, [["transaction-pool", "app"], ["wrong-form", "other"], ["no-unlock", "app"]], "{document}");
    // On a machine that is busy enough even a refusal takes longer than a PgBouncer is waited for.
    let began = Instant::now();
    loop {
        let ran = world.audit("mon", &["--pgbouncer", "host=127.0.0.1 port=1 user=x dbname=pgbouncer"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        if ran.stdout.contains("PgBouncer cannot be asked") {
            break;
        }
        assert!(ran.stdout.contains("has not answered") && began.elapsed() < SOON, "{ran:?}");
    }
}

fn who_may_not_see_is_told(world: &World) {
    let ran = world.audit("blind", &[]);
    assert!(ran.stdout.contains("GRANT pg_read_all_stats TO blind;"), "{ran:?}");
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let mut elsewhere = pglockwatch(world.home.path());
    let (host, port) = (world.cluster.host(), world.cluster.port());
    elsewhere.args(["audit", "--dsn", &format!("host={host} port={port} user=mon dbname=template1")]);
    let ran = run(elsewhere, SOON);
    assert!(ran.stdout.contains("The extension pg_stat_statements is not in this database."), "{ran:?}");
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

fn each_failed_unlock_is_in_the_log(world: &World) {
    let formats: &[&str] = if world.major >= 15 { &["log", "csv", "json"] } else { &["log", "csv"] };
    for format in formats {
        let path = world.log_file(format, "deadlock detected");
        let ran = world.log(&[path.to_str().unwrap(), "--format", "json"]);
        let document = json(&ran);
        let log = &document["log"];
        assert_eq!((ran.code, &document["targets"]), (Some(1), &Value::Array(Vec::new())), "{ran:?}");
        let unlocks: Vec<[&str; 4]> = log["failed_unlocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|unlock| {
                let session = &unlock["session"];
                let texts = [&session["user"], &session["application"], &unlock["key"], &unlock["mode"]];
                assert!(session["pid"].is_string() && session["time"].is_string(), "{format}: {unlock}");
                assert!(unlock["statement"].as_str().unwrap().contains("pg_advisory_unlock("), "{format}: {unlock}");
                texts.map(|text| text.as_str().unwrap_or_else(|| panic!("{format}: {unlock}")))
            })
            .collect();
        let cart = ["other", "cart service", "(7,1001) \"cart(1001)\"", "ExclusiveLock"];
        let report = ["postgres", "by \"hand\"", "612001 \"nightly-report\"", "ExclusiveLock"];
        assert_eq!(unlocks, [cart, cart, cart, report], "{format}");
        let keys = log["deadlocks"][0]["keys"].to_string();
        assert!(keys.contains("nightly-report") && keys.contains("\"-7\""), "{format}: {keys}");
        assert_eq!((&log["failed_unlock_count"], &log["without_statement"]), (&4.into(), &0.into()));
    }
    let path = world.log_file("log", "deadlock detected");
    let mut piped = pglockwatch(world.home.path());
    piped.args(["audit", "--log", "-"]).write_stdin(std::fs::read(path).unwrap());
    let ran = run(piped, SOON);
    assert!(ran.code == Some(1) && ran.stdout.contains("4 failed unlocks, 1 deadlock on advisory locks"), "{ran:?}");
    assert!(ran.stdout.contains("did not hold 612001 (ExclusiveLock): if another"), "{ran:?}");
}

#[test]
fn exit_codes_of_what_needs_no_server() {
    let home = tempfile::tempdir().unwrap();
    let code = |args: &[&str], input: &str| {
        let mut command = pglockwatch(home.path());
        command.arg("audit").args(args).write_stdin(input);
        run(command, SOON)
    };
    let quiet = code(&["--log", "-"], "2026-11-29 23:18:41.893 UTC [1] LOG:  all is well\n");
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""), "{quiet:?}");
    let no_log = code(&["--log", "-"], "key = value\nother = value\n");
    let says = no_log.stdout.contains("UNKNOWN") && no_log.stdout.contains("is it a server log");
    assert!(no_log.code == Some(3) && says, "{no_log:?}");
    let silent = code(&["--log", "-"], "[1] WARNING:  you don't own a lock of type ExclusiveLock\n");
    assert!(silent.code == Some(1) && silent.stdout.contains("log_min_error_statement = 'warning'"), "{silent:?}");
    let missing = code(&["--log", "no-such-file"], "");
    assert!(missing.code == Some(2) && missing.stderr.contains("cannot read no-such-file"), "{missing:?}");
    assert_eq!(code(&["--format", "nagios"], "").code, Some(2));
    let away = code(&["--dsn", "host=127.0.0.1 port=1 user=x connect_timeout=5"], "");
    assert!(away.code == Some(3) && away.stdout.contains("UNKNOWN: cannot connect"), "{away:?}");
}
