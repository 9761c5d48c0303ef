//! The guarded statements that `check` and `runbook` print, tried for real: each frees exactly what it says, and does
//! nothing, and says so, once things are no longer as they were seen.
//!
//! The situations are planted with real sessions, the statement comes out of the built program, and a person's part is
//! played by psql (by a session of our own where there is no psql), with settings that are unlike the defaults.

mod carried;
mod full;
mod pooled;
mod prepared;
mod rights;
mod scene;
mod sessions;
mod waiters;

use std::thread;

use pglockwatch::app::demo::Binaries;

use crate::support::server;
use scene::{Scene, World};

const WHAT: &str = "the statements";

server::on_each_major!(WHAT, play);

/// One scene, from planting to what came of it.
type Play = fn(&Scene<'_>);

/// All scenes of this version on one server, each in a database of its own.
fn play(binaries: &Binaries) {
    let scenes: [(&str, Play); 20] = [
        ("idle holder", sessions::an_idle_holder_is_ended_and_nobody_else),
        ("idle holder at work", sessions::an_idle_holder_that_works_again_keeps_its_work),
        ("idle holder that let go", sessions::a_freed_lock_ends_nobody),
        ("two modes", sessions::a_lock_in_two_modes_is_one_row),
        ("hoard", sessions::a_hoard_is_freed_by_one_row),
        ("idle in transaction", sessions::a_transaction_is_ended_while_it_is_the_same),
        ("failed transaction", sessions::a_failed_transaction_is_ended_while_it_rests_as_it_did),
        ("failed behind a savepoint", sessions::a_failed_transaction_that_rolls_back_is_left_alone),
        ("starved pool", sessions::each_session_of_a_pool_is_judged_by_itself),
        ("rights", rights::who_may_not_see_or_signal_does_nothing),
        ("own role", rights::a_role_ends_its_own_sessions),
        ("superuser's session", rights::only_a_superuser_ends_the_session_of_a_superuser),
        ("hidden deadlock", waiters::the_waiter_of_a_hidden_deadlock_is_cancelled),
        ("lock cycle", waiters::one_session_of_a_cycle_is_cancelled),
        ("prepared transaction", prepared::a_prepared_transaction_is_finished_by_its_gid),
        ("carried lock", carried::a_busy_leak_is_freed_at_a_moment_of_rest),
        ("leak behind a pool", pooled::a_leak_behind_a_transaction_pool_is_freed_and_no_client_harmed),
        ("pooled connection", pooled::a_pooled_connection_is_ended_only_while_no_client_has_it),
        ("replication connection", pooled::a_replication_connection_is_ended_only_at_rest),
        ("hidden sessions", rights::the_grant_lets_the_next_check_judge),
    ];
    let world = World::new(binaries, &["max_prepared_transactions=10"]);
    let failed: Vec<&str> = thread::scope(|scope| {
        let world = &world;
        let mut played: Vec<_> = scenes
            .into_iter()
            .map(|(name, scene)| (name, scope.spawn(move || scene(&Scene::new(world, name)))))
            .collect();
        // It needs a server of its own.
        let full = || full::a_full_lock_table_is_freed_over_an_open_connection(binaries);
        played.push(("full lock table", scope.spawn(full)));
        played.into_iter().filter_map(|(name, thread)| thread.join().err().map(|_| name)).collect()
    });
    assert!(failed.is_empty(), "on PostgreSQL {}: {}", binaries.major, failed.join(", "));
}
