//! `keys import` on real servers: what it prints is a dictionary, whatever is in the table.

use std::path::Path;
use std::time::Duration;

use pglockwatch::app::demo::{Binaries, Cluster};
use pglockwatch::keys::hash::hashtext;
use pglockwatch::keys::{Dictionary, KeyBook, LookUp, key};
use postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::{say, server};

const SOON: Duration = Duration::from_secs(20);

/// A server, and a home for the program.
struct World {
    cluster: Cluster,
    home: TempDir,
}

impl World {
    fn new(binaries: &Binaries) -> Self {
        Self { cluster: server::start(binaries, &[]), home: tempfile::tempdir().unwrap() }
    }

    fn client(&self, database: &str) -> Client {
        self.cluster.config().dbname(database).connect(NoTls).unwrap()
    }

    fn dsn(&self, database: &str) -> String {
        format!("host={} port={} user=postgres dbname='{database}'", self.cluster.host(), self.cluster.port())
    }

    fn import(&self, database: &str, args: &[&str]) -> Ran {
        let mut command = pglockwatch(self.home.path());
        command.args(["keys", "import", "--dsn", &self.dsn(database)]).args(args);
        run(command, SOON)
    }
}

/// The names that a dictionary gives a key.
fn names(text: &str, key: &str) -> Vec<String> {
    let dictionary = Dictionary::parse("import.toml", text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
    let names = KeyBook::new(&[dictionary]).names(key::parse(key).unwrap(), LookUp::default());
    names.into_iter().map(|name| name.label).collect()
}

#[test]
fn tables_come_back_as_dictionaries_on_every_version() {
    for major in [12, 15, 18] {
        let Some(binaries) = server::of_major(major) else {
            say(&format!("SKIPPED: keys import on PostgreSQL {major}, which is not on this machine"));
            continue;
        };
        let world = World::new(&binaries);
        bigints_with_hostile_names(&world);
        pairs_and_hashes(&world);
        encodings(&world);
    }
}

fn bigints_with_hostile_names(world: &World) {
    world
        .client("postgres")
        .batch_execute(
            r#"CREATE SCHEMA "Ops.x";
            CREATE TABLE "Ops.x"."lock ""keys""" (name text, "lockKey" numeric, note varchar, what text, hold interval);
            INSERT INTO "Ops.x"."lock ""keys""" VALUES
                ('nightly', 612001, E'rolls up\n[[key]]\nname = "x"', 'job', '90 minutes'),
                ('nightly', 612002, 'the same name', NULL, NULL),
                (E'"""\n\x1b[31m\\u0000''\t]] #', -5, E'\x07 \u202e', 'LEADER', NULL),
                ('int64 max', 9223372036854775807, '', 'mutex', NULL), ('int64 min', -9223372036854775808, NULL, '?', NULL),
                ('too wide', 18446744073709551616, NULL, NULL, NULL), ('nothing', NULL, NULL, NULL, NULL),
                (NULL, 7, NULL, NULL, NULL), ('', 8, NULL, NULL, NULL), ('größe 日本 😀', 9, NULL, NULL, '0')"#,
        )
        .unwrap();
    let args = ["--from-table", r#""Ops.x"."lock ""keys""""#, "--key-column", "lockKey", "--note-column", "note"];
    let ran = world.import("postgres", &[&args[..], &["--kind-column", "what", "--max-hold-column", "hold"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(names(&ran.stdout, "612001"), ["nightly"]);
    assert_eq!(names(&ran.stdout, "612002"), [""; 0], "a second entry of a name would not load");
    assert_eq!(names(&ran.stdout, "-5"), ["\"\"\"\u{fffd}\u{fffd}[31m\\u0000'\u{fffd}]] #"]);
    assert_eq!(names(&ran.stdout, "9223372036854775807"), ["int64 max"]);
    assert_eq!(names(&ran.stdout, "-9223372036854775808"), ["int64 min"]);
    assert_eq!(names(&ran.stdout, "9"), ["größe 日本 😀"]);
    assert!(ran.stdout.contains("max_hold = \"1h 30m\"\n"), "{ran:?}");
    for told in ["\"too wide\": ", "\"nothing\": lockKey is NULL", "without a name", "name is empty", "`?` is none of"]
    {
        assert!(ran.stderr.contains(told), "no {told:?} in {ran:?}");
    }
    let controls = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}');
    assert!(!controls(&ran.stdout) && !controls(&ran.stderr), "{ran:?}");
    assert_eq!(world.import("postgres", &args).stdout, world.import("postgres", &args).stdout, "an order by chance");
}

fn pairs_and_hashes(world: &World) {
    world
        .client("postgres")
        .batch_execute(
            "CREATE TABLE pairs (name text, classid oid, objid int4);
            INSERT INTO pairs VALUES ('a', 4294967295, -7), ('b', 1, 42), ('half', 3, NULL);
            CREATE VIEW hashed AS SELECT name, 'tenant:' || name AS input, 100 AS class FROM pairs",
        )
        .unwrap();
    let ran = world.import("postgres", &["--from-table", "pairs", "--class-column", "classid", "--objid-column=objid"]);
    assert_eq!(names(&ran.stdout, "(-1,-7)"), ["a"], "{ran:?}");
    assert_eq!(names(&ran.stdout, "(1,42)"), ["b"]);
    assert!(ran.stderr.contains("\"half\": objid is NULL"), "{ran:?}");
    let ran = world.import("postgres", &["--from-table", "public.pairs", "--class-column", "classid"]);
    assert_eq!(names(&ran.stdout, "(3,8)"), ["half(8)"], "{ran:?}");
    let line = ["--from-table", "hashed", "--hash", "hashtext", "--input-column", "input", "--class-column", "class"];
    let ran = world.import("postgres", &line);
    assert_eq!(names(&ran.stdout, &format!("(100,{})", hashtext(b"tenant:a"))), ["a"], "{ran:?}");
}

/// In LATIN1 the server converts; in SQL_ASCII nobody knows what the bytes are.
fn encodings(world: &World) {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let mut client = world.client("postgres");
        let create =
            format!("CREATE DATABASE {encoding} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'");
        client.batch_execute(&create).unwrap();
        let database = encoding.to_lowercase();
        let sql = "SET client_encoding = SQL_ASCII; CREATE TABLE keys (name text, id int);
            INSERT INTO keys VALUES (convert_from('\\x6772f6df65', current_setting('server_encoding')), 5)";
        world.client(&database).batch_execute(sql).unwrap();
        let ran = world.import(&database, &["--from-table", "keys", "--key-column", "id"]);
        let expected = if encoding == "LATIN1" { "größe" } else { "gr\u{fffd}\u{fffd}e" };
        assert_eq!(names(&ran.stdout, "5"), [expected], "{ran:?}");
    }
}

#[test]
fn what_cannot_be_read_is_told_in_a_sentence_and_nothing_is_written() {
    let world = World::new(&server::any());
    let mut client = world.client("postgres");
    client
        .batch_execute(
            "CREATE TABLE keys (name text, id int); CREATE TABLE written (x int); CREATE ROLE reader LOGIN;
            CREATE FUNCTION write() RETURNS int LANGUAGE sql AS 'INSERT INTO written VALUES (1) RETURNING 1';
            CREATE VIEW writing AS SELECT 'x' AS name, write() AS id;
            CREATE VIEW slow AS SELECT 'x' || pg_sleep(30)::text AS name, 1 AS id",
        )
        .unwrap();
    let key = ["--key-column", "id"];
    let fails = |args: &[&str], code: i32, words: &[&str]| {
        let ran = world.import("postgres", &[args, &key].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(code), ""), "{args:?}: {ran:?}");
        for word in words {
            assert!(ran.stderr.contains(word), "no {word:?}: {ran:?}");
        }
        ran
    };
    fails(
        &["--from-table", "pg_class", "--name-column", "nom"],
        1,
        &[": column nom does not exist", "or from --name-column"],
    );
    fails(&["--from-table", "kyes"], 1, &["relation \"kyes\" does not exist", "SCHEMA.TABLE"]);
    fails(&["--from-table", "a.b.c"], 2, &["in double quotes"]);
    fails(&["--from-table", "keys", "--note-column", "x\"; DROP TABLE keys; --"], 1, &["capital letters"]);
    fails(&["--from-table", "writing"], 1, &["read-only transaction"]);
    fails(&["--from-table", "slow", "--timeout", "1s"], 1, &["longer --timeout"]);
    fails(&["--from-table", "keys", "-d", "dbname=postgres"], 2, &["several targets"]);
    client.batch_execute("BEGIN; LOCK TABLE keys").unwrap();
    let ran = fails(&["--from-table", "keys", "--timeout", "2s"], 1, &["try again later"]);
    assert!(ran.took < Duration::from_secs(2), "{ran:?}");
    client.batch_execute("ROLLBACK").unwrap();
    assert_eq!(client.query_one("SELECT count(*) FROM written", &[]).unwrap().get::<_, i64>(0), 0);
    let dsn = format!("host={} port={} user=reader dbname=postgres", world.cluster.host(), world.cluster.port());
    let mut command = pglockwatch(world.home.path());
    command.args(["keys", "import", "--from-table", "keys", "--key-column", "id", "--dsn", &dsn]);
    let ran = run(command, SOON);
    assert!(ran.code == Some(1) && ran.stderr.contains("needs SELECT"), "{ran:?}");
    assert_eq!(
        world.import("postgres", &["--from-table", "keys", "--key-column", "id"]).code,
        Some(0),
        "an empty table"
    );
}

#[test]
fn a_server_that_is_stopped_costs_no_more_than_the_timeout() {
    let world = World::new(&server::any());
    let stop = |signal| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(world.cluster.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    };
    stop(rustix::process::Signal::STOP);
    let ran = world.import("postgres", &["--from-table", "keys", "--key-column", "id", "--timeout", "1s"]);
    stop(rustix::process::Signal::CONT);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("no answer") && ran.took < Duration::from_secs(4), "{ran:?}");
    assert!(Path::new(world.home.path()).read_dir().unwrap().next().is_none(), "something was written");
}
