//! `exporter`: polls all targets for ever, and serves metrics and pages.
//!
//! The main thread waits for updates, signals and changed files; one thread serves the web; each target has its
//! poller's. It starts and stays up without a server, and no target can keep another from being polled or shown.

mod auth;
mod events;
mod http;
mod pages;
mod pieces;
mod places;
mod pollers;
mod process;
mod reload;
mod routes;
mod stream;
mod tls;
mod web_config;
mod world;
mod yaml;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cli::exporter::ExporterArgs;
use crate::cli::{GlobalArgs, LogLevel};
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::logging;
use crate::render::metrics::Identity;
use crate::settings::{Surroundings, Target};
use crate::watch::Update;
use events::EventLog;
use http::{Server, Shared};
use pollers::Pollers;
use reload::{Broken, Files, Loaded, Source};
use routes::Site;
use world::World;

/// Where to listen if nobody says.
const ADDRESS: &str = "127.0.0.1:10187";

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(2);

const HABITS: crate::settings::Habits =
    crate::settings::Habits { interval: Duration::from_secs(5), long_running: true };

/// What the main thread waits for.
enum Event {
    Update(usize, Update),
    /// SIGHUP.
    Reload,
    /// SIGTERM or Ctrl-C.
    End,
}

/// Runs until a signal ends it.
///
/// # Errors
/// Options or files are wrong, or an address cannot be listened at. Later errors are logged and change nothing.
pub(super) fn run(args: ExporterArgs, mut global: GlobalArgs, around: Surroundings<'_>) -> Result<Exit> {
    // Findings that begin and end are what a log is for.
    global.log_level = global.log_level.or(Some(LogLevel::Info));
    let source = Source { global, args, around, habits: HABITS };
    let mut files = Files::default();
    let Loaded { settings, targets, args, web } = source.load(&mut files).map_err(|broken| match broken {
        Broken::Config(error) | Broken::Dictionary(error) => error,
    })?;
    let (telemetry_path, external_host) = (telemetry_path(&args)?, external_host(&args)?);
    let listeners = if args.systemd_socket {
        http::from_systemd()?
    } else if args.listen_address.is_empty() {
        vec![http::listen(ADDRESS)?]
    } else {
        args.listen_address.iter().map(|address| http::listen(address)).collect::<Result<_>>()?
    };
    logging::init(settings.log_level, settings.log_format);
    settings.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    process::raise_file_limit();
    let addresses: Vec<String> =
        listeners.iter().filter_map(|listener| listener.local_addr().ok()).map(|address| address.to_string()).collect();
    let habits = world::Habits { show_queries: args.show_queries };
    let world =
        Arc::new(World::new(targets.iter().map(|target| identity(target, args.pool_clients)).collect(), habits));
    let tls = web.tls.is_some();
    let config: Shared = Arc::new(RwLock::new(web));
    let site = Site {
        world: Arc::clone(&world),
        config: Arc::clone(&config),
        telemetry_path: telemetry_path.into(),
        external_host: external_host.map(Arc::from),
        pages_without_auth: args.pages_without_auth,
    };
    let (sender, events) = mpsc::channel();
    catch_signals(sender.clone())?;
    let mut pollers = Pollers::new(forward(sender)?)?;
    let server = Server::start(listeners, routes::router(site, !args.no_pages), Arc::clone(&config))?;
    tracing::info!(addresses = addresses.join(" "), tls, targets = targets.len(), "listening");
    pollers.follow(targets)?;
    let (log, warned) = (EventLog::default(), settings.warnings);
    Exporter { source, files, world, config, pollers, log, args, warned }.work(&events, server);
    Ok(Exit::SUCCESS)
}

struct Exporter<'a> {
    source: Source<'a>,
    files: Files,
    world: Arc<World>,
    config: Shared,
    pollers: Pollers,
    log: EventLog,
    /// The options that it began with.
    args: ExporterArgs,
    warned: Vec<String>,
}

