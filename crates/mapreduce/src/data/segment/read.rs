//! Reading segments: one block at a time, verified before any of its records is returned.

use super::{
    BLOCK_BYTES, HEADER_BYTES, LZ4, Position, RECORD_BYTES_MAX, RecordSpan, SegmentError, Source, UNCOMPRESSED, decode,
};
use bytes::{Bytes, BytesMut};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Buffers grow by at most this much before the bytes are read, so that a forged length cannot cause a large allocation.
const READ_STEP_BYTES: usize = 1 << 20;

/// Maximum compression ratio of LZ4: one byte encodes at most this many.
const LZ4_RATIO_MAX: usize = 255;

/// A cursor over the records of a segment. It is at a record, or after the last one.
#[derive(Debug)]
pub struct SegmentReader {
    source: Source,
    /// Uncompressed content of the current block; part of the source if that is in memory and uncompressed.
    block: Bytes,
    /// Stored content of the last compressed block.
    stored: Bytes,
    /// The current record in the block.
    span: RecordSpan,
    /// Offset of the current block in the segment.
    block_at: u64,
    /// Index of the current record in the block.
    record: u32,
    /// Offset of the next block.
    next_at: u64,
    is_last: bool,
    is_done: bool,
}

impl SegmentReader {
    /// Memory for the buffers of a reader, if no record is larger than a block.
    pub const MEMORY_BYTES: usize = 2 * BLOCK_BYTES;

    /// A reader at the first record.
    pub fn open(source: Source) -> Result<SegmentReader, SegmentError> {
        SegmentReader::open_at(source, Position::default())
    }

    /// A reader at a position that another reader of the same segment has returned.
    pub fn open_at(source: Source, position: Position) -> Result<SegmentReader, SegmentError> {
        let is_done = position.is_end() || source.bytes() == 0;
        let mut reader = SegmentReader {
            source,
            block: Bytes::new(),
            stored: Bytes::new(),
            span: RecordSpan::default(),
            block_at: position.block,
            record: 0,
            next_at: position.block,
            is_last: false,
            is_done,
        };
        if !is_done {
            reader.load_block()?;
            while reader.record < position.record {
                reader.decode_at(reader.span.end)?;
                reader.record += 1;
            }
        }
        Ok(reader)
    }

    /// The current record's key; empty after the last record.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.block[self.span.key..self.span.value]
    }

    /// The current record's value; empty after the last record.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.block[self.span.value..self.span.end]
    }

    /// The current record in its encoding in the block.
    #[inline]
    pub(in crate::data) fn encoded(&self) -> &[u8] {
        &self.block[self.span.at..self.span.end]
    }

    /// True after the last record.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Advances to the next record.
    #[inline]
    pub fn advance(&mut self) -> Result<(), SegmentError> {
        if self.span.end < self.block.len() {
            self.record += 1;
            return self.decode_at(self.span.end);
        }
        self.advance_block()
    }

    /// Position of the current record; [`Position::END`] after the last one.
    pub fn position(&self) -> Position {
        if self.is_done { Position::END } else { Position { block: self.block_at, record: self.record } }
    }

    /// Stored bytes from the current record to the end; within a compressed block, in proportion to its content.
    pub fn remaining_bytes(&self) -> u64 {
        if self.is_done {
            return 0;
        }
        let (read, content) = (self.span.at as u128, self.block.len().max(1) as u128);
        let read_bytes = u128::from(self.next_at - self.block_at) * read / content;
        self.source.bytes() - self.block_at - read_bytes as u64
    }

    #[inline]
    fn decode_at(&mut self, at: usize) -> Result<(), SegmentError> {
        self.span = decode(&self.block, at).ok_or(SegmentError::Corrupt { at: self.block_at })?;
        Ok(())
    }

    #[cold]
    fn advance_block(&mut self) -> Result<(), SegmentError> {
        if self.is_done {
            return Ok(());
        }
        if self.is_last {
            self.is_done = true;
            self.span = RecordSpan::default();
            self.block = Bytes::new();
            self.stored = Bytes::new();
            return Ok(());
        }
        self.block_at = self.next_at;
        self.record = 0;
        self.load_block()
    }

    /// Reads and verifies the block at `block_at`, and moves to its first record.
    fn load_block(&mut self) -> Result<(), SegmentError> {
        let corrupt = SegmentError::Corrupt { at: self.block_at };
        let Some(header) = self.source.block_header(self.block_at)? else { return Err(corrupt) };
        let content = if header.codec == UNCOMPRESSED { &mut self.block } else { &mut self.stored };
        if !self.source.load_content(self.block_at, &header, content)? {
            return Err(corrupt);
        }
        if header.codec == LZ4 {
            let mut raw = take_buffer(&mut self.block);
            raw.resize(header.raw_bytes, 0);
            let raw_bytes = lz4_flex::block::decompress_into(&self.stored, &mut raw);
            if raw_bytes.ok() != Some(header.raw_bytes) {
                return Err(corrupt);
            }
            self.block = raw.freeze();
        }
        self.next_at = self.block_at + header.block_bytes();
        self.is_last = header.is_last;
        self.decode_at(0)
    }
}

/// A decoded block header.
struct BlockHeader {
    codec: u8,
    is_last: bool,
    reserved: [u8; 2],
    stored_bytes: usize,
    raw_bytes: usize,
    crc: u32,
    /// CRC-32C of the header's first twelve bytes, to be continued over the content.
    header_crc: u32,
}

