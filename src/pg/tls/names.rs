//! Whether a server's certificate is for the host that is meant, by libpq's rules.
//!
//! They take more than the library's own: an address written as a name or as the common name, as in many certificates
//! that people sign for their own databases, and a star before a top level. psql is the judge in the tests. Knows one
//! certificate at a time; who signed it is checked elsewhere.

use std::net::IpAddr;

use openssl::nid::Nid;
use openssl::x509::{X509Ref, X509StoreContextRef, X509VerifyResult};

/// What the library says of a certificate that was turned down here.
pub(crate) const VERDICT: &str = "application verification failure";

/// Called for each certificate of a chain that is trusted so far: whether it may stay so. Only the server's own, the
/// last to come, has to be for the host.
pub(super) fn fit_or_fail(chain: &mut X509StoreContextRef, host: &str) -> bool {
    let fits = chain.error_depth() > 0 || chain.current_cert().is_some_and(|certificate| fit(certificate, host));
    if !fits {
        chain.set_error(X509VerifyResult::APPLICATION_VERIFICATION);
    }
    fits
}

/// Whether one of the certificate's names is the host's. The common name counts unless there are names of the host's
/// own kind beside it, domain names or addresses.
fn fit(certificate: &X509Ref, host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    let mut same_kind = false;
    for name in certificate.subject_alt_names().into_iter().flatten() {
        if let Some(domain) = name.dnsname() {
            same_kind |= address.is_none();
            if domain.contains('\0') {
                return false;
            }
            if is_named(domain, host) {
                return true;
            }
        }
        if let Some(bytes) = name.ipaddress() {
            same_kind |= address.is_some();
            if address.is_some_and(|address| is_address(bytes, address)) {
                return true;
            }
        }
    }
    if same_kind {
        return false;
    }
    let common = certificate.subject_name().entries_by_nid(Nid::COMMONNAME).next();
    common.and_then(|entry| entry.data().to_string().ok()).is_some_and(|name| is_named(&name, host))
}

fn is_address(bytes: &[u8], address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => bytes == address.octets(),
        IpAddr::V6(address) => bytes == address.octets(),
    }
}

/// Equal, whatever the letter case; or `*.` and the rest, where the star stands for one label.
fn is_named(written: &str, host: &str) -> bool {
    if written.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(rest) = written.strip_prefix("*.").filter(|rest| !rest.is_empty()) else { return false };
    host.split_once('.').is_some_and(|(label, tail)| !label.is_empty() && tail.eq_ignore_ascii_case(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_one_label_and_nothing_else() {
        for (written, host) in [("db.test", "DB.Test"), ("*.db.test", "a.db.test"), ("*.test", "db.test")] {
            assert!(is_named(written, host), "{written} {host}");
        }
        for (written, host) in [
            ("*.db.test", "a.b.db.test"),
            ("*.db.test", "db.test"),
            ("*.db.test", ".db.test"),
            ("a*.db.test", "ab.db.test"),
            ("*", "db"),
            ("*.", "db."),
            ("db.test", "db.test."),
            ("", "db"),
        ] {
            assert!(!is_named(written, host), "{written} {host}");
        }
    }
}
