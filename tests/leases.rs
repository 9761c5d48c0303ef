//! Lease tables on real servers: they stand beside the locks, and nothing about them can lose the locks.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use pglockwatch::app::demo::{Binaries, Cluster};
use postgres::{Client, NoTls};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::{Ran, pglockwatch, run};
use crate::support::{say, server};

const SOON: Duration = Duration::from_secs(40);

struct World {
    cluster: Cluster,
    home: TempDir,
}

impl World {
    fn new(binaries: &Binaries) -> Self {
        let world = Self { cluster: server::start(binaries, &[]), home: tempfile::tempdir().unwrap() };
        let mut admin = world.client("postgres");
        admin.batch_execute("CREATE ROLE mon LOGIN IN ROLE pg_monitor").unwrap();
        admin.batch_execute("CREATE DATABASE leases").unwrap();
        world
    }

    fn client(&self, database: &str) -> Client {
        self.cluster.config().dbname(database).connect(NoTls).unwrap()
    }

    /// Runs `check` as a monitoring role, with these `[[target.lease]]`s: name, table, and the column of the expiry.
    fn run(&self, leases: &[(&str, &str, &str)], args: &[&str]) -> Ran {
        let mut config = format!(
            "[[target]]\nname = \"orders\"\ndsn = \"host={} port={} user=mon dbname=leases\"\n",
            self.cluster.host(),
            self.cluster.port()
        );
        for (name, table, expires) in leases {
            let _ = write!(
                config,
                "[[target.lease]]\nname = \"{name}\"\ntable = '{table}'\ncolumns = {{ name = \"name\", holder = \
                 \"Holder\", expires = \"{expires}\", taken = \"taken\" }}\n"
            );
        }
        fs::write(self.home.path().join("c.toml"), config).unwrap();
        let mut command = pglockwatch(self.home.path());
        command.args(args).args(["--config", "c.toml", "--wait-threshold", "10s", "--timeout", "30s"]);
        run(command, SOON)
    }

    /// The target of `check --format json`, and the exit code.
    fn check(&self, leases: &[(&str, &str, &str)]) -> (Value, Option<i32>) {
        let ran = self.run(leases, &["check", "--format", "json"]);
        let document: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        (document["targets"][0].clone(), ran.code)
    }
}

#[test]
fn leases_stand_beside_the_locks_on_every_version() {
    for major in [12, 15, 18] {
        let Some(binaries) = server::of_major(major) else {
            say(&format!("SKIPPED: lease tables on PostgreSQL {major}, which is not on this machine"));
            continue;
        };
        let world = World::new(&binaries);
        let mut client = world.client("leases");
        times_of_all_types(&world, &mut client);
        many_rows(&world, &mut client);
        what_is_wrong_with_a_table(&world, &mut client);
    }
}

/// The name, whether it is overdue, and whether it ever expires, of each row of the first table.
fn rows(target: &Value) -> Vec<(String, bool, bool)> {
    let rows = target["leases"][0]["rows"].as_array().unwrap();
    let row = |row: &Value| {
        let name = row["name"].as_str().unwrap_or("NULL").to_owned();
        (name, row["overdue"].as_bool().unwrap(), !row["expires_at"].is_null())
    };
    rows.iter().map(row).collect()
}

