//! Distinct keys, numbered in order of insertion.

use crate::data::arena::Arena;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// A hash table from keys to their numbers.
#[derive(Debug)]
pub(super) struct KeyTable {
    /// Open addressing with linear probing; the length is a power of two, and at most half of the slots are occupied.
    slots: Vec<Slot>,
    keys: Vec<KeyAt>,
    arena: Arena,
}

/// A key's hash, and its number plus one; number 0 is an empty slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    number: u32,
}

#[derive(Clone, Copy, Debug)]
struct KeyAt {
    address: u32,
    bytes: u32,
}

const SLOTS_MIN: usize = 64;

impl KeyTable {
    pub fn new(memory_bytes_max: usize) -> KeyTable {
        KeyTable { slots: Vec::new(), keys: Vec::new(), arena: Arena::new(memory_bytes_max) }
    }

    /// Number of keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Allocated memory.
    pub fn memory_bytes(&self) -> usize {
        self.arena.memory_bytes()
            + self.slots.capacity() * size_of::<Slot>()
            + self.keys.capacity() * size_of::<KeyAt>()
    }

    /// Additional memory needed to add this key, including the transient need of rehashing; `None` if it cannot be added.
    pub fn growth_for(&self, key: &[u8]) -> Option<usize> {
        let growth = self.arena.growth_for(key.len().max(1))?;
        let is_full = self.keys.len() * 2 >= self.slots.len();
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        Some(growth + if is_full { slots * size_of::<Slot>() + slots / 2 * size_of::<KeyAt>() } else { 0 })
    }

    /// The number of a key; `None` if it is not in the table.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = hash(key);
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.number == 0 {
                return None;
            }
            if slot.hash == hash && self.key(slot.number - 1) == key {
                return Some(slot.number - 1);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a key that is not in the table yet. Returns its number.
    pub fn add(&mut self, key: &[u8]) -> u32 {
        if self.keys.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let number = self.keys.len() as u32;
        let address = self.arena.push(key.len().max(1), |chunk| {
            chunk.extend_from_slice(key);
            if key.is_empty() {
                // Every key needs an address of its own.
                chunk.push(0);
            }
        });
        self.keys.push(KeyAt { address, bytes: key.len() as u32 });
        self.place(Slot { hash: hash(key), number: number + 1 });
        number
    }

    /// The key with this number.
    #[inline]
    pub fn key(&self, number: u32) -> &[u8] {
        let KeyAt { address, bytes } = self.keys[number as usize];
        let (chunk, at) = self.arena.at(address);
        &chunk[at..at + bytes as usize]
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        self.keys.reserve_exact(slots / 2 - self.keys.len());
        for slot in old.into_iter().filter(|slot| slot.number != 0) {
            self.place(slot);
        }
    }

    fn place(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].number != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }
}

#[inline]
fn hash(key: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    let hash = hasher.finish();
    (hash ^ hash >> 32) as u32
}
