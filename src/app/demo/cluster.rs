//! A throwaway PostgreSQL server: made, started, and surely stopped and removed.
//!
//! It knows `initdb` and `postgres`. It must not know what is planted in it. The project's tests use it too.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Binaries, DemoError, Folder};

/// How long a server may take to start: a busy machine needs some seconds.
const START: Duration = Duration::from_secs(60);
/// How long it may take to stop before it is killed: at an immediate shutdown PostgreSQL itself gives its children
/// five seconds.
const STOP: Duration = Duration::from_secs(10);
/// How often another free port is tried when somebody else was quicker.
const PORT_TRIES: u32 = 5;
/// The server's log, in the folder.
const LOG: &str = "log";

/// Where a server listens. Whoever reaches it is its superuser, without a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    /// On a socket in its own folder, which only its owner (and root) can enter.
    Socket,
    /// There, and on a free port of 127.0.0.1, where every user of this machine can reach it.
    Loopback,
}

/// A running server in a temporary folder. Dropping it stops the server and removes the folder.
#[derive(Debug)]
pub struct Cluster {
    // In this order: fields are dropped as they are declared, and the server must end before its folder.
    server: Server,
    folder: Folder,
    port: u16,
    listen: Listen,
}

/// Makes an empty data folder in `folder`: superuser `postgres`, UTF8, the C locale, trust.
///
/// # Errors
/// When `initdb` fails; the message ends with what it said.
pub fn initdb(binaries: &Binaries, folder: &Folder) -> Result<(), DemoError> {
    let output = folder
        .command(binaries.program("initdb"))
        .arg("-D")
        .arg(folder.data())
        // Small WAL segments: the folder is written once more for every copy that tests make.
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--wal-segsize=1"])
        .output()
        .map_err(|error| DemoError::new(format!("cannot run {}: {error}", binaries.program("initdb").display())))?;
    if output.status.success() {
        return Ok(());
    }
    Err(DemoError::new(format!("initdb failed: {}", last_line(&String::from_utf8_lossy(&output.stderr)))))
}

impl Cluster {
    /// Starts the server whose data folder is in `folder`, with these settings (`name=value`), and waits until it
    /// accepts connections.
    ///
    /// # Errors
    /// When the server ends or does not get ready; the message ends with what it said.
    pub fn start(binaries: &Binaries, folder: Folder, listen: Listen, settings: &[String]) -> Result<Self, DemoError> {
        let mut tries = 0;
        loop {
            let port = free_port()?;
            let mut server = Server::spawn(binaries, &folder, listen, port, settings)?;
            tries += 1;
            match server.wait_until_ready(&folder) {
                Ok(()) => return Ok(Self { server, folder, port, listen }),
                // Between our asking for a port and the server's taking it somebody else may have it.
                Err(said) if said.contains("could not bind") && tries < PORT_TRIES => {}
                Err(said) => return Err(DemoError::new(format!("the PostgreSQL server did not start: {said}"))),
            }
        }
    }

    /// The folder that holds its data, its log and its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The port, of the socket too.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The pid of the postmaster.
    pub fn pid(&self) -> u32 {
        self.server.0.id()
    }

    /// Host as a DSN names it.
    pub fn host(&self) -> String {
        match self.listen {
            Listen::Socket => self.folder.path().display().to_string(),
            Listen::Loopback => Ipv4Addr::LOCALHOST.to_string(),
        }
    }

    /// How to connect to the database `postgres` as the superuser `postgres`.
    pub fn config(&self) -> postgres::Config {
        let mut config = postgres::Config::new();
        match self.listen {
            Listen::Socket => config.host_path(self.folder.path()),
            Listen::Loopback => config.host(&Ipv4Addr::LOCALHOST.to_string()),
        };
        config.port(self.port).user("postgres").dbname("postgres").connect_timeout(Duration::from_secs(10));
        config
    }
}

/// The postmaster. Dropping it stops it.
#[derive(Debug)]
struct Server(Child);

impl Server {
    fn spawn(
        binaries: &Binaries,
        folder: &Folder,
        listen: Listen,
        port: u16,
        settings: &[String],
    ) -> Result<Self, DemoError> {
        let failed = |error: std::io::Error| DemoError::new(format!("cannot start the PostgreSQL server: {error}"));
        let log = File::create(folder.path().join(LOG)).map_err(failed)?;
        let mut command = folder.command(binaries.program("postgres"));
        command.arg("-D").arg(folder.data()).arg("-k").arg(folder.path()).args(["-p", &port.to_string()]);
        let addresses = match listen {
            Listen::Socket => "",
            Listen::Loopback => "127.0.0.1",
        };
        command.arg("-c").arg(format!("listen_addresses={addresses}"));
        // Nothing in here is worth a sync, or much memory.
        for setting in ["fsync=off", "shared_buffers=16MB", "logging_collector=off"] {
            command.args(["-c", setting]);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.stdout(log.try_clone().map_err(failed)?).stderr(log);
        command.spawn().map(Self).map_err(failed)
    }

    /// Waits until `postmaster.pid` says so; else returns what the server's log says last.
    fn wait_until_ready(&mut self, folder: &Folder) -> Result<(), String> {
        let began = Instant::now();
        let said = || last_line(&std::fs::read_to_string(folder.path().join(LOG)).unwrap_or_default());
        while began.elapsed() < START {
            if let Ok(Some(status)) = self.0.try_wait() {
                let said = said();
                return Err(if said.is_empty() { format!("it ended with {status}") } else { said });
            }
            // The eighth line is the postmaster's status (PostgreSQL 10 and later).
            let pid_file = std::fs::read_to_string(folder.data().join("postmaster.pid")).unwrap_or_default();
            if pid_file.lines().nth(7).is_some_and(|status| status.trim() == "ready") {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        Err(format!("it was not ready after {} seconds; {}", START.as_secs(), said()))
    }

    fn signal(&self, signal: Signal) {
        // The child has not been waited for, so the number is still its own.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(Some(_))) {
            return;
        }
        // QUIT is an immediate shutdown: nobody is waited for. CONT wakes a server that was stopped by SIGSTOP.
        self.signal(Signal::QUIT);
        self.signal(Signal::CONT);
        let began = Instant::now();
        while began.elapsed() < STOP {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16, DemoError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| DemoError::new(format!("cannot find a free port on 127.0.0.1: {error}")))
}

/// The last line that says what failed: PostgreSQL ends with HINT and DETAIL lines, or with "shut down".
fn last_line(text: &str) -> String {
    let lines = || text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let telling = |line: &&str| line.contains("FATAL") || line.contains("could not") || line.contains("error:");
    lines()
        .find(|line| line.contains("could not bind"))
        .or_else(|| lines().find(telling))
        .or_else(|| lines().next())
        .unwrap_or_default()
        .to_owned()
}
