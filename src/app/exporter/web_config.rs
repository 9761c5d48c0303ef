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

use super::auth::Users;
use super::tls;
use super::yaml::{self, Entry};
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

#[derive(Default)]
struct Raw {
    tls: Option<tls::Raw>,
    headers: BTreeMap<String, String>,
    users: BTreeMap<String, String>,
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
        users: Arc::new(Users::new(raw.users).map_err(wrong)?),
        headers: headers(raw.headers).map_err(wrong)?,
        ..WebConfig::default()
    };
    if let Some(raw) = raw.tls.filter(tls::Raw::says_something) {
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

fn parse(text: &str) -> Result<Raw, String> {
    let mut raw = Raw::default();
    for entry in yaml::read(text)? {
        match entry.name.as_str() {
            "tls_server_config" => raw.tls = entry.entries()?.map(tls::Raw::of).transpose()?,
            "http_server_config" => raw.headers = http(entry.entries()?.unwrap_or_default())?,
            "basic_auth_users" => raw.users = entry.named_texts()?.unwrap_or_default(),
            _ => return Err(entry.unknown(&["tls_server_config", "http_server_config", "basic_auth_users"])),
        }
    }
    Ok(raw)
}

/// The headers that `http_server_config` sets.
fn http(entries: &[Entry]) -> Result<BTreeMap<String, String>, String> {
    let mut headers = BTreeMap::new();
    for entry in entries {
        match entry.name.as_str() {
            // HTTP/1.1 is what we speak, and what every client of HTTP/2 falls back to.
            "http2" => drop(entry.truth()?),
            "headers" => headers = entry.named_texts()?.unwrap_or_default(),
            _ => return Err(entry.unknown(&["http2", "headers"])),
        }
    }
    Ok(headers)
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

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, said) in [
            ("hunter2\n", "line 1, column 1: the file must be a mapping"),
            ("- hunter2\n", "line 1, column 1: the file must be a mapping"),
            ("tls_server_config: hunter2\n", "line 1, column 20: `tls_server_config` must be a mapping"),
            ("http_server_config: [hunter2]\n", "line 1, column 21: `http_server_config` must be a mapping"),
            ("basic_auth_users:\n- a: hunter2\n", "line 2, column 3: `basic_auth_users` must be a mapping"),
            ("basic_auth_users:\n  a: [hunter2]\n", "line 2, column 6: `a` must be text"),
            ("basic_auth_users:\n  a:\n", "line 2, column 4: `a` must be text"),
            ("basic_auth_users:\n  ? [hunter2]\n  : x\n", "line 2, column 5: a key must be text"),
            ("basic_auth_users:\n  a: hunter2\n  b: c\n  a: hunter3\n", "line 4, column 3: `a` is there twice"),
            (
                "tls_server_config:\n  key: hunter2\ntls_server_config:\n",
                "line 3, column 1: `tls_server_config` is there twice",
            ),
            ("tls_server_config:\n  cert: {a: hunter2}\n", "line 2, column 9: `cert` must be text"),
            (
                "tls_server_config:\n  client_allowed_sans: a\n",
                "line 2, column 24: `client_allowed_sans` must be a list",
            ),
            (
                "tls_server_config:\n  client_allowed_sans: [a, [b]]\n",
                "line 2, column 28: `client_allowed_sans` must be text",
            ),
            ("http_server_config:\n  http2: hunter2\n", "line 2, column 10: `http2` must be true or false"),
            (
                "http_server_config:\n  http3: true\n",
                "line 2, column 3: unknown field `http3`, expected one of http2, headers",
            ),
            ("x\u{1b}[31m: 1\n", "line 1, column 1: unexpected character: `\\u{1b}'"),
            ("\"x\\e[31m\\n\": 1\n", "line 1, column 1: unknown field `x\u{FFFD}[31m\u{FFFD}`, expected one of "),
        ] {
            let error = parse(text).map(drop).unwrap_err();
            assert!(error.starts_with(said), "{text:?}: {error}");
        }
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
