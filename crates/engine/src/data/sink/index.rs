//! The order in which a buffer is written: small entries that are sorted in the place of what they stand for.

use std::cmp::Ordering;

/// Stands for a record or a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The first bytes of the key.
    pub prefix: u64,
    pub partition: u32,
    /// Where the buffer has it.
    pub at: u32,
}

/// The memory one takes.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

/// Puts entries in the order of partition and key; `in_full` orders two whose prefixes are the same.
pub(super) fn sort(entries: &mut [Entry], in_full: impl Fn(u32, u32) -> Ordering) {
    entries.sort_unstable_by(|a, b| {
        (a.partition, a.prefix).cmp(&(b.partition, b.prefix)).then_with(|| in_full(a.at, b.at))
    });
}
