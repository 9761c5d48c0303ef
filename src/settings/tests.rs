use std::fs;

use secrecy::ExposeSecret as _;

use super::*;
use crate::pg::conninfo::FixedEnvironment;
use crate::pg::{ProcessEnvironment, SmallFile};

const TOP: Habits = Habits { interval: Duration::from_secs(2), long_running: true };
const CHECK: Habits = Habits { interval: Duration::from_secs(1), long_running: false };

/// An environment with these variables and these files, which only their owner can read.
fn environment(variables: &[(&str, &str)], files: &[(&str, &str)]) -> FixedEnvironment {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    FixedEnvironment {
        variables: variables.iter().map(pair).collect(),
        home: None,
        os_user: Some("me".to_owned()),
        files: files.iter().map(|(path, text)| (PathBuf::from(path), file(text, 0o600))).collect(),
    }
}

fn file(text: &str, mode: u32) -> SmallFile {
    SmallFile { text: text.to_owned(), mode }
}

fn read(args: GlobalArgs, environment: &dyn Environment, habits: Habits) -> Result<(Settings, Vec<Target>)> {
    let around = Surroundings { environment, terminal: None };
    let mut settings = Settings::new(args, around)?;
    let targets = settings.targets(around, habits)?;
    Ok((settings, targets))
}

fn targets(args: GlobalArgs, environment: &dyn Environment) -> Vec<Target> {
    read(args, environment, CHECK).unwrap_or_else(|error| panic!("{}", error.text())).1
}

fn names(args: GlobalArgs, environment: &dyn Environment) -> Vec<String> {
    targets(args, environment).into_iter().map(|target| target.name).collect()
}

fn refused(args: GlobalArgs, environment: &dyn Environment) -> String {
    read(args, environment, CHECK).map(|_| ()).unwrap_err().text()
}

fn dsns(dsns: &[&str]) -> GlobalArgs {
    GlobalArgs { dsn: dsns.iter().map(|&dsn| dsn.to_owned()).collect(), ..GlobalArgs::default() }
}

fn config() -> GlobalArgs {
    GlobalArgs { config: Some("/etc/plw/c.toml".into()), ..GlobalArgs::default() }
}

fn in_config(text: &str) -> FixedEnvironment {
    environment(&[], &[("/etc/plw/c.toml", text)])
}

#[test]
fn the_first_place_that_has_a_dsn_wins() {
    let files = [("/a.dsn", "host=file"), ("/name", "host=namefile\n")];
    let mut variables = vec![
        ("PGHOST", "pghost"),
        ("DATA_SOURCE_URI", "uri:5433/db"),
        ("DATA_SOURCE_USER", "us/er"),
        ("DATA_SOURCE_PASS", "p@ss"),
        ("DATA_SOURCE_NAME_FILE", "/name"),
        ("PGLOCKWATCH_DSN", "host=own"),
    ];
    let from_file = || GlobalArgs { dsn_file: Some("/a.dsn".into()), ..GlobalArgs::default() };
    let all = environment(&variables, &files);
    assert_eq!(names(GlobalArgs { dsn_file: Some("/a.dsn".into()), ..dsns(&["host=arg"]) }, &all), ["arg:5432"]);
    assert_eq!(names(from_file(), &all), ["file:5432"]);
    for expected in ["own:5432", "namefile:5432", "uri:5433"] {
        assert_eq!(names(GlobalArgs::default(), &environment(&variables, &files)), [expected]);
        variables.pop();
        if expected == "namefile:5432" {
            let uri = targets(GlobalArgs::default(), &environment(&variables, &files)).remove(0);
            assert_eq!((uri.conninfo.user(), uri.conninfo.dbname()), ("us/er", "db"));
        }
    }
    assert_eq!(names(GlobalArgs::default(), &environment(&[("PGHOST", "pghost")], &files)), ["pghost:5432"]);
}

#[test]
fn variables_fill_what_a_dsn_leaves_out() {
    let around = environment(&[("PGUSER", "mon"), ("PGPORT", "6000"), ("PGDATABASE", "x")], &[]);
    let target = targets(dsns(&["host=db dbname=app"]), &around).remove(0);
    assert_eq!((target.name.as_str(), target.conninfo.user(), target.conninfo.dbname()), ("db:6000", "mon", "app"));
}

