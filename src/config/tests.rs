use super::*;
use secrecy::ExposeSecret as _;

fn config(text: &str) -> Config {
    parse(text, "pglockwatch.toml", Path::new("/etc/plw")).unwrap_or_else(|error| panic!("{}", error.text()))
}

fn refused(text: &str) -> String {
    parse(text, "pglockwatch.toml", Path::new("/etc/plw")).unwrap_err().text()
}

#[test]
fn the_contracts_example_is_read() {
    let config = config(
        r#"
interval = "5s"
timeout = "10s"
keys = ["keys/common.toml"]
application_group = "^([a-z]+)"
[thresholds]
idle = "60s"
hoard = 100
[[target]]
name = "orders"
dsn = "host=db1,db2 user=pglockwatch target_session_attrs=read-write"
password_file = "orders.password"
keys = ["keys/orders.toml"]
labels = { env = "prod" }
[target.thresholds]
idle = "5m"
[[target.pgbouncer]]
dsn = "host=pgb1 port=6432 user=stats"
password_file = "pgb1.password"
[[target.pgbouncer]]
dsn = "host=pgb2"
"#,
    );
    assert_eq!(config.interval, Some(Duration::from_secs(5)));
    assert_eq!(config.keys, [PathBuf::from("/etc/plw/keys/common.toml")]);
    assert_eq!(config.thresholds.hoard, Some(100));
    assert!(config.application_group.is_some());
    let target = &config.targets[0];
    assert_eq!(target.name.as_deref(), Some("orders"));
    assert!(target.dsn.expose_secret().starts_with("host=db1,db2"));
    assert_eq!(target.password_file.as_deref(), Some(Path::new("/etc/plw/orders.password")));
    assert!(target.poolers[0].dsn.expose_secret().starts_with("host=pgb1"));
    assert_eq!(target.poolers[0].password_file.as_deref(), Some(Path::new("/etc/plw/pgb1.password")));
    assert_eq!(target.poolers.len(), 2);
    assert_eq!(target.labels["env"], "prod");
    assert_eq!(target.thresholds.idle, Some(Duration::from_secs(300)));
}

#[test]
fn what_is_wrong_is_pointed_at() {
    assert_eq!(
        refused("timeout = \"3s\"\ninterval = \"5\"\n"),
        "pglockwatch: pglockwatch.toml:2:12: the unit is missing: write 5s for seconds, or 5ms, 5m, 5h\n  |\n2 | \
         interval = \"5\"\n  |            ^^^\n"
    );
    assert!(refused("interval = \"50ms\"").contains(":1:12: the shortest interval is 100ms"));
    assert!(refused("colour = 1").contains(":1:1: unknown field `colour`"));
    assert!(refused("timeout = \"1s\"\ntimeout = \"1s\"").contains(":2:1: duplicate key"));
    for (text, says) in [
        (
            "[thresholds]\nhoard = \"many\"",
            ":2:9: invalid type: string, expected a whole number from 1 to 4294967295\n",
        ),
        (
            "[thresholds]\nhoard = -5",
            ":2:9: invalid value: integer `-5`, expected a whole number from 1 to 4294967295\n",
        ),
        ("[target]\ndsn = \"\"", ":1:1: invalid type: table, expected an array, as [...] or of [[...]]\n"),
        ("[[target]]\ndsn = \"\"\nlabels = [1]", ":3:10: invalid type: array, expected a table\n"),
        ("[web]\nno_pages = 1", ":2:12: invalid type: integer `1`, expected true or false\n"),
    ] {
        assert!(refused(text).contains(says), "{}", refused(text));
    }
    assert!(refused("application_group = \"(\"").contains("not a regular expression"));
    assert!(refused("[[target]]\nname = \"a\"").contains("missing field `dsn`"));
}

#[test]
fn a_group_may_be_written_as_people_write_patterns() {
    for (pattern, name) in [
        (r"^\w+-(\d+)\s*$", "größe-12"),
        (r"(?i)^(straße|ÄPFEL)\b", "äpfel 7"),
        (r"^(\p{L}+|\p{Lu}\p{Nd})[[:punct:]]", "имя-1"),
        (r"^(?P<app>[^:@/]{2,}?)(?:[:@/].*)?$", "orders@eu/3"),
    ] {
        let config = config(&format!("application_group = '{pattern}'"));
        assert!(config.application_group.unwrap().is_match(name), "{pattern}");
    }
}

