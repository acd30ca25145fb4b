//! The values of one key until they are combined.
//!
//! A cell is next to its key. As long as all values of the key are equal, as those of a count are, it has the value once and how often it
//! occurred. Other values are collected in the cell and combined when it is full: by then they are in the cache, and a combiner that
//! folds its values into a small one (a sum, an extreme, a set of flags) needs no other memory. If the combined values do not fit into half of
//! the cell, they move to a block of their own, which grows with them. So each combination at least halves the memory of its values or is
//! preceded by a doubling of it, and the work per value is bounded.

use super::blocks::{BlockAt, Blocks};
use super::slot_table::{Aligned64, Cell};
use crate::data::merge::CombinedValues;
use crate::record::{Combiner, Values};

/// Bytes of values in a cell. With key and tag, a cell fills a cache line.
pub(super) const INLINE_BYTES: usize = 46;

/// Longest value that is counted instead of repeated.
const REPEATED_BYTES_MAX: usize = 40;

/// Values in smaller blocks are combined in the order of arrival; those in larger ones are sorted first, because some combiners
/// find equal values only if they are adjacent.
const SORTED_BLOCK_BYTES_MIN: usize = 1 << 10;

/// The values of a key. Values that differ are stored as their length (LEB128) and their bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum FoldCell {
    Repeated { length: u8, count: u32, bytes: [u8; REPEATED_BYTES_MAX] },
    Inline { used: u8, bytes: [u8; INLINE_BYTES] },
    Block { at: BlockAt, used: usize, capacity: usize },
}

impl Default for FoldCell {
    fn default() -> FoldCell {
        FoldCell::Repeated { length: 0, count: 0, bytes: [0; REPEATED_BYTES_MAX] }
    }
}

impl Cell for FoldCell {
    type SlotAlignment = Aligned64;
}

/// Combines the values of cells. Has the blocks of all cells of a table.
#[derive(Debug)]
pub(super) struct Folder {
    pub blocks: Blocks,
    scratch: Scratch,
}

/// Memory that is reused from one combination to the next.
#[derive(Debug, Default)]
struct Scratch {
    combined: CombinedValues,
    encoded: Vec<u8>,
    sorted: Vec<(usize, usize)>,
}

impl Folder {
    /// A folder without blocks, for this memory budget.
    pub fn new(memory_bytes_max: usize) -> Folder {
        Folder { blocks: Blocks::new(memory_bytes_max), scratch: Scratch::default() }
    }

    /// Adds a value to a cell. Combines the cell's values if it is full.
    #[inline(always)]
    pub fn add(&mut self, key: impl Key, cell: &mut FoldCell, value: &[u8], combiner: &mut dyn Combiner) {
        match cell {
            FoldCell::Repeated { length, count, bytes } => {
                let is_equal = usize::from(*length) == value.len() && equal(value, bytes);
                if is_equal && *count < u32::MAX {
                    *count += 1;
                    return;
                }
                if cell.add_different(value) {
                    return;
                }
            }
            FoldCell::Inline { used, bytes } => {
                let at = usize::from(*used);
                if at.wrapping_add(value.len()) < INLINE_BYTES {
                    let end = at.wrapping_add(value.len()).wrapping_add(1);
                    bytes[at] = value.len() as u8;
                    copy(value, &mut bytes[at.wrapping_add(1)..end]);
                    *used = end as u8;
                    return;
                }
            }
            FoldCell::Block { at, used, capacity } => {
                let end = *used + encoded_bytes(value);
                if end <= *capacity {
                    encode_at(value, &mut self.blocks.bytes_mut(*at)[*used..end]);
                    *used = end;
                    return;
                }
            }
        }
        key.with(|key| self.combine_with(key, cell, value, combiner));
    }

    /// Combines the values of a full cell with one more.
    #[inline(never)]
    fn combine_with(&mut self, key: &[u8], cell: &mut FoldCell, value: &[u8], combiner: &mut dyn Combiner) {
        let Scratch { combined, encoded, sorted } = &mut self.scratch;
        encoded.clear();
        let mut add = |value: &[u8]| encode(value, encoded);
        match cell.values(&self.blocks) {
            CellValues::Encoded([]) | CellValues::Repeated { count: 0, .. } => add(value),
            CellValues::Repeated { value: repeated, count } => {
                combiner.combine(key, &mut RepeatedValues { value: repeated, count, last: Some(value) }, &mut add);
            }
            CellValues::Encoded(present) if present.len() < SORTED_BLOCK_BYTES_MIN => {
                combiner.combine(key, &mut EncodedValues { rest: present, last: Some(value) }, &mut add);
            }
            CellValues::Encoded(present) => {
                encoded.extend_from_slice(present);
                encode(value, encoded);
                combined.combine(key, &mut SortedValues::new(encoded, sorted), combiner);
                encoded.clear();
                combined.iter().for_each(|value| encode(value, encoded));
            }
        }
        store(cell, encoded, &mut self.blocks);
    }

