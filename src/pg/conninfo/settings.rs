//! A completed connection string: every value understood and checked.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

use super::options::Options;
use super::tls_settings::{TlsMode, TlsSettings};
use super::{ConnInfoError, Environment};

/// Where servers of packaged PostgreSQL keep their sockets; compiled ones use the second.
const SOCKET_FOLDERS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
const DEFAULT_PORT: u16 = 5432;

/// All that is needed to connect. Its `Debug` output shows no password.
#[derive(Debug, Clone)]
pub struct ConnSettings {
    /// In the order in which they are tried; never empty.
    pub(crate) addresses: Vec<Address>,
    pub(crate) user: String,
    pub(crate) dbname: String,
    pub(crate) password: Option<SecretString>,
    /// Where to look for a password that is not given; read at each connect, as psql does.
    pub(crate) passfile: Option<PathBuf>,
    /// Startup options that the user asked for. We never add our own: PgBouncer refuses them.
    pub(crate) startup_options: Option<String>,
    /// The most that one address may take, if the user set it.
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) keepalives: Keepalives,
    pub(crate) channel_binding: ChannelBinding,
    pub(crate) attrs: SessionAttrs,
    pub(crate) shuffle_hosts: bool,
    pub(crate) tls: TlsSettings,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The folder of a Unix socket.
    Socket(PathBuf),
    /// A host, by name or address; a name may come with the address to use for it.
    Host { name: String, addr: Option<IpAddr> },
}

/// One server to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub endpoint: Endpoint,
    pub port: u16,
}

impl Address {
    /// host:port as written, folder:port for a socket.
    pub fn name(&self) -> String {
        let port = self.port;
        match &self.endpoint {
            Endpoint::Socket(folder) => format!("{}:{port}", folder.display()),
            Endpoint::Host { name, .. } if name.contains(':') => format!("[{name}]:{port}"),
            Endpoint::Host { name, .. } => format!("{name}:{port}"),
        }
    }

    /// The host as a password file names it: the default socket folders are `localhost` there.
    pub fn passfile_host(&self) -> String {
        match &self.endpoint {
            Endpoint::Socket(folder) if SOCKET_FOLDERS.iter().any(|default| folder == Path::new(default)) => {
                "localhost".to_owned()
            }
            Endpoint::Socket(folder) => folder.display().to_string(),
            Endpoint::Host { name, .. } => name.clone(),
        }
    }
}

/// TCP keepalives. What is not set has our own default, see [`crate::pg::Session`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keepalives {
    pub enabled: bool,
    pub idle: Option<Duration>,
    pub interval: Option<Duration>,
    pub count: Option<u32>,
    pub user_timeout: Option<Duration>,
}

/// `channel_binding`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelBinding {
    Disable,
    Prefer,
    Require,
}

/// `target_session_attrs`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionAttrs {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

impl ConnSettings {
    /// host:port as first written; folder:port of a socket.
    pub fn target_name(&self) -> String {
        self.addresses.first().map(Address::name).unwrap_or_default()
    }

    /// The database that will be connected to.
    pub fn dbname(&self) -> &str {
        &self.dbname
    }

    /// The role that will connect.
    pub fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn resolve(options: &Options, environment: &dyn Environment) -> Result<Self, ConnInfoError> {
        let user = match options.filled("user") {
            Some(user) => user.to_owned(),
            None => environment.os_user().ok_or_else(|| {
                ConnInfoError::new("the operating system does not say who you are").hint("Give user=... or set PGUSER.")
            })?,
        };
        let tls = TlsSettings::resolve(options, environment)?;
        Ok(Self {
            addresses: addresses(options, environment, tls.mode)?,
            dbname: options.filled("dbname").unwrap_or(&user).to_owned(),
            user,
            password: options.secret("password").cloned(),
            passfile: options.filled("passfile").map(PathBuf::from).or_else(|| home_file(environment, ".pgpass")),
            startup_options: options.filled("options").map(str::to_owned),
            connect_timeout: connect_timeout(options)?,
            keepalives: keepalives(options)?,
            channel_binding: choice(
                options,
                "channel_binding",
                &[
                    ("prefer", ChannelBinding::Prefer),
                    ("disable", ChannelBinding::Disable),
                    ("require", ChannelBinding::Require),
                ],
            )?,
            attrs: choice(
                options,
                "target_session_attrs",
                &[
                    ("any", SessionAttrs::Any),
                    ("read-write", SessionAttrs::ReadWrite),
                    ("read-only", SessionAttrs::ReadOnly),
                    ("primary", SessionAttrs::Primary),
                    ("standby", SessionAttrs::Standby),
                    ("prefer-standby", SessionAttrs::PreferStandby),
                ],
            )?,
            shuffle_hosts: choice(options, "load_balance_hosts", &[("disable", false), ("random", true)])?,
            tls,
        })
    }
}

pub(super) fn home_file(environment: &dyn Environment, name: &str) -> Option<PathBuf> {
    environment.home().map(|home| home.join(name))
}

/// One of several words; the first is the default. As in libpq an empty value is none of them.
pub(super) fn choice<T: Copy>(options: &Options, name: &str, words: &[(&str, T)]) -> Result<T, ConnInfoError> {
    let wanted = options.get(name).unwrap_or(words[0].0);
    words.iter().find(|(word, _)| *word == wanted).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        ConnInfoError::new(format!("the option {name} has a value that it cannot have"))
            .hint(format!("It can be {}.", known.join(", ")))
    })
}

