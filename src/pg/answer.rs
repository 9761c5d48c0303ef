//! The answer to a poll, read row by row while the server still sends.
//!
//! Knows the order of the result sets that [`super::query::poll`] and [`super::query::last_resort`] have in common, and
//! which of them may be long: those are read as they come, the others are kept for whoever asked.

use std::collections::BTreeSet;

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::hoards::Hoards;
use super::rows::{self, BackendOfRole, LockRows, RowError};
use crate::model::{Pid, Texts, Time};

/// See the module.
pub(crate) struct Answer<'a> {
    /// What is known of locks whose keys were not asked for.
    hoards: &'a Hoards,
    /// The texts of sessions.
    texts: &'a mut Texts,
    /// Result sets that have begun.
    sets: usize,
    /// The last row of the clock's set: those before it come while settings are still being made.
    before_locks: Option<SimpleQueryRow>,
    locks: LockRows,
    /// The backends that hold or wait.
    pids: BTreeSet<Pid>,
    after_locks: Option<SimpleQueryRow>,
    sessions: Vec<BackendOfRole>,
    rest: Vec<Vec<SimpleQueryRow>>,
    /// The first row that could not be read; none is read after it.
    wrong: Option<RowError>,
}

/// A whole answer.
pub(crate) struct Parts {
    pub before_locks: Time,
    pub locks: LockRows,
    /// The backends that hold or wait.
    pub pids: BTreeSet<Pid>,
    pub after_locks: Time,
    /// Without the names that [`rows::Names::give`] gives.
    pub sessions: Vec<BackendOfRole>,
    /// The sets that follow.
    pub rest: Vec<Vec<SimpleQueryRow>>,
}

impl<'a> Answer<'a> {
    /// Nothing yet.
    pub(crate) fn new(hoards: &'a Hoards, texts: &'a mut Texts) -> Self {
        texts.begin();
        Self {
            hoards,
            texts,
            sets: 0,
            before_locks: None,
            locks: LockRows::default(),
            pids: BTreeSet::new(),
            after_locks: None,
            sessions: Vec::new(),
            rest: Vec::new(),
            wrong: None,
        }
    }

    /// Takes what comes next.
    pub(crate) fn take(&mut self, message: SimpleQueryMessage) {
        match message {
            SimpleQueryMessage::RowDescription(_) => self.begin_set(),
            SimpleQueryMessage::Row(row) if self.wrong.is_none() => self.wrong = self.read(row).err(),
            // Rows after one that cannot be read, ends of commands, and kinds of message that a later version of the
            // client may add.
            _ => {}
        }
    }

    fn begin_set(&mut self) {
        self.sets += 1;
        match self.sets {
            3 => {
                self.locks.complete();
                self.pids = self.locks.pids();
            }
            0..=4 => {}
            _ => self.rest.push(Vec::new()),
        }
    }

    fn read(&mut self, row: SimpleQueryRow) -> Result<(), RowError> {
        match self.sets {
            1 => self.before_locks = Some(row),
            2 => self.locks.read(&row, self.hoards)?,
            3 => self.after_locks = Some(row),
            4 => self.sessions.push(rows::backend(&row, &self.pids, self.texts)?),
            _ => {
                if let Some(set) = self.rest.last_mut() {
                    set.push(row);
                }
            }
        }
        Ok(())
    }

    /// The answer, if it has as many sets as were asked for.
    pub(crate) fn parts(self, expected: usize) -> Result<Parts, RowError> {
        if self.sets != expected {
            return Err(RowError::Sets { got: self.sets, expected });
        }
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let clock = RowError::Empty("clock");
        let (Some(before_locks), Some(after_locks)) = (self.before_locks, self.after_locks) else { return Err(clock) };
        let Self { locks, pids, sessions, rest, .. } = self;
        let [before_locks, after_locks] = [rows::clock(&before_locks)?, rows::clock(&after_locks)?];
        Ok(Parts { before_locks, locks, pids, after_locks, sessions, rest })
    }
}
