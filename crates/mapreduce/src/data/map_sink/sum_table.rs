//! One sum for each key.

use super::cell_table::CellTable;
use super::partitioner::Partitioner;
use super::short_key::ShortKey;
use super::slot_table::{QUEUE_LEN, Queue};
use crate::data::map_output::PartitionedWriter;
use crate::record::varint;
use std::io;

/// Sums by key.
#[derive(Debug)]
pub(super) struct SumTable {
    memory_bytes_max: usize,
    sums: CellTable<u64>,
    /// Additions that are not applied to their slots yet; the first `queued` are valid.
    queue: [QueuedAdd; QUEUE_LEN],
    queued: usize,
}

/// Aligned so that storing one touches one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct QueuedAdd {
    key: ShortKey,
    number: u64,
    hash: u32,
}

impl SumTable {
    pub fn new(memory_bytes_max: usize) -> SumTable {
        SumTable {
            memory_bytes_max,
            sums: CellTable::new(memory_bytes_max),
            queue: [QueuedAdd::default(); QUEUE_LEN],
            queued: 0,
        }
    }

    /// Adds to a short key's sum. A full queue must be emptied by [`SumTable::make_space`] before the next call.
    #[inline(always)]
    pub fn enqueue(&mut self, key: ShortKey, number: u64) -> Queue {
        let hash = key.hash();
        self.sums.short.prefetch(hash);
        self.queue[self.queued % QUEUE_LEN] = QueuedAdd { key, number, hash };
        self.queued = self.queued.wrapping_add(1);
        Queue::with(self.queued)
    }

    /// Empties the queue and grows the table if it is full. Returns false if the budget does not allow that: the table must be
    /// written.
    #[inline(never)]
    pub fn make_space(&mut self) -> bool {
        self.drain_queue();
        let growth_bytes = self.sums.short.growth_bytes();
        if growth_bytes > 0 {
            if !fits_budget(&self.sums, growth_bytes, self.memory_bytes_max) {
                return false;
            }
            self.sums.short.grow();
        }
        true
    }

    /// Applies all queued additions.
    #[inline]
    fn drain_queue(&mut self) {
        for queued in self.queue.iter().take(self.queued) {
            let sum = self.sums.short.cell(queued.key, queued.hash);
            *sum = sum.saturating_add(queued.number);
        }
        self.queued = 0;
    }

    /// Adds to the sum of a key that is not short. Returns false if the table is full or the key is too large. An empty table is
    /// never full.
    #[inline(never)]
    pub fn add_long(&mut self, key: &[u8], number: u64) -> bool {
        let memory_bytes_max = self.memory_bytes_max;
        match self.sums.long_cell(key, |sums, more_bytes| fits_budget(sums, more_bytes, memory_bytes_max)) {
            Some(sum) => {
                *sum = sum.saturating_add(number);
                true
            }
            None => false,
        }
    }

    /// Writes the sums in order and empties the table.
    pub fn write(&mut self, partitioner: &Partitioner, out: &mut PartitionedWriter) -> io::Result<()> {
        self.drain_queue();
        for entry in self.sums.sorted_entries(partitioner) {
            let out = out.segment(entry.partition)?;
            self.sums.with_entry(entry.at, |key, &sum| varint::with_encoded(sum, |sum| out.push(key, sum)))?;
        }
        *self = SumTable::new(self.memory_bytes_max);
        Ok(())
    }
}

fn fits_budget(sums: &CellTable<u64>, more_bytes: usize, memory_bytes_max: usize) -> bool {
    sums.is_empty() || sums.memory_bytes() + more_bytes <= memory_bytes_max
}
