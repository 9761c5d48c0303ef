//! `tls_server_config`: certificates, client certificates and versions, by OpenSSL.

use std::path::PathBuf;

use super::yaml::Entry;
use openssl::pkey::PKey;
use openssl::ssl::{SslAcceptor, SslAcceptorBuilder, SslMethod, SslVerifyMode, SslVersion};
use openssl::stack::Stack;
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509Name};

/// The table as it is written.
#[derive(Default)]
pub(super) struct Raw {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    cert: Option<String>,
    key: Option<String>,
    client_auth_type: Option<String>,
    client_ca_file: Option<PathBuf>,
    client_ca: Option<String>,
    client_allowed_sans: Option<Vec<String>>,
    min_version: Option<String>,
    max_version: Option<String>,
    /// Whether it is there.
    cipher_suites: bool,
    /// Whether it is there.
    curve_preferences: bool,
}

/// The fields of the table.
const FIELDS: [&str; 13] = [
    "cert_file",
    "key_file",
    "cert",
    "key",
    "client_auth_type",
    "client_ca_file",
    "client_ca",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "curve_preferences",
    "prefer_server_cipher_suites",
];

impl Raw {
    /// What these entries say.
    ///
    /// # Errors
    /// One is unknown, or its value is of another kind.
    pub fn of(entries: &[Entry]) -> Result<Self, String> {
        let path = |entry: &Entry| Ok::<_, String>(entry.text()?.map(PathBuf::from));
        let mut raw = Self::default();
        for entry in entries {
            match entry.name.as_str() {
                "cert_file" => raw.cert_file = path(entry)?,
                "key_file" => raw.key_file = path(entry)?,
                "cert" => raw.cert = entry.text()?,
                "key" => raw.key = entry.text()?,
                "client_auth_type" => raw.client_auth_type = entry.text()?,
                "client_ca_file" => raw.client_ca_file = path(entry)?,
                "client_ca" => raw.client_ca = entry.text()?,
                "client_allowed_sans" => raw.client_allowed_sans = entry.texts()?,
                "min_version" => raw.min_version = entry.text()?,
                "max_version" => raw.max_version = entry.text()?,
                "cipher_suites" => raw.cipher_suites = entry.says_something(),
                "curve_preferences" => raw.curve_preferences = entry.says_something(),
                // Servers no longer choose by it (Go ignores it since 1.18).
                "prefer_server_cipher_suites" => drop(entry.truth()?),
                _ => return Err(entry.unknown(&FIELDS)),
            }
        }
        Ok(raw)
    }

    /// An empty table means no TLS.
    pub fn says_something(&self) -> bool {
        self.cert_file.is_some()
            || self.key_file.is_some()
            || self.cert.is_some()
            || self.key.is_some()
            || self.client_auth_type.is_some()
            || self.client_ca_file.is_some()
            || self.client_ca.is_some()
            || self.client_allowed_sans.is_some()
            || self.cipher_suites
            || self.curve_preferences
    }
}

/// What accepts TLS connections, and whether clients must show a verified certificate. `file` reads a file.
///
/// # Errors
/// A sentence; it names no key and no part of one.
pub(super) fn acceptor(
    raw: &Raw,
    file: &dyn Fn(&PathBuf) -> Result<String, String>,
) -> Result<(SslAcceptor, bool), String> {
    for (name, given) in [
        ("cipher_suites", raw.cipher_suites),
        ("curve_preferences", raw.curve_preferences),
        ("client_allowed_sans", raw.client_allowed_sans.is_some()),
    ] {
        if given {
            return Err(format!("{name} is not supported: take it out, or put a proxy in front that has it"));
        }
    }
    let text = |what: &str, path: &Option<PathBuf>, inline: &Option<String>| match (path, inline) {
        (Some(_), Some(_)) => Err(format!("{what} and {what}_file exclude each other")),
        (Some(path), None) => file(path),
        (None, Some(text)) => Ok(text.clone()),
        (None, None) => Err(format!("tls_server_config needs {what}_file or {what}")),
    };
    let certificates = text("cert", &raw.cert_file, &raw.cert)?;
    let key = text("key", &raw.key_file, &raw.key)?;
    let mut builder = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server())
        .map_err(|_| "OpenSSL cannot be set up for TLS".to_owned())?;
    set_versions(&mut builder, raw)?;
    set_certificate(&mut builder, &certificates, &key)?;
    let verified = set_client_authentication(&mut builder, raw, file)?;
    Ok((builder.build(), verified))
}

fn set_versions(builder: &mut SslAcceptorBuilder, raw: &Raw) -> Result<(), String> {
    let version = |name: &str, text: &Option<String>, default| match text.as_deref() {
        None => Ok(default),
        Some("TLS10") => Ok(Some(SslVersion::TLS1)),
        Some("TLS11") => Ok(Some(SslVersion::TLS1_1)),
        Some("TLS12") => Ok(Some(SslVersion::TLS1_2)),
        Some("TLS13") => Ok(Some(SslVersion::TLS1_3)),
        Some(_) => Err(format!("{name} must be TLS10, TLS11, TLS12 or TLS13")),
    };
    let refused = |_| "OpenSSL refuses these TLS versions".to_owned();
    let min = version("min_version", &raw.min_version, Some(SslVersion::TLS1_2))?;
    let max = version("max_version", &raw.max_version, None)?;
    builder.set_min_proto_version(min).map_err(refused)?;
    builder.set_max_proto_version(max).map_err(refused)
}

