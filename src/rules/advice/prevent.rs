//! How to keep it from happening again: per rule, and only what fits.
//!
//! Pure text. The unlock functions are named without a parenthesis on purpose: called from another session they free
//! nothing, and a line that can be pasted would be.

use std::borrow::Cow;

use super::driver;
use super::facts::Facts;
use crate::model::BackendState;

const SAME_CONNECTION: &str = "Take and release the lock on one connection, and check the boolean that \
    pg_advisory_unlock or pg_advisory_unlock_shared returns: false means that nothing was released.";
const TRANSACTION_LOCK: &str =
    "Where the work fits into one transaction, use pg_advisory_xact_lock: it cannot be left behind.";
const DEDICATED: &str = "Keep long-held locks on a dedicated connection outside the pool.";
const LEASE: &str = "For work that outlives a connection, use a lease table with an expiry instead of a lock.";
const LOCK_TIMEOUT: &str =
    "Bound the wait with SET LOCAL lock_timeout, or use pg_try_advisory_lock and come back later.";
const IDLE_IN_TRANSACTION: &str =
    "Set idle_in_transaction_session_timeout for the application's role: the server then ends such sessions itself.";
const SHORT_TRANSACTIONS: &str = "Commit or roll back in every path of the code, errors included, before the \
    connection goes back to the pool.";
const POOLER_TRANSACTION_LOCK: &str = "Through a transaction pool take only transaction locks (pg_advisory_xact_lock); \
    through a statement pool none at all.";
const POOLER_SESSION_POOL: &str = "Where a lock must outlive a transaction, give that application a session pool of its \
    own or a DSN that names the server directly.";
const POOLER_RESET: &str = "server_reset_query_always = 1 with server_reset_query = DISCARD ALL in PgBouncer frees what is \
    left behind whenever a client gives a connection back: one more statement each time, and such a lock then protects \
    nothing beyond its transaction.";
const DEAD_CLIENT: &str = "Where the client may be dead: tcp_keepalives_idle (with _interval and _count) lets the \
    server find it";

/// Rules about locks that a client pool keeps: what the driver does matters.
const OF_POOLS: [&str; 4] = ["idle-holder", "carried-lock", "aborted-transaction-holder", "pool-starved"];

/// The hints for a draft's rule.
pub fn prevent(facts: &Facts<'_>) -> Vec<Cow<'static, str>> {
    let version = facts.context.observed.snapshot.server.version_num;
    let mut texts: Vec<Cow<'static, str>> = match facts.draft.rule {
        "idle-holder" => {
            let mut texts = own(&[SAME_CONNECTION, TRANSACTION_LOCK, DEDICATED, LEASE]);
            if version >= 140_000 {
                texts.push(
                    "idle_session_timeout (PostgreSQL 14 and later) for that role ends forgotten sessions; a pool must \
                     cope with it."
                        .into(),
                );
            }
            texts.push(dead_client(version).into());
            texts
        }
        "carried-lock" => own(&[SAME_CONNECTION, TRANSACTION_LOCK, DEDICATED]),
        "pooler-session-lock" => own(&[POOLER_TRANSACTION_LOCK, POOLER_SESSION_POOL, POOLER_RESET]),
        "idle-in-transaction-holder" => {
            let mut texts = own(&[SHORT_TRANSACTIONS, IDLE_IN_TRANSACTION]);
            texts.push(dead_client(version).into());
            texts
        }
        "aborted-transaction-holder" => own(&[SHORT_TRANSACTIONS, IDLE_IN_TRANSACTION, SAME_CONNECTION]),
        "prepared-transaction-holder" => own(&[
            "Let the transaction manager recover and finish its prepared transactions when it starts.",
            "Alert on old rows of pg_prepared_xacts; without a transaction manager set max_prepared_transactions to 0.",
            "Take no advisory lock in a transaction that will be prepared.",
        ]),
        "blocked-waiters" => blocked(facts),
        "hidden-deadlock" => own(&[
            "Let the waiting instances poll with pg_try_advisory_lock and a pause: a waiting statement holds a snapshot, \
             and CREATE INDEX CONCURRENTLY waits for it.",
            "Or bound their wait with SET lock_timeout, and start only one instance of the migration.",
        ]),
        "lock-cycle" => own(&[
            "Take several keys in one fixed order, in every code path.",
            LOCK_TIMEOUT,
            "Do not raise deadlock_timeout so far that the server no longer breaks such circles.",
        ]),
        "pool-starved" => own(&[
            SAME_CONNECTION,
            TRANSACTION_LOCK,
            DEDICATED,
            "Bound how many connections of a pool may hold or wait for locks at once, and bound the wait with lock_timeout.",
        ]),
        "key-hoard" => own(&[
            "Take one key for the whole batch, or release each key when its item is done.",
            TRANSACTION_LOCK,
            "Rows that are work items are better locked as rows: SELECT ... FOR UPDATE SKIP LOCKED.",
        ]),
        "unexpected-holder" | "key-collision" | "shared-key" => own(&[
            "Give each purpose its own key, declared in one dictionary that is checked with pglockwatch keys lint.",
            "Derive keys from a name in two parts: the first int4 for the application, the second for the purpose.",
        ]),
        "scope-violation" => own(&[TRANSACTION_LOCK]),
        "overlong-hold" => own(&["Split the work, so that the lock is held for a part at a time.", LEASE]),
        "holder-count" => {
            own(&["Let a process that loses its connection take its lock again, and stop its work until it has it."])
        }
        "lock-table-pressure" | "lock-table-full" => own(&[
            "Take fewer keys at once: one for the batch, or row locks, which need no memory of the lock table.",
            "If so many are needed, raise max_locks_per_transaction (needs a restart; standbys first).",
        ]),
        "hidden-sessions" if facts.backends().any(|backend| backend.lent_to_us) => {
            own(&["Connect pglockwatch to the server itself: a pooler lends it the sessions that it should judge."])
        }
        "hidden-sessions" if facts.context.observed.snapshot.server.sees_all_sessions => {
            own(&["Leave track_activities on: nothing else shows what a session does."])
        }
        "hidden-sessions" => own(&["Give pg_monitor to a monitoring role when it is created."]),
        "lease-overdue" => own(&[
            "Renew a lease after a third of its time, and stop the work when renewing fails.",
            "Compute the expiry in SQL from now(), in a timestamptz: clocks of clients differ.",
        ]),
        "standby-lock" => own(&["Take locks that guard writes on the primary."]),
        _ => Vec::new(),
    };
    if OF_POOLS.contains(&facts.draft.rule) {
        texts.extend(driver::hints(facts.backends()).into_iter().map(Cow::Borrowed));
    }
    texts
}

fn blocked(facts: &Facts<'_>) -> Vec<Cow<'static, str>> {
    let mut texts = own(&[LOCK_TIMEOUT, "Hold the lock only for the part of the work that needs it."]);
    if facts.backends().any(|backend| {
        matches!(backend.state, Some(BackendState::IdleInTransaction | BackendState::IdleInTransactionAborted))
    }) {
        texts.push(IDLE_IN_TRANSACTION.into());
    }
    texts
}

fn dead_client(version: u32) -> String {
    if version >= 140_000 {
        format!(
            "{DEAD_CLIENT}; client_connection_check_interval (PostgreSQL 14 and later) does so while a statement runs."
        )
    } else {
        format!("{DEAD_CLIENT}.")
    }
}

fn own(texts: &[&'static str]) -> Vec<Cow<'static, str>> {
    texts.iter().map(|&text| Cow::Borrowed(text)).collect()
}
