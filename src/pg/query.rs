//! The statements of a poll. One simple-query message, whose result sets [`super::rows`] tells apart.
//!
//! Knows which PostgreSQL (12 to 18) has which column, and nothing of sockets or of what the rows mean.
//!
//! Why it looks as it does:
//! - Locks come first. Reading sessions first made up idle holders: a session that had taken its lock in between.
//! - `pg_lock_status()` is read once, so that who waits for whom is of one instant.
//! - Everything is qualified by `search_path`, for the database may be full of somebody else's objects.
//! - Texts that strangers chose are sent as escaped bytes: they are in the encoding of whoever wrote them.
//! - Times are sent as `timestamptz_send` does: an integer of microseconds, exact on every version, whereas `extract`
//!   is a floating point number before 14.
//! - Both leave as `bytea`, and `bytea_output` is set for the transaction: that is one call and one copy less per value
//!   than `encode`, and there are six of them per session.
//! - What a poll need not ask it does not ask: see [`Form`].

use std::time::Duration;

use crate::model::Pid;

/// Bytes of a statement that are sent: `pg_stat_activity` keeps at most `track_activity_query_size`, 1,024 by default.
pub(crate) const QUERY_BYTES: usize = 1024;
/// Bytes that are sent of a statement that seems to call an advisory lock function: we look more closely.
const SEARCHED_BYTES: usize = 8192;
/// How the names of advisory lock functions are written: a statement without any of these calls none.
pub(crate) const SPELLINGS: [&str; 3] = ["advisory_", "ADVISORY_", "Advisory_"];
/// What is looked for in their place, for it costs half as much: each spelling holds one of these.
const STEMS: [&str; 2] = ["dvisory_", "DVISORY_"];
/// The most bytes that a name has: NAMEDATALEN - 1.
pub(crate) const NAME_BYTES: usize = 63;
/// The most bytes that a gid has: GIDSIZE - 1.
pub(crate) const GID_BYTES: usize = 199;

/// The number of result sets of [`poll`].
pub(crate) const POLL_SETS: usize = 7;
/// The number of result sets of [`last_resort`].
pub(crate) const LAST_RESORT_SETS: usize = 6;

/// The greatest `statement_timeout` that a server takes.
const LONGEST_MS: u128 = i32::MAX as u128;

/// What is asked once per connection: the version decides which columns there are, the others whether the server is
/// the kind that `target_session_attrs` wants, and the age of our backend whether a pooler lent it to us.
///
/// The statements of one message are one transaction also without `BEGIN`, which not every pool allows.
pub(crate) fn greeting(timeout: Duration) -> String {
    format!(
        "{own_time}SET LOCAL transaction_isolation = 'read committed';SELECT pg_catalog.current_setting('server_version_num'), \
         pg_catalog.current_setting('transaction_read_only'), pg_catalog.pg_is_in_recovery(), \
         (SELECT extract(epoch FROM pg_catalog.clock_timestamp() - backend_start) \
         FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()))",
        own_time = own_time(timeout),
    )
}

/// The beginning of every transaction. Whatever isolation is the role's, the database's or the server's default: a
/// standby refuses serializable transactions, and one that is deferrable waits until no other may disturb it.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;";

/// The first statement of every transaction: how long the others may take. A role may have been given less than any
/// statement takes that a new backend has never run, and this one looks nothing up.
pub(crate) fn own_time(timeout: Duration) -> String {
    format!("SET LOCAL statement_timeout = {};", timeout.as_millis().clamp(1, LONGEST_MS))
}

/// How a poll is asked. Every form gets the same answer, each where it costs the server least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    /// Sessions have many locks each: those of one owner, mode and kind come as one row.
    pub grouped: bool,
    /// Somebody waits for something that is no advisory lock: what holds it back is sent too. Without, a row that waits
    /// for such a thing tells that the answer is not whole, and that the poll must be asked again with it.
    pub others: bool,
    /// Most sessions hold or wait, or there are few: the statement of each session is sent, and nobody collects whose are
    /// needed.
    pub all_queries: bool,
    /// What is known of hoards: matters where locks are grouped and no others are sent.
    pub sums: Sums,
}