impl BlockHeader {
    fn parse(bytes: &[u8; HEADER_BYTES]) -> BlockHeader {
        let [codec, last, reserved @ .., s0, s1, s2, s3, r0, r1, r2, r3, c0, c1, c2, c3] = *bytes;
        BlockHeader {
            codec,
            is_last: last == 1,
            reserved,
            stored_bytes: u32::from_le_bytes([s0, s1, s2, s3]) as usize,
            raw_bytes: u32::from_le_bytes([r0, r1, r2, r3]) as usize,
            crc: u32::from_le_bytes([c0, c1, c2, c3]),
            header_crc: crc32c::crc32c(&bytes[..12]),
        }
    }

    /// Length of the block, this header included.
    fn block_bytes(&self) -> u64 {
        (HEADER_BYTES + self.stored_bytes) as u64
    }

    /// True if a writer can have written this header with `remaining` bytes after it. This bounds the memory that the block
    /// needs by a multiple of the bytes that exist.
    fn is_plausible(&self, remaining: u64) -> bool {
        let lengths_fit = match self.codec {
            UNCOMPRESSED => self.raw_bytes == self.stored_bytes,
            LZ4 => self.raw_bytes / LZ4_RATIO_MAX <= self.stored_bytes,
            _ => false,
        };
        let is_at_end = self.stored_bytes as u64 == remaining;
        lengths_fit
            && self.reserved == [0; 2]
            && (1..=RECORD_BYTES_MAX).contains(&self.raw_bytes)
            && self.stored_bytes as u64 <= remaining
            && self.is_last == is_at_end
    }
}

impl Source {
    /// True if this is a complete segment whose checksums are right. Decompresses nothing. `should_continue` is called before each block; once it returns
    /// false, reading stops and the result is meaningless.
    pub fn is_valid(&self, mut should_continue: impl FnMut() -> bool) -> io::Result<bool> {
        let (mut at, mut content) = (0, Bytes::new());
        while at < self.bytes() && should_continue() {
            // Only the last block is marked as the last one.
            let Some(header) = self.block_header(at)? else { return Ok(false) };
            if !self.load_content(at, &header, &mut content)? {
                return Ok(false);
            }
            at += header.block_bytes();
        }
        Ok(true)
    }

    /// The same segment in memory.
    pub fn into_memory(self) -> io::Result<Source> {
        let mut content = Bytes::new();
        match self.load(0, self.bytes() as usize, &mut content)? {
            true => Ok(Source::Memory(content)),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The header of the block at `at`, if a writer can have written it there.
    fn block_header(&self, at: u64) -> io::Result<Option<BlockHeader>> {
        let left = at.checked_add(HEADER_BYTES as u64).and_then(|content_at| self.bytes().checked_sub(content_at));
        let mut header = [0; HEADER_BYTES];
        match left {
            Some(left) if self.read(at, &mut header)? => {
                Ok(Some(BlockHeader::parse(&header)).filter(|header| header.is_plausible(left)))
            }
            _ => Ok(None),
        }
    }

    /// Loads the content of a block as it is stored. Returns false if the segment is too short or the checksum is wrong.
    fn load_content(&self, at: u64, header: &BlockHeader, content: &mut Bytes) -> io::Result<bool> {
        let is_loaded = self.load(at + HEADER_BYTES as u64, header.stored_bytes, content)?;
        Ok(is_loaded && crc32c::crc32c_append(header.header_crc, content) == header.crc)
    }

    /// Fills `to` with the bytes of the segment from `at` on. Returns false if the segment is too short.
    fn read(&self, at: u64, to: &mut [u8]) -> io::Result<bool> {
        match self {
            Source::File { file, offset, .. } => match offset.checked_add(at) {
                Some(at) => read_at(file, at, to),
                None => Ok(false),
            },
            Source::Memory(bytes) => match bytes.get(at as usize..).and_then(|rest| rest.get(..to.len())) {
                Some(from) => {
                    to.copy_from_slice(from);
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }

    /// Replaces `content` with `bytes` bytes of the segment: shared if the segment is in memory, otherwise read into the memory of `content`.
    /// Returns false if the segment is too short; a buffer grows only as the bytes turn out to exist.
    fn load(&self, at: u64, bytes: usize, content: &mut Bytes) -> io::Result<bool> {
        if let Source::Memory(memory) = self {
            let range = at as usize..(at as usize).saturating_add(bytes);
            let exists = range.end <= memory.len();
            if exists {
                *content = memory.slice(range);
            }
            return Ok(exists);
        }
        let mut buffer = take_buffer(content);
        let mut filled = 0;
        while filled < bytes {
            let next = bytes.min(filled + READ_STEP_BYTES);
            if buffer.len() < next {
                buffer.resize(next, 0);
            }
            if !self.read(at + filled as u64, &mut buffer[filled..next])? {
                return Ok(false);
            }
            filled = next;
        }
        buffer.truncate(bytes);
        *content = buffer.freeze();
        Ok(true)
    }
}

/// The memory of a block that is no longer needed; a new buffer if the memory is shared with a source.
fn take_buffer(block: &mut Bytes) -> BytesMut {
    std::mem::take(block).try_into_mut().unwrap_or_default()
}

fn read_at(file: &File, at: u64, to: &mut [u8]) -> io::Result<bool> {
    match file.read_exact_at(to, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
