//! Server certificates of every kind, and whether each sslmode takes them as psql does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use postgres::NoTls;

use super::certificates::{Certified, Contents, certify, revocations};
use super::in_parallel;
use super::runs::{Session, Start, ours, psql};
use super::world::{WHOAMI, give_to_owner, newest_psql};
use crate::exporter::harness::have;
use crate::support::session::{single, superuser, superuser_of};
use crate::support::{say, server};

/// A server's certificate, what its clients trust, and the name by which they call it.
struct Kind {
    name: &'static str,
    /// What the server sends, and its key.
    sent: String,
    key: Certified,
    /// sslrootcert and sslcrl: files in the clients' folder.
    trusted: &'static str,
    crl: Option<&'static str>,
    host: &'static str,
    /// Which of [`MODES`] psql connects with, and with TLS: so that a kind that fails for another reason is noticed.
    takes: &'static [&'static str],
}

const MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
const ALL: &[&str] = &["prefer", "require", "verify-ca", "verify-full"];
const NOT_FULL: &[&str] = &["prefer", "require", "verify-ca"];
/// Where the certificate is bad, prefer goes on in the clear.
const NONE: &[&str] = &[];

#[test]
fn every_sslmode_takes_the_certificates_that_psql_takes() {
    let Some((_, program)) = newest_psql() else {
        say("SKIPPED: certificates as psql takes them: it is not here (install PostgreSQL's client)");
        return;
    };
    if !have("openssl", "certificates as psql takes them") {
        return;
    }
    let clients = tempfile::tempdir().unwrap();
    let kinds = kinds(clients.path());
    let cluster = server::start_with(&server::any(), &[], |folder| {
        let data = folder.data();
        for (place, kind) in kinds.iter().enumerate() {
            kind.key.write(&data, &format!("server{place}"));
            fs::write(data.join(format!("server{place}.crt")), &kind.sent).unwrap();
            give_to_owner(&data, &data.join(format!("server{place}.key")));
        }
    });
    superuser(&cluster).batch_execute(WHOAMI).unwrap();
    let mut wrong = Vec::new();
    for (place, kind) in kinds.iter().enumerate() {
        present(&cluster, place);
        let results = in_parallel(&MODES, |mode| {
            let start = kind.start(mode, clients.path(), cluster.port());
            (psql(&program, clients.path(), &start), ours(clients.path(), &start))
        });
        for (mode, (theirs, ours)) in MODES.iter().zip(results) {
            let with_tls = |run: &Result<Session, String>| run.as_ref().ok().map(|session| session[2] != "plain");
            if with_tls(&theirs) != with_tls(&ours) {
                wrong.push(format!("{}, {mode}:\n    psql: {theirs:?}\n    ours: {ours:?}", kind.name));
            }
            if (with_tls(&theirs) == Some(true)) != kind.takes.contains(mode) {
                wrong.push(format!("{}, {mode}: psql does not do what is expected: {theirs:?}", kind.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Makes the server use this certificate, and waits until it does.
fn present(cluster: &pglockwatch::app::demo::Cluster, place: usize) {
    let mut client = superuser(cluster);
    for sql in [
        format!("ALTER SYSTEM SET ssl_cert_file = 'server{place}.crt'"),
        format!("ALTER SYSTEM SET ssl_key_file = 'server{place}.key'"),
        "ALTER SYSTEM SET ssl = on".to_owned(),
        "SELECT pg_reload_conf()".to_owned(),
    ] {
        client.batch_execute(&sql).unwrap();
    }
    let began = Instant::now();
    // A new session has what the postmaster had when it came.
    let there = || {
        let mut client = cluster.config().connect(NoTls).unwrap();
        single(&mut client, "SELECT current_setting('ssl_cert_file') || current_setting('ssl')").unwrap()
            == format!("server{place}.crton")
    };
    while !there() {
        assert!(began.elapsed() < Duration::from_secs(30), "the server does not take server{place}.crt");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(superuser_of(cluster, "postgres"));
}

impl Kind {
    fn start(&self, mode: &str, folder: &Path, port: u16) -> Start {
        let folder = folder.display();
        let crl = self.crl.map(|crl| format!(" sslcrl={folder}/{crl}")).unwrap_or_default();
        let host = self.host;
        let trusted = self.trusted;
        let dsn = format!(
            "host={host} hostaddr=127.0.0.1 port={port} user=postgres dbname=postgres sslmode={mode} \
             sslrootcert={folder}/{trusted}{crl}"
        );
        Start { dsn: Some(dsn), env: BTreeMap::new() }
    }
}

/// All kinds; what clients read is written into their folder.
fn kinds(folder: &Path) -> Vec<Kind> {
    let root = certify(Contents::authority("root"), None);
    let middle = certify(Contents::authority("middle"), Some(&root));
    let stranger = certify(Contents::authority("stranger"), None);
    let named = |names: &'static [&'static str]| Contents { names, ..Contents::named("db.test") };
    let by_root = |contents: Contents<'_>| certify(contents, Some(&root));
    let alone = |name, certified: Certified, host, takes| Kind {
        name,
        sent: certified.pem(),
        key: certified,
        trusted: "root.crt",
        crl: None,
        host,
        takes,
    };
    root.write(folder, "root");
    stranger.write(folder, "stranger");
    fs::write(folder.join("chain.crt"), middle.pem() + &root.pem()).unwrap();
    fs::write(folder.join("middle.crt"), middle.pem()).unwrap();

    let self_signed = certify(Contents::named("db.test"), None);
    fs::write(folder.join("self.crt"), self_signed.pem()).unwrap();
    let self_signed_v1 = certify(Contents { version_1: true, ..Contents::named("db.test") }, None);
    fs::write(folder.join("self-v1.crt"), self_signed_v1.pem()).unwrap();
    let revoked = by_root(named(&["db.test"]));
    fs::write(folder.join("revoked.crl"), revocations(&root, &[&revoked])).unwrap();
    let with_middle = || certify(named(&["db.test"]), Some(&middle));
    let (chained, unchained, known) = (with_middle(), with_middle(), with_middle());
    let sent = |certified: &Certified| certified.pem() + &middle.pem();

    let mut kinds = vec![
        alone("signed", by_root(named(&["db.test"])), "db.test", ALL),
        alone("common name alone", by_root(Contents::named("db.test")), "db.test", ALL),
        alone("another name", by_root(named(&["db.test"])), "other.test", NOT_FULL),
        alone("the common name does not count beside others", by_root(named(&["other.test"])), "db.test", NOT_FULL),
        alone("a second name", by_root(named(&["other.test", "db.test"])), "db.test", ALL),
        alone("capitals", by_root(named(&["DB.TEST"])), "db.test", ALL),
        alone("wildcard", by_root(named(&["*.db.test"])), "a.db.test", ALL),
        alone("wildcard for one label only", by_root(named(&["*.db.test"])), "a.b.db.test", NOT_FULL),
        alone("wildcard for no label", by_root(named(&["*.db.test"])), "db.test", NOT_FULL),
        alone("wildcard in a label", by_root(named(&["a*.db.test"])), "ab.db.test", NOT_FULL),
        alone("wildcard of a top level", by_root(named(&["*.test"])), "db.test", ALL),
        alone("wildcard as common name", by_root(Contents::named("*.db.test")), "a.db.test", ALL),
        alone("a dot at the end of the host", by_root(named(&["db.test"])), "db.test.", NOT_FULL),
        alone("address", by_root(named(&["IP:127.0.0.1"])), "127.0.0.1", ALL),
        alone("another address", by_root(named(&["IP:127.0.0.2"])), "127.0.0.1", NOT_FULL),
        alone("address as a name", by_root(named(&["127.0.0.1"])), "127.0.0.1", ALL),
        alone("address as common name", by_root(Contents::named("127.0.0.1")), "127.0.0.1", ALL),
        alone("the common name beside an address", by_root(named(&["IP:127.0.0.1"])), "db.test", ALL),
        alone("version 1", by_root(Contents { version_1: true, ..Contents::named("db.test") }), "db.test", ALL),
        alone("expired", by_root(Contents { expired: true, ..named(&["db.test"]) }), "db.test", NONE),
        alone("another authority", certify(named(&["db.test"]), Some(&stranger)), "db.test", NONE),
        alone("self-signed, unknown", certify(Contents::named("db.test"), None), "db.test", NONE),
        Kind { trusted: "self.crt", ..alone("self-signed, known", self_signed, "db.test", ALL) },
        Kind { trusted: "self-v1.crt", ..alone("self-signed, version 1", self_signed_v1, "db.test", ALL) },
        Kind { trusted: "stranger.crt", ..alone("the wrong authority", by_root(named(&["db.test"])), "db.test", NONE) },
        Kind { crl: Some("revoked.crl"), ..alone("revoked", revoked, "db.test", NONE) },
        Kind { crl: Some("revoked.crl"), ..alone("not revoked", by_root(named(&["db.test"])), "db.test", ALL) },
        Kind { sent: sent(&chained), ..alone("intermediate, sent", chained, "db.test", ALL) },
        alone("intermediate, missing", unchained, "db.test", NONE),
        Kind { trusted: "chain.crt", ..alone("intermediate, known", known, "db.test", ALL) },
    ];
    let only_middle = with_middle();
    kinds.push(Kind { trusted: "middle.crt", ..alone("intermediate known, root not", only_middle, "db.test", NONE) });
    let nobody = by_root(named(&["db.test"]));
    kinds.push(Kind { trusted: "none.crt", ..alone("no authority known", nobody, "db.test", &["prefer", "require"]) });
    kinds
}
