//! A set of small integers, one bit each. Unlike `fixedbitset` it grows on insertion, and it finds the first member from a given number on;
//! both are needed for every decision.

use serde::{Deserialize, Serialize};

/// A set of small integers. Its memory is proportional to the largest member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BitSet {
    words: Vec<u64>,
}

impl BitSet {
    /// The set of all numbers below `count`.
    pub fn below(count: u32) -> BitSet {
        let mut words = vec![!0; count as usize / 64];
        if !count.is_multiple_of(64) {
            words.push((1 << (count % 64)) - 1);
        }
        BitSet { words }
    }

    /// The empty set, with memory reserved for all numbers below `count`.
    pub fn with_capacity(count: u32) -> BitSet {
        BitSet { words: Vec::with_capacity(count.div_ceil(64) as usize) }
    }

    /// True if a number is in the set.
    pub fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// True if no number is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Adds a number, if it is not a member.
    pub fn insert(&mut self, number: u32) {
        let at = number as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (number % 64);
    }

    /// Removes a number, if it is a member.
    pub fn remove(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    /// The smallest member that is at least `number`.
    pub fn first_from(&self, number: u32) -> Option<u32> {
        let mut at = number as usize / 64;
        let mut word = self.words.get(at)? & (!0 << (number % 64));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(at as u32 * 64 + word.trailing_zeros())
    }

    /// The members of both sets, in ascending order.
    pub fn intersection<'a>(&'a self, other: &'a BitSet) -> impl Iterator<Item = u32> + 'a {
        let words = self.words.iter().zip(&other.words).map(|(one, other)| one & other);
        set_bits(words)
    }

    /// All members, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        set_bits(self.words.iter().copied())
    }
}

/// The positions of all bits that are set, in ascending order.
fn set_bits(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    words.enumerate().flat_map(|(at, word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let number = (left != 0).then(|| at as u32 * 64 + left.trailing_zeros())?;
            left &= left - 1;
            Some(number)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn bit_set(numbers: &[u32]) -> BitSet {
        let mut set = BitSet::default();
        numbers.iter().for_each(|&number| set.insert(number));
        set
    }

    #[test]
    fn below_contains_exactly_the_smaller_numbers() {
        for count in [0, 1, 63, 64, 65, 128] {
            assert_eq!(BitSet::below(count).iter().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
        }
    }

    proptest! {
        /// The reference implementation is a sorted set.
        #[test]
        fn operations_agree_with_a_sorted_set(
            one in prop::collection::vec(0..300u32, 0..20),
            other in prop::collection::vec(0..300u32, 0..20),
            gone in prop::collection::vec(0..300u32, 0..20),
            from in 0..400u32,
        ) {
            let mut set: BTreeSet<u32> = one.iter().copied().collect();
            let mut kept = bit_set(&one);
            for number in gone {
                set.remove(&number);
                kept.remove(number);
            }
            prop_assert!(kept.iter().eq(set.iter().copied()));
            prop_assert_eq!(kept.first_from(from), set.range(from..).next().copied());
            prop_assert_eq!(kept.contains(from), set.contains(&from));
            let other_set: BTreeSet<u32> = other.iter().copied().collect();
            prop_assert!(kept.intersection(&bit_set(&other)).eq(set.intersection(&other_set).copied()));
        }
    }
}
