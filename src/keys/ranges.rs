//! Ranges of bigint keys, and which of them contain a number.
//!
//! Pure. Ranges may overlap; a look-up costs the logarithm of their number and what it finds.

use std::ops::RangeInclusive;

/// Ranges sorted by their beginning, seen as a balanced tree: the middle of a slice is its root. Each has the greatest
/// end within its own slice beside it, so that slices which end too early are skipped.
#[derive(Debug, Clone, Default)]
pub struct Ranges {
    ranges: Vec<Node>,
}

#[derive(Debug, Clone)]
struct Node {
    from: i64,
    to: i64,
    greatest: i64,
    entry: usize,
}

impl Ranges {
    /// These ranges, each with the number of its entry.
    pub fn new(ranges: impl Iterator<Item = (RangeInclusive<i64>, usize)>) -> Self {
        let mut ranges: Vec<Node> = ranges
            .map(|(range, entry)| Node { from: *range.start(), to: *range.end(), greatest: *range.end(), entry })
            .collect();
        ranges.sort_by_key(|node| (node.from, node.entry));
        set_greatest(&mut ranges);
        Self { ranges }
    }

    /// Calls `found` with the entry of every range that contains the number, in the order of their beginnings.
    pub fn containing(&self, number: i64, mut found: impl FnMut(usize)) {
        search(&self.ranges, number, &mut found);
    }
}

fn set_greatest(nodes: &mut [Node]) -> Option<i64> {
    let middle = nodes.len() / 2;
    let (before, rest) = nodes.split_at_mut(middle);
    let (root, after) = rest.split_first_mut()?;
    let children = set_greatest(before).max(set_greatest(after));
    root.greatest = children.map_or(root.to, |greatest| greatest.max(root.to));
    Some(root.greatest)
}

fn search(nodes: &[Node], number: i64, found: &mut impl FnMut(usize)) {
    let (before, rest) = nodes.split_at(nodes.len() / 2);
    let Some((root, after)) = rest.split_first() else { return };
    if root.greatest < number {
        return;
    }
    search(before, number, found);
    if root.from > number {
        return;
    }
    if root.to >= number {
        found(root.entry);
    }
    search(after, number, found);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn containing(ranges: &[(i64, i64)], number: i64) -> Vec<usize> {
        let ranges = Ranges::new(ranges.iter().enumerate().map(|(entry, &(from, to))| (from..=to, entry)));
        let mut found = Vec::new();
        ranges.containing(number, |entry| found.push(entry));
        found
    }

    #[test]
    fn both_ends_are_included() {
        let ranges = [(1000, 1999), (2000, 2000), (i64::MIN, -1), (1500, i64::MAX)];
        assert_eq!(containing(&ranges, 999), Vec::<usize>::new());
        assert_eq!(containing(&ranges, 1000), [0]);
        assert_eq!(containing(&ranges, 1999), [0, 3]);
        assert_eq!(containing(&ranges, 2000), [3, 1]);
        assert_eq!(containing(&ranges, i64::MIN), [2]);
        assert_eq!(containing(&ranges, i64::MAX), [3]);
        assert_eq!(containing(&[], 0), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_a_walk_over_all_finds(
            ranges in prop::collection::vec((-50_i64..50, 0_i64..30), 0..40), number in -60_i64..90
        ) {
            let ranges: Vec<(i64, i64)> = ranges.into_iter().map(|(from, length)| (from, from + length)).collect();
            let mut walked: Vec<usize> =
                (0..ranges.len()).filter(|&i| ranges[i].0 <= number && number <= ranges[i].1).collect();
            let mut found = containing(&ranges, number);
            found.sort_unstable();
            walked.sort_unstable();
            prop_assert_eq!(found, walked);
        }
    }
}
