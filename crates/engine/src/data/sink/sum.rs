//! One sum for each key.
//!
//! Most keys that are summed are short: words, names, numbers. A key of up to 15 bytes lies in its slot as two machine
//! words, so that finding it is one look at one place, without a pointer to follow. Longer keys have a table of their
//! own.

use super::index::{self, ENTRY_BYTES, Entry};
use super::keys::KeyTable;
use super::partition::Partitioner;
use crate::data::output::PartsWriter;
use crate::data::prefix;
use crate::record::number;
use std::io;

const SHORT_BYTES: usize = 15;
const SLOTS_MIN: usize = 64;

/// In an [`Entry`], marks the number of a long key; all else are places of short ones.
const LONG: u32 = 1 << 31;

/// Sums by key.
#[derive(Debug)]
pub(super) struct SumTable {
    memory_bytes_max: usize,
    /// Open addressing with linear probing, at most half full; a power of two of them.
    slots: Vec<Slot>,
    taken: usize,
    long: KeyTable,
    long_sums: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: ShortKey,
    sum: u64,
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
            long: KeyTable::new(memory_bytes_max),
            long_sums: Vec::new(),
        }
    }

    /// Adds to a key's sum, unless there is no room for the key. An empty table takes any key.
    #[inline]
    pub fn add(&mut self, key: &[u8], number: u64) -> bool {
        let Some(key) = ShortKey::new(key) else { return self.add_long(key, number) };
        let mask = self.slots.len() - 1;
        let mut at = key.hash() & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.key == key {
                slot.sum = slot.sum.saturating_add(number);
                return true;
            }
            if slot.key.is_none() {
                return self.add_short(key, number, at);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline(never)]
    fn add_short(&mut self, key: ShortKey, number: u64, mut at: usize) -> bool {
        if (self.taken + 1) * 2 > self.slots.len() {
            if !self.may_take(self.slots.len() * 2 * SLOT_COST) {
                return false;
            }
            self.grow();
            at = self.free_slot(key);
        }
        self.slots[at] = Slot { key, sum: number };
        self.taken += 1;
        true
    }

    #[inline(never)]
    fn add_long(&mut self, key: &[u8], number: u64) -> bool {
        if let Some(found) = self.long.find(key) {
            let sum = &mut self.long_sums[found as usize];
            *sum = sum.saturating_add(number);
            return true;
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
            let at = self.free_slot(slot.key);
            self.slots[at] = slot;
        }
    }

    fn free_slot(&self, key: ShortKey) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = key.hash() & mask;
        while !self.slots[at].key.is_none() {
            at = (at + 1) & mask;
        }
        at
    }

    /// Writes the sums in order and forgets them.
    pub fn write(&mut self, partitioner: &Partitioner, out: &mut PartsWriter) -> io::Result<()> {
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
        index::sort(&mut entries, |a, b| self.with_key(a, |a| self.with_key(b, |b| a.cmp(b))));
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
