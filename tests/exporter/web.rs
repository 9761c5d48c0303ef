//! TLS, passwords, foreign names, and peers that mean no good.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread::spawn;
use std::time::{Duration, Instant};

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};

use super::harness::{Exporter, have, read_answer, run};

/// A target that refuses connections: these tests need no server.
const NOBODY: &[&str] = &["-d", "host=127.0.0.1 port=1 user=nobody", "--interval", "1s"];

struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

/// A certificate for this name, signed by the authority, or by itself.
fn certificate(name: &str, serial: u32, authority: Option<&Authority>) -> Authority {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut names = X509NameBuilder::new().unwrap();
    names.append_entry_by_text("CN", name).unwrap();
    let names = names.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_serial_number(&BigNum::from_u32(serial).unwrap().to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&names).unwrap();
    builder.set_issuer_name(authority.map_or(&names, |authority| authority.certificate.subject_name())).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
    builder.set_pubkey(&key).unwrap();
    if authority.is_none() {
        builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
    }
    let names =
        SubjectAlternativeName::new().dns("localhost").ip("127.0.0.1").build(&builder.x509v3_context(None, None));
    builder.append_extension(names.unwrap()).unwrap();
    builder.sign(authority.map_or(&key, |authority| &authority.key), MessageDigest::sha256()).unwrap();
    Authority { certificate: builder.build(), key }
}

fn write(folder: &Path, name: &str, pair: &Authority) {
    fs::write(folder.join(format!("{name}.crt")), pair.certificate.to_pem().unwrap()).unwrap();
    fs::write(folder.join(format!("{name}.key")), pair.key.private_key_to_pem_pkcs8().unwrap()).unwrap();
}

/// What curl got: the status, or 0 where there was no answer.
fn curl(folder: &Path, exporter: &Exporter, path: &str, options: &[&str]) -> u16 {
    let url = format!("https://localhost:{}{path}", exporter.addresses[0].port());
    let within = |name: &str| folder.join(name).display().to_string();
    let is_file = |option: &str| Path::new(option).extension().is_some_and(|ext| ext == "crt" || ext == "key");
    let options: Vec<String> =
        options.iter().map(|option| if is_file(option) { within(option) } else { (*option).to_owned() }).collect();
    let mut all = vec!["-sS", "-m", "10", "-o", "/dev/null", "-w", "%{http_code}", "-4"];
    all.extend(options.iter().map(String::as_str));
    all.push(&url);
    let (_, said) = run("curl", &all, "");
    // What curl complains of comes behind.
    said[..3].parse().unwrap()
}

