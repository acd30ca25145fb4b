//! All records, sorted when memory is full.

use super::partitioner::Partitioner;
use super::sort_index::{self, ENTRY_BYTES, Entry};
use crate::data::arena::Arena;
use crate::data::map_output::PartitionedWriter;
use crate::data::prefetch::prefetch;
use crate::data::prefix;
use crate::data::segment::{PAIR_BYTES_MAX, RecordSpan, decode, encode, record_bytes};
use std::io;

/// How many records ahead of the current one are prefetched while writing.
const PREFETCH_DISTANCE: usize = 16;
const CACHE_LINE_BYTES: usize = 64;

/// Up to this size the index doubles; beyond it, it grows at once to the size expected from the average record so far.
const INDEX_ENTRIES_SMALL: usize = 16 << 10;

/// Records in their segment encoding, and a sort index over them.
#[derive(Debug)]
pub(super) struct SortBuffer {
    memory_bytes_max: usize,
    records: Arena,
    index: Vec<Entry>,
}

impl SortBuffer {
    pub fn new(memory_bytes_max: usize) -> SortBuffer {
        SortBuffer { memory_bytes_max, records: Arena::new(memory_bytes_max), index: Vec::new() }
    }

    /// Inserts a record. Returns false if the buffer is full or the record is too large. An empty buffer is never full.
    #[inline(never)]
    pub fn insert(&mut self, key: &[u8], value: &[u8], partitioner: &Partitioner) -> bool {
        let bytes = record_bytes(key, value);
        let growth = if bytes > PAIR_BYTES_MAX { None } else { self.records.growth_for(bytes) };
        if (growth != Some(0) || self.index.len() == self.index.capacity()) && !self.reserve(growth) {
            return false;
        }
        let prefix = prefix(key);
        // Ranges are found when the records are sorted, at next to no cost.
        let partition = if partitioner.is_by_range() { 0 } else { partitioner.of(key, prefix) };
        let at = self.records.push(bytes, |chunk| encode(key, value, chunk));
        self.index.push(Entry { prefix, partition, at });
        true
    }

    /// Grows the index if it is full. Returns false if this and `records_growth` would exceed the budget.
    #[cold]
    fn reserve(&mut self, records_growth: Option<usize>) -> bool {
        let Some(records_growth) = records_growth else { return false };
        let records_bytes = self.records.memory_bytes() + records_growth;
        let entries = self.index.len();
        let is_full = entries == self.index.capacity();
        let mut capacity = self.index.capacity();
        if is_full {
            capacity = (entries * 2).max(64);
            if entries >= INDEX_ENTRIES_SMALL {
                let record_bytes = self.records.memory_bytes() / entries + 1;
                capacity = (self.memory_bytes_max / (record_bytes + ENTRY_BYTES)).max(entries + entries / 8);
            }
        }
        // While the index is reallocated, the old one exists too.
        let old = if is_full { entries } else { 0 };
        let fits_budget = records_bytes + (capacity + old) * ENTRY_BYTES <= self.memory_bytes_max;
        if !fits_budget && entries > 0 {
            return false;
        }
        self.index.reserve_exact(capacity - entries);
        true
    }

    /// Writes the records in order and empties the buffer.
    pub fn write(&mut self, partitioner: &Partitioner, out: &mut PartitionedWriter) -> io::Result<()> {
        let is_by_range = partitioner.is_by_range();
        let partitions = if is_by_range { 1 } else { partitioner.reduces() };
        let records = &self.records;
        let key_and_value = |at| {
            let (bytes, span) = record(records, at);
            (&bytes[span.key..span.value], &bytes[span.value..span.end])
        };
        sort_index::sort(&mut self.index, partitions, &|a, b| key_and_value(a).cmp(&key_and_value(b)));
        let mut partition = 0;
        for (number, entry) in self.index.iter().enumerate() {
            if let Some(ahead) = self.index.get(number + PREFETCH_DISTANCE) {
                let (bytes, at) = records.at(ahead.at);
                prefetch(bytes, at);
                prefetch(bytes, at + CACHE_LINE_BYTES);
                prefetch(bytes, at + 2 * CACHE_LINE_BYTES);
            }
            let (bytes, span) = record(records, entry.at);
            partition = match is_by_range {
                true => partitioner.next_of(partition, entry.prefix, &bytes[span.key..span.value]),
                false => entry.partition,
            };
            out.segment(partition)?.push_encoded(&bytes[span.at..span.end])?;
        }
        *self = SortBuffer::new(self.memory_bytes_max);
        Ok(())
    }
}

#[inline]
fn record(records: &Arena, at: u32) -> (&[u8], RecordSpan) {
    let (bytes, at) = records.at(at);
    (bytes, decode(bytes, at).expect("the arena contains complete records"))
}
