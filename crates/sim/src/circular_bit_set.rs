//! A set of small integers with a fast circular successor query.

/// A bit set over `0..size` in two levels: one bit for each member, and one bit for each 64-bit word that is not zero. Setting a bit takes
/// constant time; finding the next member takes a few steps.
pub(crate) struct CircularBitSet {
    words: Vec<u64>,
    /// One bit for each word that is not zero.
    summary: Vec<u64>,
}

impl CircularBitSet {
    pub(crate) fn new(size: usize) -> CircularBitSet {
        let words = size.div_ceil(64);
        CircularBitSet { words: vec![0; words], summary: vec![0; words.div_ceil(64)] }
    }

    /// Adds or removes an index; true if that changed anything.
    pub(crate) fn set(&mut self, index: u32, member: bool) -> bool {
        let (word, bit) = (index as usize / 64, 1u64 << (index % 64));
        let before = self.words[word] & bit != 0;
        if before == member {
            return false;
        }
        self.words[word] ^= bit;
        let (summary_word, summary_bit) = (word / 64, 1u64 << (word % 64));
        if self.words[word] == 0 {
            self.summary[summary_word] &= !summary_bit;
        } else {
            self.summary[summary_word] |= summary_bit;
        }
        true
    }

    /// The first member at `index` or later, wrapping around to 0.
    pub(crate) fn next_from(&self, index: u32) -> Option<u32> {
        self.next_without_wrap(index).or_else(|| self.next_without_wrap(0))
    }

    fn next_without_wrap(&self, index: u32) -> Option<u32> {
        let word = index as usize / 64;
        let rest = self.words.get(word)? & (!0 << (index % 64));
        if rest != 0 {
            return Some(word as u32 * 64 + rest.trailing_zeros());
        }
        let mut mask = if word % 64 == 63 { 0 } else { !0 << (word % 64 + 1) };
        for summary_word in word / 64..self.summary.len() {
            let nonzero = self.summary[summary_word] & mask;
            if nonzero != 0 {
                let word = summary_word * 64 + nonzero.trailing_zeros() as usize;
                return Some(word as u32 * 64 + self.words[word].trailing_zeros());
            }
            mask = !0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_next_member_is_that_of_a_linear_search(
            size in 1u32..10_000,
            members in prop::collection::vec(0u32..10_000, 0..12),
            removed in prop::collection::vec(0usize..12, 0..6),
            from in 0u32..10_000,
        ) {
            let mut set = CircularBitSet::new(size as usize);
            let mut reference = vec![false; size as usize];
            for member in &members {
                set.set(member % size, true);
                reference[(member % size) as usize] = true;
            }
            for index in removed.into_iter().filter(|index| *index < members.len()) {
                set.set(members[index] % size, false);
                reference[(members[index] % size) as usize] = false;
            }
            let from = from % size;
            let expected = (0..size).map(|step| (from + step) % size).find(|index| reference[*index as usize]);
            prop_assert_eq!(set.next_from(from), expected);
        }
    }
}
