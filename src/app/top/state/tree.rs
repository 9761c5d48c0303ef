//! The tree of waits: what is waited for, who has it, who waits, and who waits for those.
//!
//! A session that is behind several others stands once, below the first of them; the rest is said in words.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::analysis::report::{TargetReport, WaitReport, WaiterReport};
use crate::model::Pid;

/// What a line of the tree is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// What is waited for: the place of a wait for it in the report.
    Object(usize),
    /// A session that waits for nothing itself. The place of its lock on the object, where it is an advisory one.
    Root(Option<Pid>, Option<usize>),
    /// A session that waits: its place among the report's waits.
    Waiter(usize),
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// What it is about.
    pub node: Node,
    /// The lines that lead to it, as `│  ├─ `.
    pub lead: String,
    /// Which tree it belongs to, counted from 0.
    pub tree: usize,
    /// Sessions that it waits for beside the one above it.
    pub also_behind: Vec<Pid>,
    /// It is behind itself: the server has to break the cycle.
    pub in_cycle: bool,
}

/// What the tree is made from.
struct Waits<'a> {
    report: &'a TargetReport,
    /// The place of each waiting session's wait.
    places: HashMap<Pid, usize>,
    /// The places of locks, by holder and key text.
    locks: HashMap<(Option<Pid>, &'a str), Vec<usize>>,
    /// Who stands below whom.
    below: BTreeMap<Option<Pid>, Vec<usize>>,
    done: BTreeSet<usize>,
    /// What is planted now has no root.
    in_circles: bool,
    lines: Vec<Branch>,
}

/// The lines of a target's tree, those with the longest wait first.
pub fn branches(report: &TargetReport) -> Vec<Branch> {
    let places: HashMap<Pid, usize> = report.waits.iter().enumerate().map(|(place, wait)| (wait.pid, place)).collect();
    let mut locks: HashMap<(Option<Pid>, &str), Vec<usize>> = HashMap::new();
    for (place, lock) in report.locks.iter().enumerate() {
        locks.entry((lock.holder.pid, &*lock.key.text)).or_default().push(place);
    }
    let (below, done, lines) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let mut waits = Waits { report, places, locks, below, done, in_circles: false, lines };
    for place in 0..report.waits.len() {
        let parent = waits.parent(place);
        waits.below.entry(parent).or_default().push(place);
    }
    for children in waits.below.values_mut() {
        children.sort_by_key(|&place| longest_first(&report.waits[place]));
    }
    waits.plant_all();
    waits.lines
}

fn longest_first(wait: &WaitReport) -> (std::cmp::Reverse<std::time::Duration>, Pid) {
    (std::cmp::Reverse(wait.waited.duration), wait.pid)
}

