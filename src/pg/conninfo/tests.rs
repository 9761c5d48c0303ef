//! Completion: what the environment adds, and what it must not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret as _;

use super::*;
use crate::pg::files::SmallFile;

fn environment(variables: &[(&str, &str)]) -> FixedEnvironment {
    FixedEnvironment {
        variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        home: Some(PathBuf::from("/home/ada")),
        os_user: Some("ada".to_owned()),
        ..FixedEnvironment::default()
    }
}

fn with_file(mut environment: FixedEnvironment, path: &str, text: &str) -> FixedEnvironment {
    environment.files.insert(PathBuf::from(path), SmallFile { text: text.to_owned(), mode: 0o600 });
    environment
}

fn complete(text: &str, environment: &FixedEnvironment) -> ConnSettings {
    ConnInfo::parse(text).unwrap().complete(environment).unwrap()
}

fn refused(text: &str, environment: &FixedEnvironment) -> String {
    match ConnInfo::parse(text).and_then(|info| info.complete(environment)) {
        Ok(settings) => panic!("{settings:?}"),
        Err(error) => error.to_string(),
    }
}

fn names(settings: &ConnSettings) -> Vec<String> {
    settings.addresses.iter().map(Address::name).collect()
}

#[test]
fn nothing_at_all_is_the_users_own_database_on_the_socket() {
    let settings = complete("", &environment(&[]));
    assert_eq!((settings.user(), settings.dbname()), ("ada", "ada"));
    assert_eq!(settings.target_name(), "/var/run/postgresql:5432");
    assert_eq!(settings.tls.mode, TlsMode::Prefer);
    assert_eq!(settings.passfile.as_deref(), Some(Path::new("/home/ada/.pgpass")));
    let dbname = complete("user=bob", &environment(&[]));
    assert_eq!(dbname.dbname(), "bob");
}

#[test]
fn the_socket_of_a_compiled_server_is_found() {
    let environment = with_file(environment(&[]), "/tmp/.s.PGSQL.5433", "");
    assert_eq!(complete("port=5433", &environment).target_name(), "/tmp:5433");
    assert_eq!(complete("port=5432", &environment).target_name(), "/var/run/postgresql:5432");
}

#[test]
fn variables_fill_what_the_string_leaves_out() {
    let all = environment(&[
        ("PGHOST", "db"),
        ("PGPORT", "5433"),
        ("PGUSER", "bob"),
        ("PGDATABASE", "app"),
        ("PGPASSWORD", "secret"),
        ("PGSSLMODE", "require"),
        ("PGCONNECT_TIMEOUT", "7"),
        ("PGAPPNAME", "me"),
    ]);
    let settings = complete("", &all);
    assert_eq!((settings.user(), settings.dbname()), ("bob", "app"));
    assert_eq!(settings.target_name(), "db:5433");
    assert_eq!(settings.password.as_ref().unwrap().expose_secret(), "secret");
    assert_eq!(settings.connect_timeout, Some(Duration::from_secs(7)));
    assert_eq!(settings.tls.mode, TlsMode::Require);
    let settings = complete("postgres://eve:own@other/d?sslmode=disable", &all);
    assert_eq!((settings.user(), settings.dbname()), ("eve", "d"));
    // The port is left out, so PGPORT counts, as in psql.
    assert_eq!(settings.target_name(), "other:5433");
    assert_eq!(settings.password.as_ref().unwrap().expose_secret(), "own");
    assert_eq!(settings.tls.mode, TlsMode::Disable);
    assert_eq!(complete("", &environment(&[("PGREQUIRESSL", "1")])).tls.mode, TlsMode::Require);
}

#[test]
fn several_hosts_ports_and_addresses() {
    let none = environment(&[]);
    assert_eq!(names(&complete("host=a,b port=1,2", &none)), ["a:1", "b:2"]);
    assert_eq!(names(&complete("host=a,b port=1", &none)), ["a:1", "b:1"]);
    assert_eq!(names(&complete("postgres://a,b:2/d", &none)), ["a:5432", "b:2"]);
    assert_eq!(names(&complete("postgres://[::1]:7/d", &none)), ["[::1]:7"]);
    assert_eq!(names(&complete("host=a,,/s port=1,2,3", &none)), ["a:1", "/var/run/postgresql:2", "/s:3"]);
    assert_eq!(names(&complete("hostaddr=10.0.0.5", &none)), ["10.0.0.5:5432"]);
    let named = complete("host=db hostaddr=10.0.0.5", &none);
    let addr = Some("10.0.0.5".parse().unwrap());
    assert_eq!(named.addresses[0].endpoint, Endpoint::Host { name: "db".to_owned(), addr });
    assert!(refused("host=a,b,c port=1,2", &none).contains("2 ports for 3 hosts"));
    assert!(refused("host=a,b hostaddr=10.0.0.5", &none).contains("hostaddr"));
    assert!(refused("hostaddr=db", &none).contains("hostaddr"));
    assert!(refused("host=@abstract", &none).contains("abstract"));
    for port in ["0", "65536", "x", "-1"] {
        assert!(refused(&format!("host=a port={port}"), &none).contains("1 to 65535"));
    }
}

