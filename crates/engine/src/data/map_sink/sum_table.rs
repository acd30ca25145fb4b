//! One sum for each key.
//!
//! Most keys that are summed are short: words, names, numbers. A key of up to 15 bytes is stored in its slot as two machine
//! words, so that a lookup is one memory access, without following a pointer. That access is likely a cache miss, so
//! additions wait in a short queue while their slots are prefetched. Longer keys have a separate table.

use super::key_table::KeyTable;
use super::partitioner::Partitioner;
use super::sort_index::{self, ENTRY_BYTES, Entry};
use crate::data::map_output::PartitionedWriter;
use crate::data::prefetch::prefetch;
use crate::data::prefix;
use crate::data::segment::PAIR_BYTES_MAX;
use crate::record::varint;
use std::io;

const SHORT_BYTES_MAX: usize = 15;
const SLOTS_MIN: usize = 64;

/// Number of additions in flight between prefetch and update.
const QUEUE_LEN: usize = 16;

/// Flag in [`Entry::at`]: the rest is the number of a long key. Without it, the value is the slot of a short key.
const LONG: u32 = 1 << 31;

/// Sums by key.
#[derive(Debug)]
pub(super) struct SumTable {
    memory_bytes_max: usize,
    /// Open addressing; the length is a power of two, and at most half of the slots are occupied.
    slots: Vec<Slot>,
    occupied: usize,
    /// Additions that are not applied to their slots yet: a ring buffer with the oldest one at `oldest`.
    queue: [QueuedAdd; QUEUE_LEN],
    oldest: usize,
    long: KeyTable,
    long_sums: Vec<u64>,
}

/// Aligned so that two slots share a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Slot {
    key: ShortKey,
    sum: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueuedAdd {
    key: ShortKey,
    number: u64,
    hash: usize,
}

/// A key of up to 15 bytes, padded with zeros, with its length plus one in the last byte; all zeros is an empty slot. Stored as
/// little-endian words, which are fast to compare and hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ShortKey {
    low: u64,
    high: u64,
}

impl SumTable {
    pub fn new(memory_bytes_max: usize) -> SumTable {
        SumTable {
            memory_bytes_max,
            slots: vec![Slot::default(); SLOTS_MIN],
            occupied: 0,
            queue: [QueuedAdd::default(); QUEUE_LEN],
            oldest: 0,
            long: KeyTable::new(memory_bytes_max),
            long_sums: Vec::new(),
        }
    }

    /// Adds to a key's sum. Returns false if the table is full or the key is too large. An empty table is never full.
    #[inline(always)]
    pub fn add(&mut self, key: &[u8], number: u64) -> bool {
        let Some(key) = ShortKey::new(key) else { return self.add_long(key, number) };
        let hash = key.hash();
        prefetch(&self.slots, hash & (self.slots.len() - 1));
        let queued = self.queue[self.oldest % QUEUE_LEN];
        if !queued.key.is_empty_slot() && !self.apply(queued) {
            return false;
        }
        self.queue[self.oldest % QUEUE_LEN] = QueuedAdd { key, number, hash };
        self.oldest = self.oldest.wrapping_add(1);
        true
    }

    /// Adds to the sum in a key's slot. Returns false if the key is new and the table is full.
    #[inline]
    fn apply(&mut self, queued: QueuedAdd) -> bool {
        let at = self.slot_of(queued.key, queued.hash);
        let slot = &mut self.slots[at];
        if slot.key.is_empty_slot() {
            return self.apply_new(queued);
        }
        slot.sum = slot.sum.saturating_add(queued.number);
        true
    }

    #[inline(never)]
    fn apply_new(&mut self, queued: QueuedAdd) -> bool {
        if (self.occupied + 1 + QUEUE_LEN) * 2 > self.slots.len() {
            if !self.fits_budget(self.slots.len() * 2 * SLOT_MEMORY_BYTES) {
                return false;
            }
            self.grow();
        }
        self.insert(queued);
        true
    }

    fn insert(&mut self, queued: QueuedAdd) {
        let at = self.slot_of(queued.key, queued.hash);
        self.slots[at] = Slot { key: queued.key, sum: queued.number };
        self.occupied += 1;
    }

