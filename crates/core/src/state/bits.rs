//! A set of small numbers, one bit each: sixty-four of them are looked at as cheaply as one.

/// A set of small numbers. It grows as needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// All numbers below this one.
    pub fn below(count: u32) -> Bits {
        let mut words = vec![!0; count as usize / 64];
        if !count.is_multiple_of(64) {
            words.push((1 << (count % 64)) - 1);
        }
        Bits { words }
    }

    /// No number, with room for all below this one.
    pub fn with_room_below(count: u32) -> Bits {
        Bits { words: Vec::with_capacity(count.div_ceil(64) as usize) }
    }

    /// Whether a number is in the set.
    pub fn has(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Puts a number in.
    pub fn add(&mut self, number: u32) {
        let at = number as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (number % 64);
    }

    /// Takes a number out.
    pub fn remove(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    /// The smallest number from this one on.
    pub fn first_from(&self, number: u32) -> Option<u32> {
        let mut at = number as usize / 64;
        let mut word = self.words.get(at)? & (!0 << (number % 64));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(at as u32 * 64 + word.trailing_zeros())
    }

    /// The numbers that are in both sets, smallest first.
    pub fn shared<'a>(&'a self, other: &'a Bits) -> impl Iterator<Item = u32> + 'a {
        let words = self.words.iter().zip(&other.words).map(|(one, other)| one & other);
        numbers(words)
    }

    /// All its numbers, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        numbers(self.words.iter().copied())
    }
}

fn numbers(words: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
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

    fn bits(numbers: &[u32]) -> Bits {
        let mut bits = Bits::default();
        numbers.iter().for_each(|&number| bits.add(number));
        bits
    }

    #[test]
    fn all_below_a_number() {
        for count in [0, 1, 63, 64, 65, 128] {
            assert_eq!(Bits::below(count).iter().collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
        }
    }

    proptest! {
        /// The obvious twin: a sorted set.
        #[test]
        fn bits_are_a_set(
            one in prop::collection::vec(0..300u32, 0..20),
            other in prop::collection::vec(0..300u32, 0..20),
            gone in prop::collection::vec(0..300u32, 0..20),
            from in 0..400u32,
        ) {
            let mut set: BTreeSet<u32> = one.iter().copied().collect();
            let mut kept = bits(&one);
            for number in gone {
                set.remove(&number);
                kept.remove(number);
            }
            prop_assert!(kept.iter().eq(set.iter().copied()));
            prop_assert_eq!(kept.first_from(from), set.range(from..).next().copied());
            prop_assert_eq!(kept.has(from), set.contains(&from));
            let other_set: BTreeSet<u32> = other.iter().copied().collect();
            prop_assert!(kept.shared(&bits(&other)).eq(set.intersection(&other_set).copied()));
        }
    }
}
