//! Segments: sorted runs of records as bytes.
//!
//! A segment is made of blocks of about 64 KiB, each with its own check, so that a reader verifies what it reads, when
//! it reads it, wherever the bytes came from. A segment has no name and no place: any copy of its bytes is the segment.
//!
//! # Bytes
//!
//! Integers are little-endian. A segment without records is no bytes at all; any other is one or more blocks:
//!
//! | block | |
//! |---|---|
//! | `u8` | how the content is stored: 0 plain, 1 as an LZ4 block |
//! | `u8` | 1 if this is the segment's last block, else 0: a segment that was cut short shows |
//! | `u16` | 0 |
//! | `u32` | length of the content as stored |
//! | `u32` | length of the content, raw |
//! | `u32` | CRC-32C of the twelve bytes above and the content as stored |
//! | bytes | the content |
//!
//! The content is whole records: length of the key, length of the value (both base 128, low part first), key, value. A
//! block ends before the record that would take it over 64 KiB; a larger record has a block to itself.

mod read;
#[cfg(test)]
mod tests;

pub use read::SegmentReader;

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use thiserror::Error;

/// Raw bytes of records a block holds, unless a single record is larger.
pub const BLOCK_BYTES: usize = 64 << 10;

/// The largest record, with its lengths: what claims to be larger is refused before room is made for it.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// The largest key and value together, so that the record is not too large whatever a sum in its value comes to.
pub(super) const PAIR_BYTES_MAX: usize = RECORD_BYTES_MAX - 32;

const HEAD_BYTES: usize = 16;
const PLAIN: u8 = 0;
const LZ4: u8 = 1;

/// `Auto` looks at one block in so many, and stores the others as it found best for that one.
const SAMPLE_EVERY: u32 = 32;

/// Whether blocks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// With LZ4, except for blocks that would grow.
    Lz4,
    /// With LZ4 as long as it saves a fifth; a sample decides.
    #[default]
    Auto,
    /// Not at all.
    None,
}

/// What a finished segment came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// Its length.
    pub stored_bytes: u64,
    /// The length of its records before compression.
    pub raw_bytes: u64,
    /// How many records it has.
    pub records: u64,
}

/// Where the bytes of a segment are. A clone is cheap and refers to the same bytes.
#[derive(Clone, Debug)]
pub enum Source {
    /// In a file.
    File {
        /// The file; others may read it at the same time.
        file: Arc<File>,
        /// Where the segment begins in it.
        offset: u64,
        /// The segment's length.
        bytes: u64,
    },
    /// In memory.
    Memory(Arc<Vec<u8>>),
}

impl Source {
    /// The segment's length.
    pub fn bytes(&self) -> u64 {
        match self {
            Source::File { bytes, .. } => *bytes,
            Source::Memory(bytes) => bytes.len() as u64,
        }
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Source {
        Source::Memory(Arc::new(bytes))
    }
}

/// The place of a record in a segment. The default is the first record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// Where its block begins in the segment.
    pub block: u64,
    /// How many records of the block come before it.
    pub record: u32,
}

impl Position {
    /// Behind the last record of any segment.
    pub const END: Position = Position { block: u64::MAX, record: 0 };

    /// True if no record is left.
    pub fn is_end(self) -> bool {
        self == Position::END
    }
}

/// Why a segment cannot be read.
#[derive(Debug, Error)]
pub enum SegmentError {
    /// The bytes are not what was written: the copy is of no use, another one may be.
    #[error("segment is damaged in the block at byte {at}; its map has to be read or run again")]
    Damaged {
        /// Where the block begins in the segment.
        at: u64,
    },
    /// The file cannot be read.
    #[error("cannot read segment: {0}")]
    Io(#[from] io::Error),
}

/// Writes a segment. Records are expected in order; the writer does not look.
#[derive(Debug)]
pub struct SegmentWriter<W> {
    out: W,
    packer: Packer,
    /// The block in the making, behind room for its head.
    block: Vec<u8>,
    info: SegmentInfo,
}

impl<W: Write> SegmentWriter<W> {
    /// What a writer of a segment with no record larger than a block needs for its buffers.
    pub const MEMORY_BYTES: usize = 2 * (BLOCK_BYTES + BLOCK_BYTES / 64);

    /// A writer of an empty segment. Every block goes to `out` in one piece, so `out` needs no buffer of its own.
    pub fn new(out: W, compression: Compression) -> SegmentWriter<W> {
        let mut block = Vec::with_capacity(HEAD_BYTES + BLOCK_BYTES);
        block.resize(HEAD_BYTES, 0);
        SegmentWriter { out, packer: Packer::new(compression), block, info: SegmentInfo::default() }
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.make_room(record_bytes(key, value))?;
        encode(key, value, &mut self.block);
        self.info.records += 1;
        Ok(())
    }

