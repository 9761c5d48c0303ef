//! The experiments without a session lock, in order of harm. What they see decides whether those of
//! [`locks`](super::locks) are run at all.

use std::time::{Duration, Instant};

use super::bench::{Bench, Client};
use super::observed::{Alone, AtRest, Backend, Busy, Cleanup, Leaving, Lock, Observed, StartupOption, Trouble};
use super::statements::{self, BEGIN, POOL_VERSION, ROLLBACK, Statements};
use crate::pg::{self, Rows};
use crate::sql::frees_session_locks;

/// Statements of one client alone.
const ALONE: usize = 10;
/// So many other clients keep backends busy: whatever spreads connections over several processes or machines must
/// be unlikely to keep them all apart from the first.
const OTHERS: usize = 3;
/// Rounds of statements outside transactions, then inside.
const ROUNDS: usize = 5;
const TRANSACTION_ROUNDS: usize = 3;
/// Looks at a resting backend.
const LOOKS: usize = 3;
/// How long the first look waits for a reset, and the later ones if the first saw none.
const SETTLE: Duration = Duration::from_secs(1);
const SETTLE_AGAIN: Duration = Duration::from_millis(300);
/// The pause between two looks at the same thing.
pub(super) const PAUSE: Duration = Duration::from_millis(25);
/// The most that is waited for a pooler, or the server, to notice that a client has left.
pub(super) const LEAVING: Duration = Duration::from_secs(5);

/// An experiment went on to its end, or ends the whole probe.
pub(super) type Step = Result<(), Trouble>;

/// A probe at work.
pub(super) struct Run {
    pub bench: Bench,
    pub say: Statements,
    pub seen: Observed,
    /// The client that is experimented with.
    pub subject: Option<Client>,
    /// Those that keep backends busy; the first one looks on.
    pub others: Vec<Client>,
    /// Which client was served by which backend.
    served: Vec<(Client, Backend)>,
    /// The lock that would stay if everything stopped now.
    pub risk: Option<Lock>,
    /// Some lock was asked for.
    pub taken: bool,
}

impl Run {
    /// Ready to begin.
    pub fn new(bench: Bench, address: String, objid: i32) -> Self {
        Self {
            bench,
            say: Statements::new(objid),
            seen: Observed::new(address, objid),
            subject: None,
            others: Vec::new(),
            served: Vec::new(),
            risk: None,
            taken: false,
        }
    }

    /// Does all that may be done, and clears away whatever happened.
    pub fn run(mut self) -> Observed {
        if let Err(trouble) = self.experiments() {
            self.seen.trouble = Some(trouble);
        }
        self.seen.cleanup = if self.taken { self.clear_away() } else { self.leave_all() };
        self.seen
    }

    fn leave_all(&mut self) -> Cleanup {
        self.bench.clear_away(LEAVING);
        self.bench.begin_leaving_all(None);
        self.bench.all_left(None, Duration::from_secs(1));
        Cleanup::NothingTaken
    }

    fn experiments(&mut self) -> Step {
        self.alone()?;
        self.busy()?;
        self.signs()?;
        if self.others.is_empty() {
            return Ok(());
        }
        self.at_rest()?;
        if !self.seen.is_shared() && !self.seen.is_reset() {
            self.leaving()?;
        }
        self.locks()
    }

    /// The client that is experimented with, connected anew where it has left.
    pub fn subject(&mut self) -> Result<Client, Trouble> {
        if let Some(client) = self.subject {
            return Ok(client);
        }
        let is_first = self.seen.alone.is_none();
        let until = Instant::now() + self.bench.timeout() / 2;
        let (client, address) = loop {
            let client = self.bench.begin_connect(None)?;
            match self.bench.finish_connect(client) {
                Ok(address) => break (client, address),
                // The place of the one that has just left may not be free yet.
                Err(Trouble::Connect(failure)) if !is_first && Instant::now() < until => {
                    tracing::debug!(failure = failure.message, "connects again");
                    self.bench.pause(PAUSE * 4)?;
                }
                Err(trouble) => return Err(trouble),
            }
        };
        // Once it stays at one address it leads nowhere else.
        self.seen.several_servers |= self.bench.leads_to_several_servers();
        self.bench.stay_at(&address);
        self.seen.address = address;
        self.subject = Some(client);
        Ok(client)
    }

    /// Asks a client which backend serves it.
    pub fn backend_of(&mut self, client: Client, before: &str) -> Result<(Backend, String), Trouble> {
        self.backend_within(client, before, self.bench.timeout())
    }

