//! Segments: the byte format of sorted runs of records.
//!
//! A segment consists of blocks of about 64 KiB, each with its own checksum, so that a reader verifies every block when it
//! reads it, wherever the bytes came from. A segment contains neither a name nor its location: any copy of its bytes is
//! the segment.
//!
//! # Format
//!
//! Integers are little-endian. A segment without records is zero bytes long; any other is one or more blocks:
//!
//! | block | |
//! |---|---|
//! | `u8` | codec of the content: 0 uncompressed, 1 LZ4 block |
//! | `u8` | 1 if this is the segment's last block, otherwise 0; makes truncation detectable |
//! | `u16` | reserved, 0 |
//! | `u32` | length of the content as stored |
//! | `u32` | length of the content, uncompressed |
//! | `u32` | CRC-32C of the twelve bytes above and the content as stored |
//! | bytes | the content |
//!
//! The content is a sequence of complete records: length of the key, length of the value (both as LEB128 varints), key,
//! value. A block ends before the record that would take it over 64 KiB; a larger record has its own block.

mod read;
#[cfg(test)]
mod tests;

pub use read::SegmentReader;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use thiserror::Error;

/// Maximum uncompressed size of a block, unless it consists of one larger record.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Maximum size of an encoded record. Larger lengths are rejected before memory is allocated for them.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// Maximum size of key and value together. It leaves space for the lengths and for a value that grows because it is a sum.
pub(super) const PAIR_BYTES_MAX: usize = RECORD_BYTES_MAX - 32;

const HEADER_BYTES: usize = 16;
const UNCOMPRESSED: u8 = 0;
const LZ4: u8 = 1;

/// [`Compression::Auto`] samples one block in so many and treats the others like the sample.
const SAMPLE_INTERVAL_BLOCKS: u32 = 32;

/// Whether blocks of a segment are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// LZ4, except for blocks that would grow.
    Lz4,
    /// LZ4 as long as it saves a fifth, as measured on a sample of the blocks.
    #[default]
    Auto,
    None,
}

/// Sizes of a finished segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    pub stored_bytes: u64,
    /// Length of the records before compression.
    pub raw_bytes: u64,
    pub records: u64,
}

/// Where the bytes of a segment are. Cloning is cheap; clones share the bytes.
#[derive(Clone, Debug)]
pub enum Source {
    File {
        /// The file. Concurrent readers are allowed, because all reads are positional.
        file: Arc<File>,
        /// Offset of the segment in the file, in bytes.
        offset: u64,
        /// Length of the segment.
        bytes: u64,
    },
    /// In memory, allocated or mapped.
    Memory(Bytes),
}

impl Source {
    /// Length of the segment as stored.
    pub fn bytes(&self) -> u64 {
        match self {
            Source::File { bytes, .. } => *bytes,
            Source::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Source {
        Source::Memory(bytes.into())
    }
}

/// Position of a record in a segment. The default is the first record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// Offset of the record's block in the segment, in bytes.
    pub block: u64,
    /// Index of the record in the block.
    pub record: u32,
}

impl Position {
    /// After the last record of any segment.
    pub const END: Position = Position { block: u64::MAX, record: 0 };

    /// True if no record is left.
    pub fn is_end(self) -> bool {
        self == Position::END
    }
}

/// Why a segment cannot be read.
#[derive(Debug, Error)]
pub enum SegmentError {
    /// A block is invalid. Another copy of the segment may be usable.
    #[error("the segment is corrupt in the block at byte {at}; fetch it again or run its map again")]
    Corrupt {
        /// Offset of the block in the segment, in bytes.
        at: u64,
    },
    /// The file cannot be read.
    #[error("cannot read the segment: {0}; check that disk")]
    Io(#[from] io::Error),
}

/// Writes a segment. The caller must push records in sorted order; the writer does not check this.
#[derive(Debug)]
pub struct SegmentWriter<W> {
    out: W,
    compressor: BlockCompressor,
    /// The current block's content, preceded by space for its header.
    block: Vec<u8>,
    info: SegmentInfo,
}

impl<W: Write> SegmentWriter<W> {
    /// Memory for the buffers of a writer, if no record is larger than a block.
    pub const MEMORY_BYTES: usize = 2 * (BLOCK_BYTES + BLOCK_BYTES / 64);

