//! The PgBouncers of a target: those of its `[[target.pgbouncer]]` tables and those of `--pgbouncer`.
//!
//! It reads connection strings as everywhere, and knows what a console has not: databases, startup options, and kinds
//! of server.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};

use super::{Habits, Settings, Source};
use crate::error::{Error, Result};
use crate::pg::{ConnInfo, ConnInfoError, Environment};
use crate::pgbouncer::PoolerSpec;

/// PgBouncer's own database, which is its console.
const CONSOLE: &str = "pgbouncer";

/// A connection string of a console, not understood yet.
struct Written<'a> {
    text: &'a SecretString,
    password_file: Option<&'a PathBuf>,
    /// How errors call it.
    origin: String,
    is_argument: bool,
}

impl Settings {
    /// The consoles to ask beside this target. Those of the command line may stand before any of the targets.
    pub(super) fn poolers(
        &mut self,
        source: &Source,
        several_targets: bool,
        environment: &dyn Environment,
        habits: Habits,
    ) -> Result<Vec<PoolerSpec>> {
        let typed: Vec<SecretString> = self.args.pgbouncer.iter().map(|dsn| SecretString::from(dsn.as_str())).collect();
        let mut poolers = Vec::new();
        for (place, pooler) in source.poolers.iter().enumerate() {
            let which = if source.poolers.len() == 1 { String::new() } else { format!(" number {}", place + 1) };
            let written = Written {
                text: &pooler.0,
                password_file: pooler.1.as_ref(),
                origin: format!("{}: [[target.pgbouncer]]{which}", source.origin),
                is_argument: false,
            };
            poolers.push(self.pooler(&written, source, false, environment, habits)?);
        }
        for (place, dsn) in typed.iter().enumerate() {
            let which = if typed.len() == 1 { String::new() } else { format!(" number {}", place + 1) };
            let origin = format!("--pgbouncer{which}");
            let written = Written { text: dsn, password_file: None, origin, is_argument: true };
            poolers.push(self.pooler(&written, source, several_targets, environment, habits)?);
        }
        Ok(poolers)
    }

    fn pooler(
        &mut self,
        written: &Written<'_>,
        source: &Source,
        shared_between_targets: bool,
        environment: &dyn Environment,
        habits: Habits,
    ) -> Result<PoolerSpec> {
        let wrong = |sentence: &str| Error::usage(format!("{}: {sentence}", written.origin));
        let of_dsn = |error: ConnInfoError| error.hints().into_iter().fold(wrong(error.message()), Error::hint);
        let mut info = ConnInfo::parse(written.text.expose_secret()).map_err(of_dsn)?;
        if info.has_password() {
            if written.is_argument && habits.long_running {
                self.warn(Some(
                    "other users of this machine can see the password in --pgbouncer: use a password file, or \
                     [[target.pgbouncer]] in a config file"
                        .to_owned(),
                ));
            } else if let (false, Some(file)) = (written.is_argument, &source.file) {
                self.warn(file.warning());
            }
        }
        if info.dbname().is_some_and(|dbname| dbname != CONSOLE) {
            return Err(wrong("it must name PgBouncer's console: dbname=pgbouncer"));
        }
        if info.has_startup_options() {
            return Err(wrong("PgBouncer's console takes no options: leave options out"));
        }
        if let Some(path) = written.password_file {
            info = info.with_password(self.read_password(path, environment)?);
        }
        let info = info.with_dbname(CONSOLE).map_err(of_dsn)?;
        let settings = info.complete(environment).map_err(of_dsn)?;
        Ok(PoolerSpec { settings, shared_between_targets })
    }
}