    fn backend_within(
        &mut self,
        client: Client,
        before: &str,
        at_most: Duration,
    ) -> Result<(Backend, String), Trouble> {
        let mark = self.say.mark();
        self.bench.begin(client, format!("{before}{}", Statements::me(&mark)));
        let sets = self.bench.finish(client, at_most)?;
        let backend = backend(last_row(&sets)?)?;
        self.served.push((client, backend));
        Ok((backend, mark))
    }

    /// A backend that served two clients, all of which are still connected.
    fn shared(&self) -> Option<Backend> {
        let twice = |(client, backend): &&(Client, Backend)| {
            self.served.iter().any(|(other, same)| other != client && same == backend)
        };
        self.served.iter().find(twice).map(|(_, backend)| *backend)
    }

    /// 1: one client, nobody else.
    fn alone(&mut self) -> Step {
        let subject = self.subject()?;
        let mut backends = Vec::new();
        for _ in 0..ALONE {
            backends.push(self.backend_of(subject, "")?.0);
        }
        self.seen.alone = Some(Alone { statements: ALONE, backends: distinct(&backends) });
        let mark = self.say.mark();
        let sets = self.bench.ask(subject, Statements::standby(&mark))?;
        self.seen.standby = last_row(&sets)?.first().is_some_and(|cell| cell.as_deref() == Some("t"));
        Ok(())
    }

    /// 2: the same while others are busy. It ends as soon as it is clear that backends are shared.
    fn busy(&mut self) -> Step {
        let mut busy = Busy::default();
        let result = self.keep_busy(&mut busy);
        busy.others = self.others.len();
        self.seen.busy = Some(busy);
        result?;
        if self.seen.is_shared() { self.try_begin() } else { Ok(()) }
    }

    /// Where backends are shared already, transactions were not tried yet: a statement pool refuses them.
    fn try_begin(&mut self) -> Step {
        let (Some(&other), Some(busy)) = (self.others.last(), &mut self.seen.busy) else { return Ok(()) };
        if busy.begin_refused.is_some() {
            return Ok(());
        }
        match self.bench.ask(other, BEGIN.to_owned()) {
            Ok(_) => {
                self.bench.ask(other, ROLLBACK.to_owned())?;
            }
            Err(trouble) => {
                busy.begin_refused = Some(refused_begin(trouble)?);
                self.others.retain(|client| *client != other);
            }
        }
        Ok(())
    }

