//! Cells by key: sums, or the values of a key. Short keys are in a [`SlotTable`], longer keys in a [`KeyTable`].

use super::key_table::KeyTable;
use super::partitioner::Partitioner;
use super::slot_table::{Cell, SlotTable};
use super::sort_index::{self, ENTRY_BYTES, Entry};
use crate::data::prefix;
use crate::data::segment::PAIR_BYTES_MAX;

/// Flag in [`Entry::at`]: the rest is the number of a long key. Without it, the value is the slot of a short key.
const LONG: u32 = 1 << 31;

/// A cell for each key.
#[derive(Debug)]
pub(super) struct CellTable<C: Cell> {
    pub short: SlotTable<C>,
    long: KeyTable,
    /// By number of the long key.
    long_cells: Vec<C>,
}

impl<C: Cell> CellTable<C> {
    /// An empty table. The budget only determines in which steps memory is allocated.
    pub fn new(memory_bytes_max: usize) -> CellTable<C> {
        CellTable { short: SlotTable::new(), long: KeyTable::new(memory_bytes_max), long_cells: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.short.len() == 0 && self.long.len() == 0
    }

    /// Memory of the table, including that needed to sort its keys.
    pub fn memory_bytes(&self) -> usize {
        self.short.memory_bytes()
            + self.long.memory_bytes()
            + self.long_cells.capacity() * size_of::<C>()
            + self.long.len() * ENTRY_BYTES
    }

    /// The cell of a key that is not short; an empty one if the key is new. Returns `None` if the key is new and `fits_budget`
    /// rejects the additional memory, or if the key is too large.
    #[inline(never)]
    pub fn long_cell(&mut self, key: &[u8], fits_budget: impl FnOnce(&Self, usize) -> bool) -> Option<&mut C> {
        if let Some(found) = self.long.find(key) {
            return self.long_cells.get_mut(found as usize);
        }
        if key.len() >= PAIR_BYTES_MAX {
            return None;
        }
        let growth = self.long.growth_for(key)?;
        let is_full = self.long_cells.len() == self.long_cells.capacity();
        let cells = if is_full { self.long_cells.len() * 2 + 4 } else { 0 };
        if !fits_budget(self, growth + cells * size_of::<C>() + ENTRY_BYTES) {
            return None;
        }
        self.long.add(key);
        self.long_cells.push(C::default());
        self.long_cells.last_mut()
    }

    /// An entry for each key, sorted.
    pub fn sorted_entries(&self, partitioner: &Partitioner) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(self.short.len() + self.long.len());
        for (at, key) in self.short.keys() {
            let partition = key.with(|bytes| partitioner.of(bytes, key.prefix()));
            entries.push(Entry { prefix: key.prefix(), partition, at });
        }
        for number in 0..self.long.len() as u32 {
            let key = self.long.key(number);
            let prefix = prefix(key);
            entries.push(Entry { prefix, partition: partitioner.of(key, prefix), at: number | LONG });
        }
        sort_index::sort(&mut entries, partitioner.reduces(), &|a, b| {
            self.with_entry(a, |a, _| self.with_entry(b, |b, _| a.cmp(b)))
        });
        entries
    }

    /// Calls `f` with the key and the cell of an entry's address.
    #[inline]
    pub fn with_entry<R>(&self, at: u32, f: impl FnOnce(&[u8], &C) -> R) -> R {
        if at & LONG == 0 {
            let (key, cell) = self.short.slot(at);
            key.with(|key| f(key, cell))
        } else {
            let number = at & !LONG;
            f(self.long.key(number), &self.long_cells[number as usize])
        }
    }

    /// Calls `f` with each key and its cell, in no particular order.
    pub fn for_each_mut(&mut self, mut f: impl FnMut(&[u8], &mut C)) {
        for (key, cell) in self.short.iter_mut() {
            key.with(|key| f(key, cell));
        }
        for (number, cell) in self.long_cells.iter_mut().enumerate() {
            f(self.long.key(number as u32), cell);
        }
    }
}
