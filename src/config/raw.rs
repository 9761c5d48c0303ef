//! The config's tables exactly as they are written; meaning and ranges come after.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    pub interval: Option<Spanned<String>>,
    pub timeout: Option<Spanned<String>>,
    #[serde(default)]
    pub keys: Vec<PathBuf>,
    #[serde(default)]
    pub thresholds: Thresholds,
    pub application_group: Option<Spanned<String>>,
    #[serde(default)]
    pub web: Web,
    #[serde(default)]
    pub target: Vec<Target>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Web {
    pub listen_address: Vec<String>,
    pub telemetry_path: Option<String>,
    pub config_file: Option<PathBuf>,
    pub systemd_socket: bool,
    pub show_queries: bool,
    pub pool_clients: bool,
    pub external_url: Option<String>,
    pub no_pages: bool,
    pub pages_without_auth: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Thresholds {
    pub idle: Option<Spanned<String>>,
    pub wait: Option<Spanned<String>>,
    pub hoard: Option<NonZeroU32>,
    pub critical_after: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    pub name: Option<Spanned<String>>,
    #[serde(deserialize_with = "secret")]
    pub dsn: SecretString,
    pub password_file: Option<PathBuf>,
    #[serde(default)]
    pub keys: Vec<PathBuf>,
    #[serde(default)]
    pub labels: BTreeMap<Spanned<String>, String>,
    #[serde(default)]
    pub thresholds: Thresholds,
    #[serde(default)]
    pub pgbouncer: Vec<PgBouncer>,
    #[serde(default)]
    pub lease: Vec<Lease>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PgBouncer {
    #[serde(deserialize_with = "secret")]
    pub dsn: SecretString,
    pub password_file: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lease {
    pub name: Spanned<String>,
    pub table: Spanned<String>,
    pub columns: LeaseColumns,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LeaseColumns {
    pub name: Spanned<String>,
    pub holder: Spanned<String>,
    pub expires: Spanned<String>,
    pub taken: Option<Spanned<String>>,
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    String::deserialize(deserializer).map(SecretString::from)
}