impl Waits<'_> {
    /// Whom a wait stands below: a holder rather than a session that queues for the same thing.
    fn parent(&self, place: usize) -> Option<Pid> {
        let wait = &self.report.waits[place];
        let queues_too = |pid: &Pid| {
            self.places.get(pid).is_some_and(|&place| {
                let other = &self.report.waits[place];
                (other.advisory, &other.object) == (wait.advisory, &wait.object) && !self.holds(*pid, wait)
            })
        };
        let holder = wait.blocked_by.iter().find(|pid| !queues_too(pid));
        if holder.is_some() {
            return holder.copied();
        }
        // It is behind waiters only: below whoever the first of them is below. A prepared transaction has no pid.
        let ahead =
            wait.blocked_by.iter().filter_map(|pid| self.places.get(pid)).map(|&place| &self.report.waits[place]);
        ahead.flat_map(|ahead| &ahead.blocked_by).find(|pid| !queues_too(pid)).copied()
    }

    fn holds(&self, pid: Pid, wait: &WaitReport) -> bool {
        wait.advisory && self.lock_of(Some(pid), wait).is_some()
    }

    /// The holder's lock on what is waited for. Nothing for a lock that is no advisory one.
    fn lock_of(&self, holder: Option<Pid>, wait: &WaitReport) -> Option<usize> {
        let places = self.locks.get(&(holder, wait.object.as_str()))?;
        let queued = |place: &&usize| self.report.locks[**place].waiters.iter().any(|waiter| waiter.pid == wait.pid);
        places.iter().find(queued).or_else(|| places.first()).copied()
    }

    fn plant_all(&mut self) {
        let mut roots: Vec<Option<Pid>> = self
            .below
            .keys()
            .filter(|parent| parent.is_none_or(|pid| !self.places.contains_key(&pid)))
            .copied()
            .collect();
        roots.sort_by_key(|root| self.below[root].first().map(|&place| longest_first(&self.report.waits[place])));
        let mut tree = 0;
        for root in roots {
            for places in self.by_object(root) {
                self.plant(root, &places, tree);
                tree += 1;
            }
        }
        // What is left goes round in circles.
        self.in_circles = true;
        for place in 0..self.report.waits.len() {
            if !self.done.contains(&place) {
                self.push(Node::Object(place), String::new(), tree, Vec::new());
                self.grow(place, "", "└─ ", tree, None);
                tree += 1;
            }
        }
    }

    /// The waits below a root, those for one object together.
    fn by_object(&self, root: Option<Pid>) -> Vec<Vec<usize>> {
        let mut objects: Vec<Vec<usize>> = Vec::new();
        for &place in &self.below[&root] {
            let wait = &self.report.waits[place];
            let same = |places: &&mut Vec<usize>| {
                let first = &self.report.waits[places[0]];
                (first.advisory, &first.object) == (wait.advisory, &wait.object)
            };
            match objects.iter_mut().find(same) {
                Some(places) => places.push(place),
                None => objects.push(vec![place]),
            }
        }
        objects
    }

    fn plant(&mut self, root: Option<Pid>, places: &[usize], tree: usize) {
        let first = &self.report.waits[places[0]];
        let lock = if first.advisory { self.lock_of(root, first) } else { None };
        self.push(Node::Object(places[0]), String::new(), tree, Vec::new());
        self.push(Node::Root(root, lock), "└─ ".to_owned(), tree, Vec::new());
        for (number, &place) in places.iter().enumerate() {
            let last = number + 1 == places.len();
            self.grow(place, "   ", if last { "└─ " } else { "├─ " }, tree, root);
        }
    }

    /// A waiter and whoever waits for it.
    fn grow(&mut self, place: usize, trunk: &str, fork: &str, tree: usize, parent: Option<Pid>) {
        if !self.done.insert(place) {
            return;
        }
        let wait = &self.report.waits[place];
        let also = wait.blocked_by.iter().copied().filter(|pid| Some(*pid) != parent).collect();
        self.push(Node::Waiter(place), format!("{trunk}{fork}"), tree, also);
        let children = self.below.get(&Some(wait.pid)).cloned().unwrap_or_default();
        let pid = wait.pid;
        let trunk = format!("{trunk}{}", if fork.starts_with('├') { "│  " } else { "   " });
        let open: Vec<usize> = children.into_iter().filter(|child| !self.done.contains(child)).collect();
        for (number, &child) in open.iter().enumerate() {
            let fork = if number + 1 == open.len() { "└─ " } else { "├─ " };
            self.grow(child, &trunk, fork, tree, Some(pid));
        }
    }

    fn push(&mut self, node: Node, lead: String, tree: usize, also_behind: Vec<Pid>) {
        let in_cycle = self.in_circles && matches!(node, Node::Waiter(_));
        self.lines.push(Branch { node, lead, tree, also_behind, in_cycle });
    }
}

/// What is known of a waiting session: it stands with the lock that it queues for.
pub fn waiter(report: &TargetReport, pid: Pid) -> Option<&WaiterReport> {
    report.locks.iter().flat_map(|lock| lock.waiters.iter()).find(|waiter| waiter.pid == pid)
}
