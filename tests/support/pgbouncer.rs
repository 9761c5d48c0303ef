//! A real PgBouncer in front of a throwaway server: its pools as the test likes them, an admin and a stats user.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::{Cluster, Folder};
use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};

use super::say;

/// How long it may take to answer: a busy machine needs some seconds.
const START: Duration = Duration::from_secs(60);
/// How often another free port is tried when somebody else was quicker.
const PORT_TRIES: u32 = 5;
/// May run every command of the console.
pub const ADMIN: &str = "pooler_admin";
/// May run SHOW in the console.
pub const STATS: &str = "pooler_stats";
/// Who may connect through the pools. Nobody needs a password.
const USERS: &[&str] = &["postgres", "app", "other", ADMIN, STATS];

/// A running PgBouncer on 127.0.0.1. Dropping it stops it.
#[derive(Debug)]
pub struct Pooler {
    // In this order: fields are dropped as they are declared, and it must end before its folder.
    process: Process,
    folder: Folder,
    program: PathBuf,
    port: u16,
}

impl Pooler {
    /// Starts one with these pools: the name of the database as clients call it, and what its line says beside the
    /// server (`"pool_mode=transaction pool_size=1"`; the server's database is `postgres` unless `dbname` stands
    /// there). `settings` are lines of the section `[pgbouncer]`. Nothing, said loudly, where there is no PgBouncer.
    pub fn start(cluster: &Cluster, pools: &[(&str, &str)], settings: &[&str]) -> Option<Self> {
        let Some(program) = program() else {
            say("SKIPPED: there is no pgbouncer here; install it, or start tests/run.");
            return None;
        };
        let folder = Folder::create("pglockwatch-pooler-").unwrap();
        // The folder's watcher stops what runs in `data` and is named in `postmaster.pid`, should we be killed.
        let made = folder.command("mkdir").arg(folder.data()).status().unwrap();
        assert!(made.success());
        let users: String = USERS.iter().fold(String::new(), |text, user| text + "\"" + user + "\" \"\"\n");
        std::fs::write(folder.path().join("users.txt"), users).unwrap();
        let mut tries = 0;
        loop {
            let port =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap().port();
            std::fs::write(folder.path().join("pgbouncer.ini"), ini(cluster, port, pools, settings)).unwrap();
            let mut process = Process::spawn(&program, &folder);
            tries += 1;
            match process.wait_until_it_answers(&folder, port) {
                Ok(()) => return Some(Self { process, folder, program, port }),
                // Between our asking for a port and its taking it somebody else may have it.
                Err(_) if tries < PORT_TRIES => {}
                Err(said) => panic!("PgBouncer did not start: {said}"),
            }
        }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How to connect through the pool of that name, as `postgres`.
    pub fn dsn(&self, database: &str) -> String {
        self.dsn_of("postgres", database)
    }

    /// How to connect through the pool of that name as this user.
    pub fn dsn_of(&self, user: &str, database: &str) -> String {
        format!("host=127.0.0.1 port={} user={user} dbname={database}", self.port)
    }

    /// The console, for a user who may do everything there.
    pub fn admin_dsn(&self) -> String {
        self.dsn_of(ADMIN, "pgbouncer")
    }

    /// The console, for a user who may only look.
    pub fn stats_dsn(&self) -> String {
        self.dsn_of(STATS, "pgbouncer")
    }

    /// A client of the pool of that name.
    pub fn client(&self, database: &str, application_name: &str) -> Client {
        let dsn = format!("{} application_name={application_name}", self.dsn(database));
        Client::connect(&dsn, NoTls).unwrap()
    }

    /// The console, as its admin. It answers simple queries only.
    pub fn console(&self) -> Client {
        Client::connect(&self.admin_dsn(), NoTls).unwrap()
    }

    /// Sends a signal, as STOP and CONT.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Has these pools from now on, and this server behind them.
    pub fn serve(&self, cluster: &Cluster, pools: &[(&str, &str)], settings: &[&str]) {
        std::fs::write(self.folder.path().join("pgbouncer.ini"), ini(cluster, self.port, pools, settings)).unwrap();
        self.console().simple_query("RELOAD").unwrap();
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.process.end();
    }

    /// Ends it if it runs, and starts it again on the same port.
    pub fn restart(&mut self) {
        self.stop();
        self.process = Process::spawn(&self.program, &self.folder);
        self.process.wait_until_it_answers(&self.folder, self.port).unwrap();
    }
}

/// `PATH` of an ordinary user may lack `sbin`.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from))
        .map(|folder| folder.join("pgbouncer"))
        .find(|file| file.is_file())
}

