//! A line: who stands where, smallest rank first.
//!
//! Somebody moves with nearly every event, and nearly every walk ends after a step or two. So a line is cut into short sorted pieces:
//! finding a place takes two short searches, making room shifts one piece, and a walk reads memory in order.

/// A place in a line: smaller is sooner. No two are the same.
pub type Rank = u128;

/// A piece that grows longer than this is cut in two.
const LONGEST: usize = 32;

/// A sorted line.
#[derive(Debug, Default)]
pub struct Line {
    /// The smallest rank that belongs in each piece; the first takes all that is smaller too.
    begins: Vec<Rank>,
    /// None of them empty.
    pieces: Vec<Vec<(Rank, u32)>>,
}

impl Line {
    /// Nobody stands in it.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Those who stand in it, first to last.
    pub fn iter(&self) -> impl Iterator<Item = (Rank, u32)> + '_ {
        self.pieces.iter().flatten().copied()
    }

    /// Somebody gets in line.
    pub fn insert(&mut self, rank: Rank, who: u32) {
        if self.pieces.is_empty() {
            self.begins.push(rank);
            self.pieces.push(vec![(rank, who)]);
            return;
        }
        let at = self.piece_of(rank);
        let piece = &mut self.pieces[at];
        piece.insert(piece.partition_point(|&(other, _)| other < rank), (rank, who));
        if piece.len() > LONGEST {
            let rest = piece.split_off(LONGEST / 2);
            self.begins.insert(at + 1, rest[0].0);
            self.pieces.insert(at + 1, rest);
        }
    }

    /// Whoever stands at this rank leaves.
    pub fn remove(&mut self, rank: Rank) {
        let at = self.piece_of(rank);
        let piece = &mut self.pieces[at];
        piece.remove(place_of(piece, rank));
        let left = piece.len();
        if left == 0 {
            self.pieces.remove(at);
            self.begins.remove(at);
        } else if left < LONGEST / 4 && self.pieces.get(at + 1).is_some_and(|next| left + next.len() < LONGEST / 2) {
            let next = self.pieces.remove(at + 1);
            self.begins.remove(at + 1);
            self.pieces[at].extend(next);
        }
    }

    /// Whoever stands at one rank goes to another; mostly that is not far.
    pub fn shift(&mut self, from: Rank, to: Rank, who: u32) {
        let at = self.piece_of(from);
        let after_begin = at == 0 || self.begins[at] <= to;
        let before_next = self.begins.get(at + 1).is_none_or(|&next| to < next);
        if !(after_begin && before_next) {
            self.remove(from);
            self.insert(to, who);
            return;
        }
        let piece = &mut self.pieces[at];
        let mut place = place_of(piece, from);
        // Those in between close up.
        while place > 0 && to < piece[place - 1].0 {
            piece[place] = piece[place - 1];
            place -= 1;
        }
        while place + 1 < piece.len() && piece[place + 1].0 < to {
            piece[place] = piece[place + 1];
            place += 1;
        }
        piece[place] = (to, who);
    }

    fn piece_of(&self, rank: Rank) -> usize {
        self.begins.partition_point(|&begin| begin <= rank).saturating_sub(1)
    }
}

fn place_of(piece: &[(Rank, u32)], rank: Rank) -> usize {
    piece.binary_search_by_key(&rank, |&(other, _)| other).expect("somebody stands at this rank")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The obvious twin: a sorted map.
        #[test]
        fn a_line_is_sorted(steps in prop::collection::vec((any::<bool>(), 0..300u32, 0..300u32), 0..1_500)) {
            let (mut line, mut sorted) = (Line::default(), BTreeMap::new());
            let rank_of = |who: u32| Rank::from(who.wrapping_mul(2_654_435_761));
            for (enters, who, other) in steps {
                let (rank, elsewhere) = (rank_of(who), rank_of(other));
                match (enters, sorted.contains_key(&rank)) {
                    (true, true) if !sorted.contains_key(&elsewhere) => {
                        let who = sorted.remove(&rank).unwrap();
                        line.shift(rank, elsewhere, who);
                        sorted.insert(elsewhere, who);
                    }
                    (true, false) => {
                        line.insert(rank, who);
                        sorted.insert(rank, who);
                    }
                    (false, true) => {
                        line.remove(rank);
                        sorted.remove(&rank);
                    }
                    _ => {}
                }
                prop_assert_eq!(line.is_empty(), sorted.is_empty());
            }
            prop_assert!(line.iter().eq(sorted.into_iter()));
            prop_assert!(line.pieces.iter().all(|piece| (1..=LONGEST).contains(&piece.len())));
        }
    }
}
