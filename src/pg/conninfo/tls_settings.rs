//! What a connection string says about TLS: `sslmode` and everything that begins with `ssl`.
//!
//! Knows words and where files are usually; reads no certificate and opens no connection.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::options::Options;
use super::settings::{choice, home_file};
use super::{ConnInfoError, Environment};

/// `sslmode`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TlsMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Where the certificates of authorities are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RootCerts {
    /// Nobody named a file and there is none at the usual place.
    None,
    /// `sslrootcert=system`
    System,
    /// A file; `given` if somebody named it, else it is the one of the home folder and is there.
    File { path: PathBuf, given: bool },
}

/// Everything about TLS.
#[derive(Debug, Clone)]
pub(crate) struct TlsSettings {
    pub mode: TlsMode,
    pub direct: bool,
    pub root: RootCerts,
    /// The client's certificate and key, if there are any.
    pub cert: Option<(PathBuf, PathBuf)>,
    pub key_password: Option<SecretString>,
    pub crl: Option<PathBuf>,
    pub crl_folder: Option<PathBuf>,
    pub sni: bool,
    pub min_version: Option<TlsVersion>,
    pub max_version: Option<TlsVersion>,
}

/// `ssl_min_protocol_version` and its sister.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TlsVersion {
    Tls1,
    Tls1_1,
    Tls1_2,
    Tls1_3,
}

impl TlsSettings {
    pub(super) fn resolve(options: &Options, environment: &dyn Environment) -> Result<Self, ConnInfoError> {
        tls(options, environment)
    }
}

fn tls(options: &Options, environment: &dyn Environment) -> Result<TlsSettings, ConnInfoError> {
    let folder = home_file(environment, ".postgresql");
    // A file that nobody named counts only if it is there.
    let usual = |name: &str| folder.as_ref().map(|folder| folder.join(name)).filter(|path| environment.exists(path));
    let given = |name| options.filled(name).map(PathBuf::from);
    let root = match given("sslrootcert") {
        Some(path) if path == Path::new("system") => RootCerts::System,
        Some(path) => RootCerts::File { path, given: true },
        None => usual("root.crt").map_or(RootCerts::None, |path| RootCerts::File { path, given: false }),
    };
    let default_mode = if root == RootCerts::System { "verify-full" } else { "prefer" };
    let mode = tls_mode(options.get("sslmode").unwrap_or(default_mode))?;
    if root == RootCerts::System && mode != TlsMode::VerifyFull {
        return Err(ConnInfoError::new("sslrootcert=system works only with sslmode=verify-full")
            .hint("Any other mode would trust whoever has a certificate of some public authority."));
    }
    let cert = given("sslcert").or_else(|| usual("postgresql.crt"));
    let key = given("sslkey").or_else(|| folder.as_ref().map(|folder| folder.join("postgresql.key")));
    let (min_version, max_version) =
        (tls_version(options, "ssl_min_protocol_version")?, tls_version(options, "ssl_max_protocol_version")?);
    let min_version = min_version.or(Some(TlsVersion::Tls1_2));
    if max_version.is_some() && max_version < min_version {
        return Err(ConnInfoError::new("ssl_max_protocol_version is lower than ssl_min_protocol_version"));
    }
    let direct = choice(options, "sslnegotiation", &[("postgres", false), ("direct", true)])?;
    if direct && mode < TlsMode::Require {
        return Err(ConnInfoError::new("sslnegotiation=direct needs an sslmode of require or stronger"));
    }
    Ok(TlsSettings {
        mode,
        direct,
        root,
        cert: cert.and_then(|cert| key.map(|key| (cert, key))),
        key_password: options.secret("sslpassword").cloned(),
        crl: given("sslcrl").or_else(|| usual("root.crl")),
        crl_folder: given("sslcrldir"),
        // As in libpq: whatever does not begin with 1 turns it off.
        sni: options.get("sslsni").is_none_or(|text| text.starts_with('1')),
        min_version,
        max_version,
    })
}

fn tls_mode(text: &str) -> Result<TlsMode, ConnInfoError> {
    Ok(match text {
        "disable" => TlsMode::Disable,
        "allow" => TlsMode::Allow,
        "prefer" => TlsMode::Prefer,
        "require" => TlsMode::Require,
        "verify-ca" => TlsMode::VerifyCa,
        "verify-full" => TlsMode::VerifyFull,
        _ => {
            return Err(ConnInfoError::new("the option sslmode has a value that it cannot have")
                .hint("It can be disable, allow, prefer, require, verify-ca, verify-full."));
        }
    })
}

/// A version by its name, in whichever letter case; an empty one sets no bound, as in libpq.
fn tls_version(options: &Options, name: &str) -> Result<Option<TlsVersion>, ConnInfoError> {
    const VERSIONS: [(&str, TlsVersion); 4] = [
        ("TLSv1", TlsVersion::Tls1),
        ("TLSv1.1", TlsVersion::Tls1_1),
        ("TLSv1.2", TlsVersion::Tls1_2),
        ("TLSv1.3", TlsVersion::Tls1_3),
    ];
    let Some(wanted) = options.filled(name) else { return Ok(None) };
    let found = VERSIONS.iter().find(|(word, _)| word.eq_ignore_ascii_case(wanted));
    found.map(|(_, version)| Some(*version)).ok_or_else(|| {
        ConnInfoError::new(format!("the option {name} has a value that it cannot have"))
            .hint(format!("It can be {}.", VERSIONS.map(|(word, _)| word).join(", ")))
    })
}
