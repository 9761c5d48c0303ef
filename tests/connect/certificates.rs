//! Certificates for the tests, made anew in each run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::symm::Cipher;
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};

/// A certificate and its key.
pub struct Certified {
    pub certificate: X509,
    pub key: PKey<Private>,
}

/// What stands in a certificate.
#[derive(Clone, Copy)]
pub struct Contents<'a> {
    /// The common name.
    pub cn: &'a str,
    /// Further names; `IP:` before an address.
    pub names: &'a [&'a str],
    /// It may sign others.
    pub authority: bool,
    /// X.509 version 1, which has no extensions.
    pub version_1: bool,
    /// It ended a while ago.
    pub expired: bool,
}

impl<'a> Contents<'a> {
    /// For this name, by its common name alone.
    pub fn named(cn: &'a str) -> Self {
        Self { cn, names: &[], authority: false, version_1: false, expired: false }
    }

    /// An authority.
    pub fn authority(cn: &'a str) -> Self {
        Self { authority: true, ..Self::named(cn) }
    }
}

/// A certificate signed by `by`, or by itself.
pub fn certify(contents: Contents<'_>, by: Option<&Certified>) -> Certified {
    let key = PKey::from_ec_key(EcKey::generate(&EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap()).unwrap());
    let key = key.unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", contents.cn).unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(if contents.version_1 { 0 } else { 2 }).unwrap();
    let serial = BigNum::from_u32(fastrand::u32(1..)).unwrap().to_asn1_integer().unwrap();
    builder.set_serial_number(&serial).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(by.map_or(&name, |by| by.certificate.subject_name())).unwrap();
    builder.set_pubkey(&key).unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs().cast_signed();
    let (from, until) = if contents.expired { (-20, -10) } else { (-1, 30) };
    builder.set_not_before(&Asn1Time::from_unix(now + from * 86_400).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::from_unix(now + until * 86_400).unwrap()).unwrap();
    if !contents.version_1 {
        let mut constraints = BasicConstraints::new();
        if contents.authority {
            constraints.critical().ca();
        }
        builder.append_extension(constraints.build().unwrap()).unwrap();
    }
    if !contents.names.is_empty() {
        let mut names = SubjectAlternativeName::new();
        for name in contents.names {
            match name.strip_prefix("IP:") {
                Some(address) => names.ip(address),
                None => names.dns(name),
            };
        }
        let names = names.build(&builder.x509v3_context(by.map(|by| by.certificate.as_ref()), None)).unwrap();
        builder.append_extension(names).unwrap();
    }
    builder.sign(by.map_or(&key, |by| &by.key), MessageDigest::sha256()).unwrap();
    Certified { certificate: builder.build(), key }
}

impl Certified {
    /// In PEM form.
    pub fn pem(&self) -> String {
        String::from_utf8(self.certificate.to_pem().unwrap()).unwrap()
    }

    /// Writes `NAME.crt` and `NAME.key`, the key for its owner alone.
    pub fn write(&self, folder: &Path, name: &str) {
        fs::write(folder.join(format!("{name}.crt")), self.pem()).unwrap();
        private(&folder.join(format!("{name}.key")), &self.key.private_key_to_pem_pkcs8().unwrap());
    }

    /// Writes the key once more, locked by a passphrase.
    pub fn write_locked_key(&self, path: &Path, passphrase: &str) {
        let pem = self.key.private_key_to_pem_pkcs8_passphrase(Cipher::aes_256_cbc(), passphrase.as_bytes()).unwrap();
        private(path, &pem);
    }
}

fn private(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A list of what `by` has revoked, as the program `openssl` makes it; the openssl crate reads such lists only.
pub fn revocations(by: &Certified, revoked: &[&Certified]) -> String {
    let folder = tempfile::tempdir().unwrap();
    by.write(folder.path(), "ca");
    let line = |certified: &&Certified| {
        let serial = certified.certificate.serial_number().to_bn().unwrap().to_hex_str().unwrap();
        format!("R\t400101000000Z\t260101000000Z\t{}\tunknown\t/CN=x\n", &*serial)
    };
    let index: String = revoked.iter().map(line).collect();
    fs::write(folder.path().join("index"), index).unwrap();
    fs::write(folder.path().join("number"), "01\n").unwrap();
    fs::write(
        folder.path().join("ca.cnf"),
        "[ca]\ndefault_ca=c\n[c]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\ndefault_crl_days=30\n",
    )
    .unwrap();
    let output = std::process::Command::new("openssl")
        .args(["ca", "-config", "ca.cnf", "-gencrl", "-cert", "ca.crt", "-keyfile", "ca.key"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
