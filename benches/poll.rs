//! One poll, end to end, beside COPY of the same rows from the same server, of the columns that a poll is made of and of
//! all columns: the three take turns.
//!
//! `benches/run` calls it with a DSN and a number of rounds. It prints one line of medians, in milliseconds: how long
//! each took, and the CPU time of the server's backend and of this process.

use std::io::Read as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pglockwatch::pg::{ConnInfo, ProcessEnvironment, Session};
use postgres::{Client, NoTls};

/// The rows that a poll is made of, as psql users would copy them out.
const LOCKS: &str = "COPY (SELECT * FROM pg_locks WHERE locktype = 'advisory') TO STDOUT";
/// The columns of sessions that a poll reads too.
const SESSIONS: &str = "COPY (SELECT pid, datname, usename, application_name, client_addr, client_port, backend_type, \
     backend_start, xact_start, query_start, state_change, state, backend_xid, query FROM pg_stat_activity) TO STDOUT";
/// All their columns.
const WHOLE_SESSIONS: &str = "COPY (SELECT * FROM pg_stat_activity) TO STDOUT";

/// Rounds that do not count: polls are asked as suits what the last ones saw, and servers have caches.
const FIRST_ROUNDS: usize = 12;

type Failed = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let [dsn, rounds] = arguments.as_slice() else {
        println!("poll: benches/run measures it, on a server with a load");
        return ExitCode::SUCCESS;
    };
    match measure(dsn, rounds) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What one kind of look cost, over all rounds.
#[derive(Default)]
struct Cost {
    took: Vec<Duration>,
    server: Vec<Duration>,
    client: Vec<Duration>,
}

impl Cost {
    fn add(&mut self, backend: i32, work: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
        let (server, client) = (cpu(backend)?, own_cpu());
        let began = Instant::now();
        work()?;
        self.took.push(began.elapsed());
        self.client.push(own_cpu().saturating_sub(client));
        self.server.push(cpu(backend)?.saturating_sub(server));
        Ok(())
    }

    fn text(&self, name: &str) -> String {
        let ms = |times: &[Duration]| {
            let mut times = times.to_vec();
            times.sort_unstable();
            times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        let [took, server, client] = [&self.took, &self.server, &self.client].map(|times| ms(times));
        format!("{name}_ms={took:.3} {name}_server_ms={server:.3} {name}_client_ms={client:.3}")
    }
}

/// CPU time of a backend, which has one thread. The kernel brings the number up to date when a process goes to sleep.
fn cpu(backend: i32) -> Result<Duration, Failed> {
    let until = Instant::now() + Duration::from_secs(1);
    let asleep = || Ok::<_, Failed>(std::fs::read_to_string(format!("/proc/{backend}/stat"))?.contains(") S "));
    while !asleep()? && Instant::now() < until {
        std::thread::yield_now();
    }
    let text = std::fs::read_to_string(format!("/proc/{backend}/schedstat"))?;
    Ok(Duration::from_nanos(text.split(' ').next().unwrap_or_default().parse()?))
}

/// CPU time of this process, to this moment.
fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

fn measure(dsn: &str, rounds: &str) -> Result<String, Failed> {
    let timeout = Duration::from_secs(60);
    let environment = ProcessEnvironment;
    let settings = ConnInfo::parse(dsn)
        .and_then(|written| written.complete(&environment))
        .map_err(|error| error.message().to_owned())?;
    // A backend of its own for each: one that has just done the same is quicker.
    let (mut copy, mut whole) = (Rival::connect(dsn, SESSIONS)?, Rival::connect(dsn, WHOLE_SESSIONS)?);
    let mut session = Session::connect(&settings, &environment, timeout).map_err(|failure| failure.message)?;
    let epoch = Instant::now();
    let mut poll = || session.poll(epoch, &[]).map_err(|failure| failure.message);
    for _ in 0..FIRST_ROUNDS {
        poll()?;
        copy.copy()?;
        whole.copy()?;
    }
    let backend = poll()?.own_pid;
    (copy.cost, whole.cost) = (Cost::default(), Cost::default());
    let mut cost = Cost::default();
    for _ in 0..rounds.parse()? {
        cost.add(backend, || poll().map(drop).map_err(Failed::from))?;
        copy.copy()?;
        whole.copy()?;
    }
    Ok(format!("{} {} {}", cost.text("poll"), copy.cost.text("copy"), whole.cost.text("whole")))
}

/// COPY of the same rows.
struct Rival {
    client: Client,
    backend: i32,
    sessions: &'static str,
    bytes: Vec<u8>,
    cost: Cost,
}

impl Rival {
    fn connect(dsn: &str, sessions: &'static str) -> Result<Self, Failed> {
        let mut client = Client::connect(dsn, NoTls)?;
        let backend = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        Ok(Self { client, backend, sessions, bytes: Vec::new(), cost: Cost::default() })
    }

    fn copy(&mut self) -> Result<(), Failed> {
        self.cost.add(self.backend, || {
            for statement in [LOCKS, self.sessions] {
                self.bytes.clear();
                self.client.copy_out(statement)?.read_to_end(&mut self.bytes)?;
            }
            Ok(())
        })
    }
}
