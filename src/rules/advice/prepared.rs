//! Advice about a lock that a prepared transaction holds: its transaction manager decides, not we.
//!
//! Pure text. No session holds such a lock, so nothing here names a pid or a function that ends sessions.

use super::facts::Facts;
use super::statement::timestamp;
use super::{steps, words};
use crate::analysis::HolderRef;
use crate::analysis::report::{Action, Advice};
use crate::keys::key;
use crate::model::PreparedTransaction;
use crate::quote;

/// Ask, connect, finish it under guard.
pub fn finish(facts: &Facts<'_>) -> Advice {
    let Some(prepared) = facts.prepared() else {
        return Advice {
            action: Action::Investigate,
            steps: vec!["Look at the prepared transactions:\nSELECT * FROM pg_prepared_xacts;".to_owned()],
            sql: None,
            caveats: Vec::new(),
            prevent: Vec::new(),
        };
    };
    let mut all = steps::contacts(facts);
    all.extend(finishing(prepared));
    all.extend(steps::verify(facts));
    Advice {
        action: Action::FinishPrepared,
        steps: all,
        sql: None,
        caveats: caveats(facts, prepared),
        prevent: Vec::new(),
    }
}

fn finishing(prepared: &PreparedTransaction) -> Vec<String> {
    let gid = quote::literal(&prepared.gid);
    let guarded = |what: &str, verb: &str| {
        format!(
            "{what}, in psql (it does nothing once that gid is another transaction's):\n\
             SELECT format('{verb} PREPARED %L', gid) FROM pg_prepared_xacts\n\
             WHERE gid = {gid} AND transaction = '{}'\n  AND prepared = {} \\gexec",
            prepared.transaction,
            timestamp(prepared.prepared)
        )
    };
    // Never both in one block: pasted together, the second would run where the first one's guard held back.
    let plain = |what: &str, verb: &str| format!("{what} without psql, unguarded:\n{verb} PREPARED {gid};");
    vec![
        format!(
            "Ask the transaction manager that prepared {gid} whether it wants COMMIT or ROLLBACK: only it knows what \
             the other participants did."
        ),
        format!(
            "Connect with psql to database {} as role {} or as a superuser.",
            quote::identifier(&prepared.database),
            quote::identifier(&prepared.owner)
        ),
        guarded("To roll it back", "ROLLBACK"),
        guarded("Or to commit it", "COMMIT"),
        plain("To roll it back", "ROLLBACK"),
        plain("Or to commit it", "COMMIT"),
    ]
}

fn caveats(facts: &Facts<'_>, prepared: &PreparedTransaction) -> Vec<String> {
    let mut caveats = vec![
        "No session holds this lock: it outlives disconnects and restarts until the transaction is finished."
            .to_owned(),
        "A wrong choice leaves the participants of a distributed transaction in disagreement, and cannot be undone."
            .to_owned(),
    ];
    let holder = HolderRef::Prepared(prepared.virtualtransaction);
    let mut others: Vec<_> = facts
        .context
        .observed
        .holds_of(holder)
        .map(|hold| hold.key)
        .filter(|key| facts.draft.keys.binary_search(key).is_err())
        .collect();
    others.sort();
    others.dedup();
    if !others.is_empty() {
        let texts: Vec<String> = others.iter().map(|found| key::text(found.numbers)).collect();
        caveats.push(format!("It also holds {}.", words::list(&texts)));
    }
    caveats.push("It also keeps its row and table locks and holds back VACUUM.".to_owned());
    let next = facts.draft.keys.iter().find_map(|&key| facts.next(key).map(|(pid, _)| (pid, key)));
    caveats.push(match next {
        Some((pid, key)) => {
            format!("{} gets {} next.", facts.session(pid).replacen("pid", "Pid", 1), key::text(key.numbers))
        }
        None => "Nobody waits for it: whoever asks next gets it.".to_owned(),
    });
    caveats
}