impl Exporter<'_> {
    fn work(mut self, events: &Receiver<Event>, server: Server) {
        let mut look = Instant::now() + LOOK;
        loop {
            match events.recv_timeout(look.saturating_duration_since(Instant::now())) {
                Ok(Event::Update(number, update)) => {
                    if let Some(target) = self.pollers.target(number, &update) {
                        self.world.take(&mut self.log, target, update);
                    }
                }
                Ok(Event::Reload) => self.reload("asked by SIGHUP"),
                Err(RecvTimeoutError::Timeout) => {}
                // Without senders nothing can happen any more.
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= look {
                look = Instant::now() + LOOK;
                if self.files.have_changed() {
                    self.reload("a file has changed");
                }
            }
        }
        tracing::info!("ending");
        server.stop();
        self.pollers.stop();
    }

    fn reload(&mut self, why: &str) {
        let refused = |error: &Error| {
            let error = error.text();
            tracing::error!(why, error = error.trim_end(), "the new files are refused, the old ones stay in use");
        };
        match self.source.load(&mut self.files) {
            Ok(Loaded { settings, targets, args, web }) => {
                *self.config.write().unwrap_or_else(PoisonError::into_inner) = web;
                let identities = targets.iter().map(|target| identity(target, self.args.pool_clients)).collect();
                self.world.set_targets(&mut self.log, identities);
                let followed = self.pollers.follow(targets);
                self.world.set_reloaded(followed.is_ok(), true);
                for warning in settings.warnings {
                    if !self.warned.contains(&warning) {
                        tracing::warn!("{warning}");
                        self.warned.push(warning);
                    }
                }
                let asleep = self.args.changed_for_good(&args);
                if !asleep.is_empty() {
                    let options = asleep.join(" ");
                    tracing::warn!(
                        options,
                        "options in the config have changed that need a restart: restart to use them"
                    );
                }
                match followed {
                    Ok(()) => tracing::info!(why, "files read again"),
                    Err(error) => refused(&error),
                }
            }
            Err(Broken::Config(error)) => {
                refused(&error);
                self.world.set_reloaded(false, true);
            }
            Err(Broken::Dictionary(error)) => {
                refused(&error);
                self.world.set_reloaded(true, false);
            }
        }
    }
}

fn identity(target: &Target, pool_clients: bool) -> Identity {
    Identity { target: target.name.clone(), labels: target.labels.clone(), interval: target.interval, pool_clients }
}

/// Where the metrics are.
fn telemetry_path(args: &ExporterArgs) -> Result<String> {
    let path = args.telemetry_path.clone().unwrap_or_else(|| "/metrics".to_owned());
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    if !path.starts_with('/') || !path.chars().all(plain) {
        return Err(Error::usage("--web.telemetry-path must begin with / and be made of letters, digits and -._~/"));
    }
    let taken = ["/-/", "/findings", "/runbook"].iter().any(|own| path.starts_with(own));
    if taken {
        return Err(Error::usage(format!("--web.telemetry-path {path} is a path of another page: choose another one")));
    }
    Ok(path)
}

/// The host of `--web.external-url`.
fn external_host(args: &ExporterArgs) -> Result<Option<String>> {
    let Some(url) = &args.external_url else { return Ok(None) };
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host.map(routes::host_without_port) {
        Some(host) if !host.is_empty() && !host.contains('@') => Ok(Some(host.to_owned())),
        _ => Err(Error::usage("--web.external-url must be a URL like https://monitoring.example.com/locks/")),
    }
}

fn catch_signals(events: Sender<Event>) -> Result<()> {
    let cannot = |error| Error::failure("cannot catch signals").caused_by(error);
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(cannot)?;
    let forward = move || {
        for signal in signals.forever() {
            if events.send(if signal == SIGHUP { Event::Reload } else { Event::End }).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(forward).map_err(cannot)?;
    Ok(())
}

/// The pollers' updates as events among others.
fn forward(events: Sender<Event>) -> Result<Sender<(usize, Update)>> {
    let (sender, updates) = mpsc::channel();
    let forward = move || {
        for (number, update) in updates {
            if events.send(Event::Update(number, update)).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("updates".to_owned())
        .spawn(forward)
        .map_err(|error| Error::failure("cannot start a thread").caused_by(error))?;
    Ok(sender)
}