    /// Combines the values of a cell and moves them to another set of blocks.
    pub fn compact(&mut self, key: &[u8], cell: &mut FoldCell, to: &mut Blocks, combiner: &mut dyn Combiner) {
        if !matches!(cell, FoldCell::Block { .. }) {
            return;
        }
        self.combine(key, cell, combiner);
        let Scratch { combined, encoded, .. } = &mut self.scratch;
        encoded.clear();
        combined.iter().for_each(|value| encode(value, encoded));
        if encoded.is_empty() {
            *cell = FoldCell::default();
            return;
        }
        // Memory is scarce, so little of it stays free here.
        let capacity = encoded.len() + encoded.len() / 4;
        *cell = FoldCell::Block { at: to.allocate(capacity), used: 0, capacity };
        write_block(cell, encoded, to);
    }

    /// The combined values of a cell, sorted. A single value is not combined, and neither is none: a combiner may drop values.
    pub fn combine(&mut self, key: &[u8], cell: &FoldCell, combiner: &mut dyn Combiner) -> &CombinedValues {
        let Scratch { combined, sorted, .. } = &mut self.scratch;
        match cell.values(&self.blocks) {
            CellValues::Repeated { value, count } => {
                let mut values = RepeatedValues { value, count, last: None };
                if count <= 1 { combined.copy(&mut values) } else { combined.combine(key, &mut values, combiner) }
            }
            CellValues::Encoded(encoded) => {
                let mut values = SortedValues::new(encoded, sorted);
                let is_single = values.ranges.len() <= 1;
                if is_single { combined.copy(&mut values) } else { combined.combine(key, &mut values, combiner) }
            }
        }
        combined
    }
}

/// The values of a cell.
enum CellValues<'a> {
    Repeated { value: &'a [u8], count: u32 },
    Encoded(&'a [u8]),
}

impl FoldCell {
    fn values<'a>(&'a self, blocks: &'a Blocks) -> CellValues<'a> {
        match self {
            FoldCell::Repeated { length, count, bytes } => {
                CellValues::Repeated { value: &bytes[..usize::from(*length)], count: *count }
            }
            FoldCell::Inline { used, bytes } => CellValues::Encoded(&bytes[..usize::from(*used)]),
            FoldCell::Block { at, used, .. } => CellValues::Encoded(&blocks.bytes(*at)[..*used]),
        }
    }

    /// Adds a value to a cell that has none or another one, repeated. Returns false if they do not fit into a cell.
    #[inline(never)]
    fn add_different(&mut self, value: &[u8]) -> bool {
        let FoldCell::Repeated { length, count, bytes: repeated } = *self else { return false };
        if count == 0 && value.len() <= REPEATED_BYTES_MAX {
            let mut bytes = [0; REPEATED_BYTES_MAX];
            bytes[..value.len()].copy_from_slice(value);
            *self = FoldCell::Repeated { length: value.len() as u8, count: 1, bytes };
            return true;
        }
        let repeated_bytes = (count as usize).saturating_mul(usize::from(length) + 1);
        let used = repeated_bytes.saturating_add(encoded_bytes(value));
        if used > INLINE_BYTES {
            return false;
        }
        let mut bytes = [0; INLINE_BYTES];
        for entry in bytes[..repeated_bytes].chunks_exact_mut(usize::from(length) + 1) {
            encode_at(&repeated[..usize::from(length)], entry);
        }
        encode_at(value, &mut bytes[repeated_bytes..used]);
        *self = FoldCell::Inline { used: used as u8, bytes };
        true
    }
}

/// Replaces the values of a cell.
fn store(cell: &mut FoldCell, encoded: &[u8], blocks: &mut Blocks) {
    // Half of the space stays free, so that the next combination is several values away.
    if encoded.len() <= INLINE_BYTES / 2 {
        let mut bytes = [0; INLINE_BYTES];
        bytes[..encoded.len()].copy_from_slice(encoded);
        *cell = FoldCell::Inline { used: encoded.len() as u8, bytes };
        return;
    }
    if !matches!(cell, FoldCell::Block { capacity, .. } if encoded.len() <= *capacity / 2) {
        let capacity = block_bytes(encoded.len());
        *cell = FoldCell::Block { at: blocks.allocate(capacity), used: 0, capacity };
    }
    write_block(cell, encoded, blocks);
}

/// Replaces the values of a cell that has a large enough block.
fn write_block(cell: &mut FoldCell, encoded: &[u8], blocks: &mut Blocks) {
    if let FoldCell::Block { at, used, .. } = cell {
        blocks.bytes_mut(*at)[..encoded.len()].copy_from_slice(encoded);
        *used = encoded.len();
    }
}

/// Size of a block for values of this size: small ones get space for more values before the next combination.
pub(super) fn block_bytes(encoded_bytes: usize) -> usize {
    if encoded_bytes <= 256 { (encoded_bytes * 4).next_power_of_two() } else { encoded_bytes * 2 }
}

/// A key whose bytes are needed only if its values are combined.
pub(super) trait Key {
    /// Calls `f` with the key's bytes.
    fn with(self, f: impl FnOnce(&[u8]));
}

impl Key for super::short_key::ShortKey {
    fn with(self, f: impl FnOnce(&[u8])) {
        self.with(f);
    }
}

impl Key for &[u8] {
    fn with(self, f: impl FnOnce(&[u8])) {
        f(self);
    }
}

/// Copies a value. Values of one job often have the same length: that of a small number or of an integer. A copy of a fixed
/// length needs no call.
#[inline(always)]
pub(super) fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        1 => to[0] = from[0],
        8 => to[..8].copy_from_slice(&from[..8]),
        _ => to[..from.len()].copy_from_slice(from),
    }
}