#[test]
fn tls_client_certificates_and_passwords_let_in_whom_they_should() {
    if !have("curl", "TLS, client certificates and passwords") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let authority = certificate("test authority", 1, None);
    let stranger = certificate("another authority", 2, None);
    write(folder.path(), "ca", &authority);
    write(folder.path(), "server", &certificate("localhost", 3, Some(&authority)));
    write(folder.path(), "client", &certificate("prometheus", 4, Some(&authority)));
    write(folder.path(), "stranger", &certificate("prometheus", 5, Some(&stranger)));
    let hash = bcrypt::hash("geheim", 4).unwrap();
    let web = |client: &str, users: &str| {
        format!(
            "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n  min_version: TLS13\n{client}\
             http_server_config:\n  headers:\n    Strict-Transport-Security: max-age=60\n{users}"
        )
    };
    let users = format!("basic_auth_users:\n  alice: {hash}\n");
    let file = folder.path().join("web.yml");
    fs::write(&file, web("", &users)).unwrap();
    let mut exporter = Exporter::start(folder.path(), &[NOBODY, &["--web.config.file", "web.yml"]].concat());
    let get = |path: &str, options: &[&str]| curl(folder.path(), &exporter, path, options);
    let trusted = ["--cacert", "ca.crt"];
    let with = |more: &[&'static str]| [&trusted[..], more].concat();
    assert_eq!(get("/metrics", &["--cacert", "stranger.crt"]), 0, "the client refuses the server");
    assert_eq!(get("/metrics", &with(&["--tls-max", "1.2"])), 0, "min_version is TLS13");
    assert_eq!(get("/metrics", &trusted), 401);
    assert_eq!(get("/-/healthy", &trusted), 401);
    for wrong in ["alice:falsch", "bob:geheim", "alice:", ":"] {
        assert_eq!(get("/metrics", &[&trusted[..], &["-u", wrong]].concat()), 401, "{wrong}");
    }
    for _ in 0..2 {
        assert_eq!(get("/metrics", &with(&["-u", "alice:geheim"])), 200);
    }
    assert_eq!(get("/runbook", &with(&["-u", "alice:geheim", "-H", "Host: foreign.example"])), 200, "she is known");

    // The file changes while it runs: certificates instead of passwords.
    let client = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n";
    fs::write(&file, web(client, "")).unwrap();
    exporter.wait(Duration::from_secs(10), "the web config is read again", |exporter| {
        exporter.line("files read again").is_some()
    });
    let get = |path: &str, options: &[&str]| curl(folder.path(), &exporter, path, options);
    assert_eq!(get("/metrics", &trusted), 0, "no certificate");
    assert_eq!(get("/metrics", &with(&["--cert", "stranger.crt", "--key", "stranger.key"])), 0);
    assert_eq!(get("/metrics", &with(&["--cert", "client.crt", "--key", "client.key"])), 200);

    // A broken version is refused, and the old one stays.
    fs::write(&file, "tls_server_config:\n  cert_fil: x\n").unwrap();
    exporter.wait(Duration::from_secs(10), "the broken web config is refused", |exporter| {
        exporter.line("refused").is_some()
    });
    assert_eq!(
        curl(folder.path(), &exporter, "/metrics", &with(&["--cert", "client.crt", "--key", "client.key"])),
        200
    );
    assert!(!exporter.log().contains(&hash));
}

#[test]
fn a_foreign_name_sees_no_pages_on_loopback_and_strangers_none_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let outside = outside_address();
    let addresses = format!("{outside}:0");
    let listen = ["--web.listen-address", "127.0.0.1:0", "--web.listen-address", &addresses];
    let external = ["--web.external-url", "https://monitoring.example/locks/"];
    let exporter = Exporter::start(folder.path(), &[NOBODY, &listen, &external].concat());
    let status = |path: &str, host: &str| {
        exporter.request(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).status
    };
    for path in ["/findings", "/runbook", "/runbook/idle-holder"] {
        assert_eq!(status(path, "localhost:1234"), 200);
        assert_eq!(status(path, "monitoring.example"), 200);
        assert_eq!(status(path, "rebound.example"), 421, "{path}");
    }
    assert_eq!(status("/metrics", "rebound.example"), 200);
    assert_eq!(exporter.request("GET /findings HTTP/1.0\r\n\r\n").status, 200);
    let ask = |exporter: &Exporter, path: &str| {
        let mut stream = TcpStream::connect(exporter.addresses[1]).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        read_answer(&mut stream).unwrap().status
    };
    assert_eq!(exporter.addresses.len(), 2);
    assert!(!exporter.addresses[1].ip().is_loopback());
    for path in ["/findings", "/runbook", "/runbook/idle-holder"] {
        assert_eq!(ask(&exporter, path), 403, "{path}");
    }
    assert_eq!(ask(&exporter, "/metrics"), 200);
    drop(exporter);
    let open = Exporter::start(folder.path(), &[NOBODY, &listen, &["--web.pages-without-auth"]].concat());
    assert_eq!(ask(&open, "/findings"), 200);
    drop(open);
    let bare = Exporter::start(folder.path(), &[NOBODY, &["--web.no-pages"]].concat());
    for (path, status) in [("/", 404), ("/findings", 404), ("/runbook", 404), ("/metrics", 200), ("/-/healthy", 200)] {
        assert_eq!(bare.get(path).status, status, "{path}");
    }
}

/// An address of this machine that is not loopback. No packet is sent.
fn outside_address() -> std::net::IpAddr {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // TEST-NET-1; without a route the address stays 0.0.0.0, which is every address.
    let _ = socket.connect("192.0.2.1:9");
    socket.local_addr().unwrap().ip()
}