#[test]
fn a_misspelt_option_of_web_is_pointed_at() {
    assert!(refused("[web]\nlisten_adress = []").contains(":2:1: unknown field `listen_adress`"));
}

#[test]
fn lease_tables_are_named_with_their_schema() {
    let lease = |rest: &str| format!("[[target]]\ndsn = \"host=a\"\n[[target.lease]]\nname = \"x\"\n{rest}");
    let columns = "columns = { name = \"n\", holder = \"h\", expires = \"e\" }";
    let config = parse(&lease(&format!("table = 'ops.\"a.b\"'\n{columns}")), "f", Path::new("")).unwrap();
    let read = &config.targets[0].leases[0];
    assert_eq!((read.lease.as_str(), read.schema.as_str(), read.table.as_str()), ("x", "ops", "a.b"));
    assert_eq!((read.expires.as_str(), &read.taken), ("e", &None));
    for table in ["leases", "a.b.c", "", "ops."] {
        let said = refused(&lease(&format!("table = '{table}'\n{columns}")));
        assert!(said.contains(":5:9: write the table with its schema"), "{said}");
    }
    assert!(refused(&lease("table = \"a.b\"")).contains("missing field `columns`"));
    assert!(
        refused(&lease("table = \"a.b\"\ncolumns = { name = \"n\", holder = \"\", expires = \"e\" }"))
            .contains("must not be empty")
    );
    let two = format!(
        "{}\n[[target.lease]]\nname = \"x\"\ntable = \"a.b\"\n{columns}",
        lease(&format!("table = \"a.b\"\n{columns}"))
    );
    assert!(refused(&two).contains("two leases of this target have this name"));
}

#[test]
fn names_are_unique_and_labels_are_not_ours() {
    let two = "[[target]]\nname = \"a\"\ndsn = \"\"\n[[target]]\nname = \"a\"\ndsn = \"\"";
    assert!(refused(two).contains(":5:8: two targets have this name"));
    let label = |name: &str| refused(&format!("[[target]]\ndsn = \"\"\nlabels = {{ \"{name}\" = \"x\" }}"));
    assert!(label("datname").contains("choose another name"));
    assert!(label("a-b").contains("letters, digits"));
    assert!(label("__a").contains("letters, digits"));
}

#[test]
fn no_error_shows_a_value_that_may_hold_a_password() {
    for text in [
        "[[target]]\ndsn = \"host=a password=s3cret",
        "[[target]]\ndsn = \"\"\"host=a\npassword=s3cret\n",
        "[[target]]\nds = \"host=a password=s3cret\"",
        "target = \"postgres://u:s3cret@h/\"",
        "[[target]]\ndsn = [\"password=s3cret\"]",
        "[[target]]\ndsn = { password = \"s3cret\" }",
        "[thresholds]\nhoard = \"postgres://u:s3cret@h/, expected x\"",
        "keys = 1 postgres://u:s3cret@h/",
        "[[target]]\n\"dsn\" = \"s3cret\" x",
        "[target.\"s3cret\"]\n= x",
    ] {
        let text = refused(text);
        assert!(!text.contains("s3cret") || text.contains("[target."), "{text}");
    }
}

#[test]
fn the_dictionary_may_stand_in_the_config() {
    let text = "[[key]]\nname = \"report\"\nkey = 612001\n[[silence]]\nkeys = [\"6\"]\nreason = \"OPS-4711\"\n";
    let dictionary = config(text).dictionary.unwrap();
    assert_eq!((dictionary.keys.len(), dictionary.silences.len()), (1, 1));
    let text = refused("[[key]]\nname = \"report\"\nkey = 612001\ncolour = 1\n");
    assert!(text.starts_with("pglockwatch: pglockwatch.toml:4:1: ") && text.contains("4 | colour = 1"), "{text}");
    assert!(config("interval = \"1s\"").dictionary.is_none());
}

#[test]
fn the_fields_at_the_top_are_those_that_are_read() {
    for field in FIELDS {
        let text = refused(&format!("{field} = true"));
        assert!(!text.contains("unknown field"), "{text}");
    }
    let unknown = refused("x = 1");
    let listed = FIELDS.iter().filter(|field| unknown.contains(&format!("`{field}`"))).count();
    assert_eq!(listed, FIELDS.len(), "{unknown}");
}
