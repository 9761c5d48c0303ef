//! Who waits for whom: the waits-for graph of one instant, its roots and its cycles.
//!
//! Knows the rows of one snapshot and PostgreSQL's conflict table; knows no memory, no threshold and no name. Work is
//! linear in rows: waiters of one object in one mode share a vertex instead of an edge to each holder, and behind one
//! another they need only the nearest waiter ahead in each conflicting mode, for whoever is further ahead in the same
//! mode waits for the same holders.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::components::components;
use super::few::Few;
use super::observed::HolderRef;
use crate::analysis::Numbered;
use crate::model::{LockMode, LockObject, LockOwner, LockRow, Pid, Snapshot, Time};

/// One waiting session's place in the graph.
#[derive(Debug, Clone)]
pub(super) struct Wait<'a> {
    pub object: &'a LockObject,
    pub mode: LockMode,
    pub waitstart: Option<Time>,
    /// Holders in a conflicting mode, then the waiters directly ahead.
    pub blocked_by: Vec<HolderRef>,
    /// Where its chain ends.
    pub roots: Arc<[HolderRef]>,
    /// Cycles that its chain ends in, or that it is part of.
    pub cycles: Arc<[usize]>,
}

/// The waits-for graph.
#[derive(Debug, Default)]
pub(super) struct Waits<'a> {
    pub waits: BTreeMap<Pid, Wait<'a>>,
    /// Sessions of each cycle, sorted.
    pub cycles: Vec<Vec<Pid>>,
}

/// One object that somebody waits for.
#[derive(Default)]
struct Queue<'a> {
    holders: BTreeMap<HolderRef, Vec<LockMode>>,
    /// In the order in which they are served.
    waiters: Vec<(Pid, &'a LockRow)>,
}

impl Queue<'_> {
    fn conflicting(&self, mode: LockMode) -> Vec<HolderRef> {
        self.holders
            .iter()
            .filter(|(_, held)| held.iter().any(|held| held.conflicts_with(mode)))
            .map(|(holder, _)| *holder)
            .collect()
    }

    fn modes_of(&self, holder: HolderRef) -> &[LockMode] {
        self.holders.get(&holder).map_or(&[], Vec::as_slice)
    }

    /// A session that holds the object already is queued ahead of the first waiter that has to wait for it, and so of
    /// all behind that one (PostgreSQL's `ProcSleep`), however late it came.
    fn put_holders_ahead(&mut self) {
        if !self.waiters.iter().any(|(pid, _)| self.holders.contains_key(&HolderRef::Session(*pid))) {
            return;
        }
        let by_time = std::mem::take(&mut self.waiters);
        for (pid, row) in by_time {
            let own = self.modes_of(HolderRef::Session(pid));
            let waits_for_it = |other: &&LockRow| own.iter().any(|mode| mode.conflicts_with(other.mode));
            // Most hold nothing of it: a long queue must not be searched for each of them.
            let ahead_of = || self.waiters.iter().position(|(_, other)| waits_for_it(other));
            let place = if own.is_empty() { None } else { ahead_of() };
            self.waiters.insert(place.unwrap_or(self.waiters.len()), (pid, row));
        }
    }
}

/// Builds the graph. A parallel worker counts as its leader: members of one lock group never block each other.
pub(super) fn waits(snapshot: &Snapshot) -> Waits<'_> {
    if snapshot.locks.others().iter().all(|row| row.granted) {
        return Waits::default();
    }
    let leaders: Numbered<Pid, Pid> =
        snapshot.backends.iter().filter_map(|backend| backend.leader_pid.map(|leader| (backend.pid, leader))).collect();
    let queues = queues(snapshot, &leaders);
    let mut graph = Graph::default();
    let mut waits = BTreeMap::new();
    for (number, queue) in queues.values().enumerate() {
        for (place, &(pid, row)) in queue.waiters.iter().enumerate() {
            let blocked_by = graph.add_wait(number, queue, place);
            let (roots, cycles) = (Arc::from([]), Arc::from([]));
            let wait =
                Wait { object: &row.object, mode: row.mode, waitstart: row.waitstart, blocked_by, roots, cycles };
            waits.insert(pid, wait);
        }
    }
    let cycles = graph.solve(&mut waits);
    Waits { waits, cycles }
}

