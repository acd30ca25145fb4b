//! A list that is sorted only as far as it is read.
//!
//! A search usually ends at one of the first jobs, so sorting all of them would be mostly in vain.

use crate::policy::orders::Rank;
use smallvec::SmallVec;

/// So many times as many are sorted each time, beginning with one: most searches end there, and the smallest is found without sorting.
const GROWTH: usize = 8;

/// Up to so many jobs need no allocation.
const INLINE_LEN: usize = 64;

/// Jobs with their ranks: all are added, then they are taken smallest first. It is built in place, because moving it would copy its inline memory.
#[derive(Debug, Default)]
pub struct SortedOnDemand {
    /// The last `sorted` smallest last; those before are larger and in no order.
    jobs: SmallVec<[(Rank, u32); INLINE_LEN]>,
    sorted: usize,
    /// How many are sorted next, if not one.
    next_len: usize,
}

impl SortedOnDemand {
    /// Adds a job. Ranks are distinct.
    #[inline]
    pub fn add(&mut self, rank: Rank, job: u32) {
        self.jobs.push((rank, job));
    }

    /// The smallest rank that is left.
    #[inline]
    pub fn first_rank(&mut self) -> Option<Rank> {
        if self.sorted == 0 && !self.jobs.is_empty() {
            self.sort_some();
        }
        self.jobs.last().map(|&(rank, _)| rank)
    }

    /// Takes the job of the smallest rank.
    pub fn take_first(&mut self) -> Option<u32> {
        self.first_rank()?;
        self.sorted -= 1;
        self.jobs.pop().map(|(_, job)| job)
    }

    fn sort_some(&mut self) {
        let rest = self.jobs.len().saturating_sub(self.next_len.max(1));
        if rest > 0 {
            self.jobs.select_nth_unstable_by(rest, |a, b| b.cmp(a));
        }
        self.jobs[rest..].sort_unstable_by(|a, b| b.cmp(a));
        self.sorted = self.jobs.len() - rest;
        self.next_len = self.sorted * GROWTH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn jobs_are_taken_smallest_rank_first(ranks in prop::collection::hash_set(any::<u64>(), 0..200)) {
            let mut list = SortedOnDemand::default();
            ranks.iter().for_each(|&rank| list.add(Rank::from(rank), rank as u32));
            let mut sorted: Vec<u64> = ranks.into_iter().collect();
            sorted.sort_unstable();
            for rank in sorted {
                prop_assert_eq!(list.first_rank(), Some(Rank::from(rank)));
                prop_assert_eq!(list.take_first(), Some(rank as u32));
            }
            prop_assert_eq!((list.first_rank(), list.take_first()), (None, None));
        }
    }
}
