//! A running exporter, and how to talk to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;

use crate::support::say;

/// A running exporter; it is killed when this goes.
pub struct Exporter {
    child: Child,
    /// Where it listens, in the order of the command line.
    pub addresses: Vec<SocketAddr>,
    log: Arc<Mutex<Vec<String>>>,
}

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

impl Exporter {
    /// Starts it with these options, in this folder, and waits until it listens.
    pub fn start(folder: &Path, options: &[&str]) -> Self {
        let own = !options.iter().any(|option| option.starts_with("--web.listen-address"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_pglockwatch"));
        command.arg("exporter").args(options);
        command.args(if own { &["--web.listen-address", "127.0.0.1:0"][..] } else { &[] });
        Self::start_as(folder, command)
    }

    /// Starts this command, which becomes the exporter, and waits until it listens.
    pub fn start_as(folder: &Path, mut command: Command) -> Self {
        let mut child = command
            .env_clear()
            .env("HOME", folder)
            .env("PATH", std::env::var_os("PATH").unwrap())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        spawn({
            let log = Arc::clone(&log);
            move || stderr.lines().map_while(Result::ok).for_each(|line| log.lock().unwrap().push(line))
        });
        let mut exporter = Self { child, addresses: Vec::new(), log };
        exporter.wait(Duration::from_secs(10), "it listens", |exporter| exporter.line("listening").is_some());
        let line = exporter.line("listening").unwrap();
        let listed = line.split("addresses=").nth(1).unwrap();
        let listed = listed.strip_prefix('"').map_or_else(|| listed.split(' ').next(), |rest| rest.split('"').next());
        exporter.addresses = listed.unwrap().split(' ').map(|address| address.parse().unwrap()).collect();
        exporter
    }

    /// One that watches this cluster often, with short thresholds.
    pub fn watching(cluster: &Cluster, folder: &Path, more: &[&str]) -> Self {
        let dsn = dsn(cluster);
        let often = ["-d", &dsn, "--interval", "200ms", "--idle-threshold", "1s", "--wait-threshold", "1s"];
        Self::start(folder, &[&often[..], more].concat())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// The last log line with these words.
    pub fn line(&self, words: &str) -> Option<String> {
        self.log.lock().unwrap().iter().rev().find(|line| line.contains(words)).cloned()
    }

    /// Gets a path.
    pub fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    /// Gets the metrics as a scraper that understands this.
    pub fn metrics(&self, accept: &str) -> Answer {
        self.request(&format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"))
    }

    /// Sends these bytes and reads until the end.
    pub fn request(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        read_answer(&mut stream).unwrap_or_else(|| panic!("no answer to {request:?}\n{}", self.log()))
    }

    /// A connection to its first address.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addresses[0]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// The value of a series, by how its line begins.
    pub fn value(&self, series: &str) -> Option<f64> {
        let page = self.metrics("").body;
        let line = page.lines().find(|line| line.starts_with(series))?;
        line.rsplit_once(' ').unwrap().1.parse().ok()
    }

    /// Waits until this is so.
    pub fn wait(&mut self, at_most: Duration, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            if let Some(status) = self.child.try_wait().unwrap() {
                sleep(Duration::from_millis(100));
                panic!("it ended with {status} before {what}:\n{}", self.log());
            }
            assert!(began.elapsed() < at_most, "not within {at_most:?}: {what}\n{}", self.log());
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until it has polled all targets.
    pub fn ready(mut self) -> Self {
        self.wait(Duration::from_secs(15), "it is ready", |exporter| exporter.get("/-/ready").status == 200);
        self
    }

    /// Sends it a signal, as `TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([&format!("-{name}"), &self.pid().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// How it ended, if it did within this time.
    pub fn ended(&mut self, at_most: Duration) -> Option<std::process::ExitStatus> {
        let began = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                None if began.elapsed() < at_most => sleep(Duration::from_millis(10)),
                status => return status,
            }
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads an answer to its end; nothing if the peer hung up without one.
pub fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    let mut bytes = Vec::new();
    // A peer that hangs up while we still send has said what it had to say.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (headers, body) = text.split_once("\r\n\r\n")?;
    let status = headers.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, headers: headers.to_ascii_lowercase(), body: body.to_owned() })
}

/// Where this cluster is.
pub fn dsn(cluster: &Cluster) -> String {
    format!("host={} port={} user=postgres dbname=postgres", cluster.host(), cluster.port())
}

/// Whether this program is here; says loudly what is left out where it is not.
pub fn have(program: &str, what: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()));
    if !found {
        say(&format!("SKIPPED: {what}: {program} is not here (start tests/run, or install its Debian package)"));
    }
    found
}

/// Runs a program with this on its standard input; its exit code and all that it said.
pub fn run(program: &str, arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
