//! From settings to an open connection: which address, with or without TLS, with which password.
//!
//! Every address is tried on its own, for each may have its own password and its own failure. The client's parser of
//! connection strings is never used: it takes some of libpq's strings for another host.

use std::time::{Duration, Instant};

use secrecy::{ExposeSecret, SecretString};
use tokio::runtime;
use tokio_postgres::config::{ChannelBinding as ClientBinding, SslMode, SslNegotiation};
use tokio_postgres::{Config, NoTls};

use super::client::{Client, NotConnected};
use super::conninfo::{
    Address, ChannelBinding, ConnSettings, Endpoint, Environment, Keepalives, SessionAttrs, TlsMode,
};
use super::failure::{self, ConnectFailure};
use super::passfile::{self, Lookup};
use super::{alive, query, rows, tls};
use crate::analysis::report::{Failure, FailureKind};

/// The name of our sessions: the same everywhere, so that whoever finds one knows what it is.
const APPLICATION_NAME: &str = "pglockwatch";

// Without answers to keepalives a connection that was cut off would hang for hours, and there must never be a second.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// So much older than our attempt to connect must a backend be to have been there before it: a server's clock may be
/// set while we connect.
const LENT: Duration = Duration::from_secs(1);

/// What is behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A server, or a pooler before one.
    Server,
    /// The console of PgBouncer, which knows no SQL: it is not greeted.
    Console,
}

/// An open connection, and what its server said of itself.
pub(crate) struct Opened {
    pub client: Client,
    /// `server_version_num`; 0 of a console.
    pub version_num: u32,
    /// The backend had been there before we connected: a pooler lent it to us.
    pub lent: bool,
    /// host:port
    pub address: String,
}

/// Connects to the first address that answers and is of the kind that is wanted.
pub(crate) fn open(
    kind: Kind,
    settings: &ConnSettings,
    environment: &dyn Environment,
    timeout: Duration,
) -> Result<Opened, Failure> {
    let mut order: Vec<&Address> = settings.addresses.iter().collect();
    if settings.shuffle_hosts {
        fastrand::shuffle(&mut order);
    }
    let mut tried = Vec::new();
    for attrs in passes(settings.attrs) {
        tried.clear();
        for address in &order {
            let timeout = share(settings, timeout, order.len());
            let attempt = Attempt { kind, settings, environment, address, timeout };
            // A server that accepts the connection and then says nothing must not keep us from the others.
            let alive = if order.len() > 1 { attempt.answers() } else { Ok(()) };
            match alive.and_then(|()| attempt.open(*attrs)) {
                Ok(opened) => return Ok(opened),
                Err(failure) => {
                    let last = failure.refused_for_good;
                    tried.push(failure);
                    if last {
                        break;
                    }
                }
            }
        }
    }
    Err(failure::cannot_connect(tried))
}

/// `prefer-standby` goes over the list twice.
fn passes(attrs: SessionAttrs) -> &'static [SessionAttrs] {
    match attrs {
        SessionAttrs::Any => &[SessionAttrs::Any],
        SessionAttrs::ReadWrite => &[SessionAttrs::ReadWrite],
        SessionAttrs::ReadOnly => &[SessionAttrs::ReadOnly],
        SessionAttrs::Primary => &[SessionAttrs::Primary],
        SessionAttrs::Standby => &[SessionAttrs::Standby],
        SessionAttrs::PreferStandby => &[SessionAttrs::Standby, SessionAttrs::Any],
    }
}

/// The most that connecting may take, all addresses together: `timeout`, or less if the user's `connect_timeout` is less.
pub(crate) fn most(settings: &ConnSettings, timeout: Duration) -> Duration {
    let addresses = u32::try_from(settings.addresses.len()).unwrap_or(u32::MAX);
    settings.connect_timeout.map_or(timeout, |own| own.saturating_mul(addresses).min(timeout))
}

/// What one address may take, so that the last of several still has its turn.
fn share(settings: &ConnSettings, timeout: Duration, addresses: usize) -> Duration {
    let share = timeout / u32::try_from(addresses.max(1)).unwrap_or(1);
    settings.connect_timeout.map_or(share, |own| own.min(share))
}

/// One address.
struct Attempt<'a> {
    kind: Kind,
    settings: &'a ConnSettings,
    environment: &'a dyn Environment,
    address: &'a Address,
    timeout: Duration,
}

/// With or without TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encryption {
    Plain,
    /// TLS if the server has it.
    Offered,
    Required,
}

