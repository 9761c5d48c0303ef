//! Connecting, held against psql: the same strings, variables, files and certificates on the same servers must lead to
//! the same session or to no session. psql is the judge; where we differ on purpose, the table says why.

pub mod certificates;
mod runs;
mod table;
mod tls;
pub mod world;

/// How many runs go on at once: they mostly wait.
const THREADS: usize = 6;

/// Does the work of all items on a few threads; the results in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let place = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(item) = items.get(place) else { return done };
                        done.push((place, work(item)));
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}