impl Form {
    /// The form that presumes nothing.
    pub(crate) const FIRST: Self = Self {
        grouped: true,
        others: true,
        all_queries: false,
        sums: Sums { wanted: false, in_place_of_keys: Vec::new(), seed: 0 },
    };
}

/// How the sums of [`super::hoards`] are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sums {
    /// With every group comes the sum of its keys.
    pub wanted: bool,
    /// Of the groups of these backends comes only the sum.
    pub in_place_of_keys: Vec<Pid>,
    /// What the hashes begin with.
    pub seed: i64,
}

/// The poll. Its sets: the clock, locks, the clock, sessions, prepared transactions, databases, facts.
pub(crate) fn poll(version_num: u32, form: &Form, timeout: Duration) -> String {
    format!(
        "{begin};{locks};{CLOCK};{sessions};{prepared};{DATABASES};{facts};COMMIT",
        begin = begin(version_num, timeout),
        locks = locks(version_num, form),
        sessions = sessions(version_num, true, form.all_queries),
        prepared = prepared(true),
        facts = facts(version_num),
    )
}

/// The poll for a server whose shared lock table is full, or where somebody has locked `pg_authid`: without the shared
/// catalogs, for a lock on them needs a place in that table. Names come from the last good poll. Its sets: the clock,
/// locks, the clock, sessions, prepared transactions, our own pid.
pub(crate) fn last_resort(version_num: u32, timeout: Duration) -> String {
    format!(
        "{begin};{locks};{CLOCK};{sessions};{prepared};SELECT pg_backend_pid();COMMIT",
        begin = begin(version_num, timeout),
        locks = locks(version_num, &Form::FIRST),
        sessions = sessions(version_num, false, false),
        prepared = prepared(false),
    )
}

const CLOCK: &str = "SELECT timestamptz_send(clock_timestamp())";

const DATABASES: &str = "SELECT oid, namesend(datname) FROM pg_database";

/// The name of a role, which needs a shared catalog; 0 is no role.
fn role(oid: &str, names: bool) -> String {
    if names { format!("CASE WHEN {oid} <> 0 THEN namesend(pg_get_userbyid({oid})) END") } else { "NULL".to_owned() }
}

/// Prepared transactions. The view of them joins two catalogs for what we know or ask anyway.
fn prepared(names: bool) -> String {
    format!(
        "SELECT transaction, textsend(gid), timestamptz_send(prepared), ownerid, dbid, {role} FROM pg_prepared_xact()",
        role = role("ownerid", names)
    )
}

/// The beginning of the transaction, its settings, and the clock before the locks are read. Without parallel workers
/// and compilation, which cost more than they bring here. A thousand groups of locks already do not fit into the usual
/// memory as the planner counts it, and would go through files.
fn begin(version_num: u32, timeout: Duration) -> String {
    let statement = timeout.as_millis().max(1);
    // A lock that somebody else keeps on a catalog must leave time for the last resort, and cost little.
    let lock = (statement / 8).clamp(1, 500);
    // It ends the connection, and not only the statement.
    let more = if version_num >= 170_000 { ", ('transaction_timeout', '0')" } else { "" };
    format!(
        "{BEGIN}{own_time}SET LOCAL search_path = pg_catalog, pg_temp;\
         SELECT set_config(name, value, true), timestamptz_send(clock_timestamp()) FROM (VALUES \
         ('client_encoding', 'SQL_ASCII'), ('bytea_output', 'escape'), ('lock_timeout', '{lock}'), ('jit', 'off'), \
         ('max_parallel_workers_per_gather', '0'), ('work_mem', '64MB'){more}) AS setting (name, value)",
        own_time = own_time(timeout),
    )
}

