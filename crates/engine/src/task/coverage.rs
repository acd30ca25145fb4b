//! What a reduce has fetched, told in bytes of input rather than in maps.
//!
//! A map that is run again after a loss may end early in its second life: what was one output then comes back as two, under other names. So a
//! reduce does not count maps. It remembers, for each split, which of the split's bytes its fetched segments stand for, takes an output only if
//! it holds nothing of those bytes yet, and is complete when nothing is missing. Pieces are only ever cut smaller, so two outputs are apart or
//! one lies within the other, and this rule neither doubles nor loses a record.

use super::outputs::OutputAt;
use super::share;
use crate::job::InputSplit;
use serde::{Deserialize, Serialize};

/// The bytes of input that the fetched segments of a reduce stand for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Coverage {
    splits: Vec<Covered>,
    /// Bytes of input fetched, in all splits.
    bytes: u64,
    /// Splits that are not whole yet.
    missing: u32,
}

/// One split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Covered {
    bytes: u64,
    /// From and to, apart from each other, in order. Neighbours grow together, so a whole split is one piece.
    pieces: Vec<(u64, u64)>,
}

impl Coverage {
    /// Nothing of these splits.
    pub(super) fn none(splits: &[InputSplit]) -> Coverage {
        let covered = |split: &InputSplit| Covered { bytes: split.bytes, pieces: Vec::new() };
        Coverage { splits: splits.iter().map(covered).collect(), bytes: 0, missing: splits.len() as u32 }
    }

    /// True if this output stands for bytes that are still missing, all of them.
    pub(super) fn lacks(&self, output: &OutputAt) -> bool {
        let Some(split) = self.splits.get(output.split as usize) else { return false };
        !split.is_whole() && !split.touches(output.start_bytes, output.start_bytes + output.bytes)
    }

    /// Takes note that an output that was lacking has been fetched.
    pub(super) fn add(&mut self, output: &OutputAt) {
        debug_assert!(self.lacks(output));
        let split = &mut self.splits[output.split as usize];
        split.add(output.start_bytes, output.start_bytes + output.bytes);
        self.bytes += output.bytes;
        if split.is_whole() {
            self.missing -= 1;
        }
    }

    /// True if nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// How much is there, of so many parts of the input in all.
    pub(super) fn share(&self, parts: u32) -> u32 {
        share(self.bytes, self.splits.iter().map(|split| split.bytes).sum(), parts)
    }

    /// True if these are the splits it speaks of.
    pub(super) fn fits(&self, splits: &[InputSplit]) -> bool {
        self.splits.iter().map(|split| split.bytes).eq(splits.iter().map(|split| split.bytes))
    }
}

impl Covered {
    fn is_whole(&self) -> bool {
        self.pieces == [(0, self.bytes)]
    }

    /// An empty piece touches what it lies in or at the front of; others touch what they share a byte with.
    fn touches(&self, from: u64, to: u64) -> bool {
        self.pieces.iter().any(|&(start, end)| from < end && (start <= from || start < to))
    }

    fn add(&mut self, from: u64, to: u64) {
        let at = self.pieces.partition_point(|piece| piece.0 < from);
        self.pieces.insert(at, (from, to));
        self.pieces.dedup_by(|next, piece| {
            let grown = piece.1 == next.0;
            if grown {
                piece.1 = next.1;
            }
            grown
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::NodeId;
    use proptest::prelude::*;

    fn splits(sizes: &[u64]) -> Vec<InputSplit> {
        sizes.iter().map(|&bytes| InputSplit { file: 0, offset: 0, bytes }).collect()
    }

    fn piece(split: u32, start_bytes: u64, bytes: u64) -> OutputAt {
        OutputAt { map: 0, number: 0, node: NodeId(0), split, start_bytes, bytes }
    }

    fn take(coverage: &mut Coverage, output: OutputAt) -> bool {
        let lacking = coverage.lacks(&output);
        if lacking {
            coverage.add(&output);
        }
        lacking
    }

    #[test]
    fn a_map_in_two_lives_is_taken_once() {
        let mut coverage = Coverage::none(&splits(&[100, 50]));
        assert!(take(&mut coverage, piece(0, 0, 40)));
        assert!(!take(&mut coverage, piece(0, 0, 40)), "its twin");
        assert!(!take(&mut coverage, piece(0, 0, 100)), "larger than what is missing");
        assert!(!take(&mut coverage, piece(0, 20, 20)), "a part of it from a second life");
        assert!(take(&mut coverage, piece(0, 70, 30)));
        assert!(!coverage.is_complete());
        assert!(take(&mut coverage, piece(0, 40, 30)));
        assert!(take(&mut coverage, piece(1, 0, 50)));
        assert!(coverage.is_complete());
        assert_eq!(coverage.share(100), 100);
        assert!(!coverage.lacks(&piece(2, 0, 1)), "there is no such split");
    }

    #[test]
    fn an_empty_split_needs_its_empty_output() {
        let mut coverage = Coverage::none(&splits(&[0, 10]));
        assert!(take(&mut coverage, piece(1, 0, 10)));
        assert_eq!(coverage.share(100), 100);
        assert!(!coverage.is_complete());
        assert!(take(&mut coverage, piece(0, 0, 0)));
        assert!(!take(&mut coverage, piece(0, 0, 0)));
        assert!(coverage.is_complete());
    }

    /// A split's pieces as lives go by: each cut divides one piece in two.
    fn cuts() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(1..1000_u64, 0..12)
    }

    proptest! {
        /// Whatever pieces of whatever lives are offered in whatever order, no byte is taken twice; and once the pieces of the last life
        /// have all been offered, none is missing, as long as pieces were cut in the same places.
        #[test]
        fn no_byte_twice_and_none_missing(cuts in cuts(), order in prop::collection::vec(any::<prop::sample::Index>(), 0..60)) {
            // All pieces that ever were: the whole, then what each cut in turn made of the piece it fell into.
            let mut now = vec![(0_u64, 1000_u64)];
            let mut ever = now.clone();
            for cut in cuts {
                let at = now.iter().position(|&(from, to)| from <= cut && cut < to).unwrap();
                let (from, to) = now[at];
                if cut > from {
                    now.splice(at..=at, [(from, cut), (cut, to)]);
                    ever.extend([(from, cut), (cut, to)]);
                }
            }
            let mut coverage = Coverage::none(&splits(&[1000]));
            let mut taken = vec![0; 1000];
            let offers: Vec<(u64, u64)> = order.iter().map(|index| *index.get(&ever)).chain(now.iter().copied()).collect();
            for (from, to) in offers {
                if take(&mut coverage, piece(0, from, to - from)) {
                    taken[from as usize..to as usize].iter_mut().for_each(|count| *count += 1);
                }
            }
            prop_assert!(taken.iter().all(|count| *count == 1), "{:?}", taken);
            prop_assert!(coverage.is_complete());
        }
    }
}
