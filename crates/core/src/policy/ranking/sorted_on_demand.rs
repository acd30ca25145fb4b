//! A list that is sorted only as far as it is read.
//!
//! A search usually ends at one of the first jobs, so sorting all of them would be mostly in vain.

use crate::policy::orders::Rank;
use smallvec::SmallVec;

/// So many are sorted first; then twice as many each time.
const FIRST_LEN: usize = 8;

/// Jobs with their ranks, which are taken smallest first.
#[derive(Debug)]
pub struct SortedOnDemand {
    /// From `sorted_from` on, smallest last; those before are larger and in no order.
    jobs: SmallVec<[(Rank, u32); FIRST_LEN]>,
    sorted_from: usize,
    next_len: usize,
}

impl SortedOnDemand {
    /// A list of these jobs. Ranks are distinct.
    pub fn new(jobs: SmallVec<[(Rank, u32); FIRST_LEN]>) -> SortedOnDemand {
        let mut list = SortedOnDemand { sorted_from: jobs.len(), jobs, next_len: FIRST_LEN };
        list.sort_some();
        list
    }

    /// The smallest rank that is left.
    #[inline]
    pub fn first_rank(&self) -> Option<Rank> {
        self.jobs.last().map(|&(rank, _)| rank)
    }

    /// Takes the job of the smallest rank.
    pub fn take_first(&mut self) -> Option<u32> {
        let (_, job) = self.jobs.pop()?;
        if self.jobs.len() == self.sorted_from {
            self.sort_some();
        }
        Some(job)
    }

    fn sort_some(&mut self) {
        let len = self.jobs.len();
        self.sorted_from = len.saturating_sub(self.next_len);
        self.next_len *= 2;
        if self.sorted_from > 0 {
            self.jobs.select_nth_unstable_by(self.sorted_from, |a, b| b.cmp(a));
        }
        self.jobs[self.sorted_from..].sort_unstable_by(|a, b| b.cmp(a));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn jobs_are_taken_smallest_rank_first(ranks in prop::collection::hash_set(any::<u64>(), 0..200)) {
            let jobs = ranks.iter().map(|&rank| (Rank::from(rank), rank as u32)).collect();
            let mut list = SortedOnDemand::new(jobs);
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
