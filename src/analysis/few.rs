//! A map of few keys that is asked for very many.

use super::Numbered;
use crate::model::AdvisoryKey;

/// A map of few keys that is asked for very many: most of those are told by one bit not to be in it.
#[derive(Debug)]
pub(super) struct Few<V> {
    map: Numbered<AdvisoryKey, V>,
    /// Of each key one bit is set, which another one may share: of at least 64 times as many as there are keys.
    bits: Vec<u64>,
}

impl<V> Few<V> {
    /// The value of this key.
    pub(super) fn get(&self, key: &AdvisoryKey) -> Option<&V> {
        let (word, bit) = self.place(key);
        if self.bits[word] & bit == 0 { None } else { self.map.get(key) }
    }

    fn place(&self, key: &AdvisoryKey) -> (usize, u64) {
        place(key, self.bits.len())
    }
}

/// Where the bit of a key is in so many words, a power of two.
fn place(key: &AdvisoryKey, words: usize) -> (usize, u64) {
    let numbers = u64::from(key.numbers.classid) << 32 | u64::from(key.numbers.objid);
    // The upper bits of the product depend on all bits of the numbers.
    let mixed = numbers.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let word = usize::try_from(mixed >> 38).unwrap_or_default() & (words - 1);
    (word, 1 << (mixed >> 32 & 63))
}

impl<V> FromIterator<(AdvisoryKey, V)> for Few<V> {
    fn from_iter<I: IntoIterator<Item = (AdvisoryKey, V)>>(items: I) -> Self {
        let map: Numbered<AdvisoryKey, V> = items.into_iter().collect();
        let mut bits = vec![0; map.len().next_power_of_two()];
        for key in map.keys() {
            let (word, bit) = place(key, bits.len());
            bits[word] |= bit;
        }
        Self { map, bits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::KeyNumbers;

    fn key(classid: u32, objid: u32) -> AdvisoryKey {
        AdvisoryKey { database: 5, numbers: KeyNumbers { classid, objid, objsubid: 1 } }
    }

    #[test]
    fn those_that_are_in_it_are_found_and_no_others() {
        let in_it = |number: u32| number.is_multiple_of(97);
        let few: Few<u32> = (0..10_000).filter(|&n| in_it(n)).map(|n| (key(n % 3, n), n)).collect();
        for n in 0..10_000 {
            assert_eq!(few.get(&key(n % 3, n)), in_it(n).then_some(&n));
        }
        assert_eq!(few.get(&AdvisoryKey { database: 6, ..key(0, 0) }), None, "the same numbers in another database");
        assert_eq!(Few::<u32>::from_iter([]).get(&key(0, 0)), None);
    }

    #[test]
    fn most_others_are_told_by_their_bit() {
        let few: Few<()> = (0..100).map(|n| (key(7, n), ())).collect();
        let others = (100..100_000).filter(|&n| {
            let (word, bit) = few.place(&key(7, n));
            few.bits[word] & bit != 0
        });
        let share = others.count() as f64 / 99_900.0;
        assert!(share < 0.05, "{share}");
    }
}
