//! The values of each key, folded by the program's combiner whenever memory is full.
//!
//! Values wait in chains, one for each key. When there is no more room, every chain is combined into fresh room and the
//! old room is given up (so half of the memory is kept free for that). If that did not help much, the table is spilled.

use super::index::{self, ENTRY_BYTES, Entry};
use super::keys::KeyTable;
use super::partition::Partitioner;
use crate::data::arena::Arena;
use crate::data::merge::Combined;
use crate::data::output::PartsWriter;
use crate::data::prefix;
use crate::data::segment::PAIR_BYTES_MAX;
use crate::record::{Combine, Values};
use std::io;

/// Where a chain ends.
const NONE: u32 = u32::MAX;

/// In front of every value: the address of the one before it, and its length.
const LINK_BYTES: usize = 8;

/// Values by key.
#[derive(Debug)]
pub(super) struct FoldTable {
    memory_bytes_max: usize,
    keys: KeyTable,
    /// The last value of each key.
    last: Vec<u32>,
    values: Arena,
}

impl FoldTable {
    pub fn new(memory_bytes_max: usize) -> FoldTable {
        FoldTable {
            memory_bytes_max,
            keys: KeyTable::new(memory_bytes_max / 2),
            last: Vec::new(),
            values: Arena::new(memory_bytes_max / 2),
        }
    }

    /// Takes a value, unless there is no room for it. An empty table takes any record that is not too large.
    #[inline(never)]
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> bool {
        if key.len() + value.len() > PAIR_BYTES_MAX {
            return false;
        }
        let Some(number) = self.keys.find(key) else { return self.insert_new(key, value) };
        if !self.has_room(value, 0) {
            return false;
        }
        let last = &mut self.last[number as usize];
        *last = push(&mut self.values, value, *last);
        true
    }

    fn insert_new(&mut self, key: &[u8], value: &[u8]) -> bool {
        let Some(growth) = self.keys.growth_for(key) else { return false };
        let last = if self.last.len() == self.last.capacity() { (self.last.len() * 2).max(64) } else { 0 };
        if !self.has_room(value, growth + last * size_of::<u32>()) {
            return false;
        }
        self.keys.add(key);
        self.last.push(push(&mut self.values, value, NONE));
        true
    }

    fn has_room(&self, value: &[u8], more_bytes: usize) -> bool {
        let Some(growth) = self.values.growth_for(LINK_BYTES + value.len()) else { return false };
        // Most of the time the value goes into a chunk that is there already.
        growth + more_bytes == 0
            || self.last.is_empty()
            || self.fixed_bytes() + more_bytes + 2 * (self.values.memory_bytes() + growth) <= self.memory_bytes_max
    }

    /// The memory of all but the values.
    fn fixed_bytes(&self) -> usize {
        self.keys.memory_bytes() + self.last.capacity() * size_of::<u32>() + self.last.len() * ENTRY_BYTES
    }

    /// Combines the values of every key; false if there is still little room.
    pub fn shrink(&mut self, combine: &mut Combine) -> bool {
        let mut values = Arena::new(self.memory_bytes_max / 2);
        let mut combined = Combined::default();
        for number in 0..self.last.len() {
            self.combine(number as u32, combine, &mut combined);
            let chain = combined.iter().fold(NONE, |chain, value| push(&mut values, value, chain));
            self.last[number] = chain;
        }
        self.values = values;
        self.fixed_bytes() + 4 * self.values.memory_bytes() <= self.memory_bytes_max
    }

    fn combine(&self, number: u32, combine: &mut Combine, combined: &mut Combined) {
        let mut values = Chain { values: &self.values, next: self.last[number as usize] };
        match combine {
            Combine::With(combiner) if !values.is_single() => {
                combined.fill(self.keys.key(number), &mut values, combiner.as_mut());
            }
            _ => combined.copy(&mut values),
        }
    }

    /// Writes the combined values in order and forgets them.
    pub fn write(&mut self, partitioner: &Partitioner, combine: &mut Combine, out: &mut PartsWriter) -> io::Result<()> {
        let entry = |number| {
            let key = self.keys.key(number);
            let prefix = prefix(key);
            Entry { prefix, partition: partitioner.of(key, prefix), at: number }
        };
        let mut entries: Vec<Entry> = (0..self.last.len() as u32).map(entry).collect();
        index::sort(&mut entries, partitioner.reduces(), &|a, b| self.keys.key(a).cmp(self.keys.key(b)));
        let mut combined = Combined::default();
        for entry in entries {
            self.combine(entry.at, combine, &mut combined);
            let out = out.part(entry.partition)?;
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
    /// True if there is nothing to combine.
    fn is_single(&self) -> bool {
        self.first().is_some_and(|(_, next)| next == NONE)
    }

    /// The value the chain is at, and the one to go on with.
    fn first(&self) -> Option<(&'a [u8], u32)> {
        if self.next == NONE {
            return None;
        }
        let (chunk, at) = self.values.at(self.next);
        let (link, rest) = chunk[at..].split_first_chunk::<LINK_BYTES>().expect("the arena holds whole values");
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