impl Attempt<'_> {
    fn answers(&self) -> Result<(), ConnectFailure> {
        // The client still has to connect in what is left.
        alive::answers(self.address, self.timeout / 2).map_err(|error| failure::not_alive(&error, self.address))
    }

    fn open(&self, attrs: SessionAttrs) -> Result<Opened, ConnectFailure> {
        let (password, unusable) = self.password();
        let mut first: Option<ConnectFailure> = None;
        let began = Instant::now();
        for encryption in self.encryptions() {
            match self.connect(*encryption, password.as_ref()) {
                Ok(client) if self.kind == Kind::Console => {
                    return Ok(Opened { client, version_num: 0, lent: false, address: self.address.name() });
                }
                Ok(client) => return self.greet(client, attrs, began),
                Err(failure) => {
                    let again = failure.other_encryption;
                    // The first failure is about what was wanted most.
                    first.get_or_insert(failure);
                    if !again {
                        break;
                    }
                }
            }
        }
        let mut failure =
            first.unwrap_or_else(|| ConnectFailure::new(self.address, FailureKind::Connect, "nothing could be tried"));
        if failure.kind == FailureKind::Auth {
            failure.hints.extend(unusable);
        }
        Err(failure)
    }

    fn encryptions(&self) -> &'static [Encryption] {
        // A socket never leaves the machine: libpq uses no TLS there, whatever sslmode says.
        if matches!(self.address.endpoint, Endpoint::Socket(_)) {
            return &[Encryption::Plain];
        }
        match self.settings.tls.mode {
            TlsMode::Disable => &[Encryption::Plain],
            TlsMode::Allow => &[Encryption::Plain, Encryption::Required],
            TlsMode::Prefer => &[Encryption::Offered, Encryption::Plain],
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => &[Encryption::Required],
        }
    }

    /// The password that was given, else that of the password file; and why that file is not used.
    fn password(&self) -> (Option<SecretString>, Option<String>) {
        let settings = self.settings;
        if let Some(password) = &settings.password {
            return (Some(password.clone()), None);
        }
        let path = settings.passfile.as_ref();
        match passfile::look_up(self.environment, path, self.address, &settings.dbname, &settings.user) {
            Lookup::Found(password) => (Some(password), None),
            Lookup::Nothing => (None, None),
            Lookup::Unusable(why) => {
                tracing::warn!("{why}");
                (None, Some(why))
            }
        }
    }

    fn connect(&self, encryption: Encryption, password: Option<&SecretString>) -> Result<Client, ConnectFailure> {
        let mut config = self.config(password);
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ConnectFailure::new(self.address, FailureKind::Connect, error.to_string()))?;
        let failed = |error: NotConnected| {
            let NotConnected::Failed(error) = error else { return failure::endless(self.address) };
            let mut failure = failure::connect_failure(&error, self.address, encryption == Encryption::Offered);
            // Whatever answers there may repeat what it was sent.
            if let (Some(sent), Some(_)) = (password, error.as_db_error()) {
                failure.reason = without(&failure.reason, sent.expose_secret());
            }
            failure
        };
        config.ssl_mode(match encryption {
            Encryption::Plain => {
                return Client::connect(runtime, config.ssl_mode(SslMode::Disable), NoTls).map_err(failed);
            }
            Encryption::Offered => SslMode::Prefer,
            Encryption::Required => SslMode::Require,
        });
        if self.settings.tls.direct {
            config.ssl_negotiation(SslNegotiation::Direct);
        }
        Client::connect(runtime, &config, tls::OnDemand::new(&self.settings.tls)).map_err(failed)
    }

    fn config(&self, password: Option<&SecretString>) -> Config {
        let settings = self.settings;
        let mut config = Config::new();
        config
            .user(&settings.user)
            .dbname(&settings.dbname)
            .application_name(APPLICATION_NAME)
            .port(self.address.port)
            .connect_timeout(self.timeout)
            .channel_binding(match settings.channel_binding {
                ChannelBinding::Disable => ClientBinding::Disable,
                ChannelBinding::Prefer => ClientBinding::Prefer,
                ChannelBinding::Require => ClientBinding::Require,
            });
        match &self.address.endpoint {
            Endpoint::Socket(folder) => drop(config.host_path(folder)),
            Endpoint::Host { name, addr } => {
                // The client would take a name with a slash for a socket and forget TLS.
                match addr {
                    Some(addr) if name.starts_with('/') => config.host(addr.to_string()),
                    _ => config.host(name),
                };
                if let Some(addr) = addr {
                    config.hostaddr(*addr);
                }
            }
        }
        // PgBouncer refuses them, and a console has no use for them.
        if let (Kind::Server, Some(options)) = (self.kind, &settings.startup_options) {
            config.options(options);
        }
        if let Some(password) = password {
            config.password(password.expose_secret());
        }
        keep_alive(&mut config, &settings.keepalives);
        config
    }

    /// Asks for the version, and whether the server is of the wanted kind.
    fn greet(&self, mut client: Client, attrs: SessionAttrs, began: Instant) -> Result<Opened, ConnectFailure> {
        let messages = client.simple_query(&query::greeting(self.timeout)).map_err(|error| {
            let mut failure = failure::connect_failure(&error, self.address, false);
            if self.settings.dbname == "pgbouncer" && error.as_db_error().is_some() {
                // It repeats the whole of what it does not understand.
                "it is no PostgreSQL server".clone_into(&mut failure.reason);
                failure.hints.push("This is PgBouncer's own console; name a database behind it.".to_owned());
            }
            failure
        })?;
        let (version_num, read_only, standby, backend_age) = rows::result_sets(messages, 1)
            .and_then(|sets| rows::greeting(&sets[0]))
            .map_err(|error| ConnectFailure::new(self.address, FailureKind::Query, error.to_string()))?;
        if let Some(unfit) = unfit(attrs, read_only, standby) {
            return Err(ConnectFailure::new(self.address, FailureKind::Connect, unfit)
                .hint("target_session_attrs asks for another kind of server."));
        }
        let lent = backend_age.is_some_and(|age| age > began.elapsed() + LENT);
        Ok(Opened { client, version_num, lent, address: self.address.name() })
    }
}