    /// Appends a record in the form [`encode`] gives it.
    #[inline]
    pub(super) fn push_encoded(&mut self, record: &[u8]) -> io::Result<()> {
        self.make_room(record.len())?;
        self.block.extend_from_slice(record);
        self.info.records += 1;
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(mut self) -> io::Result<(W, SegmentInfo)> {
        let info = self.end()?;
        Ok((self.out, info))
    }

    /// Writes what is left and begins another segment behind it.
    pub(super) fn end(&mut self) -> io::Result<SegmentInfo> {
        if self.block.len() > HEAD_BYTES {
            self.write_block(true)?;
        }
        Ok(std::mem::take(&mut self.info))
    }

    #[inline]
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.block.len() + bytes > HEAD_BYTES + BLOCK_BYTES { self.begin_block(bytes) } else { Ok(()) }
    }

    #[cold]
    fn begin_block(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > RECORD_BYTES_MAX {
            let message = format!("a record of {bytes} bytes is too large; at most {RECORD_BYTES_MAX} are possible");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if self.block.len() > HEAD_BYTES { self.write_block(false) } else { Ok(()) }
    }

    fn write_block(&mut self, last: bool) -> io::Result<()> {
        let raw_bytes = self.block.len() - HEAD_BYTES;
        let (codec, packed) = self.packer.pack(&mut self.block);
        let head = head(codec, last, &packed[HEAD_BYTES..], raw_bytes);
        packed[..HEAD_BYTES].copy_from_slice(&head);
        self.out.write_all(packed)?;
        self.info.stored_bytes += packed.len() as u64;
        self.info.raw_bytes += raw_bytes as u64;
        self.block.truncate(HEAD_BYTES);
        // A record larger than a block does not leave its room behind.
        self.block.shrink_to(HEAD_BYTES + BLOCK_BYTES);
        Ok(())
    }
}

/// Decides how a block is stored, and packs it.
#[derive(Debug)]
struct Packer {
    compression: Compression,
    packed: Vec<u8>,
    /// Blocks until `Auto` looks again, and what it does until then.
    until_sample: u32,
    pays: bool,
}

impl Packer {
    fn new(compression: Compression) -> Packer {
        Packer { compression, packed: Vec::new(), until_sample: 0, pays: true }
    }

    /// The codec and the block as stored, behind room for its head as before.
    fn pack<'a>(&'a mut self, block: &'a mut [u8]) -> (u8, &'a mut [u8]) {
        let raw = &block[HEAD_BYTES..];
        // A small block says little about the others: it is tried, but not taken for a sample.
        let is_small = raw.len() < BLOCK_BYTES / 2;
        let is_sample = !is_small && self.until_sample == 0;
        let is_tried = match self.compression {
            Compression::Lz4 => true,
            Compression::Auto => is_small || is_sample || self.pays,
            Compression::None => false,
        };
        if !is_small {
            self.until_sample = if is_sample { SAMPLE_EVERY } else { self.until_sample - 1 };
        }
        if !is_tried {
            return (PLAIN, block);
        }
        self.packed.resize(HEAD_BYTES + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
        let packed_bytes = lz4_flex::block::compress_into(raw, &mut self.packed[HEAD_BYTES..]).unwrap_or(usize::MAX);
        let pays = packed_bytes < raw.len() - raw.len() / 5;
        if is_sample {
            self.pays = pays;
        }
        let is_kept = pays || (self.compression == Compression::Lz4 && packed_bytes < raw.len());
        if is_kept { (LZ4, &mut self.packed[..HEAD_BYTES + packed_bytes]) } else { (PLAIN, block) }
    }
}

fn head(codec: u8, last: bool, stored: &[u8], raw_bytes: usize) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[0] = codec;
    head[1] = u8::from(last);
    head[4..8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
    head[8..12].copy_from_slice(&(raw_bytes as u32).to_le_bytes());
    let check = crc32c::crc32c_append(crc32c::crc32c(&head[..12]), stored);
    head[12..].copy_from_slice(&check.to_le_bytes());
    head
}

/// Appends a record in the form it has in a block.
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
    crate::record::number::with(length as u64, |bytes| out.extend_from_slice(bytes));
}

/// How many bytes [`encode`] appends.
#[inline]
pub(super) fn record_bytes(key: &[u8], value: &[u8]) -> usize {
    length_bytes(key.len()) + length_bytes(value.len()) + key.len() + value.len()
}

#[inline]
fn length_bytes(length: usize) -> usize {
    if length < 0x80 { 1 } else { (length.ilog2() / 7 + 1) as usize }
}

/// Where key and value end in an encoded record that begins at `at`, and where the key begins; nothing if the bytes are
/// no record.
#[inline]
pub(super) fn decode(bytes: &[u8], at: usize) -> Option<Span> {
    let (key_bytes, value_bytes, key) = match bytes.get(at..)? {
        [key_bytes, value_bytes, ..] if (key_bytes | value_bytes) < 0x80 => {
            (usize::from(*key_bytes), usize::from(*value_bytes), at + 2)
        }
        _ => decode_lengths(bytes, at)?,
    };
    let value = key + key_bytes;
    let end = value + value_bytes;
    (end <= bytes.len()).then_some(Span { at, key, value, end })
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

/// The parts of a record within some bytes: its lengths from `at`, then its key, then its value up to `end`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub at: usize,
    pub key: usize,
    pub value: usize,
    pub end: usize,
}
