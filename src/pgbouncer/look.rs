//! The console's commands, and their rows as plain data. Columns are read by name: versions differ.

use std::collections::HashMap;

use crate::analysis::report::Failure;
use crate::model::{PoolMode, PoolerClient, PoolerSaid, PoolerServer};
use crate::pg::{Console, ConsoleRow};
use crate::sql::frees_session_locks;

/// The answers to the commands.
#[derive(Debug, Default)]
struct Shown {
    version: Vec<ConsoleRow>,
    config: Vec<ConsoleRow>,
    databases: Vec<ConsoleRow>,
    pools: Vec<ConsoleRow>,
    servers: Vec<ConsoleRow>,
    clients: Vec<ConsoleRow>,
}

/// Asks for everything that says which backend serves which pool. A stats user may do so.
///
/// # Errors
/// A command was refused, or the connection is gone.
pub(super) fn look(console: &mut Console) -> Result<PoolerSaid, Failure> {
    let mut shown = Shown {
        version: console.ask("SHOW VERSION")?,
        config: console.ask("SHOW CONFIG")?,
        databases: console.ask("SHOW DATABASES")?,
        pools: console.ask("SHOW POOLS")?,
        servers: console.ask("SHOW SERVERS")?,
        clients: Vec::new(),
    };
    // There may be thousands of clients: only if one of them has a connection.
    if shown.servers.iter().any(|row| row.contains_key("link")) {
        shown.clients = console.ask("SHOW CLIENTS")?;
    }
    Ok(shown.read())
}

impl Shown {
    fn read(&self) -> PoolerSaid {
        PoolerSaid { version: self.version(), servers: self.servers() }
    }

    /// `PgBouncer 1.18.0` is 1.18.0. The column was once called otherwise.
    fn version(&self) -> Option<String> {
        let text = self.version.first()?.values().next()?;
        Some(text.trim_start_matches("PgBouncer").trim_start_matches(" version").trim().to_owned())
    }

    fn setting(&self, key: &str) -> Option<&str> {
        self.config.iter().find(|row| text(row, "key") == Some(key)).and_then(|row| text(row, "value"))
    }

    /// Whether session locks are freed whenever a client gives a connection back.
    fn resets(&self) -> bool {
        self.setting("server_reset_query_always") == Some("1")
            && self.setting("server_reset_query").is_some_and(frees_session_locks)
    }

    fn servers(&self) -> Vec<PoolerServer> {
        let modes: HashMap<(&str, &str), PoolMode> = self
            .pools
            .iter()
            .filter_map(|row| Some(((text(row, "database")?, text(row, "user")?), mode(row)?)))
            .collect();
        let databases: HashMap<&str, &ConsoleRow> =
            self.databases.iter().filter_map(|row| Some((text(row, "name")?, row))).collect();
        let clients: HashMap<&str, &ConsoleRow> =
            self.clients.iter().filter_map(|row| Some((text(row, "ptr")?, row))).collect();
        let default = self.setting("pool_mode").and_then(PoolMode::from_name).unwrap_or(PoolMode::Session);
        let resets = self.resets();
        let server = |row: &ConsoleRow| {
            let (database, user) = (text(row, "database")?, text(row, "user").unwrap_or_default());
            let described = databases.get(database).copied();
            let pool_mode = modes.get(&(database, user)).copied().or_else(|| mode(described?)).unwrap_or(default);
            let over_tcp = !text(row, "addr").is_some_and(|addr| addr.starts_with("unix"));
            let client = text(row, "link").map(|link| client(clients.get(link).copied()));
            Some(PoolerServer {
                database: database.to_owned(),
                server_database: described.and_then(|row| text(row, "database")).map(str::to_owned),
                user: user.to_owned(),
                pool_mode,
                remote_pid: number(row, "remote_pid").filter(|pid| *pid > 0),
                local_addr: text(row, "local_addr").filter(|_| over_tcp).map(str::to_owned),
                local_port: number(row, "local_port").filter(|port| *port > 0 && over_tcp),
                resets,
                close_needed: number(row, "close_needed") == Some(1),
                client,
            })
        };
        self.servers.iter().filter_map(server).collect()
    }
}

