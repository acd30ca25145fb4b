//! A k-way merge of sorted runs.
//!
//! A loser tree (Knuth, The Art of Computer Programming, vol. 3, 5.4.1) stores at every inner node the input that lost the
//! comparison there; advancing repeats the comparisons on one path from a leaf to the root. Nodes contain the first eight
//! bytes of their input's current key, so that most comparisons access only the tree.

#[cfg(test)]
mod tests;

use super::prefix;
use super::segment::{Position, SegmentError, SegmentReader, SegmentWriter};
use crate::record::{Combine, Combiner, Values, varint};
use std::hint::select_unpredictable;
use std::io::{self, Write};
use thiserror::Error;

/// Why a merge into a segment failed.
#[derive(Debug, Error)]
pub enum MergeError {
    /// An input is corrupt or unreadable.
    #[error(transparent)]
    Read(#[from] SegmentError),
    /// The output cannot be written.
    #[error("cannot write a merged segment: {0}; check the free space and permissions of the disk")]
    Write(#[source] io::Error),
    /// A value to be summed is not a valid varint.
    #[error(
        "cannot sum the values of key {key:?}: one of them is not a number; emit varint-encoded numbers or use another combiner"
    )]
    NotANumber {
        /// The key, with invalid UTF-8 replaced.
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
    /// Inner nodes of the tree, from index 1. The parent of the leaf of input `i` is node `(i + inputs) / 2`.
    losers: Vec<InputCursor>,
    winner: InputCursor,
    /// The key of the current group.
    group_key: Vec<u8>,
}

/// An input and the prefix of its current key; `u64::MAX` if the input is exhausted.
#[derive(Clone, Copy, Debug)]
struct InputCursor {
    prefix: u64,
    input: u32,
}

impl Merge {
    /// A merge that starts at the current record of each input.
    pub fn new(readers: Vec<SegmentReader>) -> Result<Merge, SegmentError> {
        let placeholder = InputCursor { prefix: u64::MAX, input: 0 };
        let mut merge =
            Merge { losers: vec![placeholder; readers.len()], winner: placeholder, group_key: Vec::new(), readers };
        merge.build_tree();
        Ok(merge)
    }

    /// The current record's key; empty after the last record.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.current().map_or(&[], SegmentReader::key)
    }

    /// The current record's value; empty after the last record.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.current().map_or(&[], SegmentReader::value)
    }

    /// True after the last record.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.current().is_none_or(SegmentReader::is_done)
    }

    /// Advances to the next record.
    #[inline]
    pub fn advance(&mut self) -> Result<(), SegmentError> {
        let input = self.winner.input as usize;
        let Some(reader) = self.readers.get_mut(input) else { return Ok(()) };
        reader.advance()?;
        let mut candidate = input_cursor(reader, input);
        let mut node = (input + self.readers.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            // The outcome of this comparison is practically random, and a branch misprediction would cost more than everything else here.
            let is_loser_first = self.is_before(loser, candidate);
            self.losers[node] = select_unpredictable(is_loser_first, candidate, loser);
            candidate = select_unpredictable(is_loser_first, loser, candidate);
            node /= 2;
        }
        self.winner = candidate;
        Ok(())
    }

    /// The position of every input: its next unread record, or [`Position::END`].
    pub fn positions(&self) -> Vec<Position> {
        self.readers.iter().map(SegmentReader::position).collect()
    }

    /// Stored bytes of all inputs that are still to be read.
    pub fn remaining_bytes(&self) -> u64 {
        self.readers.iter().map(SegmentReader::remaining_bytes).sum()
    }

    /// Calls `take` with the next key and its values, then advances to the key after it, whether or not all values were read.
    /// Returns `None` if no key is left.
    #[inline]
    pub fn next_group<R>(
        &mut self,
        take: impl FnOnce(&[u8], &mut GroupValues<'_>) -> R,
    ) -> Result<Option<R>, SegmentError> {
        if self.is_done() {
            return Ok(None);
        }
        let mut key = std::mem::take(&mut self.group_key);
        key.clear();
        key.extend_from_slice(self.key());
        let prefix = self.winner.prefix;
        let mut values = GroupValues { prefix, key: &key, merge: self, state: GroupState::Unread, error: None };
        let taken = take(&key, &mut values);
        while values.next().is_some() {}
        let error = values.error;
        self.group_key = key;
        error.map_or(Ok(Some(taken)), Err)
    }

    /// The key of the last [`Merge::next_group`]; empty before the first call.
    pub fn last_group_key(&self) -> &[u8] {
        &self.group_key
    }

    /// Writes all remaining records to `out`, with the values of each key combined.
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
        let mut push = |key: &[u8], values: &mut GroupValues<'_>| {
            let sum = sum(key, values)?;
            varint::with_encoded(sum, |value| out.push(key, value)).map_err(MergeError::Write)
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
        let mut combined = CombinedValues::default();
        let mut push = |key: &[u8], values: &mut GroupValues<'_>| {
            combined.combine(key, values, combiner);
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

    /// Builds the tree: every node compares the winners of its two children.
    fn build_tree(&mut self) {
        let inputs = self.readers.len();
        let mut winners: Vec<InputCursor> = vec![self.winner; inputs];
        winners.extend(self.readers.iter().enumerate().map(|(input, reader)| input_cursor(reader, input)));
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
    fn is_before(&self, left: InputCursor, right: InputCursor) -> bool {
        if left.prefix == right.prefix { self.is_before_by_record(left, right) } else { left.prefix < right.prefix }
    }

    #[inline(never)]
    fn is_before_by_record(&self, left: InputCursor, right: InputCursor) -> bool {
        let sort_key = |input_cursor: InputCursor| {
            let reader = &self.readers[input_cursor.input as usize];
            (reader.is_done(), reader.key(), reader.value(), input_cursor.input)
        };
        sort_key(left) < sort_key(right)
    }
}

#[inline]
fn input_cursor(reader: &SegmentReader, input: usize) -> InputCursor {
    let prefix = if reader.is_done() { u64::MAX } else { prefix(reader.key()) };
    InputCursor { prefix, input: input as u32 }
}

/// The values of the merge's current key.
#[derive(Debug)]
pub struct GroupValues<'a> {
    merge: &'a mut Merge,
    key: &'a [u8],
    prefix: u64,
    state: GroupState,
    /// The error that ended the group early. [`Values`] cannot return errors, so the caller checks this afterwards.
    error: Option<SegmentError>,
}

