//! A hash table from short keys to cells: sums, or the values of a key.
//!
//! A key and its cell are in one slot, so that a lookup is one memory access, without following a pointer. That access is
//! likely a cache miss, so the tables that use this one collect additions in a queue of [`QUEUE_LEN`], prefetch their slots, and
//! apply the whole queue when it is full: by then the slots are in the cache, and the processor overlaps the remaining misses.

use super::short_key::ShortKey;
use super::sort_index::ENTRY_BYTES;
use crate::data::prefetch::prefetch;
use std::fmt;

/// Number of additions between prefetch and update. The table always has space for as many new keys.
pub(super) const QUEUE_LEN: usize = 64;

const SLOTS_MIN: usize = 4 * QUEUE_LEN;

/// State of a queue of additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    HasSpace,
    /// It must be emptied, and the table must make space, before the next addition.
    Full,
}

impl Queue {
    /// The state of a queue with so many additions.
    #[inline(always)]
    pub fn with(queued: usize) -> Queue {
        if queued >= QUEUE_LEN { Queue::Full } else { Queue::HasSpace }
    }
}

/// Cells by key: open addressing with linear probing. The number of slots is a power of two, and at most half of them are
/// occupied.
#[derive(Debug)]
pub(super) struct SlotTable<C: Cell> {
    slots: Vec<Slot<C>>,
    occupied: usize,
}

/// What a key has in its slot.
pub(super) trait Cell: Copy + Default {
    /// A type with the alignment at which a slot of such a cell is within one cache line. The alignment of the cell itself would not do: it would
    /// leave no space for the key.
    type SlotAlignment: Copy + Default + fmt::Debug;
}

impl Cell for u64 {
    type SlotAlignment = Aligned32;
}

/// See [`Cell::SlotAlignment`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Aligned32;

/// See [`Cell::SlotAlignment`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Aligned64;

#[derive(Clone, Copy, Debug, Default)]
struct Slot<C: Cell> {
    key: ShortKey,
    cell: C,
    _aligned: C::SlotAlignment,
}

impl<C: Cell> SlotTable<C> {
    /// Memory of a slot and of its share of sort entries: at most every second slot needs one.
    const SLOT_MEMORY_BYTES: usize = size_of::<Slot<C>>() + ENTRY_BYTES / 2;

    pub fn new() -> SlotTable<C> {
        SlotTable { slots: vec![Slot::default(); SLOTS_MIN], occupied: 0 }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.occupied
    }

    /// Memory of the table, including that needed to sort its keys.
    pub fn memory_bytes(&self) -> usize {
        self.slots.len() * Self::SLOT_MEMORY_BYTES
    }

    /// Additional memory needed, while it grows, for a table with space for [`QUEUE_LEN`] more keys; 0 if it has that space.
    pub fn growth_bytes(&self) -> usize {
        let has_space = (self.occupied + QUEUE_LEN) * 2 <= self.slots.len();
        if has_space { 0 } else { self.slots.len() * 2 * Self::SLOT_MEMORY_BYTES }
    }

    /// Prefetches the first slot in which a key with this hash may be.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        prefetch(&self.slots, hash as usize & self.slots.len().wrapping_sub(1));
    }

    /// The cell of a key; an empty one if the key is new. The caller must have made space for a new key (see
    /// [`SlotTable::growth_bytes`]).
    #[inline(always)]
    pub fn cell(&mut self, key: ShortKey, hash: u32) -> &mut C {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        // Most keys are in the first slot, so that this comparison is predictable.
        while !self.slots[at].key.is(key) {
            if self.slots[at].key.is_none() {
                self.slots[at] = Slot { key, cell: C::default(), _aligned: C::SlotAlignment::default() };
                self.occupied += 1;
                break;
            }
            at = at.wrapping_add(1) & mask;
        }
        &mut self.slots[at].cell
    }

    /// Doubles the number of slots.
    #[cold]
    pub fn grow(&mut self) {
        let slots = vec![Slot::default(); self.slots.len() * 2];
        let mask = slots.len() - 1;
        for slot in std::mem::replace(&mut self.slots, slots).into_iter().filter(|slot| !slot.key.is_none()) {
            let mut at = slot.key.hash() as usize & mask;
            while !self.slots[at].key.is_none() {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    /// All keys, each with the number of its slot, in no particular order.
    pub fn keys(&self) -> impl Iterator<Item = (u32, ShortKey)> {
        let keys = self.slots.iter().enumerate().map(|(at, slot)| (at as u32, slot.key));
        keys.filter(|(_, key)| !key.is_none())
    }

    /// Key and cell in a slot.
    #[inline]
    pub fn slot(&self, at: u32) -> (ShortKey, &C) {
        let slot = &self.slots[at as usize];
        (slot.key, &slot.cell)
    }

    /// All keys and their cells, in no particular order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ShortKey, &mut C)> {
        self.slots.iter_mut().filter(|slot| !slot.key.is_none()).map(|slot| (slot.key, &mut slot.cell))
    }
}
