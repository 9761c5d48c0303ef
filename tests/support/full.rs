//! A shared lock table without a free place.

use std::thread::sleep;
use std::time::{Duration, Instant};

use pglockwatch::app::demo::Cluster;
use postgres::NoTls;

/// For a server that fills within a second: few places, and nobody who takes and frees any by itself.
pub const SETTINGS: [&str; 3] = ["max_locks_per_transaction=10", "max_connections=15", "autovacuum=off"];

/// What a session runs to take the free places. It fails, and keeps the locks that it got. In the list of columns the
/// series is not made in full before the first lock: the session is at rest again within milliseconds.
pub const TAKE_ALL: &str = "SELECT pg_advisory_lock(991, generate_series(1, 1000000))";

/// Lets `take_all` take the free places until nobody can log in any more.
///
/// Once is not enough: a poll that ran meanwhile gives its places back when it ends.
pub fn fill(cluster: &Cluster, mut take_all: impl FnMut()) {
    let until = Instant::now() + Duration::from_secs(30);
    let can_log_in = |()| {
        sleep(Duration::from_millis(40));
        cluster.config().connect(NoTls).is_ok()
    };
    while [(); 5].into_iter().any(can_log_in) {
        assert!(Instant::now() < until, "the lock table does not fill");
        take_all();
    }
}