fn client(row: Option<&ConsoleRow>) -> PoolerClient {
    // It may have gone between the two commands.
    let Some(row) = row else { return PoolerClient::default() };
    PoolerClient {
        application: text(row, "application_name").map(str::to_owned),
        addr: text(row, "addr").map(str::to_owned),
        port: number(row, "port"),
    }
}

fn text<'a>(row: &'a ConsoleRow, column: &str) -> Option<&'a str> {
    row.get(column).map(String::as_str)
}

fn number(row: &ConsoleRow, column: &str) -> Option<i32> {
    text(row, column)?.parse().ok()
}

fn mode(row: &ConsoleRow) -> Option<PoolMode> {
    PoolMode::from_name(text(row, "pool_mode")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(&str, &str)]) -> ConsoleRow {
        cells.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn shown() -> Shown {
        Shown {
            version: vec![row(&[("version", "PgBouncer 1.18.0")])],
            config: vec![row(&[("key", "pool_mode"), ("value", "statement")])],
            databases: vec![row(&[("name", "app"), ("database", "orders"), ("pool_mode", "transaction")])],
            pools: vec![row(&[("database", "app"), ("user", "batch"), ("pool_mode", "session")])],
            servers: vec![
                row(&[("database", "app"), ("user", "batch"), ("addr", "10.0.0.1"), ("local_port", "4000")]),
                row(&[("database", "app"), ("user", "web"), ("addr", "unix"), ("local_port", "6432"), ("link", "0x1")]),
                row(&[("database", "auto"), ("user", "web"), ("remote_pid", "0"), ("close_needed", "1")]),
            ],
            clients: vec![row(&[("ptr", "0x1"), ("application_name", "api"), ("addr", "10.0.0.9"), ("port", "55")])],
        }
    }

    #[test]
    fn the_mode_is_the_pools_else_the_databases_else_the_default() {
        let said = shown().read();
        assert_eq!(said.version.as_deref(), Some("1.18.0"));
        let modes: Vec<PoolMode> = said.servers.iter().map(|server| server.pool_mode).collect();
        assert_eq!(modes, [PoolMode::Session, PoolMode::Transaction, PoolMode::Statement]);
        assert_eq!(said.servers[0].server_database.as_deref(), Some("orders"));
    }

    #[test]
    fn a_reset_counts_if_it_is_always_and_frees_locks() {
        let with = |always, query| {
            let setting = |key, value| row(&[("key", key), ("value", value)]);
            let config = vec![setting("server_reset_query", query), setting("server_reset_query_always", always)];
            Shown { config, ..shown() }.read().servers[0].resets
        };
        assert!(with("1", "DISCARD ALL") && with("1", "select pg_advisory_unlock_all()"));
        assert!(with("1", "/* clean */ DISCARD  ALL"));
        assert!(!with("0", "DISCARD ALL") && !with("1", "DEALLOCATE ALL") && !with("1", "RESET ALL -- DISCARD ALL"));
        assert!(!shown().read().servers[0].resets);
    }

    #[test]
    fn sockets_have_no_port_and_zero_is_no_pid() {
        let said = shown().read();
        assert_eq!(said.servers[0].local_port, Some(4000));
        assert_eq!(said.servers[1].local_port, None);
        assert_eq!(said.servers[2].remote_pid, None);
        assert!(said.servers[2].close_needed);
    }

    #[test]
    fn the_client_is_the_one_that_is_linked() {
        let said = shown().read();
        let client = said.servers[1].client.clone().unwrap();
        assert_eq!((client.application.as_deref(), client.port), (Some("api"), Some(55)));
        assert_eq!(said.servers[0].client, None);
        let gone = Shown { clients: Vec::new(), ..shown() }.read();
        assert_eq!(gone.servers[1].client, Some(PoolerClient::default()));
    }
}
