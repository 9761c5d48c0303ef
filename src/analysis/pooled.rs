//! Which backend serves which pool of a PgBouncer: its rows joined to the sessions of the same poll.
//!
//! A wrong join would accuse the wrong session, so a row counts only if all that both sides know agrees.

use core::net::IpAddr;
use std::collections::BTreeMap;

use crate::model::{Backend, Pid, PoolMode, Pooler, PoolerClient, PoolerServer};

/// The pool that a backend serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pooled {
    /// host:port of PgBouncer's console, as written.
    pub pooler: String,
    /// PgBouncer's own name of the database.
    pub database: String,
    /// The pool's user.
    pub user: String,
    /// When a client gives the backend back.
    pub pool_mode: PoolMode,
    /// The client that has it now.
    pub client: Option<PoolerClient>,
    /// PgBouncer frees session locks whenever a client gives the backend back.
    pub resets: bool,
    /// PgBouncer closes it as soon as it is free.
    pub close_needed: bool,
}

/// The pools of the backends that PgBouncers say they use. Two rows that claim one backend cancel each other out.
pub fn pooled(backends: &[Backend], poolers: &[Pooler]) -> BTreeMap<Pid, Pooled> {
    let rows: Vec<(&Pooler, &PoolerServer)> = poolers
        .iter()
        .filter_map(|pooler| Some((pooler, pooler.said.as_ref().ok()?)))
        .flat_map(|(pooler, said)| said.servers.iter().map(move |server| (pooler, server)))
        .collect();
    let mut by_port: BTreeMap<Option<i32>, Vec<(&Pooler, &PoolerServer)>> = BTreeMap::new();
    for row in rows {
        by_port.entry(row.1.local_port).or_default().push(row);
    }
    let mut found = BTreeMap::new();
    for backend in backends.iter().filter(|backend| backend.is_client()) {
        let port = backend.client_port.filter(|port| *port > 0);
        let candidates = by_port.get(&port).into_iter().flatten();
        let mut serving = candidates.filter(|(pooler, server)| serves(backend, pooler, server));
        if let (Some((pooler, server)), None) = (serving.next(), serving.next()) {
            found.insert(backend.pid, of(pooler, server));
        }
    }
    found
}

fn of(pooler: &Pooler, server: &PoolerServer) -> Pooled {
    Pooled {
        pooler: pooler.name.clone(),
        database: server.database.clone(),
        user: server.user.clone(),
        pool_mode: server.pool_mode,
        client: server.client.clone(),
        resets: server.resets,
        close_needed: server.close_needed,
    }
}

/// Whether PgBouncer's row is about this backend. Ports agree already.
///
/// Over TCP the port tells a PgBouncer that stands before another PgBouncer, whose `remote_pid` is made up. Over a
/// Unix socket there is no port, and the pid must do (PgBouncer 1.18 shows the backend's). Where one of several targets may be meant, the address must agree
/// too; where PgBouncer was given as this target's own it need not, for a network may translate it.
fn serves(backend: &Backend, pooler: &Pooler, server: &PoolerServer) -> bool {
    let same_pid = server.remote_pid.map(|pid| pid == backend.pid);
    let same_database = match (&server.server_database, &backend.database) {
        (Some(theirs), Some(ours)) => ours == theirs.as_str(),
        _ => true,
    };
    if same_pid == Some(false) || !same_database {
        return false;
    }
    match (&backend.client_addr, backend.client_port) {
        (Some(addr), Some(port)) if port > 0 => {
            let same_address = server.local_addr.as_deref().is_some_and(|theirs| is_same_address(theirs, addr));
            same_address || (same_pid == Some(true) && !pooler.shared_between_targets)
        }
        // -1 is a Unix socket; without a port the session is hidden from us.
        (None, Some(-1)) => same_pid == Some(true) && server.local_addr.is_none() && !pooler.shared_between_targets,
        _ => false,
    }
}

fn is_same_address(one: &str, other: &str) -> bool {
    // As in ::ffff:10.0.0.7, the same machine as 10.0.0.7.
    let address = |text: &str| text.parse::<IpAddr>().map(|address| address.to_canonical());
    matches!((address(one), address(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::PoolerSaid;
    use crate::model::testing::World;

    /// The backend 7 of the tests' world: 10.0.0.7, port 50007, database app.
    fn row() -> PoolerServer {
        PoolerServer {
            database: "pool".to_owned(),
            server_database: Some("app".to_owned()),
            user: "app".to_owned(),
            pool_mode: PoolMode::Transaction,
            remote_pid: Some(7),
            local_addr: Some("10.0.0.7".to_owned()),
            local_port: Some(50_007),
            resets: false,
            close_needed: false,
            client: None,
        }
    }

    fn joined(shared: bool, servers: Vec<PoolerServer>, change: impl FnOnce(&mut Backend)) -> Option<Pooled> {
        let mut world = World::new();
        world.connect(7, "api");
        change(world.backend(7));
        let said = Ok(PoolerSaid { version: None, servers });
        let pooler = Pooler { name: "pgb:6432".to_owned(), said, shared_between_targets: shared };
        pooled(&world.snapshot.backends, &[pooler]).remove(&7)
    }

    #[test]
    fn pid_and_port_join() {
        assert_eq!(joined(true, vec![row()], |_| ()).unwrap().database, "pool");
        let other = |change: fn(&mut PoolerServer)| {
            let mut row = row();
            change(&mut row);
            joined(false, vec![row], |_| ())
        };
        assert_eq!(other(|row| row.remote_pid = Some(8)), None);
        // A PgBouncer behind it has the port, and what it says of a pid is made up.
        assert_eq!(other(|row| row.local_port = Some(50_008)), None);
        assert_eq!(other(|row| row.server_database = Some("other".to_owned())), None);
    }

    #[test]
    fn without_a_pid_port_and_address_join() {
        let old = PoolerServer { remote_pid: None, ..row() };
        assert!(joined(false, vec![old.clone()], |_| ()).is_some());
        let elsewhere = PoolerServer { local_addr: Some("10.0.0.8".to_owned()), ..old };
        assert_eq!(joined(false, vec![elsewhere], |_| ()), None);
    }

    #[test]
    fn a_translated_address_is_no_obstacle_unless_another_target_may_be_meant() {
        let translated = PoolerServer { local_addr: Some("172.17.0.2".to_owned()), ..row() };
        assert!(joined(false, vec![translated.clone()], |_| ()).is_some());
        assert_eq!(joined(true, vec![translated], |_| ()), None);
        let mapped = PoolerServer { local_addr: Some("::ffff:10.0.0.7".to_owned()), ..row() };
        assert!(joined(true, vec![mapped], |_| ()).is_some());
    }

    #[test]
    fn over_a_socket_the_pid_joins_and_hidden_sessions_never_do() {
        let socket = PoolerServer { local_addr: None, local_port: None, ..row() };
        let over_socket = |backend: &mut Backend| (backend.client_addr, backend.client_port) = (None, Some(-1));
        assert!(joined(false, vec![socket.clone()], over_socket).is_some());
        assert_eq!(joined(true, vec![socket.clone()], over_socket), None);
        assert_eq!(joined(false, vec![row()], over_socket), None);
        let hidden = |backend: &mut Backend| (backend.client_addr, backend.client_port) = (None, None);
        assert_eq!(joined(false, vec![socket], hidden), None);
    }

    #[test]
    fn two_rows_for_one_backend_are_none() {
        assert_eq!(joined(false, vec![row(), PoolerServer { database: "b".to_owned(), ..row() }], |_| ()), None);
    }
}
