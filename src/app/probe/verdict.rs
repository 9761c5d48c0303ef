//! From what was seen to a verdict. Pure.

use super::observed::{AtRest, Cleanup, Leaving, Lock, Observed, StartupOption, Wait};
use super::words;

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A client keeps its session, and its locks go with it.
    Safe,
    /// A lock may stay on a backend that its client has no way to.
    StayBehind,
    /// A lock may go while its client believes to hold it.
    Dropped,
    /// Not enough was seen.
    Inconclusive,
}

impl Verdict {
    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::StayBehind => "unsafe: locks stay behind",
            Self::Dropped => "unsafe: locks are dropped",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// How an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// What its name says is so.
    Yes,
    /// It is not so.
    No,
    /// It was not run, because it was not needed or could have left a lock behind.
    NotTried,
    /// It was run, or was to be run, and nothing can be said.
    Unknown,
}

impl Outcome {
    /// For programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotTried => "not tried",
            Self::Unknown => "unknown",
        }
    }
}

/// One experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Experiment {
    /// For programs.
    pub name: &'static str,
    /// For people: what is so if the outcome is yes.
    pub title: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// One sentence without a full stop.
    pub evidence: String,
    /// No is bad news.
    pub must_hold: bool,
    /// It takes a session lock.
    pub takes_session_lock: bool,
}

/// Which pooler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolerKind {
    /// None was seen.
    None,
    /// pgpool-II said so itself.
    Pgpool,
    /// PgBouncer, by its words.
    PgBouncer,
    /// PgBouncer in statement mode, by its words.
    PgBouncerStatement,
    /// One that we do not know.
    Other,
    /// Nobody knows.
    Unknown,
}

/// A lock that is left, or may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The lock.
    pub lock: Lock,
    /// It was seen in `pg_locks`.
    pub seen: bool,
    /// Ends the session that holds it, and does nothing if that is no longer so.
    pub sql: String,
}

/// All that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// host:port
    pub address: String,
    /// The key's second number.
    pub objid: i32,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, one sentence each, the weightiest first.
    pub reasons: Vec<String>,
    /// What was tried, in order.
    pub experiments: Vec<Experiment>,
    /// What lies between.
    pub pooler: PoolerKind,
    /// Its name with how sure that is.
    pub pooler_words: String,
    /// What to change, one sentence each.
    pub advice: Vec<String>,
    /// Whether locks are left, in one sentence.
    pub cleanup: String,
    /// Those that are left, or may be.
    pub leftovers: Vec<Leftover>,
}

/// Judges.
pub fn judge(seen: Observed) -> Report {
    let verdict = verdict(&seen);
    let pooler = pooler(&seen);
    Report {
        verdict,
        reasons: words::reasons(&seen, verdict),
        experiments: words::experiments(&seen, pooler),
        pooler,
        pooler_words: words::pooler(&seen, pooler),
        advice: words::advice(&seen, verdict, pooler),
        cleanup: words::cleanup(&seen),
        leftovers: words::leftovers(&seen),
        address: seen.address,
        objid: seen.objid,
    }
}

/// What was proved to be unsafe stays so, whatever went wrong afterwards.
fn verdict(seen: &Observed) -> Verdict {
    if seen.is_reset() {
        return Verdict::Dropped;
    }
    if seen.is_shared() {
        return Verdict::StayBehind;
    }
    if let Some(lock) = seen.session_lock
        && !lock.kept
    {
        return Verdict::Dropped;
    }
    if seen.wait == Some(Wait::Granted) || seen.counted.is_some_and(|counted| !counted.after_one) {
        return Verdict::Dropped;
    }
    let stays = matches!(seen.leaving, Some(Leaving::AsLeft(_)))
        || seen.session_lock.is_some_and(|lock| !lock.unlocked || !lock.same_backend)
        || seen.left_behind.is_some_and(|left| !left.freed || left.inherited)
        || seen.transaction_lock.is_some_and(|lock| lock.left)
        || seen.counted.is_some_and(|counted| counted.after_two)
        || matches!(seen.cleanup, Cleanup::Left(_));
    if stays {
        return Verdict::StayBehind;
    }
    let all_seen = seen.trouble.is_none()
        && seen.session_lock.is_some()
        && seen.left_behind.is_some()
        && seen.cleanup == Cleanup::Clean;
    if all_seen { Verdict::Safe } else { Verdict::Inconclusive }
}

fn pooler(seen: &Observed) -> PoolerKind {
    let begin_refused = seen.busy.as_ref().and_then(|busy| busy.begin_refused.as_deref());
    let refuses_option = matches!(
        &seen.startup_option,
        Some(StartupOption::Refused(words)) if words.contains("unsupported startup parameter")
    );
    if seen.pool_version.is_some() {
        PoolerKind::Pgpool
    } else if begin_refused.is_some_and(|words| words.contains("statement pooling mode")) {
        PoolerKind::PgBouncerStatement
    } else if refuses_option {
        if begin_refused.is_some() { PoolerKind::PgBouncerStatement } else { PoolerKind::PgBouncer }
    } else if seen.is_shared()
        || seen.startup_option == Some(StartupOption::Dropped)
        || matches!(seen.leaving, Some(Leaving::Reset(_) | Leaving::AsLeft(_)))
        || seen.at_rest.iter().any(|look| matches!(look, AtRest::Reset(_)))
    {
        PoolerKind::Other
    } else if seen.startup_option == Some(StartupOption::Passed) && seen.leaving == Some(Leaving::Ended) {
        PoolerKind::None
    } else {
        PoolerKind::Unknown
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