#[test]
fn arguments_outweigh_the_config_and_a_target_outweighs_the_rest_of_it() {
    let around = in_config(
        "interval = \"5s\"\ntimeout = \"3s\"\n[thresholds]\nidle = \"2m\"\nwait = \"20s\"\nhoard = 7\n[[target]]\nname = \
         \"a\"\ndsn = \"host=a\"\n[target.thresholds]\nidle = \"9m\"\n",
    );
    let target = targets(config(), &around).remove(0);
    assert_eq!((target.interval.as_secs(), target.timeout.as_secs()), (5, 3));
    assert_eq!((target.thresholds.idle.as_secs(), target.thresholds.wait.as_secs()), (540, 20));
    assert_eq!((target.thresholds.hoard, target.thresholds.critical_after), (7, None));
    let args = GlobalArgs {
        idle_threshold: Some(Duration::from_secs(1)),
        interval: Some(Duration::from_secs(8)),
        critical_after: Some(Duration::from_secs(6)),
        ..config()
    };
    let target = targets(args, &around).remove(0);
    assert_eq!((target.interval.as_secs(), target.thresholds.idle.as_secs()), (8, 1));
    assert_eq!(target.thresholds.critical_after, Some(Duration::from_secs(6)));
    let target = targets(GlobalArgs::default(), &environment(&[], &[])).remove(0);
    assert_eq!((target.interval, target.timeout), (CHECK.interval, Duration::from_secs(10)));
    assert_eq!(target.thresholds, Thresholds::default());
}

#[test]
fn dsns_and_the_configs_targets_exclude_each_other() {
    let around = in_config("[[target]]\ndsn = \"host=a\"\n");
    let text = refused(GlobalArgs { dsn: vec!["host=b".to_owned()], ..config() }, &around);
    assert!(text.contains("--dsn and the [[target]]s of the config file exclude each other"), "{text}");
    let without = in_config("interval = \"5s\"\n");
    assert_eq!(names(GlobalArgs { dsn: vec!["host=b".to_owned()], ..config() }, &without), ["b:5432"]);
}

#[test]
fn equal_names_get_the_database_and_are_never_equal() {
    let around = environment(&[], &[]);
    let args = dsns(&["host=a dbname=x", "host=a dbname=y", "host=b dbname=x"]);
    assert_eq!(names(args, &around), ["a:5432/x", "a:5432/y", "b:5432"]);
    assert!(refused(dsns(&["host=a dbname=x", "host=a dbname=x"]), &around).contains("a:5432/x is given twice"));
    let taken = in_config("[[target]]\nname = \"a:5432\"\ndsn = \"host=c\"\n[[target]]\ndsn = \"host=a dbname=x\"\n");
    assert_eq!(names(config(), &taken), ["a:5432", "a:5432/x"]);
}

#[test]
fn an_error_says_which_dsn_and_quotes_none() {
    let around = environment(&[], &[("/a.dsn", "password=s3cret x"), ("/empty", "\n")]);
    let text = refused(dsns(&["host=a", "hots=b password=s3cret"]), &around);
    assert!(text.starts_with("pglockwatch: --dsn number 2: ") && !text.contains("s3cret"), "{text}");
    let from = |path: &str| GlobalArgs { dsn_file: Some(path.into()), ..GlobalArgs::default() };
    let text = refused(from("/a.dsn"), &around);
    assert!(text.starts_with("pglockwatch: the DSN in /a.dsn: ") && !text.contains("s3cret"), "{text}");
    assert!(refused(from("/empty"), &around).contains("/empty is empty"));
    assert!(refused(from("/none"), &around).contains("cannot read /none"));
    let around = environment(&[("DATA_SOURCE_PASS", "s3cret"), ("DATA_SOURCE_URI", "h:x/db")], &[]);
    let text = refused(GlobalArgs::default(), &around);
    assert!(text.contains("DATA_SOURCE_URI") && !text.contains("s3cret"), "{text}");
}