    /// A writer of an empty segment. Each block is written to `out` in one call, so `out` needs no buffer.
    pub fn new(out: W, compression: Compression) -> SegmentWriter<W> {
        let mut block = Vec::with_capacity(HEADER_BYTES + BLOCK_BYTES);
        block.resize(HEADER_BYTES, 0);
        SegmentWriter { out, compressor: BlockCompressor::new(compression), block, info: SegmentInfo::default() }
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.ensure_room(record_bytes(key, value))?;
        encode(key, value, &mut self.block);
        self.info.records += 1;
        Ok(())
    }

    /// Appends a record that is already in the encoding of [`encode`].
    #[inline]
    pub(super) fn push_encoded(&mut self, record: &[u8]) -> io::Result<()> {
        self.ensure_room(record.len())?;
        self.block.extend_from_slice(record);
        self.info.records += 1;
        Ok(())
    }

    /// Writes the last block. Returns `out` and the segment's sizes.
    pub fn finish(mut self) -> io::Result<(W, SegmentInfo)> {
        let info = self.end_segment()?;
        Ok((self.out, info))
    }

    /// Writes the last block and begins another segment after it.
    pub(super) fn end_segment(&mut self) -> io::Result<SegmentInfo> {
        if self.block.len() > HEADER_BYTES {
            self.write_block(true)?;
        }
        Ok(std::mem::take(&mut self.info))
    }

    #[inline]
    fn ensure_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.block.len() + bytes > HEADER_BYTES + BLOCK_BYTES { self.begin_block(bytes) } else { Ok(()) }
    }

