//! One sum for each key.
//!
//! Most keys that are summed are short: words, names, numbers. A key of up to 15 bytes lies in its slot as two machine
//! words, so that finding it is one look at one place, without a pointer to follow. That place is likely not in a near
//! cache; so a key waits in a short queue while memory is asked for its slot. Longer keys have a table of their own.

use super::index::{self, ENTRY_BYTES, Entry};
use super::keys::KeyTable;
use super::partition::Partitioner;
use crate::data::output::PartsWriter;
use crate::data::prefetch::prefetch;
use crate::data::prefix;
use crate::data::segment::PAIR_BYTES_MAX;
use crate::record::number;
use std::io;

const SHORT_BYTES: usize = 15;
const SLOTS_MIN: usize = 64;

/// How many keys wait for their slots.
const QUEUE: usize = 16;

/// In an [`Entry`], marks the number of a long key; all else are places of short ones.
const LONG: u32 = 1 << 31;

/// Sums by key.
#[derive(Debug)]
pub(super) struct SumTable {
    memory_bytes_max: usize,
    /// Open addressing, at most half full; a power of two of them.
    slots: Vec<Slot>,
    taken: usize,
    /// Keys that were added but are not in their slots yet: a ring, the oldest at `oldest`.
    queue: [Waiting; QUEUE],
    oldest: usize,
    long: KeyTable,
    long_sums: Vec<u64>,
}

/// Two to a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Slot {
    key: ShortKey,
    sum: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    key: ShortKey,
    number: u64,
    hash: usize,
}

