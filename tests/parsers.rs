//! Whatever stands in a string or a file: the parsers end soon and say what is wrong, and what was written comes back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pglockwatch::config;
use pglockwatch::keys::Dictionary;
use pglockwatch::pg::conninfo::FixedEnvironment;
use pglockwatch::pg::{ConnInfo, SmallFile};
use pglockwatch::units;
use proptest::prelude::*;

/// Text that looks like what the parsers know, and then does not.
fn near_text() -> impl Strategy<Value = String> {
    let words = [
        "postgres://",
        "postgresql://",
        "host",
        "user",
        "password",
        "dbname",
        "port",
        "sslmode",
        "service",
        "=",
        "'",
        "\\",
        " ",
        "\n",
        "\t",
        "%",
        "%2",
        "%41",
        "%00",
        "@",
        ":",
        "/",
        "?",
        "&",
        ",",
        "[",
        "]",
        "#",
        "::1",
        "5432",
        "0",
        "-1",
        "99999999999999999999",
        "require",
        "[[key]]",
        "[[target]]",
        "name",
        "key",
        "\"",
        "{",
        "}",
        ".",
        "é",
        "\u{202e}",
        "\u{0}",
        "1h",
        "30m",
        "ms",
        "0x",
        "(",
        ")",
        "*",
    ];
    let word = prop_oneof![3 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

/// A value that a name or a password may have.
fn value() -> impl Strategy<Value = String> {
    "[^\u{0}]{1,20}"
}

fn environment() -> FixedEnvironment {
    FixedEnvironment { os_user: Some("ada".to_owned()), home: Some(PathBuf::from("/home/ada")), ..Default::default() }
}

/// As libpq's manual says: in quotes, with a backslash before quotes and backslashes.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

fn encoded(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "%{byte:02X}");
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_string_is_too_strange(text in near_text()) {
        let began = Instant::now();
        if let Ok(info) = ConnInfo::parse(&text) {
            let _ = info.complete(&environment());
        }
        let _ = units::parse_duration(&text);
        let _ = pglockwatch::keys::key::parse(&text);
        let _ = Dictionary::parse("keys.toml", &text);
        let _ = config::parse(&text, "pglockwatch.toml", Path::new("/etc"));
        prop_assert!(began.elapsed() < Duration::from_secs(5));
    }

    /// What a password may be a piece of is never shown.
    #[test]
    fn no_error_shows_a_password(secret in "[A-Za-z0-9@:/?#%&= '\\\\]{6,16}", before in near_text(), behind in near_text()) {
        prop_assume!(!before.contains(&secret) && !behind.contains(&secret));
        for text in [format!("host=h {before} password={} {behind}", quoted(&secret)), format!("host=h password={}", quoted(&secret))] {
            if let Err(error) = ConnInfo::parse(&text).and_then(|info| info.complete(&environment())) {
                let told = format!("{error} {error:?} {}", error.hints().join(" "));
                prop_assert!(!told.contains(&secret), "{}", told);
            }
        }
    }

    #[test]
    fn values_come_back_from_pairs(user in value(), dbname in value(), port in 1_u16.., spaces in "[ \t\n\r]{0,3}") {
        let text = format!("user{spaces}={spaces}{} dbname={}{spaces} port={port} host=db", quoted(&user), quoted(&dbname));
        let settings = ConnInfo::parse(&text).unwrap().complete(&environment()).unwrap();
        prop_assert_eq!((settings.user(), settings.dbname()), (user.as_str(), dbname.as_str()));
        prop_assert_eq!(settings.target_name(), format!("db:{port}"));
    }

    #[test]
    fn values_come_back_from_uris(user in value(), dbname in value(), password in value(), port in 1_u16..) {
        let (user_, dbname_, password_) = (encoded(&user), encoded(&dbname), encoded(&password));
        for text in [
            format!("postgres://{user_}:{password_}@db:{port}/{dbname_}"),
            format!("postgresql://db/?user={user_}&password={password_}&port={port}&dbname={dbname_}"),
        ] {
            let info = ConnInfo::parse(&text).unwrap();
            prop_assert!(info.has_password());
            let settings = info.complete(&environment()).unwrap();
            prop_assert_eq!((settings.user(), settings.dbname()), (user.as_str(), dbname.as_str()));
            prop_assert_eq!(settings.target_name(), format!("db:{port}"));
        }
    }

    #[test]
    fn services_come_back_and_no_file_is_too_strange(dbname in "[!-~]([ -~]{0,10}[!-~])?", noise in near_text()) {
        let with = |text: String| {
            let mut environment = environment();
            let file = SmallFile { text, mode: 0o600 };
            environment.files = BTreeMap::from([(PathBuf::from("/home/ada/.pg_service.conf"), file)]);
            environment
        };
        let info = ConnInfo::parse("service=orders").unwrap();
        let good = with(format!("[other]\nport=1\n\n# none\n[orders]\nhost=db\ndbname={dbname}\n"));
        let settings = info.complete(&good).unwrap();
        prop_assert_eq!(settings.dbname(), dbname.as_str());
        let _ = info.complete(&with(format!("[orders]\n{noise}")));
        let _ = info.complete(&with(noise));
    }

    #[test]
    fn durations_come_back(seconds in 0_u64..30_000_000, millis in 0_u32..1_000) {
        let duration = Duration::new(seconds, millis * 1_000_000);
        prop_assert_eq!(units::parse_duration(&format!("{seconds}s {millis}ms")), Ok(duration));
        prop_assert_eq!(units::parse_duration(&format!("{}m{}s", seconds / 60, seconds % 60)), Ok(Duration::from_secs(seconds)));
    }

    #[test]
    fn names_in_dictionaries_come_back(name in "[^\u{0}-\u{1f}\u{7f}]{1,30}", key in any::<i64>()) {
        let text = format!("[[key]]\nname = {}\nkey = {key}\n", toml::Value::from(name.as_str()));
        if let Ok(dictionary) = Dictionary::parse("keys.toml", &text) {
            let book = pglockwatch::keys::KeyBook::new(&[dictionary]);
            prop_assert_eq!(&book.entries()[0].name, &name);
        }
    }
}

/// A megabyte of what is worst for each: nothing is quadratic.
#[test]
fn long_texts_end_soon() {
    let long = |piece: &str| piece.repeat(1_000_000 / piece.len());
    let began = Instant::now();
    for text in [
        long("a"),
        long("\\"),
        long("'"),
        long("host=a "),
        long("%41"),
        long("a,"),
        long("[["),
        long("="),
        long(" "),
        format!("postgres://{}", long("a,")),
        format!("postgres://{}", long("@")),
        format!("postgres://h/d?{}", long("user=a&")),
        format!("postgres://{}", long("%41")),
        format!("password='{}", long("\\'")),
    ] {
        let _ = ConnInfo::parse(&text);
        let _ = units::parse_duration(&text);
        let _ = pglockwatch::keys::key::parse(&text);
    }
    assert!(began.elapsed() < Duration::from_secs(60), "it took {:?}", began.elapsed());
}
