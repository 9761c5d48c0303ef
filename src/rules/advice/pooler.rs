//! What to do about a session lock that was left on a server connection of PgBouncer.
//!
//! Pure text from facts. RECONNECT closes each server connection of a database once it is free: an idle one at once, one
//! in use when its client gives it back; the client notices nothing. KILL, PAUSE and SHUTDOWN, which clients do notice,
//! are never suggested.

use super::facts::Facts;
use super::statement::{self, Holding};
use super::{VERIFY, caveats, words};
use crate::analysis::Pooled;
use crate::analysis::report::{Action, Advice};
use crate::quote;

/// The advice; nothing where the draft's session is not one of a shared pool.
pub fn reconnect(facts: &Facts<'_>) -> Option<Advice> {
    let pid = *facts.draft.pids.first()?;
    let pooled = facts.context.observed.shared_pool(pid)?;
    let holding = facts.holding(pid);
    let command = reconnect_command(&pooled.database);
    let mut steps = vec![
        "Find the code that takes this lock with a session-level function through the pooler: it is not the application \
         that is shown."
            .to_owned(),
        "Check that nobody still works under the lock: the client that took it may believe that it holds it."
            .to_owned(),
    ];
    if let Some(command) = &command {
        steps.push(format!(
            "In the console of PgBouncer at {}, as one of its admin_users, let PgBouncer replace the connections of the \
             pool:\n{command}",
            words::name(&pooled.pooler)
        ));
        steps.push(format!(
            "See there that it does: the row with remote_pid {pid} is gone, or has close_needed 1 until its client gives \
             it back:\nSHOW SERVERS;"
        ));
    }
    if holding.is_some() {
        let instead =
            if command.is_some() { "Without admin access run the statement instead" } else { "Run the statement" };
        steps.push(format!(
            "{instead}, on the server itself and not through the pooler. It ends pid {pid} only while it is in no \
             transaction; while it is lent out it says 'working for somebody now': run it again (in psql: \\watch 1, \
             and Ctrl-C once it says 'terminated')."
        ));
    }
    Some(Advice {
        action: Action::ReconnectPooler,
        steps,
        sql: holding.as_ref().map(|holding| statement::terminate(holding, facts.source())),
        caveats: caveats_of(facts, pooled, holding.as_ref(), command.is_some()),
        prevent: Vec::new(),
    })
}

/// `RECONNECT "app";`, with the name quoted as PgBouncer's console reads it. Nothing for a name that cannot be typed.
fn reconnect_command(database: &str) -> Option<String> {
    let typed = !database.is_empty() && !database.chars().any(quote::is_unsafe);
    typed.then(|| format!("RECONNECT \"{}\";", database.replace('"', "\"\"")))
}

fn caveats_of(facts: &Facts<'_>, pooled: &Pooled, holding: Option<&Holding>, can_reconnect: bool) -> Vec<String> {
    let mut caveats = Vec::new();
    if can_reconnect {
        caveats.push(format!(
            "RECONNECT replaces every server connection of PgBouncer's database {}, of all its users: each is closed as \
             soon as it is free, no client is cut off, and the server sees that many new logins.",
            words::name(&pooled.database)
        ));
        caveats.push(
            "A connection that its client never gives back is not closed: then only the statement helps, or the end of \
             that client's transaction."
                .to_owned(),
        );
    }
    caveats.extend(caveats::of_a_lost_lock(facts, holding));
    caveats
}

/// How to see whether it helped.
pub fn verify(facts: &Facts<'_>) -> Option<String> {
    facts.key_text().map(|key| format!("{VERIFY}{} --pgbouncer DSN", words::check_key(&key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_the_console_reads_them() {
        assert_eq!(reconnect_command("app").as_deref(), Some("RECONNECT \"app\";"));
        assert_eq!(reconnect_command("o\"d d'x").as_deref(), Some("RECONNECT \"o\"\"d d'x\";"));
        assert_eq!(reconnect_command("two\nlines"), None);
        assert_eq!(reconnect_command(""), None);
    }
}