/// A key of up to 15 bytes, filled up with zeros, and its length plus one in the last byte; all zero is no key. As
/// little-endian words, for they are what comparing and hashing is fast on.
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
            taken: 0,
            queue: [Waiting::default(); QUEUE],
            oldest: 0,
            long: KeyTable::new(memory_bytes_max),
            long_sums: Vec::new(),
        }
    }

    /// Adds to a key's sum, unless there is no room. An empty table takes any key that is not too large.
    #[inline(always)]
    pub fn add(&mut self, key: &[u8], number: u64) -> bool {
        let Some(key) = ShortKey::new(key) else { return self.add_long(key, number) };
        let hash = key.hash();
        prefetch(&self.slots, hash & (self.slots.len() - 1));
        let waiting = self.queue[self.oldest % QUEUE];
        if !waiting.key.is_none() && !self.place(waiting) {
            return false;
        }
        self.queue[self.oldest % QUEUE] = Waiting { key, number, hash };
        self.oldest = self.oldest.wrapping_add(1);
        true
    }

    /// Adds to the sum in a key's slot, unless the key is new and there is no room for it.
    #[inline]
    fn place(&mut self, waiting: Waiting) -> bool {
        let at = self.slot_of(waiting.key, waiting.hash);
        let slot = &mut self.slots[at];
        if slot.key.is_none() {
            return self.place_new(waiting);
        }
        slot.sum = slot.sum.saturating_add(waiting.number);
        true
    }

    #[inline(never)]
    fn place_new(&mut self, waiting: Waiting) -> bool {
        if (self.taken + 1 + QUEUE) * 2 > self.slots.len() {
            if !self.may_take(self.slots.len() * 2 * SLOT_COST) {
                return false;
            }
            self.grow();
        }
        self.fill(waiting);
        true
    }

    fn fill(&mut self, waiting: Waiting) {
        let at = self.slot_of(waiting.key, waiting.hash);
        self.slots[at] = Slot { key: waiting.key, sum: waiting.number };
        self.taken += 1;
    }

    /// The slot that has this key, or the one for it to go to. There is one: at most half of them are taken.
    #[inline]
    fn slot_of(&self, key: ShortKey, hash: usize) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash & mask;
        loop {
            // A cache line after the other: the slot itself, then the one beside it.
            for at in [at, at ^ 1] {
                let found = self.slots[at].key;
                if found == key || found.is_none() {
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
        if !self.may_take(growth + (sums + 64) * size_of::<u64>() + ENTRY_BYTES) {
            return false;
        }
        self.long.add(key);
        self.long_sums.push(number);
        true
    }

    fn may_take(&self, more_bytes: usize) -> bool {
        let is_empty = self.taken == 0 && self.long.len() == 0;
        is_empty || self.memory_bytes() + more_bytes <= self.memory_bytes_max
    }

    /// The memory it takes, now and when its entries are sorted.
    fn memory_bytes(&self) -> usize {
        self.slots.len() * SLOT_COST
            + self.long.memory_bytes()
            + self.long_sums.capacity() * size_of::<u64>()
            + self.long.len() * ENTRY_BYTES
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![Slot::default(); self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, slots).into_iter().filter(|slot| !slot.key.is_none()) {
            let at = self.slot_of(slot.key, slot.key.hash());
            self.slots[at] = slot;
        }
    }

    /// Empties the queue. New keys are taken without growing, for the table leaves room for as many.
    fn place_all(&mut self) {
        for waiting in std::mem::take(&mut self.queue).into_iter().filter(|waiting| !waiting.key.is_none()) {
            let at = self.slot_of(waiting.key, waiting.hash);
            if self.slots[at].key.is_none() {
                self.fill(waiting);
            } else {
                self.place(waiting);
            }
        }
    }

    /// Writes the sums in order and forgets them.
    pub fn write(&mut self, partitioner: &Partitioner, out: &mut PartsWriter) -> io::Result<()> {
        self.place_all();
        let mut entries = Vec::with_capacity(self.taken + self.long.len());
        for (at, slot) in self.slots.iter().enumerate().filter(|(_, slot)| !slot.key.is_none()) {
            let partition = slot.key.with(|key| partitioner.of(key, slot.key.prefix()));
            entries.push(Entry { prefix: slot.key.prefix(), partition, at: at as u32 });
        }
        for number in 0..self.long.len() as u32 {
            let prefix = prefix(self.long.key(number));
            let partition = partitioner.of(self.long.key(number), prefix);
            entries.push(Entry { prefix, partition, at: number | LONG });
        }
        index::sort(&mut entries, partitioner.reduces(), &|a, b| self.with_key(a, |a| self.with_key(b, |b| a.cmp(b))));
        for entry in entries {
            let sum = if entry.at & LONG == 0 {
                self.slots[entry.at as usize].sum
            } else {
                self.long_sums[(entry.at & !LONG) as usize]
            };
            let out = out.part(entry.partition)?;
            self.with_key(entry.at, |key| number::with(sum, |sum| out.push(key, sum)))?;
        }
        *self = SumTable::new(self.memory_bytes_max);
        Ok(())
    }

    fn with_key<R>(&self, at: u32, use_it: impl FnOnce(&[u8]) -> R) -> R {
        if at & LONG == 0 { self.slots[at as usize].key.with(use_it) } else { use_it(self.long.key(at & !LONG)) }
    }
}

/// The memory of a slot, and of the entry that one in two of them may need.
const SLOT_COST: usize = size_of::<Slot>() + ENTRY_BYTES / 2;

impl ShortKey {
    /// The key, if it is short. Overlapping reads instead of a copy: lengths come in no order, and a copy would branch
    /// on each.
    #[inline]
    fn new(key: &[u8]) -> Option<ShortKey> {
        let bytes = key.len();
        if bytes > SHORT_BYTES {
            return None;
        }
        let (low, high) = if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
            // The last eight bytes, without those the first eight have.
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
    fn is_none(self) -> bool {
        self.high == 0
    }

    /// Multiplies the halves and folds the product.
    #[inline]
    fn hash(self) -> usize {
        let product = u128::from(self.low ^ 0x9e37_79b9_7f4a_7c15) * u128::from(self.high ^ 0xd6e8_feb8_6659_fd93);
        let folded = (product >> 64) as u64 ^ product as u64;
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }

    fn prefix(self) -> u64 {
        self.low.swap_bytes()
    }

    fn with<R>(self, use_it: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        use_it(&bytes[..usize::from(bytes[15]) - 1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_key_is_its_bytes() {
        let whole = b"\x00abcdefg\xff\x00hijklm";
        for length in 0..=SHORT_BYTES {
            let key = &whole[..length];
            let short = ShortKey::new(key).expect("short");
            assert!(!short.is_none());
            assert_eq!(short.prefix(), prefix(key));
            short.with(|bytes| assert_eq!(bytes, key));
        }
        assert_eq!(ShortKey::new(&whole[..]), None);
    }
}