/// A number, if the option is set. As in libpq an empty value is none.
fn number<T: FromStr>(options: &Options, name: &str) -> Result<Option<T>, ConnInfoError> {
    let Some(text) = options.get(name) else { return Ok(None) };
    match text.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ConnInfoError::new(format!("the option {name} is not a whole number"))),
    }
}

/// Seconds; as in libpq zero and less mean "as the system does it".
fn seconds(options: &Options, name: &str) -> Result<Option<Duration>, ConnInfoError> {
    let seconds = number::<i32>(options, name)?.and_then(|seconds| u64::try_from(seconds).ok());
    Ok(seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs))
}

/// libpq waits at least 2 seconds, whatever is asked for.
fn connect_timeout(options: &Options) -> Result<Option<Duration>, ConnInfoError> {
    Ok(seconds(options, "connect_timeout")?.map(|timeout| timeout.max(Duration::from_secs(2))))
}

fn keepalives(options: &Options) -> Result<Keepalives, ConnInfoError> {
    let user_timeout = number::<i32>(options, "tcp_user_timeout")?.and_then(|millis| u64::try_from(millis).ok());
    let count = number::<i32>(options, "keepalives_count")?.and_then(|count| u32::try_from(count).ok());
    Ok(Keepalives {
        enabled: number::<i32>(options, "keepalives")? != Some(0),
        idle: seconds(options, "keepalives_idle")?,
        interval: seconds(options, "keepalives_interval")?,
        count: count.filter(|count| *count > 0),
        user_timeout: user_timeout.filter(|millis| *millis > 0).map(Duration::from_millis),
    })
}

/// The servers to try: lists of hosts, of their addresses, and of ports (libpq's manual, 34.1.1.3).
fn addresses(options: &Options, environment: &dyn Environment, mode: TlsMode) -> Result<Vec<Address>, ConnInfoError> {
    let list = |name| -> Vec<&str> { options.filled(name).map(|text| text.split(',').collect()).unwrap_or_default() };
    let (hosts, hostaddrs, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = if hostaddrs.is_empty() { hosts.len().max(1) } else { hostaddrs.len() };
    if !hosts.is_empty() && !hostaddrs.is_empty() && hosts.len() != hostaddrs.len() {
        return Err(ConnInfoError::new(format!(
            "the option host names {} and the option hostaddr {} servers",
            hosts.len(),
            hostaddrs.len()
        )));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(ConnInfoError::new(format!("there are {} ports for {count} hosts", ports.len()))
            .hint("Give one port for all hosts, or one for each."));
    }
    (0..count)
        .map(|place| {
            let port = port(ports.get(place).or(ports.first()).copied().unwrap_or_default())?;
            let host = hosts.get(place).copied().unwrap_or_default();
            let addr = hostaddrs.get(place).copied().unwrap_or_default();
            if mode == TlsMode::VerifyFull && !addr.is_empty() && (host.is_empty() || host.starts_with('/')) {
                return Err(ConnInfoError::new(
                    "sslmode=verify-full compares the host's name, and there is only hostaddr",
                )
                .hint("Add the name that stands in the server's certificate as host=."));
            }
            Ok(Address { endpoint: endpoint(host, addr, port, environment)?, port })
        })
        .collect()
}

/// The text is not shown: it may be a piece of a password that a URI has in the wrong place.
fn port(text: &str) -> Result<u16, ConnInfoError> {
    if text.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    text.trim().parse().ok().filter(|port| *port != 0).ok_or_else(|| {
        ConnInfoError::new("the port is not a number from 1 to 65535")
            .hint("If it stands in a URI: a password there needs / as %2F, @ as %40 and : as %3A.")
    })
}

fn endpoint(host: &str, addr: &str, port: u16, environment: &dyn Environment) -> Result<Endpoint, ConnInfoError> {
    if host.starts_with('@') {
        return Err(ConnInfoError::new("an abstract Unix socket (a host that begins with @) is not supported")
            .hint("Connect over TCP, or by a socket in a folder."));
    }
    let addr = match addr {
        "" => None,
        addr => Some(addr.parse::<IpAddr>().map_err(|_| {
            ConnInfoError::new("the option hostaddr is not an IP address").hint("A name goes into the option host.")
        })?),
    };
    // As in libpq the address decides where to connect, and the host, even that of a socket, only gives the name.
    Ok(match (host, addr) {
        ("", None) => Endpoint::Socket(default_socket_folder(port, environment)),
        (folder, None) if folder.starts_with('/') => Endpoint::Socket(PathBuf::from(folder)),
        ("", Some(addr)) => Endpoint::Host { name: addr.to_string(), addr: None },
        (name, addr) => Endpoint::Host { name: name.to_owned(), addr },
    })
}

/// The first of the usual folders that has the socket; if none has, the first that is there.
fn default_socket_folder(port: u16, environment: &dyn Environment) -> PathBuf {
    let folders = || SOCKET_FOLDERS.iter().map(PathBuf::from);
    folders()
        .find(|folder| environment.exists(&folder.join(format!(".s.PGSQL.{port}"))))
        .or_else(|| folders().find(|folder| environment.exists(folder)))
        .unwrap_or_else(|| PathBuf::from(SOCKET_FOLDERS[0]))
}