fn queues<'a>(snapshot: &'a Snapshot, leaders: &Numbered<Pid, Pid>) -> BTreeMap<&'a LockObject, Queue<'a>> {
    let lead = |pid: Pid| leaders.get(&pid).copied().unwrap_or(pid);
    // Each row asks it.
    let mut queues: Numbered<&LockObject, Queue<'_>> = Numbered::default();
    for row in snapshot.locks.others().iter().filter(|row| !row.granted) {
        if let LockOwner::Backend(pid) = row.owner {
            queues.entry(&row.object).or_default().waiters.push((lead(pid), row));
        }
    }
    // Before 13 a parallel worker does not say whose it is. Its leader holds the same locks on relations.
    let orphans: HashSet<Pid> = snapshot
        .backends
        .iter()
        .filter(|backend| backend.backend_type == "parallel worker" && backend.leader_pid.is_none())
        .map(|backend| backend.pid)
        .collect();
    let is_orphan = |owner| matches!(owner, LockOwner::Backend(pid) if orphans.contains(&pid));
    let holder = |owner| match owner {
        LockOwner::Backend(pid) => HolderRef::Session(lead(pid)),
        LockOwner::Prepared(id) => HolderRef::Prepared(id),
    };
    for row in snapshot.locks.others().iter().filter(|row| row.granted && !is_orphan(row.owner)) {
        if let Some(queue) = queues.get_mut(&row.object) {
            queue.holders.entry(holder(row.owner)).or_default().push(row.mode);
        }
    }
    // There may be very many of these.
    let by_key: Few<&LockObject> = queues.keys().filter_map(|&object| Some((object.key()?, object))).collect();
    for held in snapshot.locks.held().filter(|held| !is_orphan(held.owner)) {
        for object in held.keys.iter().filter_map(|key| by_key.get(key)) {
            if let Some(queue) = queues.get_mut(object) {
                queue.holders.entry(holder(held.owner)).or_default().push(held.mode);
            }
        }
    }
    // Before 14 there is no waitstart: the statement's start is the nearest thing to a place in the queue.
    let started: Numbered<Pid, Option<Time>> =
        snapshot.backends.iter().map(|backend| (backend.pid, backend.query_start)).collect();
    for queue in queues.values_mut() {
        queue.waiters.sort_by_key(|&(pid, row)| {
            let fallback =
                if snapshot.server.version_num < 140_000 { started.get(&pid).copied().flatten() } else { None };
            // No time at all means that it came just now: the end of the queue.
            (row.waitstart.or(fallback).unwrap_or(Time::MAX_UTC), pid, row.mode)
        });
        queue.put_holders_ahead();
    }
    // In an order that is the same each time.
    queues.into_iter().collect()
}

type Vertex = usize;

#[derive(Default)]
struct Graph {
    sessions: BTreeMap<HolderRef, Vertex>,
    names: Vec<Option<HolderRef>>,
    hard: Vec<Vec<Vertex>>,
    soft: Vec<Vec<Vertex>>,
    /// The shared vertex of an object (by the number of its queue) and a wanted mode.
    groups: HashMap<(usize, LockMode), (Vertex, Vec<HolderRef>)>,
}

impl Graph {
    fn vertex(&mut self, name: Option<HolderRef>) -> Vertex {
        if let Some(holder) = name
            && let Some(&known) = self.sessions.get(&holder)
        {
            return known;
        }
        let vertex = self.names.len();
        self.names.push(name);
        self.hard.push(Vec::new());
        self.soft.push(Vec::new());
        if let Some(holder) = name {
            self.sessions.insert(holder, vertex);
        }
        vertex
    }

    /// Adds the edges of the waiter at `place` of the queue and returns who blocks it directly.
    fn add_wait(&mut self, number: usize, queue: &Queue<'_>, place: usize) -> Vec<HolderRef> {
        let (pid, row) = queue.waiters[place];
        let me = HolderRef::Session(pid);
        let vertex = self.vertex(Some(me));
        let mut blocked_by = if queue.modes_of(me).is_empty() {
            let (group, holders) = self.group(number, queue, row.mode);
            self.hard[vertex].push(group);
            holders
        } else {
            let mut holders = queue.conflicting(row.mode);
            holders.retain(|holder| *holder != me);
            for &holder in &holders {
                let other = self.vertex(Some(holder));
                self.hard[vertex].push(other);
            }
            holders
        };
        let mut seen = [false; LockMode::ALL.len()];
        for &(ahead, other) in queue.waiters[..place].iter().rev() {
            let slot = other.mode as usize;
            if seen[slot] || ahead == pid || !row.mode.conflicts_with(other.mode) {
                continue;
            }
            seen[slot] = true;
            let ahead = HolderRef::Session(ahead);
            let other = self.vertex(Some(ahead));
            self.soft[vertex].push(other);
            // It may be a holder as well.
            if queue.modes_of(ahead).is_empty() || !blocked_by.contains(&ahead) {
                blocked_by.push(ahead);
            }
            if LockMode::ALL.into_iter().all(|mode| seen[mode as usize] || !row.mode.conflicts_with(mode)) {
                break;
            }
        }
        blocked_by
    }

