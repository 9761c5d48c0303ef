//! The experiments with locks, and how what they leave is cleared away.
//!
//! A transaction lock ends with its transaction, whatever lies between. A session lock is taken only where a client was
//! seen to keep its backend, and where the backend was seen to end, or to be reset, when its client leaves.

use std::time::{Duration, Instant};

use super::bench::Client;
use super::observed::{Backend, Cleanup, Counted, LeftBehind, Lock, SessionLock, TransactionLock, Trouble, Wait};
use super::run::{LEAVING, PAUSE, Run, Step, backend, last_row};
use super::statements::{BEGIN, COMMIT, ROLLBACK};
use crate::pg::{self, Rows};

/// The `lock_timeout` that is tried.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);
/// How long clearing away waits for connections to close, and for locks to go.
const CLEARING: Duration = Duration::from_secs(3);
/// Attempts to reach a backend that kept a lock.
const ATTEMPTS: usize = 4;

impl Run {
    /// 6 to 11.
    pub(super) fn locks(&mut self) -> Step {
        let refuses_begin = self.seen.busy.as_ref().is_some_and(|busy| busy.begin_refused.is_some());
        if !refuses_begin {
            self.transaction_lock()?;
            // Two clients at once need two backends.
            if !self.seen.at_rest.is_empty() {
                self.wait_for_lock()?;
            }
        }
        if self.seen.keeps_backend() {
            self.session_lock()?;
            if self.risk.is_none() {
                self.count()?;
                self.leave_behind()?;
            }
        }
        Ok(())
    }

    /// Says which lock is about to be asked for: from now on it may be there.
    fn about_to_lock(&mut self, client: Client, shared: bool, of_transaction: bool) -> Result<Backend, Trouble> {
        let (backend, _) = self.backend_of(client, "")?;
        self.risk = Some(Lock { backend, shared, of_transaction });
        self.taken = true;
        Ok(backend)
    }

    /// What an advisory lock function answered, and which backend ran it.
    fn call(&mut self, client: Client, before: &str, function: &str) -> Result<(Backend, bool), Trouble> {
        let mark = self.say.mark();
        let sets = self.bench.ask(client, format!("{before}{}", self.say.call(function, &mark)))?;
        let row = last_row(&sets)?;
        Ok((backend(row)?, row.get(3).is_some_and(|value| value.as_deref() == Some("t"))))
    }

    /// Whether the client's own backend holds the key.
    fn holds(&mut self, client: Client) -> Result<(Backend, bool), Trouble> {
        let mark = self.say.mark();
        let sets = self.bench.ask(client, self.say.mine(&mark))?;
        let row = last_row(&sets)?;
        let count = row.get(3).and_then(Option::as_deref).ok_or(Trouble::Unreadable)?;
        Ok((backend(row)?, count != "0"))
    }

    /// Who holds the key, of all sessions.
    fn holders(&mut self, client: Client) -> Result<Vec<Lock>, Trouble> {
        let mark = self.say.mark();
        let sets = self.bench.ask(client, self.say.holders(&mark))?;
        sets.last().ok_or(Trouble::Unreadable)?.iter().map(|row| self.holder(row)).collect()
    }

    fn holder(&self, row: &[Option<String>]) -> Result<Lock, Trouble> {
        let cell = |place: usize| row.get(place).and_then(Option::as_deref);
        let read = || {
            Some(Lock {
                backend: Backend {
                    pid: cell(0)?.parse().ok()?,
                    // A session that is just ending has its lock a moment longer than its row.
                    started: cell(1).and_then(pg::moment).or(Some(self.risk?.backend.started))?,
                    database: cell(2)?.parse().ok()?,
                },
                shared: cell(3)? == "ShareLock",
                of_transaction: self.risk.is_some_and(|risk| risk.of_transaction),
            })
        };
        read().ok_or(Trouble::Unreadable)
    }

    /// Waits until nobody holds the key; whether that came in time.
    fn until_free(&mut self, client: Client, at_most: Duration) -> Result<Vec<Lock>, Trouble> {
        let until = Instant::now() + at_most;
        loop {
            let holders = self.holders(client)?;
            if holders.is_empty() || Instant::now() >= until {
                return Ok(holders);
            }
            self.bench.pause(PAUSE)?;
        }
    }

    /// 6: a transaction lock.
    fn transaction_lock(&mut self) -> Step {
        let subject = self.subject()?;
        self.about_to_lock(subject, false, true)?;
        self.call(subject, &format!("{BEGIN}; "), "pg_try_advisory_xact_lock")?;
        let (_, held) = self.holds(subject)?;
        self.bench.ask(subject, COMMIT.to_owned())?;
        let left = !self.holders(subject)?.is_empty();
        if !left {
            self.risk = None;
        }
        self.seen.transaction_lock = Some(TransactionLock { held, left });
        Ok(())
    }

    /// 7: one client holds a transaction lock, another waits for it with a `lock_timeout`.
    fn wait_for_lock(&mut self) -> Step {
        let subject = self.subject()?;
        let Some(&waiter) = self.others.first() else { return Ok(()) };
        self.about_to_lock(subject, false, true)?;
        self.call(subject, &format!("{BEGIN}; "), "pg_try_advisory_xact_lock")?;
        let statement_timeout = self.bench.timeout() / 2;
        let mark = self.say.mark();
        let message = self.say.wait(LOCK_TIMEOUT.as_millis(), statement_timeout.as_millis().max(1), &mark);
        self.bench.begin(waiter, message);
        let answer = self.bench.finish(waiter, self.bench.timeout());
        // In this order, so that a waiter which still waits gets its answer.
        self.bench.ask(subject, ROLLBACK.to_owned())?;
        self.seen.wait = Some(how_it_ended(answer)?);
        if !self.bench.rests(waiter) {
            // Its answer is of no interest any more.
            drop(self.bench.finish(waiter, self.bench.timeout()));
        }
        self.bench.ask(waiter, ROLLBACK.to_owned())?;
        if self.holders(subject)?.is_empty() {
            self.risk = None;
        }
        Ok(())
    }