#[test]
fn passwords_that_others_can_read_are_warned_of_once() {
    let warnings = |args: GlobalArgs, around: &FixedEnvironment, habits: Habits| {
        read(args, around, habits).unwrap_or_else(|error| panic!("{}", error.text())).0.warnings
    };
    let dsn = || dsns(&["host=a password=x", "host=b password=x"]);
    let mut around = environment(&[], &[]);
    assert!(warnings(dsn(), &around, CHECK).is_empty());
    let said = warnings(dsn(), &around, TOP);
    assert!(said.len() == 1 && said[0].contains("--dsn-file"), "{said:?}");
    assert!(warnings(dsns(&["host=a"]), &around, TOP).is_empty());

    let text = "[[target]]\ndsn = \"host=a password=x\"\n[[target]]\ndsn = \"host=b password=x\"\n";
    around.files.insert("/etc/plw/c.toml".into(), file(text, 0o644));
    let said = warnings(config(), &around, CHECK);
    assert!(said.len() == 1 && said[0].contains("chmod 600 /etc/plw/c.toml"), "{said:?}");
    around.files.insert("/etc/plw/c.toml".into(), file(text, 0o600));
    assert!(warnings(config(), &around, CHECK).is_empty());
    around.files.insert("/etc/plw/c.toml".into(), file("[[target]]\ndsn = \"host=a\"\n", 0o644));
    assert!(warnings(config(), &around, CHECK).is_empty());
}

#[test]
fn a_password_file_lies_beside_the_config() {
    let text = "[[target]]\nname = \"a\"\ndsn = \"host=a\"\npassword_file = \"a.password\"\n";
    let mut around = in_config(text);
    assert!(refused(config(), &around).contains("cannot read /etc/plw/a.password"));
    around.files.insert("/etc/plw/a.password".into(), file("s3cret\n", 0o640));
    let (settings, targets) = read(config(), &around, CHECK).unwrap();
    assert_eq!(targets[0].conninfo.password.as_ref().unwrap().expose_secret(), "s3cret");
    assert_eq!(settings.warnings.len(), 1);
    around.files.insert("/etc/plw/a.password".into(), file("\n", 0o600));
    assert!(refused(config(), &around).contains("no password in its first line"));
}