    #[cold]
    fn begin_block(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > RECORD_BYTES_MAX {
            let message = format!("a record of {bytes} bytes is too large; the limit is {RECORD_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if self.block.len() > HEADER_BYTES { self.write_block(false) } else { Ok(()) }
    }

    fn write_block(&mut self, last: bool) -> io::Result<()> {
        let raw_bytes = self.block.len() - HEADER_BYTES;
        let (codec, stored) = self.compressor.compress(&mut self.block);
        let header = header(codec, last, &stored[HEADER_BYTES..], raw_bytes);
        stored[..HEADER_BYTES].copy_from_slice(&header);
        self.out.write_all(stored)?;
        self.info.stored_bytes += stored.len() as u64;
        self.info.raw_bytes += raw_bytes as u64;
        self.block.truncate(HEADER_BYTES);
        // Release the memory of a record larger than a block.
        self.block.shrink_to(HEADER_BYTES + BLOCK_BYTES);
        Ok(())
    }
}

/// Decides whether blocks are compressed, and compresses them.
#[derive(Debug)]
struct BlockCompressor {
    compression: Compression,
    compressed: Vec<u8>,
    /// Number of blocks until the next sample.
    until_sample: u32,
    /// Result of the last sample.
    is_worthwhile: bool,
}

impl BlockCompressor {
    fn new(compression: Compression) -> BlockCompressor {
        BlockCompressor { compression, compressed: Vec::new(), until_sample: 0, is_worthwhile: true }
    }

    /// Returns the codec and the block as stored, again preceded by space for its header.
    fn compress<'a>(&'a mut self, block: &'a mut [u8]) -> (u8, &'a mut [u8]) {
        let raw = &block[HEADER_BYTES..];
        // A small block is not representative of the others: compression is tried, but it is not used as a sample.
        let is_small = raw.len() < BLOCK_BYTES / 2;
        let is_sample = !is_small && self.until_sample == 0;
        let try_compression = match self.compression {
            Compression::Lz4 => true,
            Compression::Auto => is_small || is_sample || self.is_worthwhile,
            Compression::None => false,
        };
        if !is_small {
            self.until_sample = if is_sample { SAMPLE_INTERVAL_BLOCKS } else { self.until_sample - 1 };
        }
        if !try_compression {
            return (UNCOMPRESSED, block);
        }
        self.compressed.resize(HEADER_BYTES + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
        let compressed_bytes =
            lz4_flex::block::compress_into(raw, &mut self.compressed[HEADER_BYTES..]).unwrap_or(usize::MAX);
        let is_worthwhile = compressed_bytes < raw.len() - raw.len() / 5;
        if is_sample {
            self.is_worthwhile = is_worthwhile;
        }
        let use_compressed = is_worthwhile || (self.compression == Compression::Lz4 && compressed_bytes < raw.len());
        if use_compressed {
            (LZ4, &mut self.compressed[..HEADER_BYTES + compressed_bytes])
        } else {
            (UNCOMPRESSED, block)
        }
    }
}

fn header(codec: u8, last: bool, stored: &[u8], raw_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = codec;
    header[1] = u8::from(last);
    header[4..8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&(raw_bytes as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), stored);
    header[12..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The segment with the same blocks and correct checksums, as far as its blocks can be told apart; for fuzzing.
pub fn segment_with_checksums(segment: &[u8]) -> Vec<u8> {
    let (mut corrected, mut rest) = (Vec::with_capacity(segment.len()), segment);
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let [.., s0, s1, s2, s3, _, _, _, _, _, _, _, _] = *header;
        let Some(stored) = after.get(..u32::from_le_bytes([s0, s1, s2, s3]) as usize) else { break };
        let (fields, _) = header.split_at(12);
        let crc = crc32c::crc32c_append(crc32c::crc32c(fields), stored);
        corrected.extend_from_slice(fields);
        corrected.extend_from_slice(&crc.to_le_bytes());
        corrected.extend_from_slice(stored);
        rest = after.get(stored.len()..).unwrap_or_default();
    }
    corrected
}

/// Appends a record in its encoding in a block.
#[inline]
pub(super) fn encode(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if (key.len() | value.len()) < 0x80 {
        out.extend_from_slice(&[key.len() as u8, value.len() as u8]);
    } else {
        encode_length(key.len(), out);
        encode_length(value.len(), out);
    }
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

#[cold]
fn encode_length(length: usize, out: &mut Vec<u8>) {
    crate::record::varint::with_encoded(length as u64, |bytes| out.extend_from_slice(bytes));
}

/// Number of bytes that [`encode`] appends.
#[inline]
pub(super) fn record_bytes(key: &[u8], value: &[u8]) -> usize {
    length_bytes(key.len()) + length_bytes(value.len()) + key.len() + value.len()
}

#[inline]
fn length_bytes(length: usize) -> usize {
    if length < 0x80 { 1 } else { (length.ilog2() / 7 + 1) as usize }
}

/// Decodes the lengths of the record that begins at `at`. Returns `None` if the bytes are not a valid record.
#[inline]
pub(super) fn decode(bytes: &[u8], at: usize) -> Option<RecordSpan> {
    let (key_bytes, value_bytes, key) = match bytes.get(at..)? {
        [key_bytes, value_bytes, ..] if (key_bytes | value_bytes) < 0x80 => {
            (usize::from(*key_bytes), usize::from(*value_bytes), at + 2)
        }
        _ => decode_lengths(bytes, at)?,
    };
    let value = key + key_bytes;
    let end = value + value_bytes;
    (end <= bytes.len()).then_some(RecordSpan { at, key, value, end })
}

#[cold]
fn decode_lengths(bytes: &[u8], at: usize) -> Option<(usize, usize, usize)> {
    let (key_bytes, at) = decode_length(bytes, at)?;
    let (value_bytes, at) = decode_length(bytes, at)?;
    Some((key_bytes, value_bytes, at))
}

fn decode_length(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut length = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (length <= RECORD_BYTES_MAX).then_some((length, at));
        }
    }
    None
}

/// Offsets of a record's parts in a buffer: the lengths begin at `at`, the key at `key`, the value at `value` and ends at `end`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordSpan {
    pub at: usize,
    pub key: usize,
    pub value: usize,
    pub end: usize,
}