fn ini(cluster: &Cluster, port: u16, pools: &[(&str, &str)], settings: &[&str]) -> String {
    let mut text = "[databases]\n".to_owned();
    for (name, line) in pools {
        // Of two equal names on a line the last counts.
        let server = format!("host=127.0.0.1 port={} dbname=postgres", cluster.port());
        let _ = writeln!(text, "{name} = {server} {line}");
    }
    let _ = writeln!(
        text,
        "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nlogfile = ../log\n\
         pidfile = postmaster.pid\nauth_type = trust\nauth_file = ../users.txt\n\
         admin_users = {ADMIN}\nstats_users = {STATS}\nignore_startup_parameters = extra_float_digits"
    );
    for setting in settings {
        let _ = writeln!(text, "{setting}");
    }
    text
}

/// The process. Dropping it ends it.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn spawn(program: &PathBuf, folder: &Folder) -> Self {
        let output = File::create(folder.path().join("output")).unwrap();
        // As the folder's owner: it refuses root.
        let mut command: Command = folder.command(program);
        command.current_dir(folder.data()).arg("../pgbouncer.ini");
        Self(command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap())
    }

    fn wait_until_it_answers(&mut self, folder: &Folder, port: u16) -> Result<(), String> {
        let said = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        let began = Instant::now();
        let dsn = format!("host=127.0.0.1 port={port} user={ADMIN} dbname=pgbouncer connect_timeout=10");
        while began.elapsed() < START {
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(format!("it ended with {status}: {}", said()));
            }
            if Client::connect(&dsn, NoTls).is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        Err(format!("no answer after {} seconds: {}", START.as_secs(), said()))
    }

    fn signal(&self, signal: Signal) {
        // The child has not been waited for, so the number is still its own.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    fn end(&mut self) {
        // It keeps nothing that would be worth an orderly end, and a stopped one would see no other signal.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn its_pools_are_what_was_asked_for() {
    use super::session::single;
    use std::str::FromStr as _;

    let cluster = super::server::start(&super::server::any(), &[]);
    let pools = [("tx", "pool_mode=transaction pool_size=1"), ("plain", "pool_mode=session")];
    let Some(mut pooler) = Pooler::start(&cluster, &pools, &["server_idle_timeout = 300"]) else { return };
    let pid = |client: &mut Client| single(client, "SELECT pg_backend_pid()").unwrap();
    // One server connection for two clients; one for each client.
    let mut clients = ["tx", "tx", "plain", "plain"].map(|pool| pooler.client(pool, "somebody"));
    let pids = clients.each_mut().map(pid);
    assert_eq!(pids[0], pids[1]);
    assert_ne!(pids[2], pids[3]);
    let setting = |client: &mut Client| client.simple_query("SHOW CONFIG").is_ok();
    assert!(setting(&mut pooler.console()));
    // The other user may look, and no more.
    let stats = postgres::Config::from_str(&pooler.stats_dsn()).unwrap();
    let mut stats = stats.connect(NoTls).unwrap();
    assert!(setting(&mut stats));
    assert!(stats.simple_query("RECONNECT tx").is_err());
    // After a restart it serves at the same place.
    drop(clients);
    pooler.signal(Signal::STOP);
    pooler.signal(Signal::CONT);
    pooler.restart();
    assert_eq!(pid(&mut pooler.client("tx", "somebody")), pid(&mut pooler.client("tx", "other")));
    pooler.stop();
    assert!(Client::connect(&pooler.admin_dsn(), NoTls).is_err());
}
