//! The password file, `.pgpass` (libpq's manual, 34.16).

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::conninfo::{Address, Environment};

/// What the password file gave.
#[derive(Debug, Clone)]
pub(crate) enum Lookup {
    /// A password.
    Found(SecretString),
    /// There is no file, or no line fits.
    Nothing,
    /// There is a file, and it must not or cannot be used; a sentence says why.
    Unusable(String),
}

/// Looks for the password of a role on a server. Read at each connect: a rotated password needs no restart.
pub(crate) fn look_up(
    environment: &dyn Environment,
    path: Option<&PathBuf>,
    address: &Address,
    dbname: &str,
    user: &str,
) -> Lookup {
    let Some(path) = path else { return Lookup::Nothing };
    let file = match environment.read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Lookup::Nothing,
        Err(error) => return Lookup::Unusable(format!("The password file {} is not used: {error}.", shown(path))),
    };
    if file.mode & 0o077 != 0 {
        return Lookup::Unusable(format!(
            "The password file {} is not used, for others can read it: chmod 600 it.",
            shown(path)
        ));
    }
    let wanted = [&address.passfile_host(), &address.port.to_string(), dbname, user];
    match file.text.lines().filter(|line| !line.starts_with('#')).find_map(|line| password(line, wanted)) {
        Some(password) => Lookup::Found(SecretString::from(password)),
        None => Lookup::Nothing,
    }
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

/// The password of a line `host:port:database:user:password`, if its first four fields fit. Each is a text, with `\` before `:`
/// and `\`, or `*` alone.
fn password(line: &str, wanted: [&str; 4]) -> Option<String> {
    let mut rest = line.strip_suffix('\r').unwrap_or(line);
    for wanted in wanted {
        let (written, tail) = field(rest);
        let tail = tail?;
        if written != "*" || !rest.starts_with("*:") {
            (written == wanted).then_some(())?;
        }
        rest = tail;
    }
    Some(field(rest).0)
}

/// One field without its escapes, and what follows the colon that ends it; nothing where the line ends.
fn field(text: &str) -> (String, Option<&str>) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((place, c)) = chars.next() {
        match c {
            ':' => return (value, Some(&text[place + 1..])),
            '\\' => value.push(chars.next().map_or('\\', |(_, next)| next)),
            c => value.push(c),
        }
    }
    (value, None)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::pg::conninfo::{Endpoint, FixedEnvironment};
    use crate::pg::files::SmallFile;

    fn found(line: &str, wanted: [&str; 4]) -> Option<String> {
        password(line, wanted)
    }

    const DB: [&str; 4] = ["db", "5432", "app", "u"];

    #[test]
    fn fields_match_as_texts_or_by_a_lone_star() {
        assert_eq!(found("db:5432:app:u:secret", DB).as_deref(), Some("secret"));
        assert_eq!(found("*:*:*:*:secret", DB).as_deref(), Some("secret"));
        assert_eq!(found("db:5432:app:other:secret", DB), None);
        // A star is no pattern, and an escaped one is a text.
        assert_eq!(found("d*:5432:app:u:secret", DB), None);
        assert_eq!(found(r"\*:5432:app:u:secret", DB), None);
        assert_eq!(found("db:5432:app:u", DB), None);
        assert_eq!(found("", DB), None);
    }

    #[test]
    fn colons_and_backslashes_are_escaped() {
        assert_eq!(found(r"\:\:1:5432:app:u:se\:cr\\et", ["::1", "5432", "app", "u"]).as_deref(), Some(r"se:cr\et"));
        assert_eq!(found("db:5432:app:u:secret:rest", DB).as_deref(), Some("secret"));
        assert_eq!(found("db:5432:app:u:secret\r", DB).as_deref(), Some("secret"));
    }

    fn in_file(text: &str, mode: u32, address: &Address) -> Lookup {
        let mut environment = FixedEnvironment::default();
        let path = PathBuf::from("/home/u/.pgpass");
        environment.files.insert(path.clone(), SmallFile { text: text.to_owned(), mode });
        look_up(&environment, Some(&path), address, "app", "u")
    }

    #[test]
    fn the_first_fitting_line_counts_and_default_sockets_are_localhost() {
        let text = "# localhost:5432:app:u:no\nelsewhere:*:*:*:no\nlocalhost:5432:app:u:yes\n*:*:*:*:later\n";
        let socket = |folder: &str| Address { endpoint: Endpoint::Socket(PathBuf::from(folder)), port: 5432 };
        let secret = |lookup| match lookup {
            Lookup::Found(secret) => secret.expose_secret().to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(secret(in_file(text, 0o600, &socket("/var/run/postgresql"))), "yes");
        assert_eq!(secret(in_file(text, 0o600, &socket("/opt/sockets"))), "later");
    }

    #[test]
    fn a_file_that_others_can_read_is_not_used() {
        let address = Address { endpoint: Endpoint::Host { name: "db".to_owned(), addr: None }, port: 5432 };
        match in_file("*:*:*:*:secret", 0o640, &address) {
            Lookup::Unusable(why) => assert!(why.contains("chmod 600") && !why.contains("secret"), "{why}"),
            other => panic!("{other:?}"),
        }
    }

    /// As the manual says: a backslash before colons and backslashes.
    fn escaped(text: &str) -> String {
        text.replace('\\', r"\\").replace(':', r"\:")
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_is_written_comes_back(fields in proptest::array::uniform5("[^\n\r\0*]{1,12}")) {
            let line = fields.each_ref().map(|field| escaped(field)).join(":");
            let wanted = [&fields[0], &fields[1], &fields[2], &fields[3]].map(String::as_str);
            proptest::prop_assert_eq!(password(&line, wanted), Some(fields[4].clone()));
        }

        #[test]
        fn no_line_is_too_strange(line in "[*:\\\\ab#é]{0,30}") {
            // A password is at most what stands in the line.
            if let Some(secret) = password(&line, ["a", "b", "a", "b"]) {
                proptest::prop_assert!(secret.len() <= line.len());
            }
        }
    }
}
