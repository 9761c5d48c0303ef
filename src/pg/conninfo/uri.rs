//! The URI form of a connection string (libpq's manual, 34.1.1.2).

use percent_encoding::percent_decode_str;

use super::ConnInfoError;
use super::keyword::Keyword;
use super::options::Options;

/// Where an option stands, for errors.
const PLACE: &str = "of the connection URI";

/// What follows `postgres://` or `postgresql://`; nothing if the text is no such URI.
pub(super) fn without_scheme(text: &str) -> Option<&str> {
    text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"))
}

/// Parses what follows the scheme: `user:password@host:port,host:port/dbname?option=value&option=value`, every part
/// may be missing, and every part may be percent-encoded.
pub(super) fn parse(text: &str) -> Result<Options, ConnInfoError> {
    refuse_stray_at_sign(text)?;
    let mut options = Options::default();
    // As in libpq: user and password end at the first @ that stands before any slash.
    let authority_end = text.find('/').unwrap_or(text.len());
    let mut rest = text;
    if let Some(at) = text[..authority_end].find('@') {
        credentials(&text[..at], &mut options)?;
        rest = &text[at + 1..];
        // No host has an @: it belongs to the password, and going on would show a piece of that as the host's name.
        if text[at + 1..authority_end].split('?').next().is_some_and(|hosts| hosts.contains('@')) {
            return Err(ConnInfoError::new("the connection URI has two @ before its hosts")
                .hint("In a password write @ as %40."));
        }
    }
    let rest = hosts(rest, &mut options)?;
    let (dbname, parameters) = match rest.strip_prefix('/') {
        Some(path) => path.split_once('?').map_or((path, None), |(dbname, query)| (dbname, Some(query))),
        None => ("", rest.strip_prefix('?')),
    };
    set_unless_empty(&mut options, "dbname", dbname)?;
    // One & may stand at the end.
    let parameters = parameters.map(|text| text.strip_suffix('&').unwrap_or(text)).filter(|text| !text.is_empty());
    for parameter in parameters.into_iter().flat_map(|text| text.split('&')) {
        self::parameter(parameter, &mut options)?;
    }
    Ok(options)
}

/// An @ behind a slash but no @ before it: surely a slash in the password. Going on would show a piece of it as the
/// name of a host or of an option.
fn refuse_stray_at_sign(text: &str) -> Result<(), ConnInfoError> {
    let Some((authority, path)) = text.split_once('/') else { return Ok(()) };
    let Some((_, behind_colon)) = authority.split_once(':') else { return Ok(()) };
    let port =
        !authority.starts_with('[') && !behind_colon.is_empty() && behind_colon.bytes().all(|b| b.is_ascii_digit());
    let suspect =
        if port || authority.contains([',', '[']) { path.split('?').next().unwrap_or_default() } else { path };
    if !authority.contains('@') && suspect.contains('@') {
        return Err(ConnInfoError::new("the connection URI has an @ behind its first /")
            .hint("In a password write / as %2F and @ as %40; in a database name write @ as %40."));
    }
    Ok(())
}

fn credentials(text: &str, options: &mut Options) -> Result<(), ConnInfoError> {
    let (user, password) = text.split_once(':').map_or((text, None), |(user, password)| (user, Some(password)));
    set_unless_empty(options, "user", user)?;
    set_unless_empty(options, "password", password.unwrap_or_default())
}

/// Hosts and ports, which libpq keeps as two lists with commas. Returns what follows them.
fn hosts<'a>(text: &'a str, options: &mut Options) -> Result<&'a str, ConnInfoError> {
    let (mut hosts, mut ports) = (String::new(), String::new());
    let mut rest = text;
    loop {
        let (host, tail) = host(rest)?;
        hosts.push_str(host);
        rest = tail;
        if let Some(tail) = rest.strip_prefix(':') {
            let end = tail.find(['/', '?', ',']).unwrap_or(tail.len());
            ports.push_str(&tail[..end]);
            rest = &tail[end..];
        }
        let Some(tail) = rest.strip_prefix(',') else { break };
        hosts.push(',');
        ports.push(',');
        rest = tail;
    }
    set_unless_empty(options, "host", &hosts)?;
    set_unless_empty(options, "port", &ports)?;
    Ok(rest)
}

/// One host and what follows it. An IPv6 address stands in brackets.
fn host(text: &str) -> Result<(&str, &str), ConnInfoError> {
    let Some(body) = text.strip_prefix('[') else {
        return Ok(text.split_at(text.find([':', '/', '?', ',']).unwrap_or(text.len())));
    };
    let Some((address, tail)) = body.split_once(']') else {
        return Err(ConnInfoError::new("an IPv6 address of the connection URI has no closing bracket"));
    };
    if address.is_empty() {
        return Err(ConnInfoError::new("an IPv6 address of the connection URI is empty"));
    }
    if !(tail.is_empty() || tail.starts_with([':', '/', '?', ','])) {
        return Err(ConnInfoError::new("the connection URI has something between ] and the port"));
    }
    Ok((address, tail))
}

