//! The values of each key, combined by the application's combiner whenever memory is full.
//!
//! Values are stored in linked lists, one per key. When the table is full, every list is combined into a new arena and the
//! old arena is freed; half of the memory is reserved for that. If this frees too little, the table is spilled.

use super::key_table::KeyTable;
use super::partitioner::Partitioner;
use super::sort_index::{self, ENTRY_BYTES, Entry};
use crate::data::arena::Arena;
use crate::data::map_output::PartitionedWriter;
use crate::data::merge::CombinedValues;
use crate::data::prefix;
use crate::data::segment::PAIR_BYTES_MAX;
use crate::record::{Combine, Values};
use std::io;

/// Link of the last value in a chain.
const END_OF_CHAIN: u32 = u32::MAX;

/// Header of every value: the address of the previous value of the key (`u32`) and the value's length (`u32`).
const LINK_BYTES: usize = 8;

/// Values by key.
#[derive(Debug)]
pub(super) struct FoldTable {
    memory_bytes_max: usize,
    keys: KeyTable,
    /// Address of the last value of each key, by key number.
    last_values: Vec<u32>,
    values: Arena,
}

impl FoldTable {
    pub fn new(memory_bytes_max: usize) -> FoldTable {
        FoldTable {
            memory_bytes_max,
            keys: KeyTable::new(memory_bytes_max / 2),
            last_values: Vec::new(),
            values: Arena::new(memory_bytes_max / 2),
        }
    }

    /// Inserts a value. Returns false if the table is full or the record is too large. An empty table is never full.
    #[inline(never)]
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        if key.len() + value.len() > PAIR_BYTES_MAX {
            return false;
        }
        let Some(number) = self.keys.find(key) else { return self.insert_new(key, value) };
        if !self.has_space(value, 0) {
            return false;
        }
        let last = &mut self.last_values[number as usize];
        *last = push(&mut self.values, value, *last);
        true
    }

    fn insert_new(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some(growth) = self.keys.growth_for(key) else { return false };
        let growing = self.last_values.len() == self.last_values.capacity();
        let slots = if growing { (self.last_values.len() * 2).max(64) } else { 0 };
        if !self.has_space(value, growth + slots * size_of::<u32>()) {
            return false;
        }
        self.keys.add(key);
        self.last_values.push(push(&mut self.values, value, END_OF_CHAIN));
        true
    }

    fn has_space(&self, value: &[u8], more_bytes: usize) -> bool {
        let Some(growth) = self.values.growth_for(LINK_BYTES + value.len()) else { return false };
        // Usually the value fits into an existing chunk.
        growth + more_bytes == 0
            || self.last_values.is_empty()
            || self.fixed_bytes() + more_bytes + 2 * (self.values.memory_bytes() + growth) <= self.memory_bytes_max
    }

    /// Memory of everything but the values.
    fn fixed_bytes(&self) -> usize {
        self.keys.memory_bytes() + self.last_values.capacity() * size_of::<u32>() + self.last_values.len() * ENTRY_BYTES
    }

    /// Combines the values of every key. Returns false if this freed too little memory.
    pub fn combine_all(&mut self, combine: &mut Combine) -> bool {
        let mut values = Arena::new(self.memory_bytes_max / 2);
        let mut combined = CombinedValues::default();
        for number in 0..self.last_values.len() {
            self.combine(number as u32, combine, &mut combined);
            let chain = combined.iter().fold(END_OF_CHAIN, |chain, value| push(&mut values, value, chain));
            self.last_values[number] = chain;
        }
        self.values = values;
        self.fixed_bytes() + 4 * self.values.memory_bytes() <= self.memory_bytes_max
    }

    fn combine(&self, number: u32, combine: &mut Combine, combined: &mut CombinedValues) {
        let mut values = Chain { values: &self.values, next: self.last_values[number as usize] };
        match combine {
            Combine::With(combiner) if !values.is_single() => {
                combined.combine(self.keys.key(number), &mut values, combiner.as_mut());
            }
            _ => combined.copy(&mut values),
        }
    }

    /// Writes the combined values in order and empties the table.
    pub fn write(
        &mut self,
        partitioner: &Partitioner,
        combine: &mut Combine,
        out: &mut PartitionedWriter,
    ) -> io::Result<()> {
        let entry = |number| {
            let key = self.keys.key(number);
            let prefix = prefix(key);
            Entry { prefix, partition: partitioner.of(key, prefix), at: number }
        };
        let mut entries: Vec<Entry> = (0..self.last_values.len() as u32).map(entry).collect();
        sort_index::sort(&mut entries, partitioner.reduces(), &|a, b| self.keys.key(a).cmp(self.keys.key(b)));
        let mut combined = CombinedValues::default();
        for entry in entries {
            self.combine(entry.at, combine, &mut combined);
            let out = out.segment(entry.partition)?;
            combined.iter().try_for_each(|value| out.push(self.keys.key(entry.at), value))?;
        }
        *self = FoldTable::new(self.memory_bytes_max);
        Ok(())
    }
}

#[inline]
fn push(values: &mut Arena, value: &[u8], before: u32) -> u32 {
    values.push(LINK_BYTES + value.len(), |chunk| {
        chunk.extend_from_slice(&before.to_le_bytes());
        chunk.extend_from_slice(&(value.len() as u32).to_le_bytes());
        chunk.extend_from_slice(value);
    })
}

/// The values of a key, the last one first.
struct Chain<'a> {
    values: &'a Arena,
    next: u32,
}

impl<'a> Chain<'a> {
    /// True if there is exactly one value left, so that there is nothing to combine.
    fn is_single(&self) -> bool {
        self.first().is_some_and(|(_, next)| next == END_OF_CHAIN)
    }

    /// The current value, and the address of the next one.
    fn first(&self) -> Option<(&'a [u8], u32)> {
        if self.next == END_OF_CHAIN {
            return None;
        }
        let (chunk, at) = self.values.at(self.next);
        let (link, rest) = chunk[at..].split_first_chunk::<LINK_BYTES>().expect("the arena contains complete values");
        let [n0, n1, n2, n3, l0, l1, l2, l3] = *link;
        let bytes = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        Some((&rest[..bytes], u32::from_le_bytes([n0, n1, n2, n3])))
    }
}

impl Values for Chain<'_> {
    fn next(&mut self) -> Option<&[u8]> {
        let (value, next) = self.first()?;
        self.next = next;
        Some(value)
    }
}