    fn keep_busy(&mut self, busy: &mut Busy) -> Step {
        let subject = self.subject()?;
        self.connect_others(subject, busy)?;
        for _ in 0..ROUNDS {
            for other in self.others.clone() {
                self.backend_of(other, "")?;
                busy.shared = self.shared();
                if busy.shared.is_some() {
                    return Ok(());
                }
                self.note_subject(subject, busy)?;
            }
        }
        for _ in 0..TRANSACTION_ROUNDS {
            if !self.round_in_transactions(subject, busy)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn note_subject(&mut self, subject: Client, busy: &mut Busy) -> Step {
        let (backend, _) = self.backend_of(subject, "")?;
        busy.statements += 1;
        busy.backends.push(backend);
        busy.backends = distinct(&busy.backends);
        Ok(())
    }

    fn connect_others(&mut self, subject: Client, busy: &mut Busy) -> Step {
        while self.others.len() < OTHERS {
            let other = self.bench.begin_connect(None)?;
            match self.bench.finish_connect(other) {
                Ok(_) => self.others.push(other),
                Err(trouble @ (Trouble::Stopped | Trouble::OutOfTime)) => return Err(trouble),
                Err(trouble) => {
                    busy.no_more = Some(trouble);
                    // It may still wait in a queue: whoever is served meanwhile has a place of its own.
                    if self.others.is_empty() {
                        for _ in 0..ROUNDS {
                            self.note_subject(subject, busy)?;
                        }
                        busy.served_before_another = ROUNDS;
                    }
                    self.bench.begin_leaving(other);
                    break;
                }
            }
        }
        Ok(())
    }

    /// All others hold a transaction open. Whether a further round may tell more.
    fn round_in_transactions(&mut self, subject: Client, busy: &mut Busy) -> Result<bool, Trouble> {
        for other in self.others.clone() {
            match self.backend_of(other, &format!("{BEGIN}; ")) {
                Ok(_) => {}
                Err(trouble) => {
                    busy.begin_refused = Some(refused_begin(trouble)?);
                    self.others.retain(|client| *client != other);
                    return Ok(false);
                }
            }
            busy.shared = self.shared();
            if busy.shared.is_some() {
                break;
            }
        }
        // If a backend is shared, the client may have to wait for the transactions: it is not asked.
        if busy.shared.is_none() && !self.others.is_empty() {
            self.note_subject(subject, busy)?;
            busy.in_transactions = true;
        }
        self.end_transactions()?;
        Ok(busy.shared.is_none() && !self.others.is_empty())
    }

    /// Ends the transactions of all others that have one.
    pub fn end_transactions(&mut self) -> Step {
        for other in self.others.clone() {
            if self.bench.rests(other) {
                self.bench.ask(other, ROLLBACK.to_owned())?;
            }
        }
        Ok(())
    }

    /// 3: what lies between. One connection more than until now is not asked for, if there are several others.
    fn signs(&mut self) -> Step {
        let subject = self.subject()?;
        match self.bench.ask(subject, POOL_VERSION.to_owned()) {
            Ok(sets) => self.seen.pool_version = last_row(&sets)?.first().cloned().flatten(),
            Err(Trouble::Refused { fatal, .. }) => {
                if fatal {
                    self.subject = None;
                }
            }
            Err(trouble) => return Err(trouble),
        }
        if self.others.len() > 1
            && let Some(last) = self.others.pop()
        {
            self.served.retain(|(client, _)| *client != last);
            self.bench.leave(last)?;
        }
        let client = self.bench.begin_connect(Some(&statements::startup_option()))?;
        self.seen.startup_option = Some(match self.bench.finish_connect(client) {
            Ok(_) => {
                let mark = self.say.mark();
                let sets = self.bench.ask(client, Statements::option(&mark))?;
                let reached = last_row(&sets)?.first().is_some_and(|value| value.as_deref() == Some("1"));
                self.bench.leave(client)?;
                if reached { StartupOption::Passed } else { StartupOption::Dropped }
            }
            Err(Trouble::Connect(failure)) if failure.message.contains("startup parameter") => {
                let words = failure.message.rsplit(": unsupported").next().unwrap_or_default();
                StartupOption::Refused(format!("unsupported{words}"))
            }
            Err(trouble @ (Trouble::Stopped | Trouble::OutOfTime)) => return Err(trouble),
            Err(_) => StartupOption::Unknown,
        });
        self.bench.begin_leaving(client);
        Ok(())
    }

    /// 4: what another session sees of the client's backend while the client rests. The onlooker keeps a backend of
    /// its own meanwhile, by a transaction.
    fn at_rest(&mut self) -> Step {
        let Some(&onlooker) = self.others.first() else { return Ok(()) };
        if self.seen.busy.as_ref().is_some_and(|busy| busy.begin_refused.is_some()) {
            return Ok(());
        }
        let subject = self.subject()?;
        self.backend_of(onlooker, &format!("{BEGIN}; "))?;
        for _ in 0..LOOKS {
            match self.backend_within(subject, "", self.bench.timeout() / 2) {
                Ok((backend, mark)) => {
                    let look = self.look_at_rest(onlooker, backend, &mark)?;
                    self.seen.at_rest.push(look);
                }
                // A single backend serves both: nobody can look on.
                Err(Trouble::Silent(_)) => break,
                Err(trouble) => return Err(trouble),
            }
        }
        self.bench.ask(onlooker, ROLLBACK.to_owned())?;
        if !self.bench.rests(subject) {
            self.bench.finish(subject, self.bench.timeout())?;
        }
        Ok(())
    }

    fn look_at_rest(&mut self, onlooker: Client, backend: Backend, mark: &str) -> Result<AtRest, Trouble> {
        let untouched = |look: &AtRest| matches!(look, AtRest::Untouched | AtRest::Blind);
        let calm = !self.seen.at_rest.is_empty() && self.seen.at_rest.iter().all(untouched);
        let until = Instant::now() + if calm { SETTLE_AGAIN } else { SETTLE };
        loop {
            let look = match self.look(onlooker, backend)? {
                None => AtRest::Ended,
                Some((_, query)) if query.contains(mark) => AtRest::Untouched,
                Some((state, query)) if is_hidden(&state, &query) => AtRest::Blind,
                Some((_, query)) if frees_session_locks(&query) => AtRest::Reset(query),
                Some(_) => AtRest::Used,
            };
            if look != AtRest::Untouched || Instant::now() >= until {
                return Ok(look);
            }
            self.bench.pause(PAUSE)?;
        }
    }

    /// The state and the last statement of a backend; nothing if it has ended.
    fn look(&mut self, onlooker: Client, backend: Backend) -> Result<Option<(String, String)>, Trouble> {
        let mark = self.say.mark();
        let sets = self.bench.ask(onlooker, Statements::look_at(backend, &mark))?;
        let rows = sets.last().ok_or(Trouble::Unreadable)?;
        let text = |cell: Option<&Option<String>>| cell.cloned().flatten().unwrap_or_default();
        Ok(rows.first().map(|row| (text(row.first()), text(row.get(1)))))
    }

    /// 5: what becomes of the backend when the client leaves. Looked at before any session lock is taken.
    fn leaving(&mut self) -> Step {
        let Some(&onlooker) = self.others.first() else { return Ok(()) };
        for _ in 0..LOOKS {
            let subject = self.subject()?;
            let (backend, mark) = self.backend_of(subject, "")?;
            self.forget_subject(subject)?;
            let leaving = self.look_after(onlooker, backend, &mark)?;
            // Somebody else may have got the backend and begun to work before the look.
            let again = matches!(leaving, Leaving::AsLeft(Some(_)));
            self.seen.leaving = Some(leaving);
            if !again {
                break;
            }
        }
        Ok(())
    }

    /// The client leaves. Whoever gets its backend next shares nothing with it.
    pub fn forget_subject(&mut self, subject: Client) -> Step {
        self.subject = None;
        self.served.retain(|(client, _)| *client != subject);
        self.bench.leave(subject)
    }

    fn look_after(&mut self, onlooker: Client, backend: Backend, mark: &str) -> Result<Leaving, Trouble> {
        let until = Instant::now() + LEAVING.min(self.bench.timeout());
        loop {
            let late = Instant::now() >= until;
            match self.look(onlooker, backend)? {
                None => return Ok(Leaving::Ended),
                Some((state, query)) if is_hidden(&state, &query) => {
                    if late {
                        return Ok(Leaving::Blind);
                    }
                }
                Some((_, query)) if query.contains(mark) => {
                    if late {
                        return Ok(Leaving::AsLeft(None));
                    }
                }
                Some((_, query)) if frees_session_locks(&query) => return Ok(Leaving::Reset(query)),
                Some((_, query)) => return Ok(Leaving::AsLeft(Some(query))),
            }
            self.bench.pause(PAUSE)?;
        }
    }
}

/// How BEGIN was refused. Whoever closes the connection with the refusal may close it before the words are read.
fn refused_begin(trouble: Trouble) -> Result<String, Trouble> {
    match trouble {
        Trouble::Refused { message, .. } => Ok(message),
        Trouble::Lost(why) => Ok(why),
        trouble => Err(trouble),
    }
}

/// The last row of an answer.
pub(super) fn last_row(sets: &[Rows]) -> Result<&[Option<String>], Trouble> {
    sets.iter().rev().find_map(|rows| rows.last()).map(Vec::as_slice).ok_or(Trouble::Unreadable)
}

/// A backend from the first three columns: pid, backend_start, the database's oid.
pub(super) fn backend(row: &[Option<String>]) -> Result<Backend, Trouble> {
    let read = || {
        let cell = |place: usize| row.get(place)?.as_deref();
        Some(Backend { pid: cell(0)?.parse().ok()?, started: pg::moment(cell(1)?)?, database: cell(2)?.parse().ok()? })
    };
    read().ok_or(Trouble::Unreadable)
}

/// Each once, in the order in which they came; two in turns are two.
fn distinct(backends: &[Backend]) -> Vec<Backend> {
    let mut distinct: Vec<Backend> = Vec::new();
    for backend in backends {
        if !distinct.contains(backend) {
            distinct.push(*backend);
        }
    }
    distinct
}

/// Statements are not told: `track_activities` is off, or we may not see them.
fn is_hidden(state: &str, query: &str) -> bool {
    state == "disabled" || query.is_empty() || query == "<insufficient privilege>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_read_or_refused() {
        let row = |cells: [Option<&str>; 3]| cells.map(|cell| cell.map(str::to_owned));
        let read = backend(&row([Some("7"), Some("00030467b4349773"), Some("5")])).unwrap();
        assert_eq!((read.pid, read.database), (7, 5));
        assert_eq!(backend(&row([Some("7"), None, Some("5")])), Err(Trouble::Unreadable));
    }
}
