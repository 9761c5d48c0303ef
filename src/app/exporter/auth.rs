//! Basic authentication with bcrypt hashes.
//!
//! bcrypt is slow on purpose, and a scraper comes every few seconds: what was accepted is remembered, as a keyed digest.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use openssl::base64;
use sha2::{Digest, Sha256};

/// So many accepted pairs of name and password are remembered; each user normally has one.
const REMEMBERED: usize = 100;

/// bcrypt reads no further.
const LONGEST: usize = 72;

/// Who may come in.
#[derive(Default)]
pub(super) struct Users {
    hashes: BTreeMap<String, String>,
    /// What an unknown name is checked against, so that it takes as long as a known one.
    decoy: String,
    /// So that nobody can compute the digests beforehand.
    salt: u64,
    accepted: Mutex<HashSet<[u8; 32]>>,
}

/// A name and a password as a client sent them.
pub(super) struct Credentials {
    name: String,
    password: String,
}

impl Credentials {
    /// Those of an `Authorization` header.
    pub fn of_header(header: &str) -> Option<Self> {
        let (scheme, encoded) = header.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = String::from_utf8(base64::decode_block(encoded.trim()).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        Some(Self { name: name.to_owned(), password: password.to_owned() })
    }
}

impl Users {
    /// These names, each with a bcrypt hash.
    ///
    /// # Errors
    /// One is no bcrypt hash. The sentence names the user, never the text.
    pub fn new(hashes: BTreeMap<String, String>) -> Result<Self, String> {
        for (name, hash) in &hashes {
            if hash.parse::<bcrypt::HashParts>().is_err() {
                return Err(format!(
                    "the password of the user {name} is no bcrypt hash: make one with htpasswd -nBC 10"
                ));
            }
        }
        let decoy = hashes.values().next().cloned().unwrap_or_default();
        Ok(Self { hashes, decoy, salt: fastrand::u64(..), accepted: Mutex::default() })
    }

    /// Nobody is named: no passwords are asked for.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Whether these were accepted before. Fast.
    pub fn remembers(&self, given: &Credentials) -> bool {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).contains(&self.digest(given))
    }

    /// Whether these are right. Slow.
    pub fn accept(&self, given: &Credentials) -> bool {
        let hash = self.hashes.get(&given.name);
        let password = given.password.as_bytes();
        let matches = bcrypt::verify(&password[..password.len().min(LONGEST)], hash.unwrap_or(&self.decoy));
        let accepted = matches.unwrap_or(false) && hash.is_some();
        if accepted {
            let mut remembered = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
            if remembered.len() >= REMEMBERED {
                remembered.clear();
            }
            remembered.insert(self.digest(given));
        }
        accepted
    }

    fn digest(&self, given: &Credentials) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.salt.to_le_bytes());
        // The length keeps two pairs from looking alike.
        digest.update(given.name.len().to_le_bytes());
        digest.update(&given.name);
        digest.update(&given.password);
        digest.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> String {
        format!("Basic {}", base64::encode_block(text.as_bytes()))
    }

    #[test]
    fn only_the_right_pair_is_accepted_and_remembered() {
        let hash = bcrypt::hash("a:b", 4).unwrap();
        let users = Users::new([("alice".to_owned(), hash)].into()).unwrap();
        for (text, right) in [("alice:a:b", true), ("alice:a", false), ("bob:a:b", false), ("alice:", false)] {
            let given = Credentials::of_header(&header(text)).unwrap();
            assert!(!users.remembers(&given), "{text}");
            assert_eq!(users.accept(&given), right, "{text}");
            assert_eq!(users.remembers(&given), right, "{text}");
        }
    }

    #[test]
    fn what_is_no_credentials_is_nobodys() {
        for text in ["", "Basic", "Basic !!!", "Bearer YTpi", "Basic YQ=="] {
            assert!(Credentials::of_header(text).is_none(), "{text}");
        }
        assert!(Credentials::of_header("basic YTpi").is_some());
    }
}
