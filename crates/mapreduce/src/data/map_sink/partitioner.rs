//! A fast version of [`Partitioning::of`] with the same result.

use crate::data::prefix;
use crate::job::Partitioning;

/// A partitioning of keys with the prefixes of its cut points.
#[derive(Debug)]
pub(super) struct Partitioner {
    partitioning: Partitioning,
    reduces: u32,
    /// Prefixes of the cut points, in order. Empty for hash partitioning.
    prefixes: Vec<u64>,
}

impl Partitioner {
    pub fn new(partitioning: Partitioning, reduces: u32) -> Partitioner {
        let prefixes = match &partitioning {
            Partitioning::Hash => Vec::new(),
            Partitioning::Ranges(cuts) => cuts.iter().map(|cut| prefix(cut)).collect(),
        };
        Partitioner { partitioning, reduces, prefixes }
    }

    pub fn reduces(&self) -> u32 {
        self.reduces
    }

    /// True if each reduce has a range of keys: the order of keys is then the order of reduces, too.
    #[inline]
    pub fn is_by_range(&self) -> bool {
        matches!(self.partitioning, Partitioning::Ranges(_))
    }

    /// The reduce for the next key in sorted order, if reduces have ranges of keys and the key before it belongs to `reduce`. Looks
    /// only at the prefix, except close to the end of a range.
    #[inline]
    pub fn next_of(&self, reduce: u32, key_prefix: u64, key: &[u8]) -> u32 {
        match self.prefixes.get(reduce as usize) {
            Some(cut) if key_prefix >= *cut => self.of(key, key_prefix),
            _ => reduce,
        }
    }

    /// The reduce for a key; `key_prefix` is the key's prefix. The result is capped at the last reduce.
    #[inline]
    pub fn of(&self, key: &[u8], key_prefix: u64) -> u32 {
        match &self.partitioning {
            Partitioning::Hash => self.partitioning.of(key, self.reduces),
            Partitioning::Ranges(cuts) => {
                let mut below = self.prefixes.partition_point(|cut| *cut < key_prefix);
                while self.prefixes.get(below) == Some(&key_prefix) && cuts[below].as_slice() <= key {
                    below += 1;
                }
                (below as u32).min(self.reduces - 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_partition_of(
            mut cuts in proptest::collection::vec("[ab\0]{0,12}", 0..20),
            keys in proptest::collection::vec("[ab\0]{0,12}", 1..50),
        ) {
            cuts.sort_unstable();
            let cuts: Vec<Vec<u8>> = cuts.into_iter().map(String::into_bytes).collect();
            let reduces = cuts.len() as u32 + 1;
            for partitioning in [Partitioning::Ranges(cuts), Partitioning::Hash] {
                let partitioner = Partitioner::new(partitioning.clone(), reduces);
                for key in &keys {
                    let key = key.as_bytes();
                    prop_assert_eq!(partitioner.of(key, prefix(key)), partitioning.of(key, reduces));
                }
                let mut sorted = keys.clone();
                sorted.sort_unstable();
                let mut reduce = 0;
                for key in sorted.iter().map(String::as_bytes).filter(|_| partitioner.is_by_range()) {
                    reduce = partitioner.next_of(reduce, prefix(key), key);
                    prop_assert_eq!(reduce, partitioning.of(key, reduces));
                }
            }
        }
    }
}
