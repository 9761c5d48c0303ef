//! TLS as libpq does it: which authorities are trusted, whether the host's name is checked, the client's certificate.
//!
//! Reads the files that the settings name, once the server has said that it has TLS. The store of authorities is always set: the library's own default would
//! trust every public authority for a server that has a private one.

mod names;

use std::future;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use openssl::error::ErrorStack;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{SslConnector, SslConnectorBuilder, SslFiletype, SslMethod, SslVerifyMode, SslVersion};
use openssl::x509::X509;
use openssl::x509::store::{X509Lookup, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;
use postgres_openssl::{TlsConnector, TlsStream};
use secrecy::{ExposeSecret as _, SecretString};
use tokio_postgres::Socket;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};

use super::conninfo::{RootCerts, TlsMode, TlsSettings, TlsVersion};
use super::files;
pub(crate) use names::VERDICT as NAME_VERDICT;

/// Why TLS cannot even be tried: one sentence without a full stop, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct TlsError {
    pub message: String,
    pub hint: Option<String>,
}

impl TlsError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ErrorStack> for TlsError {
    fn from(error: ErrorStack) -> Self {
        Self::new(format!("OpenSSL cannot be set up: {error}"))
    }
}

/// Connects by TLS where the server has it. Only then OpenSSL is set up and files are read, as in libpq: setting it up
/// reads every authority that this machine trusts, and costs more than all the rest of connecting.
#[derive(Clone)]
pub(crate) struct OnDemand {
    settings: TlsSettings,
}

impl OnDemand {
    pub(crate) fn new(settings: &TlsSettings) -> Self {
        Self { settings: settings.clone() }
    }
}

impl MakeTlsConnect<Socket> for OnDemand {
    type Stream = TlsStream<Socket>;
    type TlsConnect = Handshake;
    type Error = TlsError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, TlsError> {
        Ok(Handshake { settings: self.settings.clone(), host: host.to_owned() })
    }
}

/// TLS with one host, if it wants it.
pub(crate) struct Handshake {
    settings: TlsSettings,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = TlsStream<Socket>;
    type Error = <TlsConnector as TlsConnect<Socket>>::Error;
    type Future = <TlsConnector as TlsConnect<Socket>>::Future;

    fn connect(self, socket: Socket) -> Self::Future {
        match connector(&self.settings, &self.host) {
            Ok(connector) => connector.connect(socket),
            Err(error) => Box::pin(future::ready(Err(error.into()))),
        }
    }
}

/// What connects to this host by TLS with these settings.
fn connector(settings: &TlsSettings, host: &str) -> Result<TlsConnector, TlsError> {
    let mut builder = SslConnector::builder(SslMethod::tls_client())?;
    let verify = trust(&mut builder, settings)?;
    builder.set_verify(if verify { SslVerifyMode::PEER } else { SslVerifyMode::NONE });
    builder.set_min_proto_version(settings.min_version.map(version))?;
    builder.set_max_proto_version(settings.max_version.map(version))?;
    if settings.direct {
        postgres_openssl::set_postgresql_alpn(&mut builder)?;
    }
    if let Some((cert, key)) = &settings.cert {
        present_certificate(&mut builder, cert, key, settings.key_password.as_ref())?;
    }
    let mut connect = builder.build().configure()?;
    // libpq's rules for names are not the library's: they are applied to what the chain of signatures allows.
    connect.set_verify_hostname(false);
    if settings.mode == TlsMode::VerifyFull {
        let host = host.to_owned();
        connect.set_verify_callback(SslVerifyMode::PEER, move |trusted, chain| {
            trusted && names::fit_or_fail(chain, &host)
        });
    }
    connect.set_use_server_name_indication(settings.sni);
    Ok(TlsConnector::new(connect, host))
}

fn version(version: TlsVersion) -> SslVersion {
    match version {
        TlsVersion::Tls1 => SslVersion::TLS1,
        TlsVersion::Tls1_1 => SslVersion::TLS1_1,
        TlsVersion::Tls1_2 => SslVersion::TLS1_2,
        TlsVersion::Tls1_3 => SslVersion::TLS1_3,
    }
}

/// Sets whom to trust; whether the server's certificate is to be verified. As in libpq it is verified, whatever the
/// mode, as soon as there is a file of authorities; only the verify modes insist on one.
fn trust(builder: &mut SslConnectorBuilder, settings: &TlsSettings) -> Result<bool, TlsError> {
    let path = match &settings.root {
        // The builder has loaded the system's authorities already.
        RootCerts::System => return Ok(true),
        RootCerts::File { path, .. } if path.exists() => path,
        RootCerts::File { path, .. } if settings.mode >= TlsMode::VerifyCa => {
            return Err(TlsError::new(format!("the file of sslrootcert, {}, is not there", path.display())));
        }
        RootCerts::None if settings.mode >= TlsMode::VerifyCa => {
            return Err(TlsError::new("there is no certificate of an authority to verify the server's with")
                .hint("Give sslrootcert=FILE, or sslrootcert=system for the authorities that this machine trusts."));
        }
        RootCerts::File { .. } | RootCerts::None => {
            builder.set_cert_store(X509StoreBuilder::new()?.build());
            return Ok(false);
        }
    };
    let mut store = X509StoreBuilder::new()?;
    for authority in certificates(path)? {
        store.add_cert(authority)?;
    }
    revocations(&mut store, settings)?;
    builder.set_cert_store(store.build());
    Ok(true)
}