    /// 8 and 9: a session lock over transactions, and its unlock, while the others are in transactions.
    fn session_lock(&mut self) -> Step {
        let subject = self.subject()?;
        self.about_to_lock(subject, false, false)?;
        let (taker, _) = self.call(subject, "", "pg_try_advisory_lock")?;
        for other in self.others.clone() {
            self.backend_of(other, &format!("{BEGIN}; "))?;
        }
        let mut transactions = 0;
        for statement in ["SELECT 1", "SELECT 1/0"] {
            match self.bench.ask(subject, format!("{BEGIN}; {statement}")) {
                Ok(_) | Err(Trouble::Refused { fatal: false, .. }) => {}
                Err(trouble) => return Err(trouble),
            }
            self.bench.ask(subject, if transactions == 0 { COMMIT } else { ROLLBACK }.to_owned())?;
            transactions += 1;
        }
        let (_, kept) = self.holds(subject)?;
        self.end_transactions()?;
        let (freer, unlocked) = self.call(subject, "", "pg_advisory_unlock")?;
        self.seen.session_lock = Some(SessionLock { transactions, kept, same_backend: taker == freer, unlocked });
        if self.holders(subject)?.is_empty() {
            self.risk = None;
        }
        Ok(())
    }

    /// 10: all in one message.
    fn count(&mut self) -> Step {
        let subject = self.subject()?;
        self.about_to_lock(subject, false, false)?;
        let mark = self.say.mark();
        let sets = self.bench.ask(subject, self.say.count(&mark))?;
        // take, take, free, look, free, look, free
        let value = |place: usize| {
            let row: &Rows = sets.get(place).ok_or(Trouble::Unreadable)?;
            row.first().and_then(|row| row.first().cloned().flatten()).ok_or(Trouble::Unreadable)
        };
        let (after_one, after_two, third) = (value(3)?, value(5)?, value(6)?);
        self.seen.counted =
            Some(Counted { after_one: after_one != "0", after_two: after_two != "0", third: third == "t" });
        if self.holders(subject)?.is_empty() {
            self.risk = None;
        }
        Ok(())
    }

    /// 11: a client leaves with a lock, which blocks nobody: it is shared, on a key of this run.
    fn leave_behind(&mut self) -> Step {
        let Some(&onlooker) = self.others.first() else { return Ok(()) };
        let subject = self.subject()?;
        self.about_to_lock(subject, true, false)?;
        self.call(subject, "", "pg_try_advisory_lock_shared")?;
        self.forget_subject(subject)?;
        let freed = self.until_free(onlooker, LEAVING.min(self.bench.timeout()))?.is_empty();
        if freed {
            self.risk = None;
        }
        let fresh = self.subject()?;
        let (_, inherited) = self.holds(fresh)?;
        self.seen.left_behind = Some(LeftBehind { freed, inherited });
        Ok(())
    }

    /// Closes all connections, looks whether a lock is left, and frees it where that can be done.
    pub(super) fn clear_away(&mut self) -> Cleanup {
        let at_most = CLEARING + LEAVING.min(self.bench.timeout());
        self.bench.clear_away(at_most);
        let onlooker = self.others.iter().copied().find(|other| self.bench.rests(*other));
        self.bench.begin_leaving_all(onlooker);
        self.bench.all_left(onlooker, CLEARING);
        match self.look_for_leftovers(onlooker) {
            Ok(left) if left.is_empty() => Cleanup::Clean,
            Ok(left) => Cleanup::Left(left),
            Err(_) => Cleanup::Unknown(self.risk),
        }
    }

    fn look_for_leftovers(&mut self, onlooker: Option<Client>) -> Result<Vec<Lock>, Trouble> {
        let onlooker = match onlooker {
            Some(onlooker) => onlooker,
            None => self.bench.connect()?,
        };
        self.bench.ask(onlooker, ROLLBACK.to_owned())?;
        let mut left = self.until_free(onlooker, CLEARING / 2)?;
        for _ in 0..ATTEMPTS {
            let Some(lock) = left.first().copied() else { break };
            self.free(lock)?;
            left = self.holders(onlooker)?;
        }
        self.bench.begin_leaving(onlooker);
        Ok(left)
    }

    /// A fresh client may be served by the backend that kept the lock; then it can free it.
    fn free(&mut self, lock: Lock) -> Step {
        let client = self.bench.connect()?;
        if self.backend_of(client, "")?.0 == lock.backend {
            let function = if lock.shared { "pg_advisory_unlock_shared" } else { "pg_advisory_unlock" };
            self.call(client, "", function)?;
        }
        self.bench.begin_leaving(client);
        Ok(())
    }
}

fn how_it_ended(answer: Result<Vec<Rows>, Trouble>) -> Result<Wait, Trouble> {
    match answer {
        Ok(_) => Ok(Wait::Granted),
        Err(Trouble::Refused { code, .. }) if code == "55P03" => Ok(Wait::TimedOut),
        Err(Trouble::Refused { code, .. }) if code == "57014" => Ok(Wait::Late),
        Err(Trouble::Silent(_)) => Ok(Wait::Late),
        Err(Trouble::Refused { message, fatal: false, .. }) => Ok(Wait::Other(message)),
        Err(trouble) => Err(trouble),
    }
}