fn parameter(text: &str, options: &mut Options) -> Result<(), ConnInfoError> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(ConnInfoError::new("the connection URI has an option without =")
            .hint("Options stand behind ? as name=value, with & between them; in a password write ? as %3F."));
    };
    if value.contains('=') {
        return Err(
            ConnInfoError::new("the connection URI has an option with two =").hint("Write = in a value as %3D.")
        );
    }
    let (name, value) = (decode(name)?, decode(value)?);
    // The form that JDBC uses, which libpq understands too.
    let (name, value) =
        if name == "ssl" && value == "true" { ("sslmode".to_owned(), "require".to_owned()) } else { (name, value) };
    match Keyword::find(&name) {
        Some(keyword) => options.set(keyword, value, PLACE),
        None if options.set_old(&name, &value) => Ok(()),
        None => Err(super::unknown_option(&name, PLACE)),
    }
}

fn set_unless_empty(options: &mut Options, name: &str, encoded: &str) -> Result<(), ConnInfoError> {
    match Keyword::find(name) {
        Some(keyword) if !encoded.is_empty() => options.set(keyword, decode(encoded)?, PLACE),
        _ => Ok(()),
    }
}

/// Undoes percent-encoding. A % that is not followed by two hex digits is an error, as in libpq.
fn decode(text: &str) -> Result<String, ConnInfoError> {
    let mut rest = text;
    while let Some((_, tail)) = rest.split_once('%') {
        let hex = tail.as_bytes().get(..2).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit));
        if !hex {
            return Err(ConnInfoError::new("the connection URI has a % without two hex digits behind it")
                .hint("Write % itself as %25."));
        }
        rest = &tail[2..];
    }
    percent_decode_str(text)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .map_err(|_| ConnInfoError::new("the connection URI holds percent-encoded bytes that are not UTF-8"))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn shown(text: &str) -> Vec<Option<String>> {
        let options = parse(without_scheme(text).unwrap()).unwrap();
        ["user", "host", "port", "dbname"].iter().map(|name| options.get(name).map(str::to_owned)).collect()
    }

    fn some(user: &str, host: &str, port: &str, dbname: &str) -> Vec<Option<String>> {
        [user, host, port, dbname].iter().map(|text| (!text.is_empty()).then(|| (*text).to_owned())).collect()
    }

    #[test]
    fn an_at_sign_in_a_password_does_not_become_a_host() {
        let error = parse("u:p@hunter2@h/db").unwrap_err();
        assert!(!error.message().contains("hunter2") && error.message().contains("two @"), "{}", error.message());
        assert!(parse("u:p%40hunter2@h/db?application_name=a@b").is_ok());
    }

    #[test]
    fn parts_may_be_missing() {
        assert_eq!(shown("postgres://"), some("", "", "", ""));
        assert_eq!(shown("postgresql://db"), some("", "db", "", ""));
        assert_eq!(shown("postgres://u@db:5433/app"), some("u", "db", "5433", "app"));
        assert_eq!(shown("postgres://u:p@/app"), some("u", "", "", "app"));
        assert_eq!(shown("postgres:///app?host=/run/pg&port=1"), some("", "/run/pg", "1", "app"));
        assert_eq!(shown("postgres://%2Frun%2Fpg/app"), some("", "/run/pg", "", "app"));
        assert_eq!(shown("postgres://[2001:db8::1]:5433/app"), some("", "2001:db8::1", "5433", "app"));
        assert_eq!(shown("postgres://a:1,b,[::1]:3/app"), some("", "a,b,::1", "1,,3", "app"));
        assert_eq!(shown("postgres://h?user=x"), some("x", "h", "", ""));
        assert_eq!(shown("postgres://h/?"), some("", "h", "", ""));
        assert_eq!(shown("postgres://h/d?port=1&"), some("", "h", "1", "d"));
        assert!(parse("h/d?port=1&&user=x").is_err());
        assert_eq!(shown("postgres://h/db?application_name=a@b"), some("", "h", "", "db"));
    }

    #[test]
    fn passwords_are_decoded() {
        let options = parse("u:a%40b%2Fc%3A%25@h").unwrap();
        assert_eq!(options.secret("password").unwrap().expose_secret(), "a@b/c:%");
        // Only the first colon ends the user's name.
        assert_eq!(parse("u:a:b@h").unwrap().secret("password").unwrap().expose_secret(), "a:b");
    }

    #[test]
    fn jdbc_form_of_tls() {
        assert_eq!(parse("h/d?ssl=true").unwrap().get("sslmode"), Some("require"));
        assert!(parse("h/d?ssl=false").is_err());
    }

    #[test]
    fn errors_quote_nothing() {
        for text in [
            "u:hunter2%zz@h/d",
            "u:hunter2%0@h/d",
            "u:hun/ter2@h/d",
            "u:hun/ter2?hunter2=1@h/d",
            "[hunter2/d",
            "[hunter2]x/d",
            "h/d?hunter2",
            "h/d?user=a=hunter2",
            "h/d?password=hunter2%",
        ] {
            let error = parse(text).unwrap_err();
            let all = format!("{error} {error:?}");
            assert!(!all.contains("hunter2") && !all.contains("hun") && !all.contains("ter2"), "{all}");
        }
        assert!(parse("h/d?conect_timeout=1").unwrap_err().to_string().contains("conect_timeout"));
    }
}