fn set_certificate(builder: &mut SslAcceptorBuilder, certificates: &str, key: &str) -> Result<(), String> {
    let mut chain = X509::stack_from_pem(certificates.as_bytes())
        .ok()
        .filter(|chain| !chain.is_empty())
        .ok_or("the certificate is not in PEM form")?
        .into_iter();
    let refused = |_| "OpenSSL refuses the certificate".to_owned();
    if let Some(own) = chain.next() {
        builder.set_certificate(&own).map_err(refused)?;
    }
    for issuer in chain {
        builder.add_extra_chain_cert(issuer).map_err(refused)?;
    }
    // An empty password: OpenSSL would ask the terminal for the real one.
    let key = PKey::private_key_from_pem_passphrase(key.as_bytes(), b"")
        .map_err(|_| "the key is not an unencrypted private key in PEM form")?;
    builder.set_private_key(&key).map_err(|_| "OpenSSL refuses the key".to_owned())?;
    builder.check_private_key().map_err(|_| "the key does not belong to the certificate".to_owned())
}

/// Go's names and meanings. Only the last one means that everybody is known.
fn set_client_authentication(
    builder: &mut SslAcceptorBuilder,
    raw: &Raw,
    file: &dyn Fn(&PathBuf) -> Result<String, String>,
) -> Result<bool, String> {
    let authorities = match (&raw.client_ca_file, &raw.client_ca) {
        (Some(_), Some(_)) => return Err("client_ca and client_ca_file exclude each other".to_owned()),
        (Some(path), None) => Some(file(path)?),
        (None, text) => text.clone(),
    };
    let kind = raw.client_auth_type.as_deref().unwrap_or(if authorities.is_some() { "" } else { "NoClientCert" });
    let required = SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT;
    let (mode, verified) = match kind {
        "NoClientCert" => (SslVerifyMode::NONE, false),
        "RequestClientCert" | "VerifyClientCertIfGiven" => (SslVerifyMode::PEER, false),
        "RequireAnyClientCert" => (required, false),
        "RequireAndVerifyClientCert" => (required, true),
        "" => return Err("client_ca needs a client_auth_type: mostly RequireAndVerifyClientCert".to_owned()),
        _ => {
            return Err("client_auth_type must be NoClientCert, RequestClientCert, RequireAnyClientCert, \
                        VerifyClientCertIfGiven or RequireAndVerifyClientCert"
                .to_owned());
        }
    };
    match kind {
        "RequestClientCert" | "RequireAnyClientCert" => builder.set_verify_callback(mode, |_, _| true),
        _ => builder.set_verify(mode),
    }
    if matches!(kind, "VerifyClientCertIfGiven" | "RequireAndVerifyClientCert") {
        let authorities = authorities.ok_or_else(|| format!("{kind} needs client_ca_file or client_ca"))?;
        trust(builder, &authorities).map_err(|()| "the client_ca is not a list of certificates in PEM form")?;
    }
    builder.set_session_id_context(b"pglockwatch").map_err(|_| "OpenSSL refuses sessions".to_owned())?;
    Ok(verified)
}

/// Exactly these authorities, and none that the system trusts.
fn trust(builder: &mut SslAcceptorBuilder, authorities: &str) -> Result<(), ()> {
    let certificates = X509::stack_from_pem(authorities.as_bytes()).map_err(drop)?;
    if certificates.is_empty() {
        return Err(());
    }
    let mut store = X509StoreBuilder::new().map_err(drop)?;
    let mut names = Stack::new().map_err(drop)?;
    for certificate in certificates {
        let name = certificate.subject_name().to_der().and_then(|der| X509Name::from_der(&der));
        names.push(name.map_err(drop)?).map_err(drop)?;
        store.add_cert(certificate).map_err(drop)?;
    }
    builder.set_verify_cert_store(store.build()).map_err(drop)?;
    builder.set_client_ca_list(names);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_known() {
        for field in FIELDS {
            let entries = super::super::yaml::read(&format!("{field}: ~\n")).unwrap();
            assert!(!Raw::of(&entries).unwrap().says_something(), "{field}");
        }
        let entries = super::super::yaml::read("cert_files: hunter2\n").unwrap();
        let error = Raw::of(&entries).map(drop).unwrap_err();
        assert_eq!(
            error,
            "line 1, column 1: unknown field `cert_files`, expected one of cert_file, key_file, cert, key, client_auth_type, \
             client_ca_file, client_ca, client_allowed_sans, min_version, max_version, cipher_suites, curve_preferences, \
             prefer_server_cipher_suites"
        );
    }
}
