//! What a reduce has fetched, in bytes of input rather than in map tasks.
//!
//! A map that runs again after its output was lost may end early this time: its one output is then replaced by two outputs of different map
//! tasks. A reduce therefore does not count maps. For each split it records which byte ranges its fetched segments cover, takes an output only if
//! it covers none of the output's range yet, and is complete when every split is fully covered. Ranges are only ever subdivided, so two outputs
//! are either disjoint or nested, and this rule neither duplicates nor loses a record.

use super::output_tracker::MapOutputLocation;
use super::scaled_fraction;
use crate::job::InputSplit;
use crate::planted::{Bug, planted};
use serde::{Deserialize, Serialize};

/// The input ranges covered by the fetched segments of a reduce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Coverage {
    splits: Vec<SplitCoverage>,
    /// Covered bytes, over all splits.
    covered_bytes: u64,
    /// Number of splits that are not fully covered.
    incomplete_splits: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SplitCoverage {
    /// Length of the split.
    bytes: u64,
    /// Covered ranges (start, end), disjoint and sorted. Adjacent ranges are joined, so a complete split has exactly one.
    ranges: Vec<(u64, u64)>,
}

impl Coverage {
    /// Coverage of these splits with nothing fetched.
    pub(crate) fn empty(splits: &[InputSplit]) -> Coverage {
        let uncovered = |split: &InputSplit| SplitCoverage { bytes: split.bytes, ranges: Vec::new() };
        Coverage {
            splits: splits.iter().map(uncovered).collect(),
            covered_bytes: 0,
            incomplete_splits: splits.len() as u32,
        }
    }

    /// True if no byte of this output's input range is covered yet. False for a split that does not exist.
    pub(crate) fn is_missing(&self, output: &MapOutputLocation) -> bool {
        let Some(split) = self.splits.get(output.split as usize) else { return false };
        let is_covered = split.overlaps(output.start_bytes, output.start_bytes + output.bytes);
        !split.is_complete() && (!is_covered || planted(Bug::OverlapFetched))
    }

    /// Records that an output has been fetched. It must have been missing.
    pub(crate) fn add(&mut self, output: &MapOutputLocation) {
        debug_assert!(self.is_missing(output));
        let split = &mut self.splits[output.split as usize];
        split.add(output.start_bytes, output.start_bytes + output.bytes);
        self.covered_bytes += output.bytes;
        if split.is_complete() {
            self.incomplete_splits -= 1;
        }
    }

    /// True if all splits are fully covered.
    pub(crate) fn is_complete(&self) -> bool {
        self.incomplete_splits == 0
    }

    /// Covered fraction of the input, scaled to the range 0 to `scale`.
    pub(crate) fn scaled_fraction(&self, scale: u32) -> u32 {
        scaled_fraction(self.covered_bytes, self.splits.iter().map(|split| split.bytes).sum(), scale)
    }

    /// True if this is the coverage of splits with these lengths.
    pub(crate) fn matches(&self, splits: &[InputSplit]) -> bool {
        self.splits.iter().map(|split| split.bytes).eq(splits.iter().map(|split| split.bytes))
    }
}

impl SplitCoverage {
    fn is_complete(&self) -> bool {
        self.ranges == [(0, self.bytes)]
    }

    /// A non-empty range overlaps the ranges it shares a byte with; an empty one overlaps a range it lies within or at the start of.
    fn overlaps(&self, from: u64, to: u64) -> bool {
        self.ranges.iter().any(|&(start, end)| from < end && (start <= from || start < to))
    }

    fn add(&mut self, from: u64, to: u64) {
        let at = self.ranges.partition_point(|range| range.0 < from);
        self.ranges.insert(at, (from, to));
        self.ranges.dedup_by(|next, range| {
            let is_adjacent = range.1 == next.0;
            if is_adjacent {
                range.1 = next.1;
            }
            is_adjacent
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

    fn output(split: u32, start_bytes: u64, bytes: u64) -> MapOutputLocation {
        MapOutputLocation { map: 0, number: 0, node: NodeId(0), split, start_bytes, bytes }
    }

    fn add_if_missing(coverage: &mut Coverage, output: MapOutputLocation) -> bool {
        let is_missing = coverage.is_missing(&output);
        if is_missing {
            coverage.add(&output);
        }
        is_missing
    }

    #[test]
    fn input_of_a_rerun_map_is_taken_once() {
        let mut coverage = Coverage::empty(&splits(&[100, 50]));
        assert!(add_if_missing(&mut coverage, output(0, 0, 40)));
        assert!(!add_if_missing(&mut coverage, output(0, 0, 40)), "a duplicate");
        assert!(!add_if_missing(&mut coverage, output(0, 0, 100)), "larger than what is missing");
        assert!(!add_if_missing(&mut coverage, output(0, 20, 20)), "a part of a covered range, from a second run");
        assert!(add_if_missing(&mut coverage, output(0, 70, 30)));
        assert!(!coverage.is_complete());
        assert!(add_if_missing(&mut coverage, output(0, 40, 30)));
        assert!(add_if_missing(&mut coverage, output(1, 0, 50)));
        assert!(coverage.is_complete());
        assert_eq!(coverage.scaled_fraction(100), 100);
        assert!(!coverage.is_missing(&output(2, 0, 1)), "there is no such split");
    }

    #[test]
    fn an_empty_split_needs_its_empty_output() {
        let mut coverage = Coverage::empty(&splits(&[0, 10]));
        assert!(add_if_missing(&mut coverage, output(1, 0, 10)));
        assert_eq!(coverage.scaled_fraction(100), 100);
        assert!(!coverage.is_complete());
        assert!(add_if_missing(&mut coverage, output(0, 0, 0)));
        assert!(!add_if_missing(&mut coverage, output(0, 0, 0)));
        assert!(coverage.is_complete());
    }

    /// Positions at which early ends divide the ranges of a split, in the order of the early ends.
    fn cuts() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(1..1000_u64, 0..12)
    }

    proptest! {
        /// Whatever ranges, of whatever runs, are offered in whatever order, no byte is taken twice. Once all ranges of the last run have been
        /// offered, none is missing.
        #[test]
        fn no_byte_twice_and_none_missing(cuts in cuts(), order in prop::collection::vec(any::<prop::sample::Index>(), 0..60)) {
            // All ranges that ever existed: the whole split, then the two halves that each cut makes of the range it falls into.
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
            let mut coverage = Coverage::empty(&splits(&[1000]));
            let mut taken = vec![0; 1000];
            let offers: Vec<(u64, u64)> = order.iter().map(|index| *index.get(&ever)).chain(now.iter().copied()).collect();
            for (from, to) in offers {
                if add_if_missing(&mut coverage, output(0, from, to - from)) {
                    taken[from as usize..to as usize].iter_mut().for_each(|count| *count += 1);
                }
            }
            prop_assert!(taken.iter().all(|count| *count == 1), "{:?}", taken);
            prop_assert!(coverage.is_complete());
        }
    }
}