/// True if `bytes` begins with the value.
#[inline(always)]
fn equal(value: &[u8], bytes: &[u8; REPEATED_BYTES_MAX]) -> bool {
    match value.len() {
        1 => value[0] == bytes[0],
        8 => value[..8] == bytes[..8],
        _ => bytes.starts_with(value),
    }
}

/// Length of an encoded value.
pub(super) fn encoded_bytes(value: &[u8]) -> usize {
    value.len() + if value.len() < 0x80 { 1 } else { (value.len().ilog2() / 7 + 1) as usize }
}

fn encode(value: &[u8], to: &mut Vec<u8>) {
    if value.len() < 0x80 {
        to.push(value.len() as u8);
    } else {
        crate::record::varint::with_encoded(value.len() as u64, |length| to.extend_from_slice(length));
    }
    to.extend_from_slice(value);
}

/// Encodes a value into a slice of the length of its encoding.
fn encode_at(value: &[u8], to: &mut [u8]) {
    crate::record::varint::with_encoded(value.len() as u64, |length| {
        let (length_at, value_at) = to.split_at_mut(length.len());
        length_at.copy_from_slice(length);
        copy(value, value_at);
    });
}

/// Splits off the first value. Returns `None` at the end.
#[inline(always)]
fn split_first(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    match encoded.split_first()? {
        (&length, rest) if length < 0x80 => rest.split_at_checked(usize::from(length)),
        _ => split_first_long(encoded),
    }
}

#[cold]
fn split_first_long(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let length_bytes = encoded.iter().position(|byte| *byte < 0x80)? + 1;
    let (length, rest) = encoded.split_at_checked(length_bytes)?;
    rest.split_at_checked(crate::record::varint::decode(length)? as usize)
}

/// A value that occurs several times, then one more.
struct RepeatedValues<'a> {
    value: &'a [u8],
    count: u32,
    last: Option<&'a [u8]>,
}

impl Values for RepeatedValues<'_> {
    #[inline]
    fn next(&mut self) -> Option<&[u8]> {
        match self.count.checked_sub(1) {
            Some(rest) => {
                self.count = rest;
                Some(self.value)
            }
            None => self.last.take(),
        }
    }
}

/// Encoded values, then one more.
struct EncodedValues<'a> {
    rest: &'a [u8],
    last: Option<&'a [u8]>,
}

impl Values for EncodedValues<'_> {
    #[inline]
    fn next(&mut self) -> Option<&[u8]> {
        match split_first(self.rest) {
            Some((value, rest)) => {
                self.rest = rest;
                Some(value)
            }
            None => self.last.take(),
        }
    }
}

/// Encoded values in sorted order.
struct SortedValues<'a> {
    encoded: &'a [u8],
    ranges: &'a [(usize, usize)],
}

impl<'a> SortedValues<'a> {
    fn new(encoded: &'a [u8], ranges: &'a mut Vec<(usize, usize)>) -> SortedValues<'a> {
        ranges.clear();
        let mut rest = encoded;
        while let Some((value, after)) = split_first(rest) {
            let end = encoded.len() - after.len();
            ranges.push((end - value.len(), end));
            rest = after;
        }
        if ranges.len() > 1 {
            ranges.sort_unstable_by(|a, b| encoded[a.0..a.1].cmp(&encoded[b.0..b.1]));
        }
        SortedValues { encoded, ranges }
    }
}

impl Values for SortedValues<'_> {
    fn next(&mut self) -> Option<&[u8]> {
        let (&(from, to), rest) = self.ranges.split_first()?;
        self.ranges = rest;
        Some(&self.encoded[from..to])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_with_its_key_fills_a_cache_line() {
        assert_eq!(size_of::<FoldCell>() + size_of::<super::super::short_key::ShortKey>(), 64);
    }

    #[test]
    fn values_of_any_length_round_trip() {
        let values: Vec<Vec<u8>> = [0, 1, 8, 127, 128, 300, 16_384, 70_000].map(|length| vec![7; length]).into();
        let mut encoded = Vec::new();
        values.iter().for_each(|value| encode(value, &mut encoded));
        assert_eq!(encoded.len(), values.iter().map(|value| encoded_bytes(value)).sum::<usize>());
        let mut at = vec![0; encoded_bytes(&values[6])];
        encode_at(&values[6], &mut at);
        let mut read = EncodedValues { rest: &encoded, last: Some(b"end") };
        values.iter().for_each(|value| assert_eq!(read.next(), Some(value.as_slice())));
        assert_eq!((read.next(), split_first(&at).map(|(value, _)| value.len())), (Some(&b"end"[..]), Some(16_384)));
        assert_eq!(read.next(), None);
    }
}