/// The numbers that make an object that is neither an advisory key nor a relation, as one text behind its locktype.
/// `concat_ws` leaves NULLs out; within one locktype always the same ones are NULL.
const IDENTITY: &str =
    "concat_ws('/', locktype, database, relation, page, tuple, virtualxid, transactionid, classid, objid, objsubid)";

/// The columns of a lock, or of a group of locks.
const LOCK: &str = "pid, virtualtransaction, database, objsubid, label, numbers, sum";

/// The numbers of an advisory key as one.
const NUMBERS: &str = "classid::int8 << 32 | objid::int8";

/// A hash of them that mixes both, whatever they are: that of the bigint does not tell (1, 2) from (2, 1). The
/// seed is quoted: the least bigint is none without.
fn hash(seed: i64) -> String {
    format!("hashoidextended(classid, hashoidextended(objid, '{seed}'))")
}

/// What there is to say of a lock beside its owner and its key, in one column, for each column by which rows are grouped
/// costs: mode, granted, since when it waits, and the object, if it is no advisory key. NULL for what nearly all are,
/// exclusive advisory locks that are held; for those in another mode the mode.
fn label(version_num: u32, held: &str, identity: &str) -> String {
    let waitstart =
        if version_num >= 140_000 { "coalesce(encode(timestamptz_send(waitstart), 'hex'), '')" } else { "''" };
    format!(
        "CASE WHEN {held} THEN CASE WHEN mode <> 'ExclusiveLock' THEN mode END \
         ELSE concat_ws('/', mode, granted, {waitstart}, {identity}) END"
    )
}

/// The identity of a row of `pg_lock_status()`; none of an advisory key.
fn identity() -> String {
    format!("CASE WHEN locktype <> 'advisory' THEN {IDENTITY} END")
}

/// The locks' statement. Where the sessions' statement sends the query of some only, their pids go into a setting that
/// ends with the transaction.
fn locks(version_num: u32, form: &Form) -> String {
    let (before, kept) = match (form.others, form.grouped) {
        (false, true) => (String::new(), advisory_groups(version_num, &form.sums)),
        (false, false) => (String::new(), advisory_locks(version_num)),
        (true, true) => grouped_locks(version_num),
        (true, false) => single_locks(version_num),
    };
    if form.all_queries {
        return if before.is_empty() { kept } else { format!("WITH {} {kept}", before.trim_end_matches(',')) };
    }
    format!(
        "WITH {before} kept AS MATERIALIZED ({kept}), pids AS MATERIALIZED \
         (SELECT set_config('pglockwatch.pids', coalesce(string_agg(pid::text, ','), ''), true) FROM kept) \
         SELECT {LOCK} FROM pids CROSS JOIN kept"
    )
}

/// All advisory rows, all rows that wait, and the rows of prepared transactions' own xids, which lead to
/// `pg_prepared_xacts`. No row is copied: that alone costs a fifth of reading the locks.
const ADVISORY: &str = "FROM pg_lock_status() \
     WHERE locktype = 'advisory' OR NOT granted OR (pid IS NULL AND locktype = 'transactionid')";

/// The label of one of these. Of those that are granted advisory ones alone have a classid.
fn label_of_advisory(version_num: u32) -> String {
    label(version_num, "granted AND classid IS NOT NULL", &identity())
}

fn advisory_locks(version_num: u32) -> String {
    format!(
        "SELECT pid, virtualtransaction, database, objsubid, {label} AS label, {NUMBERS} AS numbers, NULL AS sum \
         {ADVISORY}",
        label = label_of_advisory(version_num),
    )
}

