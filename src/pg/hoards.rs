//! What is known of sessions that hold very many advisory locks: as long as they hold the same ones, the server adds up
//! hashes of their keys, and sends the sum in place of the keys.
//!
//! Knows which keys had which sum over this connection, and whose keys the next poll need not ask for; knows nothing of
//! statements and rows. A sum of 64-bit hashes stands for one set of keys: two sets with the same one do not come about
//! by chance, nor on purpose, for each connection's hashes begin with a number of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};

use crate::model::{LockMode, Oid, Pid};

/// A session with so many locks of one kind is one whose locks are worth knowing.
const MANY: usize = 512;

/// No more sessions, those with the most locks, are counted: each costs the server a comparison per lock.
const MOST_COUNTED: usize = 8;

/// So many answers in a row must have had the same sum. A poll that is asked twice, for a hoard has changed, costs as much
/// as the polls before it have saved.
const SETTLED: u32 = 8;

/// Advisory locks that one backend holds, and that differ in the two numbers of their keys only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    /// Who holds them.
    pub pid: Pid,
    /// The mode.
    pub mode: LockMode,
    /// The database of the keys.
    pub database: Oid,
    /// Of the keys: whether they are one bigint or two integers.
    pub objsubid: u16,
}

/// The keys of a group, both numbers in one as the server sends them, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hoard {
    sum: String,
    keys: Vec<i64>,
    /// So many answers in a row had this sum.
    same: u32,
}

/// What one answer said.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The sums of groups whose keys were sent, and these keys: of the sessions that had many locks before.
    sent: Vec<(Group, Hoard)>,
    /// Groups whose sum came in place of their keys.
    counted: BTreeSet<Group>,
    /// Sessions with many locks, and how many.
    many: BTreeMap<Pid, usize>,
    /// A sum came that stands for nothing we know.
    unknown: bool,
}

impl Seen {
    /// Takes in a group whose keys were sent.
    pub(crate) fn sent(&mut self, known: &Hoards, group: Group, sum: Option<&str>, keys: &[i64]) {
        self.measure(group, keys.len());
        if let Some(sum) = sum.filter(|_| known.pids.contains(&group.pid)) {
            self.sent.push((group, Hoard { sum: sum.to_owned(), keys: keys.to_vec(), same: 1 }));
        }
    }

