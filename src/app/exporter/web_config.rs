//! `--web.config.file`: the exporter-toolkit's YAML, from text to what the server needs. Strict: an unknown field is an
//! error.
//!
//! It opens only the files that the text names. What is not supported is refused by name, never ignored: a setting that
//! somebody relies on for security must not be without effect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use openssl::ssl::SslAcceptor;
use serde::Deserialize;

use super::auth::Users;
use super::tls;
use crate::error::{Error, Result};
use crate::pg::Environment;

/// What a web config says, ready to be used.
#[derive(Clone, Default)]
pub(super) struct WebConfig {
    /// TLS, where it is configured.
    pub tls: Option<SslAcceptor>,
    /// Clients must show a certificate that is verified.
    pub client_certificates: bool,
    /// Who may come in; nobody: no passwords are asked for.
    pub users: Arc<Users>,
    /// Headers of every answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl std::fmt::Debug for WebConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebConfig").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    tls_server_config: Option<tls::Raw>,
    http_server_config: RawHttp,
    basic_auth_users: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawHttp {
    /// HTTP/1.1 is what we speak, and what every client of HTTP/2 falls back to.
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    headers: Option<BTreeMap<String, String>>,
}

/// The headers that the exporter-toolkit lets through.
const HEADERS: [&str; 5] = [
    "content-security-policy",
    "strict-transport-security",
    "x-content-type-options",
    "x-frame-options",
    "x-xss-protection",
];

/// Reads the file and those that it names; their paths are relative to it.
///
/// # Errors
/// One cannot be read, or what is in it is wrong.
pub(super) fn read(path: &Path, environment: &dyn Environment) -> Result<WebConfig> {
    let shown = path.display().to_string();
    let wrong = |sentence: String| Error::usage(format!("{shown}: {sentence}"));
    let text =
        environment.read(path).map_err(|error| Error::usage(format!("cannot read {shown}")).caused_by(error))?.text;
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let raw = parse(&text).map_err(wrong)?;
    let mut config = WebConfig {
        users: Arc::new(Users::new(raw.basic_auth_users.unwrap_or_default()).map_err(wrong)?),
        headers: headers(raw.http_server_config.headers.unwrap_or_default()).map_err(wrong)?,
        ..WebConfig::default()
    };
    if let Some(raw) = raw.tls_server_config.filter(tls::Raw::says_something) {
        let file = |path: &PathBuf| {
            let path = folder.join(path);
            let read = environment.read(&path).map(|file| file.text);
            read.map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let (acceptor, client_certificates) = tls::acceptor(&raw, &file).map_err(wrong)?;
        config.tls = Some(acceptor);
        config.client_certificates = client_certificates;
    }
    Ok(config)
}

/// An empty file, and one with nothing but comments, is an empty config.
fn parse(text: &str) -> Result<Raw, String> {
    let says_something =
        |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#')) && line.trim() != "---";
    if !text.lines().any(says_something) {
        return Ok(Raw::default());
    }
    serde_saphyr::from_str::<Raw>(text).map_err(|error| {
        let place = error.location().map(|place| format!("line {}, column {}: ", place.line(), place.column()));
        // Only the first line: what follows quotes the file, which may hold a key.
        let said = error.without_snippet().to_string();
        let said = said.lines().next().unwrap_or_default();
        let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
        format!("{}{said}", place.unwrap_or_default())
    })
}

fn headers(raw: BTreeMap<String, String>) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let header = |(name, value): (String, String)| {
        let lower = name.to_ascii_lowercase();
        if !HEADERS.contains(&lower.as_str()) {
            return Err(format!("the header {name} cannot be set: only {}", HEADERS.join(", ")));
        }
        let bad = |_| format!("the value of the header {name} has characters that a header must not have");
        let value = HeaderValue::from_str(&value).map_err(bad)?;
        let name = HeaderName::from_bytes(lower.as_bytes()).map_err(|_| format!("{name} is no header"))?;
        Ok((name, value))
    };
    raw.into_iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::ProcessEnvironment;

    fn read_text(text: &str) -> Result<WebConfig, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yml");
        std::fs::write(&path, text).unwrap();
        read(&path, &ProcessEnvironment).map_err(|error| error.text())
    }

    fn refused(text: &str) -> String {
        read_text(text).unwrap_err()
    }

    #[test]
    fn nothing_said_is_nothing_asked() {
        for text in ["", "# nothing\n", "---\n", "basic_auth_users:\n", "tls_server_config: {}\n"] {
            let config = read_text(text).unwrap();
            assert!(
                config.users.is_empty()
                    && !config.client_certificates
                    && config.tls.is_none()
                    && config.headers.is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn users_and_headers_are_read_and_unknown_things_refused() {
        let hash = bcrypt::hash("geheim", 4).unwrap();
        let config = read_text(&format!(
            "basic_auth_users:\n  alice: {hash}\nhttp_server_config:\n  http2: false\n  headers:\n    \
             Strict-Transport-Security: max-age=1\n"
        ))
        .unwrap();
        assert!(!config.users.is_empty());
        assert_eq!(config.headers[0].0, "strict-transport-security");
        let error = refused("basic_auth_user:\n  a: b\n");
        assert!(error.contains("basic_auth_user") && error.contains("line 1"), "{error}");
        let error = refused("basic_auth_users:\n  alice: secretplain\n");
        assert!(error.contains("alice") && error.contains("bcrypt") && !error.contains("secretplain"), "{error}");
        assert!(refused("http_server_config:\n  headers:\n    Location: x\n").contains("Location"));
        assert!(refused("tls_server_config:\n  cert: c\n").contains("needs key_file or key"));
        assert!(refused("tls_server_config:\n  cert_file: a.crt\n  key_file: a.key\n").contains("cannot read"));
        assert!(refused("tls_server_config:\n  cipher_suites: [x]\n  cert: c\n  key: k\n").contains("cipher_suites"));
        assert!(refused("basic_auth_users: [").contains("web.yml"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

        /// Whatever stands in the file: one sentence, and none of a secret.
        #[test]
        fn no_file_is_too_strange(noise in "[-:#{}\\[\\]\"'|>&*!%@, \na-z]{0,60}") {
            for text in [noise.clone(), format!("basic_auth_users:\n  a: hunter2-{noise}\n"), format!("tls_server_config: {noise}")] {
                if let Err(said) = parse(&text) {
                    proptest::prop_assert!(!said.contains('\n') && !said.contains("hunter2"), "{}", said);
                }
            }
        }
    }
}