/// The same in groups. To add up hashes costs the server a quarter of what it costs to collect and write the numbers.
/// In all locks of a virtualtransaction, pid and database are the same.
fn advisory_groups(version_num: u32, sums: &Sums) -> String {
    let sum = if sums.wanted { format!("sum({})", hash(sums.seed)) } else { "NULL".to_owned() };
    let filter = if sums.in_place_of_keys.is_empty() {
        String::new()
    } else {
        // An array of them costs several times as much, and the pid of a prepared transaction is NULL.
        let others: Vec<String> =
            sums.in_place_of_keys.iter().map(|pid| format!("pid IS DISTINCT FROM {pid}")).collect();
        format!(" FILTER (WHERE {} OR NOT granted)", others.join(" AND "))
    };
    format!(
        "SELECT max(pid) AS pid, virtualtransaction, max(database) AS database, objsubid, {label} AS label, \
         array_agg({NUMBERS}){filter} AS numbers, {sum} AS sum {ADVISORY} GROUP BY 2, 4, 5",
        label = label_of_advisory(version_num),
    )
}

/// All that [`ADVISORY`] has, and every row that holds back a row that waits for something else: what stands before
/// `kept`, and it. Of relations some come that nobody waits for: [`super::rows`] drops them.
///
/// Rows of one owner, mode and kind come as one, with their numbers as an array: a session with 10,000 locks costs the
/// server half of what 10,000 rows do, and us nearly nothing. A row that waits is the only one of its owner, so
/// its `waitstart` is the greatest.
fn grouped_locks(version_num: u32) -> (String, String) {
    let start = if version_num >= 140_000 { "max(waitstart)" } else { "NULL" };
    let before = format!(
        "held AS MATERIALIZED (SELECT pid, virtualtransaction, mode, granted, database, objsubid, \
         CASE WHEN locktype = 'advisory' THEN NULL WHEN locktype = 'relation' THEN 'relation' ELSE {IDENTITY} END \
         AS identity, {start} AS waitstart, array_agg(coalesce(relation::int8, {NUMBERS})) AS numbers \
         FROM pg_lock_status() WHERE mode <> 'SIReadLock' GROUP BY 1, 2, 3, 4, 5, 6, 7), \
         waited AS MATERIALIZED (SELECT identity, numbers FROM held WHERE NOT granted AND identity IS NOT NULL),"
    );
    let kept = format!(
        "SELECT pid, virtualtransaction, database, objsubid, {label} AS label, numbers, NULL AS sum \
         FROM held WHERE identity IS NULL OR NOT granted OR (pid IS NULL AND identity LIKE 'transactionid/%') \
         OR CASE WHEN identity = 'relation' \
         THEN numbers && (SELECT array_agg(numbers[1]) FROM waited WHERE identity = 'relation') \
         ELSE identity IN (SELECT identity FROM waited) END",
        label = label(version_num, "granted AND identity IS NULL", "identity"),
    );
    (before, kept)
}

/// The same without groups, which cost more than they bring where sessions have few locks each: every advisory row
/// comes by itself, with its numbers as one.
fn single_locks(version_num: u32) -> (String, String) {
    let before = format!(
        "held AS MATERIALIZED (SELECT * FROM pg_lock_status() WHERE mode <> 'SIReadLock'), \
         waited AS MATERIALIZED (SELECT relation, {IDENTITY} AS identity FROM held \
         WHERE NOT granted AND locktype <> 'advisory'),"
    );
    let kept = format!(
        "SELECT pid, virtualtransaction, database, objsubid, {label} AS label, {NUMBERS} AS numbers, NULL AS sum \
         FROM held WHERE locktype = 'advisory' OR NOT granted OR (pid IS NULL AND locktype = 'transactionid') \
         OR CASE WHEN EXISTS (SELECT FROM waited) THEN CASE WHEN locktype = 'relation' \
         THEN relation IN (SELECT relation FROM waited) ELSE {IDENTITY} IN (SELECT identity FROM waited) END END",
        label = label(version_num, "granted AND locktype = 'advisory'", &identity()),
    );
    (before, kept)
}

