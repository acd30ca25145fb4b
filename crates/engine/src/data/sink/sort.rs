//! Records as they come, sorted when memory is full.

use super::index::{self, ENTRY_BYTES, Entry};
use super::partition::Partitioner;
use crate::data::arena::Arena;
use crate::data::output::PartsWriter;
use crate::data::prefix;
use crate::data::segment::{decode, encode, record_bytes};
use std::io;

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

    /// Takes a record, unless there is no room for it. An empty buffer takes any record.
    #[inline]
    pub fn insert(&mut self, key: &[u8], value: &[u8], partitioner: &Partitioner) -> bool {
        let bytes = record_bytes(key, value);
        let growth = self.records.growth_for(bytes);
        if (growth != Some(0) || self.index.len() == self.index.capacity()) && !self.may_grow(growth) {
            return false;
        }
        let prefix = prefix(key);
        let partition = partitioner.of(key, prefix);
        let at = self.records.push(bytes, |chunk| encode(key, value, chunk));
        self.index.push(Entry { prefix, partition, at });
        true
    }

    #[cold]
    fn may_grow(&mut self, growth: Option<usize>) -> bool {
        let Some(growth) = growth else { return false };
        let mut entries = self.index.capacity();
        if self.index.len() == entries {
            // While it is moved the index is there twice.
            entries += (entries * 2).max(64);
        }
        let is_fit = self.records.memory_bytes() + growth + entries * ENTRY_BYTES <= self.memory_bytes_max;
        if (is_fit || self.index.is_empty()) && self.index.len() == self.index.capacity() {
            self.index.reserve_exact((self.index.len()).max(64));
        }
        is_fit || self.index.is_empty()
    }

    /// Writes the records in order and forgets them.
    pub fn write(&mut self, out: &mut PartsWriter) -> io::Result<()> {
        let records = &self.records;
        let key_and_value = |at| {
            let (bytes, at) = records.at(at);
            let span = decode(bytes, at).expect("the arena holds whole records");
            (&bytes[span.key..span.value], &bytes[span.value..span.end])
        };
        index::sort(&mut self.index, |a, b| key_and_value(a).cmp(&key_and_value(b)));
        for entry in &self.index {
            let (bytes, at) = records.at(entry.at);
            let span = decode(bytes, at).expect("the arena holds whole records");
            out.part(entry.partition)?.push_encoded(&bytes[at..span.end])?;
        }
        *self = SortBuffer::new(self.memory_bytes_max);
        Ok(())
    }
}
