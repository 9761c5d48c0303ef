//! Places for connections, and who gives one up when all are taken.
//!
//! A connection works while a request of it is being answered, and rests otherwise: it has not sent its request yet, or
//! has had its answer. When every place is taken, the connection that has rested longest makes room for the next one.
//! So peers that connect and send nothing cost each other their connections, and nobody else waits for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// The places.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
    /// A place became free, or a connection rests now.
    changed: Notify,
}

#[derive(Default)]
struct Taken {
    next: u64,
    by: BTreeMap<u64, Connection>,
}

struct Connection {
    /// Nothing while it works.
    rests_since: Option<Instant>,
    leave: Arc<Notify>,
}

/// A place that is taken; it is free again when this goes.
pub(super) struct Place {
    number: u64,
    leave: Arc<Notify>,
    places: Arc<Places>,
}

impl Places {
    /// So many.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default(), changed: Notify::new() })
    }

    /// Takes a place. If there is none, whoever has rested longest is told to leave; if all work, this waits.
    pub async fn take(self: &Arc<Self>) -> Place {
        loop {
            if let Some(place) = self.try_take() {
                return place;
            }
            self.changed.notified().await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.lock();
        if taken.by.len() >= self.most {
            let resting = taken.by.iter().filter_map(|(number, other)| Some((other.rests_since?, *number)));
            let (_, number) = resting.min()?;
            taken.by.remove(&number)?.leave.notify_one();
        }
        let (number, leave) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        taken.by.insert(number, Connection { rests_since: Some(Instant::now()), leave: Arc::clone(&leave) });
        Some(Place { number, leave, places: Arc::clone(self) })
    }

    /// Waits until every place is free.
    pub async fn all_free(&self) {
        while !self.lock().by.is_empty() {
            self.changed.notified().await;
        }
    }

    /// What is behind the lock is whole between any two statements.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// A request has come: the place is its connection's until it rests.
    pub fn work(&self) {
        self.set(None);
    }

    /// The request has its answer.
    pub fn rest(&self) {
        self.set(Some(Instant::now()));
        self.places.changed.notify_one();
    }

    fn set(&self, rests_since: Option<Instant>) {
        if let Some(connection) = self.places.lock().by.get_mut(&self.number) {
            connection.rests_since = rests_since;
        }
    }

    /// Waits until somebody else needs the place.
    pub async fn is_needed(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().by.remove(&self.number);
        self.places.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    async fn happens(what: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(Duration::from_millis(50), what).await.is_ok()
    }

    #[test]
    fn the_one_that_has_rested_longest_makes_room() {
        run(async {
            let places = Places::new(3);
            let mut taken = Vec::new();
            for _ in 0..3 {
                taken.push(places.take().await);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // The first had an answer just now, the second is at work: the third has rested longest.
            taken[0].work();
            taken[0].rest();
            taken[1].work();
            let _fourth = places.take().await;
            assert!(happens(taken[2].is_needed()).await);
            assert!(!happens(taken[0].is_needed()).await && !happens(taken[1].is_needed()).await);
        });
    }

    #[test]
    fn nobody_at_work_is_sent_away() {
        run(async {
            let places = Places::new(1);
            let only = places.take().await;
            only.work();
            assert!(!happens(async { drop(places.take().await) }).await);
            only.rest();
            assert!(happens(async { drop(places.take().await) }).await);
            assert!(happens(only.is_needed()).await);
        });
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_ends() {
        run(async {
            let places = Places::new(1);
            let only = places.take().await;
            only.work();
            assert!(!happens(places.all_free()).await);
            drop(only);
            assert!(happens(places.all_free()).await);
            assert!(happens(async { drop(places.take().await) }).await);
        });
    }
}
