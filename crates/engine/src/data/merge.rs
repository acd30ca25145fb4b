//! Many sorted runs read as one.
//!
//! A loser tree (Knuth, The Art of Computer Programming, vol. 3, 5.4.1) keeps, at every inner node, the input that lost
//! there; taking a record replays one path from a leaf to the root. Nodes carry the first eight bytes of their input's
//! key, so that most comparisons touch nothing but the tree.

#[cfg(test)]
mod tests;

use super::prefix;
use super::segment::{Position, SegmentError, SegmentReader, SegmentWriter};
use crate::record::{Combine, Combiner, Values, number};
use std::hint::select_unpredictable;
use std::io::{self, Write};
use thiserror::Error;

/// Why a merge into a segment failed.
#[derive(Debug, Error)]
pub enum MergeError {
    /// An input cannot be read.
    #[error(transparent)]
    Read(#[from] SegmentError),
    /// The output cannot be written.
    #[error("cannot write merged segment: {0}")]
    Write(#[source] io::Error),
    /// A value that was to be added up is no number.
    #[error("a value of key {key:?} is not a number and cannot be summed; emit numbers, or use another combiner")]
    NotANumber {
        /// Its key, made readable.
        key: String,
    },
}

impl MergeError {
    pub(super) fn not_a_number(key: &[u8]) -> MergeError {
        MergeError::NotANumber { key: String::from_utf8_lossy(key).into_owned() }
    }
}

/// A cursor over the records of many segments, ordered by key, then value, then input.
#[derive(Debug)]
pub struct Merge {
    readers: Vec<SegmentReader>,
    /// Inner nodes of the tree from index 1; the input of leaf `i` first plays at node `(i + inputs) / 2`.
    losers: Vec<Contender>,
    winner: Contender,
    /// The key of the current group.
    group: Vec<u8>,
}

/// An input, with the prefix of its current key.
#[derive(Clone, Copy, Debug)]
struct Contender {
    prefix: u64,
    input: u32,
}

impl Merge {
    /// A merge that begins where its inputs stand.
    pub fn new(readers: Vec<SegmentReader>) -> Result<Merge, SegmentError> {
        let nobody = Contender { prefix: u64::MAX, input: 0 };
        let mut merge = Merge { losers: vec![nobody; readers.len()], winner: nobody, group: Vec::new(), readers };
        merge.play_all();
        Ok(merge)
    }

    /// The current record's key; empty behind the last record.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.current().map_or(&[], SegmentReader::key)
    }

    /// The current record's value; empty behind the last record.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.current().map_or(&[], SegmentReader::value)
    }

    /// True behind the last record.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.current().is_none_or(SegmentReader::is_done)
    }

    /// Goes to the next record.
    #[inline]
    pub fn advance(&mut self) -> Result<(), SegmentError> {
        let input = self.winner.input as usize;
        let Some(reader) = self.readers.get_mut(input) else { return Ok(()) };
        reader.advance()?;
        let mut rising = contender(reader, input);
        let mut node = (input + self.readers.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            // Which of two records comes first is as good as random: a wrong guess of the processor costs more than all else here.
            let is_loser_first = self.is_before(loser, rising);
            self.losers[node] = select_unpredictable(is_loser_first, rising, loser);
            rising = select_unpredictable(is_loser_first, loser, rising);
            node /= 2;
        }
        self.winner = rising;
        Ok(())
    }

    /// Where every input stands: at its next record that was not passed yet, or at [`Position::END`].
    pub fn positions(&self) -> Vec<Position> {
        self.readers.iter().map(SegmentReader::position).collect()
    }

    /// Gives the next key and its values to `take`, then goes on to the key after it, whether or not all values were
    /// taken. Nothing if no key is left.
    pub fn next_group<R>(&mut self, take: impl FnOnce(&[u8], &mut dyn Values) -> R) -> Result<Option<R>, SegmentError> {
        if self.is_done() {
            return Ok(None);
        }
        let mut key = std::mem::take(&mut self.group);
        key.clear();
        key.extend_from_slice(self.key());
        let prefix = self.winner.prefix;
        let mut values = GroupValues { prefix, key: &key, merge: self, state: State::Fresh, error: None };
        let taken = take(&key, &mut values);
        while values.next().is_some() {}
        let error = values.error;
        self.group = key;
        error.map_or(Ok(Some(taken)), Err)
    }

    /// The key that [`Merge::next_group`] gave out last; empty before the first.
    pub fn last_group(&self) -> &[u8] {
        &self.group
    }

    /// Writes all that is left to `out`, the values of each key combined.
    pub fn merge_to<W: Write>(&mut self, out: &mut SegmentWriter<W>, combine: &mut Combine) -> Result<(), MergeError> {
        match combine {
            Combine::Nothing => self.copy_to(out),
            Combine::Sum => self.sum_to(out),
            Combine::With(combiner) => self.combine_to(out, combiner.as_mut()),
        }
    }

    fn copy_to<W: Write>(&mut self, out: &mut SegmentWriter<W>) -> Result<(), MergeError> {
        while let Some(reader) = self.current().filter(|reader| !reader.is_done()) {
            out.push_encoded(reader.encoded()).map_err(MergeError::Write)?;
            self.advance()?;
        }
        Ok(())
    }

    fn sum_to<W: Write>(&mut self, out: &mut SegmentWriter<W>) -> Result<(), MergeError> {
        let mut push = |key: &[u8], values: &mut dyn Values| {
            let sum = sum(key, values)?;
            number::with(sum, |value| out.push(key, value)).map_err(MergeError::Write)
        };
        while let Some(pushed) = self.next_group(&mut push)? {
            pushed?;
        }
        Ok(())
    }

    fn combine_to<W: Write>(
        &mut self,
        out: &mut SegmentWriter<W>,
        combiner: &mut dyn Combiner,
    ) -> Result<(), MergeError> {
        let mut combined = Combined::default();
        let mut push = |key: &[u8], values: &mut dyn Values| {
            combined.fill(key, values, combiner);
            combined.iter().try_for_each(|value| out.push(key, value)).map_err(MergeError::Write)
        };
        while let Some(pushed) = self.next_group(&mut push)? {
            pushed?;
        }
        Ok(())
    }

    #[inline]
    fn current(&self) -> Option<&SegmentReader> {
        self.readers.get(self.winner.input as usize)
    }

    /// Fills the tree: at every node the winners of the two nodes below meet.
    fn play_all(&mut self) {
        let inputs = self.readers.len();
        let mut winners: Vec<Contender> = vec![self.winner; inputs];
        winners.extend(self.readers.iter().enumerate().map(|(input, reader)| contender(reader, input)));
        for node in (1..inputs).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if self.is_before(right, left) { (right, left) } else { (left, right) };
            winners[node] = winner;
            self.losers[node] = loser;
        }
        if let Some(&winner) = winners.get(1) {
            self.winner = winner;
        }
    }

    #[inline]
    fn is_before(&self, left: Contender, right: Contender) -> bool {
        if left.prefix == right.prefix { self.is_before_in_full(left, right) } else { left.prefix < right.prefix }
    }

    #[inline(never)]
    fn is_before_in_full(&self, left: Contender, right: Contender) -> bool {
        let in_full = |contender: Contender| {
            let reader = &self.readers[contender.input as usize];
            (reader.is_done(), reader.key(), reader.value(), contender.input)
        };
        in_full(left) < in_full(right)
    }
}

