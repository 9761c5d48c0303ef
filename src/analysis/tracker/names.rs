//! The names of keys, from poll to poll: a name is looked up again only if something that it rests on has changed.
//!
//! That is the dictionary, the names of databases, and the holder's application, user and statement.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use super::TargetNames;
use super::memory::Remembered;
use crate::analysis::Numbered;
use crate::analysis::report::{KeyReport, Shared};
use crate::keys::{KeyBook, LookUp, Name};
use crate::model::{AdvisoryKey, Backend, Oid, Pid, SharedText, Snapshot};

/// What a key is called, and the key as a report shows it.
#[derive(Debug)]
struct Known {
    names: Shared<Name>,
    report: KeyReport,
}

/// What the names of the last poll rest on.
#[derive(Debug, Default)]
pub(super) struct NameMemory {
    book: KeyBook,
    databases: HashMap<Oid, SharedText>,
    words: Numbered<Pid, Words>,
}

/// What a session says of itself.
#[derive(Debug, Clone)]
pub(super) struct Words {
    application: SharedText,
    user: Option<SharedText>,
    query: Option<Arc<str>>,
    /// The application's name without digits, if it has one: in a list, as memories of holds have it.
    pub plain_application: Option<Arc<[Box<str>]>>,
}

impl Words {
    fn of(backend: &Backend) -> Self {
        let plain = || backend.application.chars().filter(|c| !c.is_ascii_digit()).collect();
        Self {
            application: backend.application.clone(),
            user: backend.user.clone(),
            query: backend.query.clone(),
            plain_application: (!backend.application.is_empty()).then(|| Arc::from([plain()])),
        }
    }

    fn are_of(&self, backend: &Backend) -> bool {
        self.application == backend.application && self.user == backend.user && self.query == backend.query
    }
}

impl NameMemory {
    /// Begins a poll. Whether dictionary and databases are called as in the last one.
    pub(super) fn begin(&mut self, snapshot: &Snapshot, book: &KeyBook) -> bool {
        let databases = &snapshot.server.databases;
        let same_databases = databases.len() == self.databases.len()
            && databases.iter().all(|(oid, name)| self.databases.get(oid).is_some_and(|known| **known == **name));
        if !same_databases {
            self.databases = databases.iter().rev().cloned().collect();
        }
        let same_book = self.book.names_like(book);
        if !same_book {
            self.book = book.clone();
        }
        same_databases && same_book
    }

    /// What a session says of itself, and whether it said the same in the last poll.
    pub(super) fn words_of(&self, backend: &Backend) -> (Words, bool) {
        let same = self.words.get(&backend.pid).filter(|words| words.are_of(backend));
        (same.cloned().unwrap_or_else(|| Words::of(backend)), same.is_some())
    }

    /// Ends a poll in which the sessions that held something said this of themselves.
    pub(super) fn end(&mut self, words: impl Iterator<Item = (Pid, Words)>) {
        self.words.clear();
        self.words.extend(words);
    }

    /// Names a holder's locks, and returns their keys as reports show them: the list that was there before, if it still
    /// says it all. `places` has where each lock was before; nothing if all are where they were. `same_words`: what the
    /// names rest on is as in the last poll.
    pub(super) fn keys_of(
        &self,
        locks: &mut [Remembered],
        before: Arc<Vec<KeyReport>>,
        places: Option<&[Option<usize>]>,
        same_words: bool,
        backend: Option<&Backend>,
        names: TargetNames<'_>,
    ) -> Arc<Vec<KeyReport>> {
        let mut keys = places.map(|places| Vec::with_capacity(places.len()));
        for (place, lock) in locks.iter_mut().enumerate() {
            let known = places.map_or(Some(place), |places| places[place]).and_then(|place| before.get(place));
            let new = match known {
                Some(_) if same_words => None,
                known => self.look_up(lock.id.0, backend, names, known),
            };
            if let Some(new) = new {
                lock.names = new.names;
                keys.get_or_insert_with(|| before[..place].to_vec()).push(new.report);
            } else if let (Some(keys), Some(known)) = (&mut keys, known) {
                keys.push(known.clone());
            }
        }
        keys.map_or(before, Arc::new)
    }

    /// Looks a key of a holder up. Nothing if it still has no name and what was known of it stays.
    fn look_up(
        &self,
        key: AdvisoryKey,
        backend: Option<&Backend>,
        target: TargetNames<'_>,
        before: Option<&KeyReport>,
    ) -> Option<Known> {
        let database = self.databases.get(&key.database);
        let known = LookUp {
            database: database.map(Deref::deref),
            target: target.target,
            application: backend.map_or("", |backend| backend.application.as_str()),
            user: backend.and_then(|backend| backend.user.as_deref()).unwrap_or_default(),
            query: backend.and_then(|backend| backend.query.as_deref()).unwrap_or_default(),
        };
        let names = Shared::from(target.book.names(key.numbers, known));
        let stays = |before: &KeyReport| before.names.is_empty() && before.database.as_ref() == database;
        if names.is_empty() && before.is_some_and(stays) {
            return None;
        }
        Some(Known { report: KeyReport::new(key.numbers, database.cloned(), &names), names })
    }
}

#[cfg(test)]
mod tests;