#[derive(Debug)]
enum GroupState {
    /// The merge is at a value that was not returned yet.
    Unread,
    /// The merge is at the value that was returned last.
    Returned,
    /// The merge is after the group.
    Ended,
}

impl Values for GroupValues<'_> {
    #[inline]
    fn next(&mut self) -> Option<&[u8]> {
        if let GroupState::Returned = self.state {
            self.state = GroupState::Unread;
            if let Err(error) = self.merge.advance() {
                self.error = Some(error);
                self.state = GroupState::Ended;
            } else if self.merge.winner.prefix != self.prefix || self.merge.is_done() || self.merge.key() != self.key {
                self.state = GroupState::Ended;
            }
        }
        if let GroupState::Ended = self.state {
            return None;
        }
        self.state = GroupState::Returned;
        Some(self.merge.value())
    }
}

/// The sum of a key's values. It saturates at `u64::MAX`, so that the result does not depend on the order of additions.
fn sum(key: &[u8], values: &mut impl Values) -> Result<u64, MergeError> {
    let mut sum = 0_u64;
    while let Some(value) = values.next() {
        let value = varint::decode(value).ok_or_else(|| MergeError::not_a_number(key))?;
        sum = sum.saturating_add(value);
    }
    Ok(sum)
}

/// The sorted values of one key after combining.
#[derive(Debug, Default)]
pub(super) struct CombinedValues {
    bytes: Vec<u8>,
    ranges: Vec<(usize, usize)>,
}

impl CombinedValues {
    pub fn combine(&mut self, key: &[u8], values: &mut dyn Values, combiner: &mut dyn Combiner) {
        self.bytes.clear();
        self.ranges.clear();
        let CombinedValues { bytes, ranges } = self;
        combiner.combine(key, values, &mut |value| {
            let from = bytes.len();
            bytes.extend_from_slice(value);
            ranges.push((from, bytes.len()));
        });
        self.sort();
    }

    /// Stores the values uncombined.
    pub fn copy(&mut self, values: &mut dyn Values) {
        self.bytes.clear();
        self.ranges.clear();
        while let Some(value) = values.next() {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(value);
            self.ranges.push((from, self.bytes.len()));
        }
        self.sort();
    }

    fn sort(&mut self) {
        let CombinedValues { bytes, ranges } = self;
        ranges.sort_unstable_by(|a, b| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]));
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges.iter().map(|&(from, to)| &self.bytes[from..to])
    }
}
