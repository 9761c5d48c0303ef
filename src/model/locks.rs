//! The rows of `pg_locks` that one poll read.
//!
//! Most are advisory locks that are held, and there may be very many: of those that one owner holds in one mode, only the
//! keys are kept one by one.

use std::ops::Range;

use super::{AdvisoryKey, LockMode, LockObject, LockOwner, LockRow, VirtualTransaction};

/// The rows of `pg_locks` that one poll read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locks {
    runs: Vec<Run>,
    keys: Vec<AdvisoryKey>,
    others: Vec<LockRow>,
}

/// Advisory locks that stand side by side and differ in nothing but their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    owner: LockOwner,
    mode: LockMode,
    virtualtransaction: VirtualTransaction,
    keys: Range<usize>,
}

/// Advisory locks that one owner holds in one mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held<'a> {
    /// Who holds them.
    pub owner: LockOwner,
    /// The mode.
    pub mode: LockMode,
    /// The owner's virtual transaction at that instant.
    pub virtualtransaction: VirtualTransaction,
    /// Their keys, as the server shows them.
    pub keys: &'a [AdvisoryKey],
}

impl Locks {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.keys.len()).sum::<usize>() + self.others.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The advisory locks that are held.
    pub fn held(&self) -> impl Iterator<Item = Held<'_>> + Clone {
        self.runs.iter().map(|run| self.of_run(run))
    }

    /// Locks that are waited for, and held ones that are no advisory locks.
    pub fn others(&self) -> &[LockRow] {
        &self.others
    }

    /// Everything, row by row.
    pub fn rows(&self) -> impl Iterator<Item = LockRow> + '_ {
        let row = |held: Held<'_>, key| LockRow {
            object: LockObject::Advisory(key),
            mode: held.mode,
            granted: true,
            owner: held.owner,
            virtualtransaction: held.virtualtransaction,
            waitstart: None,
        };
        let held = self.held().flat_map(move |held| held.keys.iter().map(move |&key| row(held, key)));
        held.chain(self.others.iter().cloned())
    }

    /// Whoever has or wants a lock, once for each of its rows but those that stand side by side and differ in their keys.
    pub fn owners(&self) -> impl Iterator<Item = LockOwner> + '_ {
        self.runs.iter().map(|run| run.owner).chain(self.others.iter().map(|row| row.owner))
    }

    /// Where the advisory locks of each owner are, if [`sort`](Self::sort) has put them in this order.
    pub fn by_owner(&self) -> impl Iterator<Item = (LockOwner, Range<usize>)> + '_ {
        let mut end = 0;
        self.runs.chunk_by(|one, other| one.owner == other.owner).map(move |runs| {
            let start = end;
            end += runs.len();
            (runs[0].owner, start..end)
        })
    }

    /// Those of [`held`](Self::held) at these places.
    pub fn held_at(&self, places: Range<usize>) -> impl Iterator<Item = Held<'_>> + Clone {
        self.runs[places].iter().map(|run| self.of_run(run))
    }

    /// Puts the advisory locks that are held in the order of their owners. Those of one owner stay as they are.
    pub fn sort(&mut self) {
        if !self.runs.is_sorted_by_key(|run| run.owner) {
            self.runs.sort_by_key(|run| run.owner);
        }
    }

    /// Takes in one row.
    pub fn push(&mut self, row: LockRow) {
        match row.object {
            LockObject::Advisory(key) if row.granted => {
                self.hold(row.owner, row.mode, row.virtualtransaction, key);
            }
            _ => self.others.push(row),
        }
    }

    /// Takes in an advisory lock that is held.
    pub fn hold(&mut self, owner: LockOwner, mode: LockMode, virtualtransaction: VirtualTransaction, key: AdvisoryKey) {
        self.keys.push(key);
        let end = self.keys.len();
        match self.runs.last_mut() {
            Some(last)
                if (last.owner, last.mode, last.virtualtransaction) == (owner, mode, virtualtransaction)
                    && last.keys.end == end - 1 =>
            {
                last.keys.end = end;
            }
            _ => self.runs.push(Run { owner, mode, virtualtransaction, keys: end - 1..end }),
        }
    }

    /// Makes room for so many advisory locks more.
    pub fn reserve(&mut self, keys: usize) {
        self.keys.reserve(keys);
    }

    /// Keeps only locks of these owners.
    pub fn retain_owners(&mut self, keep: impl Fn(LockOwner) -> bool) {
        self.runs.retain(|run| keep(run.owner));
        self.others.retain(|row| keep(row.owner));
    }

    /// Keeps only these of [`others`](Self::others).
    pub fn retain_others(&mut self, keep: impl Fn(&LockRow) -> bool) {
        self.others.retain(keep);
    }

    fn of_run(&self, run: &Run) -> Held<'_> {
        let Run { owner, mode, virtualtransaction, ref keys } = *run;
        Held { owner, mode, virtualtransaction, keys: &self.keys[keys.clone()] }
    }
}