    /// Takes in a group of which only the sum was sent. Its keys, if they are known: else the answer is of no use.
    pub(crate) fn counted<'a>(&mut self, known: &'a Hoards, group: Group, sum: &str) -> &'a [i64] {
        let hoard = known.known.get(&group).filter(|hoard| hoard.sum == sum);
        let keys = hoard.map(|hoard| hoard.keys.as_slice()).unwrap_or_default();
        self.unknown |= hoard.is_none();
        self.measure(group, keys.len());
        self.counted.insert(group);
        keys
    }

    /// Whether keys are missing: the poll must be asked again, for all of them.
    pub(crate) fn unknown(&self) -> bool {
        self.unknown
    }

    fn measure(&mut self, group: Group, keys: usize) {
        if keys >= MANY {
            *self.many.entry(group.pid).or_default() += keys;
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Hoards {
    /// What the hashes begin with.
    pub seed: i64,
    known: BTreeMap<Group, Hoard>,
    /// The sessions with the most locks when we last looked, if they had many.
    pids: BTreeSet<Pid>,
}

impl Default for Hoards {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(()).cast_signed();
        Self { seed, known: BTreeMap::new(), pids: BTreeSet::new() }
    }
}

impl Hoards {
    /// Whether sums are wanted: there is something to know.
    pub(crate) fn any(&self) -> bool {
        !self.pids.is_empty()
    }

    /// The sessions whose keys need not be sent: all that they hold was the same for long enough.
    pub(crate) fn settled(&self) -> Vec<Pid> {
        let mut by_pid: BTreeMap<Pid, bool> = BTreeMap::new();
        for (group, hoard) in &self.known {
            *by_pid.entry(group.pid).or_insert(true) &= hoard.same >= SETTLED;
        }
        by_pid.into_iter().filter(|(_, settled)| *settled).map(|(pid, _)| pid).collect()
    }

    /// Learns from an answer with so many locks in all. Where most locks are of none of the largest hoards nothing is
    /// worth knowing: each sum costs the server a bit of every lock, and us the keys.
    pub(crate) fn learn(&mut self, seen: Seen, locks: usize) {
        let Seen { sent, counted, many, .. } = seen;
        let mut largest: Vec<(usize, Pid)> = many.into_iter().map(|(pid, keys)| (keys, pid)).collect();
        largest.sort_unstable_by(|one, other| other.cmp(one));
        largest.truncate(MOST_COUNTED);
        let hoarded: usize = largest.iter().map(|(keys, _)| keys).sum();
        let pids = largest.into_iter().map(|(_, pid)| pid);
        self.pids = if hoarded * 2 < locks { BTreeSet::new() } else { pids.collect() };
        self.known.retain(|group, _| self.pids.contains(&group.pid));
        let mut before = std::mem::take(&mut self.known);
        for (group, mut hoard) in sent.into_iter().filter(|(group, _)| self.pids.contains(&group.pid)) {
            hoard.same += before.get(&group).filter(|before| before.sum == hoard.sum).map_or(0, |before| before.same);
            self.known.insert(group, hoard);
        }
        for group in counted {
            if let Some(hoard) = before.remove(&group) {
                self.known.insert(group, hoard);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = MANY;

    fn group(pid: Pid, mode: LockMode) -> Group {
        Group { pid, mode, database: 5, objsubid: 1 }
    }

    fn keys(count: usize) -> Vec<i64> {
        (1..).take(count).collect()
    }

    /// The answer that sends all keys of these groups with these sums.
    fn sent(hoards: &Hoards, groups: &[(Group, &str, usize)]) -> Seen {
        let mut seen = Seen::default();
        for (group, sum, count) in groups {
            seen.sent(hoards, *group, Some(sum), &keys(*count));
        }
        seen
    }

    /// These have learned, from as many answers as it takes, that a session holds `KEYS` locks.
    fn settled(pid: Pid) -> Hoards {
        let mut hoards = Hoards::default();
        for answers in 0..=SETTLED {
            hoards.learn(sent(&hoards, &[(group(pid, LockMode::Exclusive), "a sum", KEYS)]), KEYS);
            assert_eq!(hoards.settled(), if answers == SETTLED { vec![pid] } else { vec![] });
            assert!(hoards.any());
        }
        hoards
    }

    #[test]
    fn what_stays_the_same_need_not_be_sent() {
        let mut hoards = settled(7);
        for _ in 0..3 {
            let mut seen = Seen::default();
            assert_eq!(seen.counted(&hoards, group(7, LockMode::Exclusive), "a sum"), keys(KEYS));
            assert!(!seen.unknown());
            hoards.learn(seen, KEYS);
            assert_eq!(hoards.settled(), [7], "as long as it stays");
        }
    }

    #[test]
    fn what_changes_is_asked_for_until_it_stays() {
        let mut hoards = settled(7);
        let exclusive = group(7, LockMode::Exclusive);
        let mut seen = Seen::default();
        assert!(seen.counted(&hoards, exclusive, "another sum").is_empty());
        assert!(seen.unknown());
        for sum in ["another sum", "a third"] {
            for answers in 1..SETTLED {
                hoards.learn(sent(&hoards, &[(exclusive, sum, KEYS + 1)]), KEYS + 1);
                assert!(hoards.settled().is_empty(), "{sum}, {answers} answers");
            }
        }
        hoards.learn(sent(&hoards, &[(exclusive, "a third", KEYS + 1)]), KEYS + 1);
        assert_eq!(hoards.settled(), [7]);
    }

    #[test]
    fn a_session_is_known_only_with_all_that_it_holds() {
        let mut hoards = settled(7);
        let (exclusive, share) = (group(7, LockMode::Exclusive), group(7, LockMode::Share));
        assert!(Seen::default().counted(&hoards, share, "of three").is_empty());
        let both = [(exclusive, "a sum", KEYS), (share, "of three", 3)];
        for answers in 1..=SETTLED {
            hoards.learn(sent(&hoards, &both), KEYS + 3);
            assert_eq!(hoards.settled().is_empty(), answers < SETTLED);
        }
        let mut seen = Seen::default();
        assert_eq!(seen.counted(&hoards, share, "of three"), keys(3));
        assert_eq!(seen.counted(&hoards, exclusive, "a sum").len(), KEYS);
        assert!(!seen.unknown());
    }

    #[test]
    fn who_is_gone_or_has_few_is_forgotten() {
        let mut hoards = settled(7);
        hoards.learn(sent(&hoards, &[(group(7, LockMode::Exclusive), "few", KEYS - 1)]), KEYS);
        assert!(!hoards.any() && hoards.known.is_empty());
        let mut hoards = settled(7);
        hoards.learn(sent(&hoards, &[(group(8, LockMode::Exclusive), "another's", KEYS)]), KEYS);
        assert!(hoards.any() && hoards.known.is_empty() && hoards.settled().is_empty());
    }

    #[test]
    fn a_hoard_among_many_more_locks_is_left_alone() {
        let mut hoards = settled(7);
        hoards.learn(sent(&hoards, &[(group(7, LockMode::Exclusive), "a sum", KEYS)]), 2 * KEYS + 1);
        assert!(!hoards.any() && hoards.settled().is_empty());
    }

    /// So many sessions, each with a few locks more than the one before it, have held the same for long enough.
    fn of_sessions(count: Pid) -> Hoards {
        let mut hoards = Hoards::default();
        let of = |pid: Pid| (group(pid, LockMode::Exclusive), "a sum", MANY + usize::try_from(pid).unwrap());
        let groups: Vec<(Group, &str, usize)> = (1..=count).map(of).collect();
        let locks = groups.iter().map(|(_, _, keys)| keys).sum();
        for _ in 0..=SETTLED {
            hoards.learn(sent(&hoards, &groups), locks);
        }
        hoards
    }

    #[test]
    fn the_largest_are_counted_and_no_more_than_pay() {
        let hoards = of_sessions(12);
        assert_eq!(hoards.settled(), [5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(hoards.known.len(), 8, "nobody asks for the others'");
    }

    #[test]
    fn hoards_among_many_more_of_their_kind_are_left_alone() {
        let hoards = of_sessions(40);
        assert!(!hoards.any() && hoards.known.is_empty());
    }
}