/// All sessions, our own without its statement. With `names` the role's name comes too.
///
/// Whether a statement may call an advisory lock function is asked of its bytes, for it may be in any encoding, in the
/// three ways in which people write such names: twice as cheap as folding the letters. Where it may, more of its text is
/// sent, for us to see. `application_name` needs no escaping: the server leaves ASCII in it and nothing else.
fn sessions(version_num: u32, names: bool, all_queries: bool) -> String {
    let leader = if version_num >= 130_000 { "leader_pid" } else { "NULL" };
    let calls = STEMS.map(|stem| format!("position('{stem}'::bytea in textsend(query)) > 0")).join(" OR ");
    let searched = format!("WHEN {calls} THEN substring(textsend(query) for {SEARCHED_BYTES})");
    let cut = format!("substring(textsend(query) for {QUERY_BYTES})");
    let query = if all_queries {
        // Where `track_activity_query_size` is the default no statement is longer, and nothing is looked for.
        format!(
            "CASE WHEN pid = pg_backend_pid() THEN NULL \
             WHEN octet_length(query) <= {QUERY_BYTES} THEN textsend(query) {searched} ELSE {cut} END"
        )
    } else {
        format!(
            "CASE WHEN pid = pg_backend_pid() THEN NULL {searched} \
             WHEN pid IN (SELECT unnest(string_to_array(current_setting('pglockwatch.pids'), ',')::int4[])) THEN {cut} END"
        )
    };
    format!(
        "SELECT pid, {leader}, backend_type, datid, usesysid, {role}, \
         application_name, client_addr, client_port, \
         timestamptz_send(backend_start), timestamptz_send(xact_start), \
         timestamptz_send(query_start), timestamptz_send(state_change), \
         state, backend_xid IS NOT NULL, {query} \
         FROM pg_stat_get_activity(NULL)",
        role = role("usesysid", names)
    )
}

/// What is true of the server and of our role. Until 14 the server asks whether we are a member of
/// `pg_read_all_stats`, from 15 on whether we have its privileges; for `pg_signal_backend` always the latter.
fn facts(version_num: u32) -> String {
    let stats = if version_num >= 150_000 { "USAGE" } else { "MEMBER" };
    format!(
        "SELECT current_setting('server_version'), current_setting('server_version_num'), pg_is_in_recovery(), \
         timestamptz_send(pg_postmaster_start_time()), namesend(current_user), \
         pg_has_role('pg_read_all_stats', '{stats}'), pg_has_role('pg_signal_backend', 'USAGE'), \
         current_setting('max_connections'), current_setting('max_locks_per_transaction'), \
         current_setting('max_prepared_transactions'), pg_backend_pid()"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_holds_a_stem() {
        assert!(SPELLINGS.iter().all(|spelling| STEMS.iter().any(|stem| spelling.contains(stem))));
    }

    #[test]
    fn what_a_version_does_not_know_it_is_not_asked_for() {
        let has = |version| poll(version, &Form::FIRST, Duration::from_secs(1)).contains("transaction_timeout");
        assert!(has(170_000) && has(180_004) && !has(160_009) && !has(120_022));
    }

    #[test]
    fn every_message_sets_its_own_time_before_anything_is_looked_up() {
        let second = Duration::from_secs(1);
        for message in [greeting(second), poll(150_000, &Form::FIRST, second), last_resort(150_000, second)] {
            let first = message.split(';').find(|statement| !statement.starts_with("BEGIN"));
            assert_eq!(first, Some("SET LOCAL statement_timeout = 1000"), "{message}");
        }
        // A year is longer than the server takes.
        assert_eq!(own_time(Duration::from_secs(365 * 86_400)), "SET LOCAL statement_timeout = 2147483647;");
        assert_eq!(own_time(Duration::ZERO), "SET LOCAL statement_timeout = 1;", "0 would be no limit");
    }
}
