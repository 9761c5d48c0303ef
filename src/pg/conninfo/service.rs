//! The service file (libpq's manual, 34.17): named sets of options.

use std::path::PathBuf;

use super::keyword::Keyword;
use super::options::Options;
use super::{ConnInfoError, Environment};

/// Where PostgreSQL's packages keep the file for all users, if PGSYSCONFDIR does not say: Debian's, Red Hat's, and what
/// the sources have by default.
const SYSTEM_FOLDERS: [&str; 3] = ["/etc/postgresql-common", "/etc/sysconfig/pgsql", "/usr/local/pgsql/etc"];

/// Fills options that are not set from the service that `service` or PGSERVICE names, if one does. The user's file
/// (PGSERVICEFILE, `~/.pg_service.conf`) comes before the one for all users.
pub(super) fn fill(options: &mut Options, environment: &dyn Environment) -> Result<(), ConnInfoError> {
    let named = options.get("service").map(str::to_owned).or_else(|| environment.var("PGSERVICE"));
    let Some(service) = named else { return Ok(()) };
    let own = environment.var("PGSERVICEFILE").map(PathBuf::from);
    if let Some(own) = &own
        && !environment.exists(own)
    {
        return Err(ConnInfoError::new(format!("the service file {} is not there", own.display()))
            .hint("PGSERVICEFILE names it."));
    }
    let own = own.or_else(|| environment.home().map(|home| home.join(".pg_service.conf")));
    let system = match environment.var("PGSYSCONFDIR") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => SYSTEM_FOLDERS.iter().map(PathBuf::from).collect(),
    };
    let files = own.into_iter().chain(system.into_iter().map(|folder| folder.join("pg_service.conf")));
    for path in files.filter(|path| environment.exists(path)) {
        let file = environment.read(&path).map_err(|error| {
            ConnInfoError::new(format!("the service file {} cannot be read: {error}", path.display()))
        })?;
        if fill_from(&file.text, &service, options)
            .map_err(|what| ConnInfoError::new(format!("the service file {} {what}", path.display())))?
        {
            return Ok(());
        }
    }
    Err(ConnInfoError::new("the service that is asked for is not in any service file")
        .hint("It is named by service= or PGSERVICE; its definition stands in ~/.pg_service.conf or PGSERVICEFILE."))
}

/// Fills options from one file; whether the service is in it. An error says what is wrong, as the end of a sentence.
fn fill_from(text: &str, service: &str, options: &mut Options) -> Result<bool, String> {
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            if inside {
                return Ok(true);
            }
            // As in libpq, what stands behind the bracket does not matter.
            inside = header.strip_prefix(service).is_some_and(|rest| rest.starts_with(']'));
            continue;
        }
        if !inside {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("has no = in line {number}"));
        };
        if name == "service" {
            return Err(format!("names a service within a service in line {number}"));
        }
        let Some(keyword) = Keyword::find(name) else {
            return Err(format!("has an unknown option in line {number}"));
        };
        if !options.has(name) {
            options
                .set(keyword, value.to_owned(), "of the service")
                .map_err(|error| format!("cannot be used: {error} (line {number})"))?;
        }
    }
    Ok(inside)
}
