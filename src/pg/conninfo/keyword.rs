//! The options that libpq knows (its manual, 34.1.2 and 34.15; PostgreSQL 18), and which of them we support.

use super::ConnInfoError;

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Support {
    /// It does what it does in libpq.
    Full,
    /// Any value is taken and changes nothing here; the reason stands beside each.
    Moot,
    /// It is refused unless it has one of these values, which ask for nothing.
    Only(&'static [&'static str], &'static str),
}

/// One option.
#[derive(Debug)]
pub(crate) struct Keyword {
    /// Its name in a connection string.
    pub name: &'static str,
    /// The environment variable that stands in for it.
    pub variable: Option<&'static str>,
    support: Support,
}

const fn full(name: &'static str, variable: Option<&'static str>) -> Keyword {
    Keyword { name, variable, support: Support::Full }
}

const fn moot(name: &'static str, variable: Option<&'static str>) -> Keyword {
    Keyword { name, variable, support: Support::Moot }
}

const fn only(
    name: &'static str,
    variable: Option<&'static str>,
    harmless: &'static [&'static str],
    hint: &'static str,
) -> Keyword {
    Keyword { name, variable, support: Support::Only(harmless, hint) }
}

const NO_KERBEROS: &str = "Kerberos (GSSAPI) is not supported; leave it out, or use a password or a certificate.";
const LEAVE_OUT: &str = "Leave it out of pglockwatch's connection string.";

/// All options.
pub(crate) const KEYWORDS: &[Keyword] = &[
    full("service", Some("PGSERVICE")),
    full("user", Some("PGUSER")),
    full("password", Some("PGPASSWORD")),
    full("passfile", Some("PGPASSFILE")),
    full("dbname", Some("PGDATABASE")),
    full("host", Some("PGHOST")),
    full("hostaddr", Some("PGHOSTADDR")),
    full("port", Some("PGPORT")),
    full("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    full("options", Some("PGOPTIONS")),
    full("channel_binding", Some("PGCHANNELBINDING")),
    full("keepalives", None),
    full("keepalives_idle", None),
    full("keepalives_interval", None),
    full("keepalives_count", None),
    full("tcp_user_timeout", None),
    full("sslmode", Some("PGSSLMODE")),
    full("sslnegotiation", Some("PGSSLNEGOTIATION")),
    full("sslcert", Some("PGSSLCERT")),
    full("sslkey", Some("PGSSLKEY")),
    full("sslpassword", None),
    full("sslrootcert", Some("PGSSLROOTCERT")),
    full("sslcrl", Some("PGSSLCRL")),
    full("sslcrldir", Some("PGSSLCRLDIR")),
    full("sslsni", Some("PGSSLSNI")),
    full("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
    full("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION")),
    full("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    full("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    // Our sessions are always called pglockwatch, so that whoever finds one knows what it is.
    moot("application_name", Some("PGAPPNAME")),
    moot("fallback_application_name", None),
    // Each poll sets its own: texts come in many encodings, whatever one asks for.
    moot("client_encoding", Some("PGCLIENTENCODING")),
    // libpq itself ignores it where OpenSSL was built without compression, as it is everywhere now.
    moot("sslcompression", Some("PGSSLCOMPRESSION")),
    // Of no consequence without GSSAPI, which we refuse where it is required.
    moot("krbsrvname", Some("PGKRBSRVNAME")),
    moot("gsslib", Some("PGGSSLIB")),
    moot("gssdelegation", Some("PGGSSDELEGATION")),
    only("gssencmode", Some("PGGSSENCMODE"), &["disable", "prefer"], NO_KERBEROS),
    only("sslcertmode", Some("PGSSLCERTMODE"), &["allow"], LEAVE_OUT),
    only("requirepeer", Some("PGREQUIREPEER"), &[""], "Leave it out, or connect over TCP with sslmode=verify-full."),
    only("require_auth", Some("PGREQUIREAUTH"), &[""], "Leave it out; channel_binding=require does much the same."),
    only("replication", None, &["", "false", "off", "no", "0"], LEAVE_OUT),
    only("min_protocol_version", Some("PGMINPROTOCOLVERSION"), &["3.0"], LEAVE_OUT),
    only("max_protocol_version", Some("PGMAXPROTOCOLVERSION"), &["3.0", "latest"], LEAVE_OUT),
    only("sslkeylogfile", None, &[""], LEAVE_OUT),
    only("scram_client_key", None, &[""], LEAVE_OUT),
    only("scram_server_key", None, &[""], LEAVE_OUT),
    only("oauth_issuer", None, &[""], LEAVE_OUT),
    only("oauth_client_id", None, &[""], LEAVE_OUT),
    only("oauth_client_secret", None, &[""], LEAVE_OUT),
    only("oauth_scope", None, &[""], LEAVE_OUT),
];

impl Keyword {
    /// The option of that name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        KEYWORDS.iter().find(|keyword| keyword.name == name)
    }

    /// Refuses what we do not support, by name. `place` says where it stands.
    pub(crate) fn check(&self, value: &str, place: &str) -> Result<(), ConnInfoError> {
        match self.support {
            Support::Only(harmless, hint) if !harmless.contains(&value) => {
                let name = self.name;
                Err(ConnInfoError::new(format!("the option {name} {place} is not supported by pglockwatch")).hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// Whether its value must not be kept or shown as plain text.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.name, "password" | "sslpassword")
    }
}