#[test]
fn dictionaries_add_up_and_a_broken_one_stops_everything() {
    let entry = |name: &str, key: u32| format!("[[key]]\nname = \"{name}\"\nkey = {key}\n");
    let mut around = in_config(&format!(
        "keys = [\"common.toml\"]\n{}[[target]]\nname = \"a\"\ndsn = \"host=a\"\nkeys = [\"a.toml\"]\n[[target]]\nname = \
         \"b\"\ndsn = \"host=b\"\n",
        entry("inline", 1)
    ));
    for (path, name, key) in
        [("/etc/plw/common.toml", "common", 2), ("/etc/plw/a.toml", "own", 3), ("/d.toml", "typed", 4)]
    {
        around.files.insert(path.into(), file(&entry(name, key), 0o644));
    }
    let args = || GlobalArgs { dictionaries: vec!["/d.toml".into(), "/d.toml".into()], ..config() };
    let found = targets(args(), &around);
    let entries = |target: &Target| {
        let mut names: Vec<String> = target.book.entries().iter().map(|entry| entry.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(entries(&found[0]), ["common", "inline", "own", "typed"]);
    assert_eq!(entries(&found[1]), ["common", "inline", "typed"]);
    around.files.insert("/d.toml".into(), file("[[key]]\nname = \"x\"\n", 0o644));
    assert!(refused(args(), &around).starts_with("pglockwatch: /d.toml:1:"));
}

#[test]
fn colours_need_a_terminal_and_leave() {
    let color = |choice, variables: &[(&str, &str)], terminal| {
        let environment = environment(variables, &[]);
        screen(choice, Surroundings { environment: &environment, terminal }).color
    };
    let terminal = Some((80, 24));
    assert!(color(None, &[], terminal));
    assert!(!color(None, &[], None));
    assert!(!color(None, &[("NO_COLOR", "1")], terminal));
    assert!(color(None, &[("NO_COLOR", "")], terminal));
    assert!(!color(None, &[("TERM", "dumb")], terminal));
    assert!(color(Some(ColorChoice::Always), &[("NO_COLOR", "1")], None));
    assert!(!color(Some(ColorChoice::Never), &[], terminal));
}

#[test]
fn only_regular_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let from = |path: &Path| GlobalArgs { dsn_file: Some(path.to_owned()), ..GlobalArgs::default() };
    assert!(refused(from(folder.path()), &ProcessEnvironment).contains("not a regular file"));
    assert!(refused(from(Path::new("/dev/zero")), &ProcessEnvironment).contains("not a regular file"));
    let large = folder.path().join("large");
    fs::File::create(&large).unwrap().set_len(16 * 1024 * 1024 + 1).unwrap();
    assert!(refused(from(&large), &ProcessEnvironment).contains("16 MB"));
}

#[test]
fn consoles_come_from_the_target_and_from_the_command_line() {
    let text = "[[target]]\nname = \"a\"\ndsn = \"host=a\"\n[[target.pgbouncer]]\ndsn = \"host=pgb1 port=6432\"\n\
                password_file = \"p\"\n[[target]]\nname = \"b\"\ndsn = \"host=b\"\n";
    let files = [("/c.toml", text), ("/p", "geheim\n")];
    let environment = environment(&[("PGDATABASE", "app"), ("PGOPTIONS", "-c x=y")], &files);
    let pgbouncer = vec!["postgres://stats@pgb2:6432".to_owned()];
    let args = GlobalArgs { config: Some("/c.toml".into()), pgbouncer, ..GlobalArgs::default() };
    let targets = targets(args, &environment);
    let shown = |target: &Target| -> Vec<(String, bool)> {
        let each = target.poolers.iter();
        each.map(|pooler| (pooler.settings.target_name(), pooler.shared_between_targets)).collect()
    };
    assert_eq!(shown(&targets[0]), [("pgb1:6432".to_owned(), false), ("pgb2:6432".to_owned(), true)]);
    assert_eq!(shown(&targets[1]), [("pgb2:6432".to_owned(), true)]);
    let console = &targets[0].poolers[0].settings;
    assert_eq!((console.dbname(), console.password.as_ref().unwrap().expose_secret()), ("pgbouncer", "geheim"));
    // With one target alone the command line means that one.
    let one = GlobalArgs { pgbouncer: vec!["host=pgb".to_owned()], ..dsns(&["host=a"]) };
    assert!(!self::targets(one, &environment)[0].poolers[0].shared_between_targets);
}

#[test]
fn a_console_is_pgbouncers_own_database_without_options() {
    let console = |dsn: &str| {
        let args = GlobalArgs { pgbouncer: vec!["host=ok".to_owned(), dsn.to_owned()], ..dsns(&["host=a"]) };
        refused(args, &environment(&[], &[]))
    };
    assert!(console("dbname=app").contains("--pgbouncer number 2: it must name PgBouncer's console"));
    assert!(console("options='-c a=b'").contains("takes no options"));
    let secret = console("nosuch=1 password=geheim");
    assert!(secret.contains("nosuch") && !secret.contains("geheim"), "{secret}");
}

#[test]
fn a_command_that_looks_again_is_told_how_and_no_password() {
    let none = environment(&[("PGHOST", "db1")], &[]);
    assert_eq!(targets(GlobalArgs::default(), &none)[0].again, "");
    for (dsn, again) in [
        ("host=db1 user=mon password=s3cret", " -d 'host=db1 user=mon'"),
        ("postgres://mon:s3cret@db1:5433/app", " -d 'dbname=app host=db1 port=5433 user=mon'"),
        ("host=/run/pg dbname='it\\'s'", " -d 'dbname='\\''it\\'\\''s'\\'' host=/run/pg'"),
    ] {
        let args = GlobalArgs { idle_threshold: Some(Duration::from_millis(1500)), ..dsns(&[dsn]) };
        assert_eq!(targets(args, &none)[0].again, format!("{again} --idle-threshold 1500ms"));
    }
    let files = environment(&[], &[("my keys.toml", ""), ("/etc/orders.dsn", "host=db1 password=s3cret")]);
    let args = GlobalArgs {
        dsn_file: Some("/etc/orders.dsn".into()),
        dictionaries: vec!["my keys.toml".into()],
        wait_threshold: Some(Duration::from_secs(5)),
        ..GlobalArgs::default()
    };
    assert_eq!(targets(args, &files)[0].again, " --dsn-file /etc/orders.dsn --keys 'my keys.toml' --wait-threshold 5s");
}
