//! The key=value form of a connection string (libpq's manual, 34.1.1.1).

use super::ConnInfoError;
use super::keyword::Keyword;
use super::options::Options;

/// Where an option stands, for errors.
const PLACE: &str = "of the connection string";

/// Parses `host=db port=5432 password='it''s'`: spaces around `=`, quotes and backslashes as in libpq.
pub(super) fn parse(text: &str) -> Result<Options, ConnInfoError> {
    let mut options = Options::default();
    let mut rest = text.trim_start_matches(is_space);
    // What stands behind a password with a space in it is a piece of that password: it must not be shown.
    let mut behind_password = false;
    while !rest.is_empty() {
        let end = rest.find(|c| c == '=' || is_space(c)).unwrap_or(rest.len());
        let (name, tail) = rest.split_at(end);
        let tail = tail.trim_start_matches(is_space);
        let Some(tail) = tail.strip_prefix('=') else { return Err(no_equals_sign(behind_password)) };
        let (value, tail) = value(tail.trim_start_matches(is_space))?;
        match Keyword::find(name) {
            Some(keyword) => {
                options.set(keyword, value, PLACE)?;
                behind_password = keyword.is_secret();
            }
            None if options.set_old(name, &value) => behind_password = false,
            None => return Err(unknown(name, behind_password)),
        }
        rest = tail.trim_start_matches(is_space);
    }
    Ok(options)
}

/// The characters that C's `isspace` takes for space.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// One value and what follows it.
fn value(text: &str) -> Result<(String, &str), ConnInfoError> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut value = String::new();
    let mut chars = body.char_indices();
    while let Some((place, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, next)| next)),
            '\'' if quoted => return Ok((value, &body[place + 1..])),
            c if !quoted && is_space(c) => return Ok((value, &body[place..])),
            c => value.push(c),
        }
    }
    if quoted {
        return Err(ConnInfoError::new("a quoted value of the connection string has no closing quote")
            .hint("Write ' within quotes as \\' and \\ as \\\\."));
    }
    Ok((value, ""))
}

const QUOTE: &str = "Put a password with spaces between single quotes: password='...'.";

fn no_equals_sign(behind_password: bool) -> ConnInfoError {
    let error = ConnInfoError::new("the connection string has a word without =");
    if behind_password {
        return error.hint(QUOTE);
    }
    error.hint("Write it as postgres://user@host:port/dbname or as host=... port=... dbname=... user=...")
}

fn unknown(name: &str, behind_password: bool) -> ConnInfoError {
    if behind_password {
        return ConnInfoError::new("what follows the password in the connection string is not an option").hint(QUOTE);
    }
    super::unknown_option(name, PLACE)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn get(text: &str, name: &str) -> String {
        parse(text).unwrap().get(name).unwrap().to_owned()
    }

    #[test]
    fn values_plain_quoted_and_escaped() {
        assert_eq!(get("host=db port=5433", "port"), "5433");
        assert_eq!(get(" host = db\tport\n=\n5433 ", "host"), "db");
        assert_eq!(get(r"dbname='a b' user=x", "dbname"), "a b");
        assert_eq!(get(r"dbname='it\'s \\ here'", "dbname"), r"it's \ here");
        assert_eq!(get(r"dbname=a\ b", "dbname"), "a b");
        assert_eq!(get("dbname='' user=x", "dbname"), "");
        assert_eq!(get("user=a user=b", "user"), "b");
        assert_eq!(get("dbname='a'user=b", "user"), "b");
        // An unquoted value may be empty only before the end: what follows the space is the value.
        assert_eq!(get("dbname=", "dbname"), "");
        assert_eq!(get("requiressl=1", "sslmode"), "require");
        assert_eq!(parse(r"password=a\'b").unwrap().secret("password").unwrap().expose_secret(), "a'b");
    }

    #[test]
    fn errors_name_the_option_and_quote_no_value() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert!(message("hots=db").contains("hots"));
        assert!(message("db").contains("without ="));
        assert!(message("dbname='a").contains("closing quote"));
        assert!(message("replication=database").contains("replication"));
        for text in ["password=sec ret", "password=sec ret=1", "password=sec ret host=db"] {
            let error = parse(text).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("ret="), "{error}");
            assert!(!error.to_string().contains("ret "), "{error}");
            assert!(!error.to_string().contains("sec"), "{error}");
        }
    }
}