fn certificates(path: &Path) -> Result<Vec<X509>, TlsError> {
    let cannot =
        |why: String| TlsError::new(format!("the file of sslrootcert, {}, cannot be used: {why}", path.display()));
    let file = files::read(path).map_err(|error| cannot(error.to_string()))?;
    let certificates = X509::stack_from_pem(file.text.as_bytes()).map_err(|error| cannot(error.to_string()))?;
    if certificates.is_empty() {
        return Err(cannot("it holds no certificate in PEM form".to_owned()));
    }
    Ok(certificates)
}

fn revocations(store: &mut X509StoreBuilder, settings: &TlsSettings) -> Result<(), TlsError> {
    if settings.crl.is_none() && settings.crl_folder.is_none() {
        return Ok(());
    }
    if let Some(path) = &settings.crl {
        // libpq goes on without it. Whoever named a list wants revoked certificates refused.
        let cannot = |why: &str| TlsError::new(format!("the file of sslcrl, {}, {why}", path.display()));
        if !path.exists() {
            return Err(cannot("is not there"));
        }
        files::refuse_unfit(path).map_err(|error| cannot(&format!("is not used: {error}")))?;
        store
            .add_lookup(X509Lookup::file())?
            .load_crl_file(path, SslFiletype::PEM)
            .map_err(|_| cannot("holds no list of revoked certificates in PEM form, or cannot be read"))?;
    }
    if let Some(folder) = &settings.crl_folder {
        let name =
            folder.to_str().ok_or_else(|| TlsError::new("the folder of sslcrldir has a name that is not UTF-8"))?;
        store.add_lookup(X509Lookup::hash_dir())?.add_dir(name, SslFiletype::PEM)?;
    }
    store.set_flags(X509VerifyFlags::CRL_CHECK | X509VerifyFlags::CRL_CHECK_ALL)?;
    Ok(())
}

/// As in libpq a certificate that is not there is no error: the server may not ask for one.
fn present_certificate(
    builder: &mut SslConnectorBuilder,
    cert: &Path,
    key: &Path,
    password: Option<&SecretString>,
) -> Result<(), TlsError> {
    if !cert.exists() {
        return Ok(());
    }
    let cannot =
        |why: String| TlsError::new(format!("the client's certificate {} cannot be used: {why}", cert.display()));
    // The library would also read from a pipe, and wait for its writer.
    files::refuse_unfit(cert).map_err(|error| cannot(error.to_string()))?;
    builder.set_certificate_chain_file(cert).map_err(|error| cannot(error.to_string()))?;
    refuse_exposed_key(key)?;
    let private = private_key(key, password)?;
    // OpenSSL compares the two as soon as it has both.
    builder.set_private_key(&private).map_err(|_| {
        TlsError::new(format!("the key {} does not belong to the certificate {}", key.display(), cert.display()))
    })?;
    Ok(())
}

/// libpq's rule: nobody else may read the key; root's may be readable for a group.
fn refuse_exposed_key(key: &Path) -> Result<(), TlsError> {
    let metadata = std::fs::metadata(key).map_err(|error| {
        TlsError::new(format!("the key of the client's certificate, {}, cannot be read: {error}", key.display()))
    })?;
    let forbidden = if metadata.uid() == 0 { 0o027 } else { 0o077 };
    if metadata.mode() & forbidden == 0 {
        return Ok(());
    }
    Err(TlsError::new(format!("others can read the key of the client's certificate, {}", key.display()))
        .hint("chmod 600 it."))
}

fn private_key(key: &Path, password: Option<&SecretString>) -> Result<PKey<Private>, TlsError> {
    let cannot = |why: &str| TlsError::new(format!("the key {} cannot be used: {why}", key.display()));
    let (bytes, _) = files::read_bytes(key).map_err(|error| cannot(&error.to_string()))?;
    // Always with a callback: without one OpenSSL would ask for the passphrase on the terminal.
    let pem = PKey::private_key_from_pem_callback(&bytes, |buffer| {
        let passphrase = password.map_or("", |password| password.expose_secret()).as_bytes();
        let length = passphrase.len().min(buffer.len());
        buffer[..length].copy_from_slice(&passphrase[..length]);
        Ok(length)
    });
    pem.or_else(|_| PKey::private_key_from_der(&bytes)).map_err(|_| {
        cannot("it is neither PEM nor DER, or its passphrase is wrong").hint("Give its passphrase as sslpassword.")
    })
}