#[test]
fn values_that_an_option_cannot_have_are_refused_by_name() {
    let none = environment(&[]);
    for (text, name) in [
        ("sslmode=on", "sslmode"),
        ("connect_timeout=soon", "connect_timeout"),
        ("keepalives=yes", "keepalives"),
        ("target_session_attrs=master", "target_session_attrs"),
        ("channel_binding=maybe", "channel_binding"),
        ("ssl_min_protocol_version=TLSv9", "ssl_min_protocol_version"),
        ("sslmode=prefer sslnegotiation=direct", "sslnegotiation"),
        ("sslmode=require sslrootcert=system", "sslrootcert=system"),
        ("gssencmode=require", "gssencmode"),
        ("requirepeer=postgres", "requirepeer"),
        ("service=nowhere", "service"),
    ] {
        assert!(refused(text, &none).contains(name), "{text}");
    }
    assert!(refused("", &environment(&[("PGREQUIREPEER", "x")])).contains("from PGREQUIREPEER"));
    assert!(refused("", &environment(&[("PGSSLMODE", "on")])).contains("sslmode"));
}

#[test]
fn timeouts_and_keepalives() {
    let settings = complete(
        "connect_timeout=1 keepalives_idle=30 keepalives_count=4 tcp_user_timeout=1500 keepalives_interval=0",
        &environment(&[]),
    );
    assert_eq!(settings.connect_timeout, Some(Duration::from_secs(2)));
    assert_eq!(settings.keepalives.idle, Some(Duration::from_secs(30)));
    assert_eq!(settings.keepalives.interval, None);
    assert_eq!(settings.keepalives.count, Some(4));
    // Milliseconds, whereas the others are seconds.
    assert_eq!(settings.keepalives.user_timeout, Some(Duration::from_millis(1500)));
    assert!(settings.keepalives.enabled);
    assert_eq!(complete("connect_timeout=0", &environment(&[])).connect_timeout, None);
    assert!(!complete("keepalives=0", &environment(&[])).keepalives.enabled);
}

#[test]
fn certificates_of_the_home_folder_count_if_they_are_there() {
    let none = environment(&[]);
    assert_eq!(complete("host=db", &none).tls.root, RootCerts::None);
    let root = with_file(none.clone(), "/home/ada/.postgresql/root.crt", "");
    let path = PathBuf::from("/home/ada/.postgresql/root.crt");
    assert_eq!(complete("host=db", &root).tls.root, RootCerts::File { path, given: false });
    assert_eq!(complete("host=db sslrootcert=system", &none).tls.mode, TlsMode::VerifyFull);
    let cert = with_file(none, "/home/ada/.postgresql/postgresql.crt", "");
    let key = PathBuf::from("/home/ada/.postgresql/postgresql.key");
    assert_eq!(complete("host=db", &cert).tls.cert.unwrap().1, key);
}

const SERVICES: &str =
    "# services\n[other]\nhost=wrong\n\n[orders]\n host=db1\nport=5433\nuser=svc\n[more]\nhost=late\n";

#[test]
fn a_service_comes_before_variables_and_after_the_string() {
    let environment =
        with_file(environment(&[("PGUSER", "bob"), ("PGPORT", "9")]), "/home/ada/.pg_service.conf", SERVICES);
    let settings = complete("service=orders user=eve", &environment);
    assert_eq!((settings.target_name().as_str(), settings.user()), ("db1:5433", "eve"));
    let mut by_variable = environment.clone();
    by_variable.variables.insert("PGSERVICE".to_owned(), "orders".to_owned());
    assert_eq!(complete("", &by_variable).user(), "svc");
    assert!(refused("service=nowhere", &environment).contains("not in any service file"));
}

#[test]
fn a_service_file_with_an_error_is_refused_by_line() {
    for (line, what) in [
        ("hots=db", "unknown option in line 2"),
        ("host", "no = in line 2"),
        ("service=x", "within a service in line 2"),
        ("replication=database", "replication"),
    ] {
        let file = with_file(environment(&[]), "/home/ada/.pg_service.conf", &format!("[a]\n{line}\n"));
        assert!(refused("service=a", &file).contains(what), "{line}");
    }
    let missing = environment(&[("PGSERVICEFILE", "/nowhere/services")]);
    assert!(refused("service=a", &missing).contains("/nowhere/services"));
}

#[test]
fn no_password_is_ever_shown() {
    let info = ConnInfo::parse("postgres://u:hunter2@h/d?sslpassword=hunter2").unwrap();
    assert!(info.has_password());
    let settings = info.complete(&environment(&[])).unwrap();
    assert!(!format!("{info:?} {settings:?}").contains("hunter2"));
    assert!(!ConnInfo::parse("host=h").unwrap().has_password());
    assert!(!ConnInfo::parse("host=h password=''").unwrap().has_password());
}

#[test]
fn a_role_and_a_password_given_apart_come_before_the_text() {
    let info = ConnInfo::parse("postgres://u:old@h/d").unwrap().with_user("v").unwrap();
    let settings = info.with_password(SecretString::from("new")).complete(&environment(&[("PGUSER", "w")])).unwrap();
    assert_eq!(settings.user(), "v");
    assert_eq!(settings.password.unwrap().expose_secret(), "new");
    let apart = ConnInfo::parse("host=h").unwrap().with_password(SecretString::from("new"));
    assert!(!apart.has_password());
}

#[test]
fn unknown_options_are_named_and_near_misses_understood() {
    let hint = |text: &str| ConnInfo::parse(text).unwrap_err().hints().join(" ");
    assert!(hint("hots=db").contains("host"));
    assert!(hint("sslrootcerts=x").contains("sslrootcert"));
    assert!(hint("database=x").contains("dbname"));
    assert!(hint("username=x").contains("user"));
    assert!(hint("SSLMODE=x").contains("sslmode"));
    assert!(!hint("quux=x").contains("meant"));
    // A name that is no word may be anything, a password too.
    assert!(!ConnInfo::parse("hunter2!=x").unwrap_err().to_string().contains("hunter2"));
}