    fn group(&mut self, number: usize, queue: &Queue<'_>, mode: LockMode) -> (Vertex, Vec<HolderRef>) {
        if let Some((group, holders)) = self.groups.get(&(number, mode)) {
            return (*group, holders.clone());
        }
        let group = self.vertex(None);
        let holders = queue.conflicting(mode);
        for &holder in &holders {
            let other = self.vertex(Some(holder));
            self.hard[group].push(other);
        }
        self.groups.insert((number, mode), (group, holders.clone()));
        (group, holders)
    }

    /// Finds cycles, and the roots of every waiter.
    fn solve(&self, waits: &mut BTreeMap<Pid, Wait<'_>>) -> Vec<Vec<Pid>> {
        // A session in the queue between two that block each other by what they hold is not part of their cycle:
        // cycles of hard edges come first, and one that needs a place in a queue counts only without such.
        let mut cycles: Vec<Vec<Pid>> = Vec::new();
        let mut member: HashMap<Vertex, usize> = HashMap::new();
        for part in components(self.names.len(), |v| self.hard[v].iter().copied()) {
            self.note_cycle(&part, &mut cycles, &mut member);
        }
        let both = |v: Vertex| self.hard[v].iter().chain(&self.soft[v]).copied();
        let parts = components(self.names.len(), both);
        for part in &parts {
            if !part.iter().any(|v| member.contains_key(v)) {
                self.note_cycle(part, &mut cycles, &mut member);
            }
        }
        let mut ends: Vec<Ends> = vec![Ends::default(); self.names.len()];
        // Components come with their targets first, so one pass does.
        for part in &parts {
            let end = self.ends_of(part, &ends, &member, &both);
            for &v in part {
                ends[v] = end.clone();
            }
        }
        for (&pid, wait) in waits {
            if let Some(&v) = self.sessions.get(&HolderRef::Session(pid)) {
                // A waiter whose blocker is gone already is no root of its own chain.
                if *ends[v].roots != [HolderRef::Session(pid)] {
                    wait.roots = Arc::clone(&ends[v].roots);
                }
                wait.cycles = Arc::clone(&ends[v].cycles);
            }
        }
        cycles
    }

    fn note_cycle(&self, part: &[Vertex], cycles: &mut Vec<Vec<Pid>>, member: &mut HashMap<Vertex, usize>) {
        let mut pids: Vec<Pid> = part
            .iter()
            .filter_map(|&v| match self.names[v] {
                Some(HolderRef::Session(pid)) => Some(pid),
                _ => None,
            })
            .collect();
        if part.len() < 2 || pids.len() < 2 {
            return;
        }
        pids.sort_unstable();
        for &v in part {
            member.insert(v, cycles.len());
        }
        cycles.push(pids);
    }

    fn ends_of<I: Iterator<Item = Vertex>>(
        &self,
        part: &[Vertex],
        ends: &[Ends],
        member: &HashMap<Vertex, usize>,
        targets: &impl Fn(Vertex) -> I,
    ) -> Ends {
        if let [v] = *part
            && targets(v).next().is_none()
        {
            return Ends { roots: self.names[v].into_iter().collect(), cycles: Arc::from([]) };
        }
        let mut end = Ends::default();
        for target in part.iter().flat_map(|&v| targets(v)) {
            end.add(&ends[target]);
        }
        let mut own: Vec<usize> = part.iter().filter_map(|v| member.get(v).copied()).collect();
        own.sort_unstable();
        own.dedup();
        end.add(&Ends { roots: Arc::from([]), cycles: Arc::from(own) });
        end
    }
}

/// Where a chain ends.
#[derive(Clone, Default)]
struct Ends {
    roots: Arc<[HolderRef]>,
    cycles: Arc<[usize]>,
}

impl Ends {
    fn add(&mut self, other: &Self) {
        merge(&mut self.roots, &other.roots);
        merge(&mut self.cycles, &other.cycles);
    }
}

/// The union of two sorted sets. Most waiters of a queue end at the same set: that one is shared, not copied.
fn merge<T: Ord + Copy>(into: &mut Arc<[T]>, other: &Arc<[T]>) {
    if other.is_empty() || Arc::ptr_eq(into, other) || into.as_ref() == other.as_ref() {
        return;
    }
    if into.is_empty() {
        *into = Arc::clone(other);
        return;
    }
    let mut all: Vec<T> = into.iter().chain(other.iter()).copied().collect();
    all.sort_unstable();
    all.dedup();
    *into = Arc::from(all);
}