fn times_of_all_types(world: &World, client: &mut Client) {
    client
        .batch_execute(
            r#"CREATE SCHEMA "Ops.x"; GRANT USAGE ON SCHEMA "Ops.x" TO mon;
            CREATE TABLE "Ops.x"."lea""ses" (name text, "Holder" varchar, taken timestamptz DEFAULT now() - interval '1 h',
                aware timestamptz, blind timestamp, seconds bigint, millis numeric, until date);
            GRANT SELECT ON "Ops.x"."lea""ses" TO mon;
            ALTER ROLE mon SET TimeZone = 'Asia/Tokyo';
            INSERT INTO "Ops.x"."lea""ses" (name, "Holder", aware) VALUES
                (E'ev''il"\n\x1b[31m', E'größe\t日本', now() - interval '1 min'), ('late', 'a', now() - interval '3 s'),
                ('live', 'b', now() + interval '1 h'), ('null', NULL, NULL), ('for ever', 'c', 'infinity'),
                ('since ever', 'c', '-infinity'), ('far', 'd', '294276-12-31');
            UPDATE "Ops.x"."lea""ses" SET blind = aware AT TIME ZONE 'Asia/Tokyo', until = aware::date + 400,
                seconds = extract(epoch FROM aware) WHERE isfinite(aware) AND name <> 'far';
            UPDATE "Ops.x"."lea""ses" SET millis = seconds * 1000::numeric, seconds = coalesce(seconds, 0)"#,
        )
        .unwrap();
    let table = "\"Ops.x\".\"lea\"\"ses\"";
    for column in ["aware", "blind", "seconds", "millis"] {
        let (target, code) = world.check(&[("work", table, column)]);
        let found = rows(&target);
        let of = |name: &str| found.iter().find(|row| row.0 == name).map(|row| (row.1, row.2));
        assert_eq!(found[0], ("ev'il\"\n\u{1b}[31m".to_owned(), true, true), "{column}: {target}");
        assert_eq!(of("late"), Some((false, true)), "{column}: {target}");
        assert_eq!(of("live"), Some((false, true)), "{column}: {target}");
        for never in ["null", "for ever", "since ever", "far"] {
            assert_eq!(of(never), Some((false, false)), "{column}, {never}: {target}");
        }
        let lease = &target["leases"][0];
        assert_eq!((&lease["count"], &lease["overdue_count"]), (&7.into(), &1.into()), "{column}");
        assert_eq!((&lease["lease"], &lease["database"]), (&"work".into(), &"leases".into()));
        assert_eq!(lease["rows"][0]["holder"], "größe\t日本");
        let held = lease["rows"][0]["held_seconds"].as_f64().unwrap();
        let expired = lease["rows"][0]["expired_seconds"].as_f64().unwrap();
        assert!((3590.0..4200.0).contains(&held) && (58.0..600.0).contains(&expired), "{held} {expired}");
        let findings = target["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 1, "{target}");
        let finding = &findings[0];
        assert_eq!((&finding["rule"], &finding["severity"]), (&"lease-overdue".into(), &"warning".into()));
        assert_eq!((&finding["advice"]["action"], code), (&"investigate".into(), Some(1)));
        let zone = finding["detail"].to_string().contains("it was read in Asia/Tokyo");
        assert_eq!(zone, column == "blind", "{column}: {finding}");
    }
    let (target, code) = world.check(&[("work", table, "until")]);
    assert_eq!((code, target["leases"][0]["overdue_count"].as_u64()), (Some(0), Some(0)), "{target}");
    let shown = world.run(&[("work", table, "aware")], &["top", "--once"]).stdout;
    assert!(shown.contains("7 leases, 1 overdue") && !shown.contains('\u{1b}'), "{shown}");
    assert!(
        shown.lines().any(|line| line.starts_with("\"late\" (work) in leases") && line.ends_with(" ago")),
        "{shown}"
    );
    let page = world.run(&[("work", table, "aware")], &["runbook"]).stdout;
    assert!(page.contains("lease-overdue") && page.contains("still runs"), "{page}");
}

fn many_rows(world: &World, client: &mut Client) {
    client
        .batch_execute(
            "CREATE TABLE many AS SELECT 'n' || i AS name, 'h' AS \"Holder\", now() AS taken, \
             now() - make_interval(secs => i) AS until FROM generate_series(-1000, 2000) i; GRANT SELECT ON many TO mon",
        )
        .unwrap();
    let (target, _) = world.check(&[("many", "public.many", "until")]);
    let lease = &target["leases"][0];
    assert_eq!((lease["count"].as_u64(), lease["truncated"].as_bool()), (Some(3001), Some(true)));
    // The server's clock goes on between the two statements.
    assert!((1991..2600).contains(&lease["overdue_count"].as_u64().unwrap()), "{}", lease["overdue_count"]);
    assert_eq!((lease["rows"].as_array().unwrap().len(), &lease["rows"][0]["name"]), (1000, &"n2000".into()));
    let findings = target["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 21, "{findings:?}");
    assert!(findings.iter().any(|finding| finding["summary"].as_str().unwrap().contains("more leases in public.many")));
}

fn what_is_wrong_with_a_table(world: &World, client: &mut Client) {
    client
        .batch_execute(
            "CREATE TABLE good (name text, \"Holder\" text, taken timestamptz, until timestamptz);
             CREATE TABLE secret (LIKE good); CREATE TABLE wrong (LIKE good); CREATE TABLE locked (LIKE good);
             GRANT SELECT ON good, wrong, locked TO mon; ALTER TABLE wrong ALTER until TYPE text",
        )
        .unwrap();
    let mut holder = world.client("leases");
    holder.batch_execute("SELECT pg_advisory_lock(612600); BEGIN; LOCK TABLE locked").unwrap();
    let leases = [
        ("a", "public.nosuch", "until"),
        ("b", "public.good", "nosuch"),
        ("c", "public.secret", "until"),
        ("d", "public.wrong", "until"),
        ("e", "public.locked", "until"),
        ("f", "public.good", "until"),
    ];
    let (target, code) = world.check(&leases);
    let text = |place: usize| target["leases"][place]["error"].as_str().unwrap_or_default().to_owned();
    for (place, part) in [
        "relation \"public.nosuch\" does not exist",
        "nosuch does not exist",
        "permission denied for table secret",
        "its column until is of type text, not a time",
        "somebody has it locked",
    ]
    .iter()
    .enumerate()
    {
        assert!(text(place).contains(part), "no {part} in {}", target["leases"]);
    }
    assert_eq!((text(5).as_str(), target["leases"][5]["count"].as_u64()), ("", Some(0)), "the last one is read");
    // The locks are there, whatever became of the tables.
    assert_eq!(target["locks"][0]["key"]["text"], "612600", "{target}");
    let findings = target["findings"].as_array().unwrap();
    assert_eq!(findings.iter().filter(|finding| finding["severity"] == "unknown").count(), 5, "{target}");
    assert_eq!(code, Some(3), "blind is not clean");
    let grant = findings.iter().find_map(|finding| finding["advice"]["sql"].as_str()).unwrap();
    assert_eq!(grant, "GRANT USAGE ON SCHEMA public TO mon;\nGRANT SELECT ON public.secret TO mon;");
    client.batch_execute(grant).unwrap();
    let (target, code) = world.check(&[("c", "public.secret", "until")]);
    assert_eq!((&target["leases"][0]["error"], code), (&Value::Null, Some(0)), "{target}");
}
