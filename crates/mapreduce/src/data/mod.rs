//! The data path: how records get from a mapper to a reducer.
//!
//! A map's records go into a [`MapSink`], which sorts or combines them within a memory budget and writes one file, a
//! [`MapOutput`], with one *segment* for each reduce. A segment is a sorted run of records in blocks with checksums
//! ([`segment`]); it is copied between workers byte for byte and verified by its reader. A reduce opens the segments of its
//! partition, in memory or in files, and reads them as one sorted run through a [`Merge`].
//!
//! Everything here is plain computation on bytes and files. Not here: sockets, task states, and the decision when to merge
//! or what to keep in memory.

mod arena;
mod map_output;
mod map_sink;
mod mapped_file;
mod merge;
mod prefetch;
pub mod segment;

pub use map_output::{MapOutput, OutputError, SegmentEntry};
pub use map_sink::{MapSink, SinkError, SinkOptions};
pub use merge::{Merge, MergeError};
pub use segment::{Compression, Position, SegmentError, SegmentInfo, SegmentReader, SegmentWriter, Source};

/// The first eight bytes of a key as an integer with the same order. If the prefixes of two keys differ, they order the keys;
/// if they are equal, the keys may still differ (short keys are padded with zeros).
#[inline]
fn prefix(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    // Two overlapping halves instead of a loop: words are short keys, and branches on their lengths are unpredictable.
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
    fn all_types_are_send() {
        fn assert_send<T: Send>() {}
        assert_send::<(MapSink, MapOutput, Merge, SegmentReader, SegmentWriter<Vec<u8>>, Source)>();
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
