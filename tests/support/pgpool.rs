//! A real pgpool-II in front of a throwaway server.

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
/// How often other free ports are tried when somebody else was quicker.
const PORT_TRIES: u32 = 5;

/// A running pgpool-II on 127.0.0.1. Dropping it stops it.
pub struct Pgpool {
    process: Child,
    // Dropped behind the end of the process.
    _folder: Folder,
    port: u16,
}

impl Pgpool {
    /// Starts one. `settings` are lines of its configuration. Nothing, said loudly, where there is no pgpool-II.
    pub fn start(cluster: &Cluster, settings: &[&str]) -> Option<Self> {
        let Some(program) = program() else {
            say("SKIPPED: there is no pgpool here; install pgpool2, or start tests/run.");
            return None;
        };
        let mut tries = 0;
        loop {
            tries += 1;
            match Self::try_start(&program, cluster, settings) {
                Ok(started) => return Some(started),
                // Between our asking for a port and its taking it somebody else may have it.
                Err(_) if tries < PORT_TRIES => {}
                Err(said) => panic!("pgpool-II did not start: {said}"),
            }
        }
    }

    fn try_start(program: &PathBuf, cluster: &Cluster, settings: &[&str]) -> Result<Self, String> {
        let folder = Folder::create("pglockwatch-pgpool-").unwrap();
        // The folder's watcher stops what runs in `data` and is named in `postmaster.pid`, should we be killed.
        let made = folder.command("mkdir").arg(folder.data()).status().unwrap();
        assert!(made.success());
        let ports = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let [port, pcp_port] = ports.map(|listener| listener.local_addr().unwrap().port());
        std::fs::write(folder.path().join("pgpool.conf"), conf(cluster, port, pcp_port, settings)).unwrap();
        let log = folder.path().join("log");
        let output = File::create(&log).unwrap();
        let mut command: Command = folder.command(program);
        command.current_dir(folder.data()).args(["-n", "-f", "../pgpool.conf", "-F", "../pcp.conf"]);
        let process = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let mut pool = Self { process, _folder: folder, port };
        let began = Instant::now();
        let dsn = format!("{} connect_timeout=10", pool.dsn_of("postgres"));
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        while began.elapsed() < START {
            if let Ok(Some(status)) = pool.process.try_wait() {
                return Err(format!("it ended with {status}: {}", said()));
            }
            if Client::connect(&dsn, NoTls).is_ok() {
                return Ok(pool);
            }
            sleep(Duration::from_millis(50));
        }
        Err(format!("no answer after {} seconds: {}", START.as_secs(), said()))
    }

    /// How to connect through it as this user.
    pub fn dsn_of(&self, user: &str) -> String {
        format!("host=127.0.0.1 port={} user={user} dbname=postgres", self.port)
    }
}

impl Drop for Pgpool {
    fn drop(&mut self) {
        // INT ends its children too; a killed parent would leave them.
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(20) {
            if let Ok(Some(_)) = self.process.try_wait() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `PATH` of an ordinary user may lack `sbin`.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"].map(PathBuf::from))
        .map(|folder| folder.join("pgpool"))
        .find(|file| file.is_file())
}

fn conf(cluster: &Cluster, port: u16, pcp_port: u16, settings: &[&str]) -> String {
    format!(
        "backend_clustering_mode = 'streaming_replication'\nlisten_addresses = '127.0.0.1'\nport = {port}\n\
         pcp_listen_addresses = '127.0.0.1'\npcp_port = {pcp_port}\nsocket_dir = '.'\npcp_socket_dir = '.'\n\
         wd_ipc_socket_dir = '.'\nbackend_hostname0 = '127.0.0.1'\nbackend_port0 = {}\n\
         backend_flag0 = 'ALWAYS_PRIMARY|DISALLOW_TO_FAILOVER'\nnum_init_children = 8\nmax_pool = 1\n\
         pid_file_name = 'postmaster.pid'\nlogdir = '.'\nsr_check_period = 0\nhealth_check_period = 0\n\
         memqcache_total_size = 1MB\n{}\n",
        cluster.port(),
        settings.join("\n")
    )
}
