//! The values of each key, combined by the application's combiner as they arrive.
//!
//! Like sums, values wait in a queue while the cells of their keys are prefetched. A full cell combines its values (see
//! [`FoldCell`]). When the memory for larger sets of values is used up, all of them are combined and moved to new memory; half of the
//! budget is reserved for that. If this frees too little, the table is spilled.

use super::blocks::Blocks;
use super::cell_table::CellTable;
use super::fold_cell::{self, FoldCell, Folder};
use super::partitioner::Partitioner;
use super::short_key::ShortKey;
use super::slot_table::{QUEUE_LEN, Queue};
use crate::data::map_output::PartitionedWriter;
use crate::data::segment::PAIR_BYTES_MAX;
use crate::record::Combiner;
use std::io;

/// Longer values are not queued.
pub(super) const QUEUED_BYTES_MAX: usize = 40;

/// Values by key.
#[derive(Debug)]
pub(super) struct FoldTable {
    memory_bytes_max: usize,
    cells: CellTable<FoldCell>,
    folder: Folder,
    /// Values that are not in their cells yet; the first `queued` are valid.
    queue: Box<[QueuedValue; QUEUE_LEN]>,
    queued: usize,
}

/// Aligned so that it is in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct QueuedValue {
    key: ShortKey,
    hash: u32,
    length: u32,
    bytes: [u8; QUEUED_BYTES_MAX],
}

const EMPTY: QueuedValue = QueuedValue { key: ShortKey::NONE, hash: 0, length: 0, bytes: [0; QUEUED_BYTES_MAX] };

impl FoldTable {
    pub fn new(memory_bytes_max: usize) -> FoldTable {
        FoldTable {
            memory_bytes_max,
            cells: CellTable::new(memory_bytes_max / 2),
            folder: Folder::new(memory_bytes_max / 2),
            queue: Box::new([EMPTY; QUEUE_LEN]),
            queued: 0,
        }
    }

    /// Inserts a value of a short key; the value has at most [`QUEUED_BYTES_MAX`] bytes. A full queue must be emptied by
    /// [`FoldTable::make_space`] before the next call.
    #[inline(always)]
    pub fn enqueue(&mut self, key: ShortKey, value: &[u8]) -> Queue {
        let hash = key.hash();
        self.cells.short.prefetch(hash);
        let queued = &mut self.queue[self.queued % QUEUE_LEN];
        (queued.key, queued.hash, queued.length) = (key, hash, value.len() as u32);
        fold_cell::copy(value, &mut queued.bytes);
        self.queued = self.queued.wrapping_add(1);
        Queue::with(self.queued)
    }

    /// Empties the queue and grows the table if it is full. Returns false if the budget does not allow that: the table must be
    /// combined or written.
    #[inline(never)]
    pub fn make_space(&mut self, combiner: &mut dyn Combiner) -> bool {
        self.drain_queue(combiner);
        let growth_bytes = self.cells.short.growth_bytes();
        if !fits_budget(&self.cells, growth_bytes, self.folder.blocks.memory_bytes(), self.memory_bytes_max) {
            return false;
        }
        if growth_bytes > 0 {
            self.cells.short.grow();
        }
        true
    }

    #[inline]
    fn drain_queue(&mut self, combiner: &mut dyn Combiner) {
        for queued in self.queue.iter().take(self.queued) {
            let cell = self.cells.short.cell(queued.key, queued.hash);
            let value = &queued.bytes[..(queued.length as usize).min(QUEUED_BYTES_MAX)];
            self.folder.add(queued.key, cell, value, combiner);
        }
        self.queued = 0;
    }

    /// Inserts a value of a long key, or one that is too long for the queue. Returns false if the table is full or the record is
    /// too large. An empty table is never full.
    #[inline(never)]
    pub fn insert(&mut self, key: &[u8], value: &[u8], combiner: &mut dyn Combiner) -> bool {
        if key.len() + value.len() > PAIR_BYTES_MAX {
            return false;
        }
        let blocks = &self.folder.blocks;
        let block_bytes = match fold_cell::encoded_bytes(value) {
            // The cell may have to move its values to a block, or to a larger one. That is accounted for by the reserve.
            ..=fold_cell::INLINE_BYTES => 0,
            bytes => blocks.growth_for(fold_cell::block_bytes(bytes)),
        };
        let (block_bytes, max) = (blocks.memory_bytes() + block_bytes, self.memory_bytes_max);
        match ShortKey::new(key) {
            Some(short) => {
                // The key may be new, and the table has space for as many new keys as fit into the queue.
                if !self.make_space(combiner) || !fits_budget(&self.cells, 0, block_bytes, max) {
                    return false;
                }
                self.folder.add(short, self.cells.short.cell(short, short.hash()), value, combiner);
            }
            None => {
                if !fits_budget(&self.cells, 0, block_bytes, max) {
                    return false;
                }
                let fits_budget = |cells: &_, more_bytes| fits_budget(cells, more_bytes, block_bytes, max);
                let Some(cell) = self.cells.long_cell(key, fits_budget) else { return false };
                self.folder.add(key, cell, value, combiner);
            }
        }
        true
    }

    /// Combines the values of every key that has many. Returns false if this freed too little memory.
    pub fn combine_all(&mut self, combiner: &mut dyn Combiner) -> bool {
        self.drain_queue(combiner);
        let mut blocks = Blocks::new(self.memory_bytes_max / 2);
        let folder = &mut self.folder;
        self.cells.for_each_mut(|key, cell| folder.compact(key, cell, &mut blocks, combiner));
        self.folder.blocks = blocks;
        // Twice as much as needed, so that the next time is not close.
        self.make_space(combiner)
            && fits_budget(&self.cells, 0, 2 * self.folder.blocks.memory_bytes(), self.memory_bytes_max)
    }

    /// Writes the combined values in order and empties the table.
    pub fn write(
        &mut self,
        partitioner: &Partitioner,
        combiner: &mut dyn Combiner,
        out: &mut PartitionedWriter,
    ) -> io::Result<()> {
        self.drain_queue(combiner);
        for entry in self.cells.sorted_entries(partitioner) {
            let out = out.segment(entry.partition)?;
            self.cells.with_entry(entry.at, |key, cell| {
                self.folder.combine(key, cell, combiner).iter().try_for_each(|value| out.push(key, value))
            })?;
        }
        *self = FoldTable::new(self.memory_bytes_max);
        Ok(())
    }
}

/// True if the budget allows `more_bytes` for keys and cells, and blocks of `block_bytes` with as much again to combine them.
fn fits_budget(cells: &CellTable<FoldCell>, more_bytes: usize, block_bytes: usize, memory_bytes_max: usize) -> bool {
    cells.is_empty() || cells.memory_bytes() + more_bytes + 2 * block_bytes <= memory_bytes_max
}
