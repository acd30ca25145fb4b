//! A queue sorted by rank.
//!
//! An entry moves with nearly every event, and nearly every search ends after a step or two. So a queue is cut into short sorted chunks:
//! finding a position takes two short binary searches, an insertion shifts one chunk, and iterating reads memory in order.

use crate::policy::orders::Rank;

/// A chunk that grows beyond this length is split.
const CHUNK_LEN_MAX: usize = 32;

/// Numbers of jobs or groups, smallest rank first.
#[derive(Debug, Default)]
pub struct RankQueue {
    /// The smallest rank that belongs in each chunk; the first chunk takes all smaller ones too.
    starts: Vec<Rank>,
    /// None of them is empty.
    chunks: Vec<Vec<(Rank, u32)>>,
}

impl RankQueue {
    /// True if it has no entry.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// All entries, smallest rank first.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, u32)> + '_ {
        self.chunks.iter().flatten().copied()
    }

    /// Adds an entry. Its rank must not be taken.
    pub fn insert(&mut self, rank: Rank, number: u32) {
        if self.chunks.is_empty() {
            self.starts.push(rank);
            self.chunks.push(vec![(rank, number)]);
            return;
        }
        let at = self.chunk_of(rank);
        let chunk = &mut self.chunks[at];
        chunk.insert(chunk.partition_point(|&(other, _)| other < rank), (rank, number));
        if chunk.len() > CHUNK_LEN_MAX {
            let rest = chunk.split_off(CHUNK_LEN_MAX / 2);
            self.starts.insert(at + 1, rest[0].0);
            self.chunks.insert(at + 1, rest);
        }
    }

    /// Removes the entry of a rank, which must be there.
    pub fn remove(&mut self, rank: Rank) {
        self.remove_from(self.chunk_of(rank), rank);
    }

    /// Removes the entry of a rank from its chunk.
    fn remove_from(&mut self, at: usize, rank: Rank) {
        let chunk = &mut self.chunks[at];
        chunk.remove(position_of(chunk, rank));
        let left = chunk.len();
        let fits_next = |next: &Vec<(Rank, u32)>| left + next.len() < CHUNK_LEN_MAX / 2;
        if left == 0 {
            self.chunks.remove(at);
            self.starts.remove(at);
        } else if left < CHUNK_LEN_MAX / 4 && self.chunks.get(at + 1).is_some_and(fits_next) {
            let next = self.chunks.remove(at + 1);
            self.starts.remove(at + 1);
            self.chunks[at].extend(next);
        }
    }

    /// Moves an entry to another rank, usually not far away.
    pub fn change_rank(&mut self, from: Rank, to: Rank, number: u32) {
        let at = self.chunk_of(from);
        let after_start = at == 0 || self.starts[at] <= to;
        let before_next = self.starts.get(at + 1).is_none_or(|&next| to < next);
        if !(after_start && before_next) {
            self.remove_from(at, from);
            self.insert(to, number);
            return;
        }
        let chunk = &mut self.chunks[at];
        let mut position = position_of(chunk, from);
        // The entries in between shift by one.
        while position > 0 && to < chunk[position - 1].0 {
            chunk[position] = chunk[position - 1];
            position -= 1;
        }
        while position + 1 < chunk.len() && chunk[position + 1].0 < to {
            chunk[position] = chunk[position + 1];
            position += 1;
        }
        chunk[position] = (to, number);
    }

    fn chunk_of(&self, rank: Rank) -> usize {
        self.starts.partition_point(|&start| start <= rank).saturating_sub(1)
    }
}

fn position_of(chunk: &[(Rank, u32)], rank: Rank) -> usize {
    chunk.binary_search_by_key(&rank, |&(other, _)| other).expect("the rank is in the queue")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The reference implementation is a sorted map.
        #[test]
        fn a_queue_is_sorted(steps in prop::collection::vec((any::<bool>(), 0..300u32, 0..300u32), 0..1_500)) {
            let (mut queue, mut sorted) = (RankQueue::default(), BTreeMap::new());
            let rank_of = |number: u32| Rank::from(number.wrapping_mul(2_654_435_761));
            for (enters, number, other) in steps {
                let (rank, elsewhere) = (rank_of(number), rank_of(other));
                match (enters, sorted.contains_key(&rank)) {
                    (true, true) if !sorted.contains_key(&elsewhere) => {
                        let number = sorted.remove(&rank).unwrap();
                        queue.change_rank(rank, elsewhere, number);
                        sorted.insert(elsewhere, number);
                    }
                    (true, false) => {
                        queue.insert(rank, number);
                        sorted.insert(rank, number);
                    }
                    (false, true) => {
                        queue.remove(rank);
                        sorted.remove(&rank);
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.is_empty(), sorted.is_empty());
            }
            prop_assert!(queue.iter().eq(sorted));
            prop_assert!(queue.chunks.iter().all(|chunk| (1..=CHUNK_LEN_MAX).contains(&chunk.len())));
        }
    }
}
