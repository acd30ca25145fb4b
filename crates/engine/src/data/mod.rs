//! The data path: how records travel from a mapper's hands to a reducer's.
//!
//! A map's records go into a [`MapSink`], which sorts or combines them within a memory budget and leaves one file, a
//! [`MapOutput`], with one *segment* for each reduce. A segment is a sorted run of records in checked blocks
//! ([`segment`]); it is copied between workers byte for byte and verified by whoever reads it. A reduce opens the
//! segments of its partition, wherever they are, and reads them as one sorted run through a [`Merge`].
//!
//! Everything here is plain computation on bytes and files. What never lives here: sockets, tasks and their states, the
//! decision when to merge or what to keep in memory.

mod arena;
mod merge;
mod output;
mod prefetch;
pub mod segment;
mod sink;

pub use merge::{Merge, MergeError};
pub use output::{MapOutput, OutputError, PartAt};
pub use segment::{Compression, Position, SegmentError, SegmentInfo, SegmentReader, SegmentWriter, Source};
pub use sink::{MapSink, SinkError, SinkOptions};

/// The first eight bytes of a key as a number that orders like them. Keys that differ here need no second look; keys
/// that are equal here may still differ (a short key is filled up with zeros).
#[inline]
fn prefix(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    // Two overlapping halves instead of a loop: keys of words are short, and their lengths come in no order.
    if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let (first, last) = (u64::from(u32::from_be_bytes(*first)), u64::from(u32::from_be_bytes(*last)));
        return first << 32 | last << (8 * (8 - key.len()));
    }
    match *key {
        [] => 0,
        [a] => u64::from(a) << 56,
        [a, b] => u64::from(a) << 56 | u64::from(b) << 48,
        [a, b, c, ..] => u64::from(a) << 56 | u64::from(b) << 48 | u64::from(c) << 40,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_may_move_to_another_thread() {
        fn moves<T: Send>() {}
        moves::<(MapSink, MapOutput, Merge, SegmentReader, SegmentWriter<Vec<u8>>, Source)>();
    }

    #[test]
    fn a_prefix_orders_like_its_key() {
        let whole = *b"\x01abc\xff\x00xyz";
        for length in 0..=whole.len() {
            let key = &whole[..length];
            let mut padded = [0; 8];
            padded[..length.min(8)].copy_from_slice(&key[..length.min(8)]);
            assert_eq!(prefix(key), u64::from_be_bytes(padded));
        }
    }
}