/// Why a server is not of the wanted kind, if it is not.
fn unfit(attrs: SessionAttrs, read_only: bool, standby: bool) -> Option<&'static str> {
    match attrs {
        SessionAttrs::ReadWrite if read_only || standby => Some("the server is read only"),
        SessionAttrs::ReadOnly if !read_only && !standby => Some("the server is not read only"),
        SessionAttrs::Primary if standby => Some("the server is a standby"),
        SessionAttrs::Standby | SessionAttrs::PreferStandby if !standby => Some("the server is not a standby"),
        _ => None,
    }
}

fn keep_alive(config: &mut Config, keepalives: &Keepalives) {
    config.keepalives(keepalives.enabled);
    if keepalives.enabled {
        config
            .keepalives_idle(keepalives.idle.unwrap_or(KEEPALIVE_IDLE))
            .keepalives_interval(keepalives.interval.unwrap_or(KEEPALIVE_INTERVAL))
            .keepalives_retries(keepalives.count.unwrap_or(KEEPALIVE_COUNT));
    }
    config.tcp_user_timeout(keepalives.user_timeout.unwrap_or(USER_TIMEOUT));
}

/// A server's words without the password. A short one would show by the gap that it leaves in a word: then nothing is
/// repeated.
fn without(words: &str, password: &str) -> String {
    const SHORT: usize = 4;
    match password.chars().count() {
        0 => words.to_owned(),
        1..SHORT if words.contains(password) => {
            "it refuses, in words that are left out, for the password's letters are among them".to_owned()
        }
        _ => words.replace(password, "..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_shows_in_what_a_server_says() {
        assert_eq!(without("no such role", ""), "no such role");
        assert_eq!(without("you sent hunter2", "hunter2"), "you sent ...");
        assert!(without("what is p", "p").starts_with("it refuses"));
        assert_eq!(without("no such role", "p"), "no such role");
    }

    #[test]
    fn kinds_of_server() {
        use SessionAttrs::{Any, Primary, ReadOnly, ReadWrite, Standby};
        let fits = |attrs, read_only, standby| unfit(attrs, read_only, standby).is_none();
        assert!(fits(Any, true, true) && fits(Any, false, false));
        assert!(fits(ReadWrite, false, false) && !fits(ReadWrite, true, false) && !fits(ReadWrite, true, true));
        assert!(fits(ReadOnly, true, false) && fits(ReadOnly, true, true) && !fits(ReadOnly, false, false));
        assert!(fits(Primary, true, false) && !fits(Primary, true, true));
        assert!(fits(Standby, true, true) && !fits(Standby, false, false));
    }
}