impl Extend<LockRow> for Locks {
    fn extend<I: IntoIterator<Item = LockRow>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

impl FromIterator<LockRow> for Locks {
    fn from_iter<I: IntoIterator<Item = LockRow>>(rows: I) -> Self {
        let mut locks = Self::default();
        locks.extend(rows);
        locks
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::key;
    use super::*;

    fn row(pid: i32, number: u32, granted: bool) -> LockRow {
        LockRow {
            object: LockObject::Advisory(key(number)),
            mode: LockMode::Exclusive,
            granted,
            owner: LockOwner::Backend(pid),
            virtualtransaction: VirtualTransaction { backend: pid, local: 0 },
            waitstart: None,
        }
    }

    fn owners(locks: &Locks) -> Vec<(LockOwner, Vec<AdvisoryKey>)> {
        let keys = |places| locks.held_at(places).flat_map(|held| held.keys).copied().collect();
        locks.by_owner().map(|(owner, places)| (owner, keys(places))).collect()
    }

    #[test]
    fn every_row_comes_out_as_it_went_in() {
        let mut rows = [row(7, 2, true), row(7, 1, true), row(8, 1, true), row(7, 3, true)];
        rows[1].virtualtransaction.local = 5;
        rows[3].mode = LockMode::Share;
        let mut locks: Locks = rows.iter().cloned().collect();
        assert!(locks.rows().eq(rows.iter().cloned()));
        let table = LockObject::Other { locktype: "relation".to_owned(), identity: "1/2".to_owned() };
        let others = [row(9, 1, false), LockRow { object: table, ..row(8, 1, true) }];
        locks.extend(others.iter().cloned());
        assert!(locks.rows().eq(rows.iter().chain(&others).cloned()));
        assert_eq!((locks.len(), locks.held().count(), locks.others()), (6, 4, others.as_slice()));
    }

    #[test]
    fn rows_that_differ_in_nothing_but_the_key_are_kept_as_keys() {
        let locks: Locks = (0..100).map(|number| row(7, number, true)).collect();
        assert_eq!((locks.len(), locks.held().count(), locks.owners().count()), (100, 1, 1));
    }

    #[test]
    fn the_locks_of_an_owner_are_found_together_and_in_their_order() {
        let rows = [row(8, 2, true), row(7, 3, true), row(8, 1, true), row(7, 1, true)];
        let mut locks: Locks = rows.into_iter().collect();
        locks.sort();
        let [seven, eight] = [7, 8].map(LockOwner::Backend);
        assert_eq!(owners(&locks), [(seven, vec![key(3), key(1)]), (eight, vec![key(2), key(1)])]);
        locks.retain_owners(|owner| owner == eight);
        assert_eq!(owners(&locks), [(eight, vec![key(2), key(1)])]);
        assert_eq!((locks.len(), locks.is_empty()), (2, false));
    }
}