    /// The slot that contains this key, or the empty slot for it. One exists, because at most half of the slots are occupied.
    #[inline]
    fn slot_of(&self, key: ShortKey, hash: usize) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash & mask;
        loop {
            // One cache line after the other: first the slot itself, then its neighbour in the same line.
            for at in [at, at ^ 1] {
                let found = self.slots[at].key;
                if found == key || found.is_empty_slot() {
                    return at;
                }
            }
            at = (at + 2) & mask;
        }
    }

    #[inline(never)]
    fn add_long(&mut self, key: &[u8], number: u64) -> bool {
        if let Some(found) = self.long.find(key) {
            let sum = &mut self.long_sums[found as usize];
            *sum = sum.saturating_add(number);
            return true;
        }
        if key.len() >= PAIR_BYTES_MAX {
            return false;
        }
        let Some(growth) = self.long.growth_for(key) else { return false };
        let sums = if self.long_sums.len() == self.long_sums.capacity() { self.long_sums.len() * 2 } else { 0 };
        if !self.fits_budget(growth + (sums + 64) * size_of::<u64>() + ENTRY_BYTES) {
            return false;
        }
        self.long.add(key);
        self.long_sums.push(number);
        true
    }

    fn fits_budget(&self, more_bytes: usize) -> bool {
        let is_empty = self.occupied == 0 && self.long.len() == 0;
        is_empty || self.memory_bytes() + more_bytes <= self.memory_bytes_max
    }

    /// Memory of the table, including that needed to sort its entries.
    fn memory_bytes(&self) -> usize {
        self.slots.len() * SLOT_MEMORY_BYTES
            + self.long.memory_bytes()
            + self.long_sums.capacity() * size_of::<u64>()
            + self.long.len() * ENTRY_BYTES
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![Slot::default(); self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, slots).into_iter().filter(|slot| !slot.key.is_empty_slot()) {
            let at = self.slot_of(slot.key, slot.key.hash());
            self.slots[at] = slot;
        }
    }

    /// Applies all queued additions. New keys never need a larger table, because it keeps `QUEUE_LEN` slots in reserve.
    fn drain_queue(&mut self) {
        for queued in std::mem::take(&mut self.queue).into_iter().filter(|queued| !queued.key.is_empty_slot()) {
            let at = self.slot_of(queued.key, queued.hash);
            if self.slots[at].key.is_empty_slot() {
                self.insert(queued);
            } else {
                self.apply(queued);
            }
        }
    }

    /// Writes the sums in order and empties the table.
    pub fn write(&mut self, partitioner: &Partitioner, out: &mut PartitionedWriter) -> io::Result<()> {
        self.drain_queue();
        let mut entries = Vec::with_capacity(self.occupied + self.long.len());
        for (at, slot) in self.slots.iter().enumerate().filter(|(_, slot)| !slot.key.is_empty_slot()) {
            let partition = slot.key.with(|key| partitioner.of(key, slot.key.prefix()));
            entries.push(Entry { prefix: slot.key.prefix(), partition, at: at as u32 });
        }
        for number in 0..self.long.len() as u32 {
            let prefix = prefix(self.long.key(number));
            let partition = partitioner.of(self.long.key(number), prefix);
            entries.push(Entry { prefix, partition, at: number | LONG });
        }
        sort_index::sort(&mut entries, partitioner.reduces(), &|a, b| {
            self.with_key(a, |a| self.with_key(b, |b| a.cmp(b)))
        });
        for entry in entries {
            let sum = if entry.at & LONG == 0 {
                self.slots[entry.at as usize].sum
            } else {
                self.long_sums[(entry.at & !LONG) as usize]
            };
            let out = out.segment(entry.partition)?;
            self.with_key(entry.at, |key| varint::with_encoded(sum, |sum| out.push(key, sum)))?;
        }
        *self = SumTable::new(self.memory_bytes_max);
        Ok(())
    }

    fn with_key<R>(&self, at: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        if at & LONG == 0 { self.slots[at as usize].key.with(f) } else { f(self.long.key(at & !LONG)) }
    }
}

/// Memory of a slot and of its share of sort entries: at most every second slot needs one.
const SLOT_MEMORY_BYTES: usize = size_of::<Slot>() + ENTRY_BYTES / 2;

impl ShortKey {
    /// Returns `None` if the key is not short. Uses overlapping reads instead of a copy, which would branch on the
    /// unpredictable length.
    #[inline]
    fn new(key: &[u8]) -> Option<ShortKey> {
        let bytes = key.len();
        if bytes > SHORT_BYTES_MAX {
            return None;
        }
        let (low, high) = if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
            // The last eight bytes, without those that are among the first eight.
            (u64::from_le_bytes(*first), (u64::from_le_bytes(*last) >> 8) >> (8 * (15 - bytes)))
        } else if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            (u64::from(first) | u64::from(last) << (8 * (bytes - 4)), 0)
        } else if let (Some(&first), Some(&last)) = (key.first(), key.last()) {
            let middle = key[bytes / 2];
            let low = u64::from(first) | u64::from(middle) << (8 * (bytes / 2)) | u64::from(last) << (8 * (bytes - 1));
            (low, 0)
        } else {
            (0, 0)
        };
        Some(ShortKey { low, high: high | (bytes as u64 + 1) << 56 })
    }

    #[inline]
    fn is_empty_slot(self) -> bool {
        self.high == 0
    }

    /// Folded multiplication of the two halves.
    #[inline]
    fn hash(self) -> usize {
        let product = u128::from(self.low ^ 0x9e37_79b9_7f4a_7c15) * u128::from(self.high ^ 0xd6e8_feb8_6659_fd93);
        let folded = (product >> 64) as u64 ^ product as u64;
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }

    fn prefix(self) -> u64 {
        self.low.swap_bytes()
    }

    fn with<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        f(&bytes[..usize::from(bytes[15]) - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_keys_round_trip() {
        let whole = b"\x00abcdefg\xff\x00hijklm";
        for length in 0..=SHORT_BYTES_MAX {
            let key = &whole[..length];
            let short = ShortKey::new(key).expect("short");
            assert!(!short.is_empty_slot());
            assert_eq!(short.prefix(), prefix(key));
            short.with(|bytes| assert_eq!(bytes, key));
        }
        assert_eq!(ShortKey::new(&whole[..]), None);
    }
}
