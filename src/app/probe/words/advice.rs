//! What to change, by verdict and pooler. Pure.

use crate::app::probe::observed::{Leaving, Observed, Trouble, Wait};
use crate::app::probe::verdict::{PoolerKind, Verdict};

/// One sentence each, the first one first.
pub(in crate::app::probe) fn advice(seen: &Observed, verdict: Verdict, pooler: PoolerKind) -> Vec<String> {
    let mut advice = match verdict {
        Verdict::Safe => safe(seen, pooler),
        Verdict::StayBehind if !seen.is_shared() && matches!(seen.leaving, Some(Leaving::AsLeft(_))) => unreset(pooler),
        Verdict::StayBehind | Verdict::Dropped => shared(verdict, pooler),
        Verdict::Inconclusive => inconclusive(seen),
    };
    if seen.wait == Some(Wait::Late) {
        advice.push("Do not rely on lock_timeout here: use pg_try_advisory_lock and try again.".to_owned());
    }
    advice
}

fn safe(seen: &Observed, pooler: PoolerKind) -> Vec<String> {
    let mut advice = vec![
        "An application's own pool still hands out one session to many tasks: take and free the lock on one \
         connection, and look at the boolean that pg_advisory_unlock returns."
            .to_owned(),
    ];
    // An advisory lock is one server's own.
    if seen.several_servers {
        advice.push(format!(
            "The DSN names several servers, and only {} was tried: clients that are led to different ones do not shut \
             each other out. With target_session_attrs=read-write all come to the primary.",
            seen.address
        ));
    }
    if seen.standby {
        advice.push(
            "This server is a standby: its locks shut nobody out on the primary. Take locks that guard writes there."
                .to_owned(),
        );
    }
    if matches!(seen.leaving, Some(Leaving::Reset(_))) {
        let settings = match pooler {
            PoolerKind::PgBouncer => "pool_mode=session and server_reset_query=DISCARD ALL",
            PoolerKind::Pgpool => "reset_query_list with DISCARD ALL",
            _ => "the session mode and its reset query",
        };
        advice.push(format!("It rests on the pooler's settings: keep {settings}, and probe again when they change."));
    }
    advice
}

/// A session pool without a reset.
fn unreset(pooler: PoolerKind) -> Vec<String> {
    let first = match pooler {
        PoolerKind::PgBouncer => "Set server_reset_query = DISCARD ALL in pgbouncer.ini, and RELOAD.",
        PoolerKind::Pgpool => "Set reset_query_list = 'ABORT; DISCARD ALL' in pgpool.conf, and reload.",
        _ => "Let the pooler run DISCARD ALL when a client leaves; or connect directly where session locks are taken.",
    };
    let mut advice = vec![first.to_owned()];
    if pooler == PoolerKind::PgBouncer {
        advice.push(
            "If this is a transaction pool of which each PgBouncer process has its own part (so_reuseport), that does \
             not help: use a session pool or a direct DSN."
                .to_owned(),
        );
    }
    advice.push(TRANSACTION_LOCK.to_owned());
    advice
}

const TRANSACTION_LOCK: &str = "Or use pg_advisory_xact_lock, which ends with its transaction whatever lies between.";

fn shared(verdict: Verdict, pooler: PoolerKind) -> Vec<String> {
    let (locks, session) = match pooler {
        PoolerKind::PgBouncerStatement => (
            "No advisory lock can be held over two statements here, not even pg_advisory_xact_lock.",
            "Use a direct DSN, or a database in pgbouncer.ini with pool_mode=session, for whatever takes locks.",
        ),
        PoolerKind::PgBouncer => (
            "Use pg_advisory_xact_lock, inside the transaction that does the work.",
            "Or use a direct DSN, or a database in pgbouncer.ini with pool_mode=session, for whatever takes session locks.",
        ),
        _ => (
            "Use pg_advisory_xact_lock, inside the transaction that does the work.",
            "Or use a direct DSN, or a session pool, for whatever takes session locks.",
        ),
    };
    let mut advice = vec![locks.to_owned(), session.to_owned()];
    advice.push(match verdict {
        Verdict::Dropped => {
            "Until then nothing protects what the lock is for: two clients can both believe that they hold it."
                .to_owned()
        }
        _ => "What may have stayed behind already is shown by: pglockwatch check --observe 90s".to_owned(),
    });
    advice
}

fn inconclusive(seen: &Observed) -> Vec<String> {
    let no_other = seen.busy.as_ref().is_some_and(|busy| busy.others == 0);
    let advice = match &seen.trouble {
        Some(Trouble::Connect(failure)) => return failure.hints.clone(),
        Some(Trouble::Silent(_) | Trouble::OutOfTime) => {
            "The server or a pooler is stopped, cut off or overloaded, or all its connections are in use: try again, \
             or with a longer --timeout."
        }
        Some(Trouble::Stopped) => "Let it run to its end.",
        _ if no_other => {
            "Run it when connections are free, or give this DSN's pool or role at least two: a pool of one backend \
             looks the same whatever its mode."
        }
        _ if seen.leaving == Some(Leaving::Blind) => "Turn track_activities on for this role, and probe again.",
        _ => "Try again.",
    };
    vec![advice.to_owned()]
}
