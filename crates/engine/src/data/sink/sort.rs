//! Records as they come, sorted when memory is full.

use super::index::{self, ENTRY_BYTES, Entry};
use super::partition::Partitioner;
use crate::data::arena::Arena;
use crate::data::output::PartsWriter;
use crate::data::prefetch::prefetch;
use crate::data::prefix;
use crate::data::segment::{PAIR_BYTES_MAX, Span, decode, encode, record_bytes};
use std::io;

/// How many records ahead memory is asked for what will be written.
const AHEAD: usize = 16;
const CACHE_LINE_BYTES: usize = 64;

/// Up to here the index doubles; beyond, it is given at once what the records so far let expect.
const INDEX_ENTRIES_SMALL: usize = 16 << 10;

/// Records in the form they will have in a segment, and an index over them.
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

    /// Takes a record, unless there is no room for it. An empty buffer takes any record that is not too large.
    #[inline(never)]
    pub fn insert(&mut self, key: &[u8], value: &[u8], partitioner: &Partitioner) -> bool {
        let bytes = record_bytes(key, value);
        let growth = if bytes > PAIR_BYTES_MAX { None } else { self.records.growth_for(bytes) };
        if (growth != Some(0) || self.index.len() == self.index.capacity()) && !self.make_room(growth) {
            return false;
        }
        let prefix = prefix(key);
        let partition = partitioner.of(key, prefix);
        let at = self.records.push(bytes, |chunk| encode(key, value, chunk));
        self.index.push(Entry { prefix, partition, at });
        true
    }

    /// Makes room in the index, if it is full; false if that, and more room for records, would be too much.
    #[cold]
    fn make_room(&mut self, records_growth: Option<usize>) -> bool {
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
        // While an index is moved it is there twice; the old one may be small, but is counted.
        let old = if is_full { entries } else { 0 };
        let is_fit = records_bytes + (capacity + old) * ENTRY_BYTES <= self.memory_bytes_max;
        if !is_fit && entries > 0 {
            return false;
        }
        self.index.reserve_exact(capacity - entries);
        true
    }

    /// Writes the records in order and forgets them.
    pub fn write(&mut self, partitions: u32, out: &mut PartsWriter) -> io::Result<()> {
        let records = &self.records;
        let key_and_value = |at| {
            let (bytes, span) = record(records, at);
            (&bytes[span.key..span.value], &bytes[span.value..span.end])
        };
        index::sort(&mut self.index, partitions, &|a, b| key_and_value(a).cmp(&key_and_value(b)));
        for (number, entry) in self.index.iter().enumerate() {
            if let Some(ahead) = self.index.get(number + AHEAD) {
                let (bytes, at) = records.at(ahead.at);
                prefetch(bytes, at);
                prefetch(bytes, at + CACHE_LINE_BYTES);
            }
            let (bytes, span) = record(records, entry.at);
            out.part(entry.partition)?.push_encoded(&bytes[span.at..span.end])?;
        }
        *self = SortBuffer::new(self.memory_bytes_max);
        Ok(())
    }
}

#[inline]
fn record(records: &Arena, at: u32) -> (&[u8], Span) {
    let (bytes, at) = records.at(at);
    (bytes, decode(bytes, at).expect("the arena holds whole records"))
}