#[test]
fn answers_carry_what_keeps_browsers_out() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(folder.path(), NOBODY);
    for path in ["/", "/findings", "/runbook", "/runbook/idle-holder", "/none"] {
        let answer = exporter.get(path);
        for header in [
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "content-security-policy: default-src 'none'; style-src 'sha256-",
        ] {
            assert!(answer.headers.contains(header), "{path}: no {header} in {}", answer.headers);
        }
    }
    assert_eq!(exporter.get("/runbook/%2e%2e%2fetc%2fpasswd").status, 404);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"] {
        let answer = exporter.request(&format!("{method} /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.headers.contains("allow: get, head"), "{}", answer.headers);
    }
    let head = exporter.request("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

#[test]
fn peers_that_mean_no_good_are_left_and_others_served() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(folder.path(), NOBODY);
    // Heads that never end: a few bytes at a time, and none at all.
    let slow: Vec<TcpStream> = (0..100)
        .map(|place| {
            let mut stream = exporter.connect();
            if place % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ").unwrap();
            }
            stream
        })
        .collect();
    let began = Instant::now();
    // Heads that are too long, too many, or no HTTP.
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "a".repeat(64 * 1024));
    let many: String =
        (0..1_000).fold(String::from("GET /metrics HTTP/1.1\r\n"), |head, n| head + &format!("a{n}: b\r\n"));
    for (request, statuses) in [
        (long, &[431][..]),
        (many + "\r\n", &[431]),
        (format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "p".repeat(20_000)), &[414, 431]),
        ("\u{16}\u{3}\u{1} this is no HTTP\r\n\r\n".to_owned(), &[400]),
    ] {
        let mut stream = exporter.connect();
        // It may hang up before all is sent.
        let _ = stream.write_all(request.as_bytes());
        if let Some(answer) = read_answer(&mut stream) {
            assert!(statuses.contains(&answer.status), "{}", answer.status);
        }
    }
    // A body that is promised and never comes.
    let mut promised = exporter.connect();
    promised.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
    // 200 scrapes at once.
    let address = exporter.addresses[0];
    let scrapers: Vec<_> = (0..200)
        .map(|_| {
            spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
                read_answer(&mut stream).map(|answer| answer.status)
            })
        })
        .collect();
    let answers: Vec<_> = scrapers.into_iter().map(|scraper| scraper.join().unwrap()).collect();
    assert!(answers.iter().all(|status| *status == Some(200)), "{answers:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "nobody waits for the slow ones");
    let threads = fs::read_dir(format!("/proc/{}/task", exporter.pid())).unwrap().count();
    assert!(threads <= 12, "{threads} threads");
    // The slow ones are gone after ten seconds, answered or not.
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.is_ok() || ended.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
    }
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(exporter.get("/-/healthy").status, 200);
}

#[test]
fn half_open_connections_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(folder.path(), NOBODY);
    let mut half_open: Vec<TcpStream> = Vec::new();
    let began = Instant::now();
    for round in 0..4 {
        for place in 0..150 {
            let mut stream = exporter.connect();
            if place % 2 == 0 {
                // It may have lost its place already.
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ");
            }
            half_open.push(stream);
        }
        let asked = Instant::now();
        for path in ["/-/healthy", "/metrics", "/-/healthy"] {
            assert_eq!(exporter.get(path).status, 200, "{path} in round {round}");
        }
        assert!(asked.elapsed() < Duration::from_secs(5), "it waits for the half-open ones: {:?}", asked.elapsed());
    }
    let open = fs::read_dir(format!("/proc/{}/fd", exporter.pid())).unwrap().count();
    assert!(open < 300, "{open} descriptors");
    if began.elapsed() < Duration::from_secs(8) {
        // Who came first has made room, long before its ten seconds were over.
        let mut first = half_open.swap_remove(0);
        first.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let ended = first.read(&mut [0]);
        let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(matches!(&ended, Ok(0)) || ended.as_ref().is_err_and(is_reset), "{ended:?}");
    }
}

/// Does what systemd does with a `.socket` unit: listens, hands the socket over as descriptor 3, and becomes the service.
const HAND_OVER: &str = "import os, socket, sys
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn a_socket_of_systemd_is_served() {
    if !have("python3", "the socket of systemd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.args(["-c", HAND_OVER, env!("CARGO_BIN_EXE_pglockwatch"), "exporter", "--web.systemd-socket"]).args(NOBODY);
    let exporter = Exporter::start_as(folder.path(), command);
    assert_eq!(exporter.addresses.len(), 1);
    assert_eq!(exporter.get("/-/healthy").status, 200);
}

#[test]
fn what_cannot_be_used_is_said_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("web.yml"), "basic_auth_users:\n  alice: plaintext\n").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (options, code, words) in [
        (&["--web.config.file", "web.yml"][..], 2, "alice is no bcrypt hash"),
        (&["--web.config.file", "none.yml"], 2, "cannot read none.yml"),
        (&["--web.listen-address", "nonsense"], 2, "is no address"),
        (&["--web.listen-address", &taken], 1, "cannot listen at"),
        (&["--web.telemetry-path", "metrics"], 2, "must begin with /"),
        (&["--web.telemetry-path", "/findings"], 2, "another page"),
        (&["--web.external-url", "ftp://x"], 2, "must be a URL"),
        (&["--web.systemd-socket"], 2, "no socket"),
    ] {
        let mut command = crate::support::command::pglockwatch(folder.path());
        command.arg("exporter").args(NOBODY).args(options);
        let ran = crate::support::command::run(command, Duration::from_secs(10));
        assert_eq!(ran.code, Some(code), "{options:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{options:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("plaintext"), "{}", ran.stderr);
    }
}
