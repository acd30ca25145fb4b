//! The jobs of a group that need a slot, smallest rank first, kept apart by the types of nodes that they refuse.
//!
//! On a cluster of fast and slow nodes, most jobs may refuse a node. A search that walked over all of them would cost as many steps as there
//! are jobs, so jobs that refuse the same types have a queue of their own, and a search merges the queues that accept its node.

use super::rank_queue::RankQueue;
use crate::policy::orders::Rank;
use std::ops::ControlFlow;

/// Types of nodes, as bits.
pub type TypeSet = u64;

/// One queue for each set of refused types.
#[derive(Debug, Default)]
pub struct JobQueues {
    queues: Vec<(TypeSet, RankQueue)>,
}

impl JobQueues {
    /// True if no job is queued.
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(|(_, queue)| queue.is_empty())
    }

    /// Adds a job that refuses these types. Its rank must not be taken.
    pub fn insert(&mut self, refused: TypeSet, rank: Rank, job: u32) {
        self.queue(refused).insert(rank, job);
    }

    /// Removes a job that refuses these types.
    pub fn remove(&mut self, refused: TypeSet, rank: Rank) {
        self.queue(refused).remove(rank);
    }

    /// Moves a job that refuses these types to another rank.
    pub fn change_rank(&mut self, refused: TypeSet, from: Rank, to: Rank, job: u32) {
        self.queue(refused).change_rank(from, to, job);
    }

    fn queue(&mut self, refused: TypeSet) -> &mut RankQueue {
        let at = self.queues.iter().position(|&(known, _)| known == refused);
        let at = at.unwrap_or_else(|| {
            self.queues.push((refused, RankQueue::default()));
            self.queues.len() - 1
        });
        &mut self.queues[at].1
    }

    /// Visits the jobs that do not refuse all of these types, smallest rank first, until `visit` breaks.
    pub fn visit<B>(&self, types: TypeSet, mut visit: impl FnMut(Rank, u32) -> ControlFlow<B>) -> ControlFlow<B> {
        let mut accepting = self.queues.iter().filter(|(refused, queue)| types & !refused != 0 && !queue.is_empty());
        let Some((_, first)) = accepting.next() else { return ControlFlow::Continue(()) };
        let mut others: Vec<_> = accepting.map(|(_, queue)| queue.iter().peekable()).collect();
        for (rank, job) in first.iter() {
            if !others.is_empty() {
                visit_before(&mut others, Some(rank), &mut visit)?;
            }
            visit(rank, job)?;
        }
        visit_before(&mut others, None, &mut visit)
    }
}

/// Visits what several queues have before a rank, or all of it.
fn visit_before<B, I: Iterator<Item = (Rank, u32)>>(
    queues: &mut [std::iter::Peekable<I>],
    before: Option<Rank>,
    visit: &mut impl FnMut(Rank, u32) -> ControlFlow<B>,
) -> ControlFlow<B> {
    loop {
        let first_ranks = (0..queues.len()).map(|at| (queues[at].peek().map_or(Rank::MAX, |&(rank, _)| rank), at));
        let Some((_, first)) = first_ranks.min() else { break };
        let Some((rank, job)) = queues[first].next_if(|&(rank, _)| before.is_none_or(|before| rank < before)) else {
            break;
        };
        visit(rank, job)?;
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The reference: all jobs sorted, those that refuse the type left out.
        #[test]
        fn a_visit_merges_the_queues_that_accept_a_type(
            jobs in prop::collection::btree_map(0u64..500, 0u64..8, 0..60),
            node_type in 0u32..3,
        ) {
            let mut queues = JobQueues::default();
            jobs.iter().for_each(|(&rank, &refused)| queues.insert(refused, Rank::from(rank), rank as u32));
            let mut visited = Vec::new();
            let _ = queues.visit::<()>(1 << node_type, |_, job| {
                visited.push(job);
                ControlFlow::Continue(())
            });
            let accepting: BTreeMap<_, _> = jobs.iter().filter(|&(_, refused)| refused >> node_type & 1 == 0).collect();
            let expected: Vec<u32> = accepting.keys().map(|&&rank| rank as u32).collect();
            prop_assert_eq!(visited, expected);
            prop_assert_eq!(queues.is_empty(), jobs.is_empty());
        }
    }
}
