//! What is remembered of the locks of one holder from poll to poll, and how it goes on.
//!
//! Polls show most locks of a holder alike: those share one memory.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use crate::analysis::hold_memory::{HoldMemory, Sight};
use crate::analysis::report::{KeyReport, Past, Shared};
use crate::keys::Name;
use crate::model::{AdvisoryKey, LockMode};

/// Which of a holder's locks it is, in the order of the memory.
pub(super) type LockId = (AdvisoryKey, LockMode);

/// An advisory lock that a poll shows, and whether its row's local transaction id is 0.
pub(super) type Row = (LockId, bool);

/// What is remembered of a holder's locks.
#[derive(Debug, Default)]
pub(super) struct HolderMemory {
    /// Where they are in the locks of the last poll. While polls show the same keys in the same order, nothing needs to
    /// be put in order or found again.
    pub seen: Range<usize>,
    /// By key and mode.
    pub locks: Vec<Remembered>,
    /// The keys of those as reports show them; none in a memory from an earlier process.
    pub keys: Arc<Vec<KeyReport>>,
    /// The memories that they share.
    pub memories: Vec<HoldMemory>,
}

impl HolderMemory {
    /// Adds a lock with a memory of its own, which may be that of the lock before it.
    pub(super) fn push(&mut self, id: LockId, memory: HoldMemory) {
        if self.memories.last() != Some(&memory) {
            self.memories.push(memory);
        }
        self.locks.push(Remembered { id, memory: Place::of(self.memories.len() - 1), names: Shared::default() });
    }
}

/// What is remembered of one lock.
#[derive(Debug)]
pub(super) struct Remembered {
    pub id: LockId,
    /// Which of its holder's memories; nothing for a lock that the last poll did not show.
    pub memory: Option<Place>,
    /// Its names.
    pub names: Shared<Name>,
}

/// Which of a holder's memories it is. There may be very many locks: it takes half of what a number and its lack take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(NonZeroU32);

impl Place {
    pub(super) fn of(place: usize) -> Option<Self> {
        u32::try_from(place + 1).ok().and_then(NonZeroU32::new).map(Self)
    }

    pub(super) fn get(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// How the memories of a holder's locks go on with a poll.
pub(super) struct Memories {
    before: Vec<HoldMemory>,
    pub after: Vec<HoldMemory>,
    /// What each of those says now.
    pub pasts: Vec<Arc<Past>>,
    /// Where locks for which nobody queues have gone on: by their memory, or its lack, and whether their local
    /// transaction id is 0. Nothing else makes a difference between the locks of a holder.
    went_on: Vec<[Option<usize>; 2]>,
}

impl Memories {
    pub(super) fn new(before: Vec<HoldMemory>) -> Self {
        let went_on = vec![[None; 2]; before.len() + 1];
        // Of most holders one will do, where a list that grows makes room for four.
        let most = before.len().max(1);
        Self { before, after: Vec::with_capacity(most), pasts: Vec::with_capacity(most), went_on }
    }

    /// How a lock for which nobody queues has gone on, if another one with this memory, or with none, has shown it.
    pub(super) fn as_before(&self, memory: Option<Place>, local_zero: bool) -> Option<usize> {
        self.went_on[memory.map_or(0, |place| place.get() + 1)][usize::from(local_zero)]
    }

    /// Takes in what poll number `polls` shows of a lock with this memory, or with none. The place of what it has now.
    pub(super) fn see(
        &mut self,
        memory: Option<Place>,
        sight: &Sight<'_>,
        polls: u64,
        new: impl Fn() -> HoldMemory,
    ) -> usize {
        let mut seen = memory.map_or_else(new, |place| self.before[place.get()].clone());
        seen.see(sight);
        let is_last = self.after.last() == Some(&seen)
            && self.pasts.last().is_some_and(|past| past.local_zero == sight.local_zero);
        if !is_last {
            self.pasts.push(Arc::new(seen.past(sight, polls)));
            self.after.push(seen);
        }
        let place = self.after.len() - 1;
        if sight.queue.is_empty() {
            let before = memory.map_or(0, |place| place.get() + 1);
            self.went_on[before][usize::from(sight.local_zero)] = Some(place);
        }
        place
    }
}

/// What is remembered of an owner's locks, one for each row, from what was remembered after the last poll, and the place
/// of each there.
pub(super) fn recall(rows: &[Row], before: Vec<Remembered>) -> (Vec<Remembered>, Vec<Option<usize>>) {
    let mut before = before.into_iter().enumerate().peekable();
    let mut one = |id: LockId| {
        while before.next_if(|(_, remembered)| remembered.id < id).is_some() {}
        match before.next_if(|(_, remembered)| remembered.id == id) {
            Some((place, remembered)) => (remembered, Some(place)),
            None => (Remembered { id, memory: None, names: Shared::default() }, None),
        }
    };
    rows.iter().map(|(id, _)| one(*id)).unzip()
}