#[inline]
fn contender(reader: &SegmentReader, input: usize) -> Contender {
    let prefix = if reader.is_done() { u64::MAX } else { prefix(reader.key()) };
    Contender { prefix, input: input as u32 }
}

/// The values of the key a merge stands at.
struct GroupValues<'a> {
    merge: &'a mut Merge,
    key: &'a [u8],
    prefix: u64,
    state: State,
    /// [`Values`] has no room for errors; the one that ended the group early is asked for behind it.
    error: Option<SegmentError>,
}

enum State {
    /// The merge stands at a value no one has seen.
    Fresh,
    /// It stands at the value that was given out last.
    Seen,
    /// It stands behind the group.
    Over,
}

impl Values for GroupValues<'_> {
    #[inline]
    fn next(&mut self) -> Option<&[u8]> {
        if let State::Seen = self.state {
            self.state = State::Fresh;
            if let Err(error) = self.merge.advance() {
                self.error = Some(error);
                self.state = State::Over;
            } else if self.merge.winner.prefix != self.prefix || self.merge.is_done() || self.merge.key() != self.key {
                self.state = State::Over;
            }
        }
        if let State::Over = self.state {
            return None;
        }
        self.state = State::Seen;
        Some(self.merge.value())
    }
}

/// Adds up the values of a key. Past the largest number the sum stays there, so that the order of additions is all one.
fn sum(key: &[u8], values: &mut dyn Values) -> Result<u64, MergeError> {
    let mut sum = 0_u64;
    while let Some(value) = values.next() {
        let value = number::parse(value).ok_or_else(|| MergeError::not_a_number(key))?;
        sum = sum.saturating_add(value);
    }
    Ok(sum)
}

/// What a combiner made of the values of one key, put in order.
#[derive(Debug, Default)]
pub(super) struct Combined {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Combined {
    pub fn fill(&mut self, key: &[u8], values: &mut dyn Values, combiner: &mut dyn Combiner) {
        self.bytes.clear();
        self.ends.clear();
        let Combined { bytes, ends } = self;
        combiner.combine(key, values, &mut |value| {
            let from = bytes.len();
            bytes.extend_from_slice(value);
            ends.push((from, bytes.len()));
        });
        self.sort();
    }

    /// Takes the values as they are.
    pub fn copy(&mut self, values: &mut dyn Values) {
        self.bytes.clear();
        self.ends.clear();
        while let Some(value) = values.next() {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(value);
            self.ends.push((from, self.bytes.len()));
        }
        self.sort();
    }

    fn sort(&mut self) {
        let Combined { bytes, ends } = self;
        ends.sort_unstable_by(|a, b| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]));
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().map(|&(from, to)| &self.bytes[from..to])
    }
}
