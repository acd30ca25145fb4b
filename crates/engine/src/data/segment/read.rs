//! Reading segments: a block at a time, verified before a record of it is believed.

use super::{BLOCK_BYTES, HEAD_BYTES, LZ4, PLAIN, Position, RECORD_BYTES_MAX, SegmentError, Source, Span, decode};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Room that is made at once for bytes that are only claimed to exist.
const BELIEVED_BYTES: usize = 1 << 20;

/// LZ4 cannot say more than this with a byte.
const LZ4_RATIO_MAX: usize = 255;

/// A cursor over the records of a segment. It stands at a record, or behind the last one.
#[derive(Debug)]
pub struct SegmentReader {
    source: Source,
    /// The content of the current block, raw.
    block: Vec<u8>,
    /// The content as stored, of a block that is compressed.
    stored: Vec<u8>,
    /// The current record in the block.
    span: Span,
    /// Where the current block begins in the segment, and which of its records this is.
    block_at: u64,
    record: u32,
    /// Where the next block begins.
    next_at: u64,
    is_last: bool,
    is_done: bool,
}

impl SegmentReader {
    /// What a reader of a segment with no record larger than a block needs for its buffers.
    pub const MEMORY_BYTES: usize = 2 * BLOCK_BYTES;

    /// A reader at the first record.
    pub fn open(source: Source) -> Result<SegmentReader, SegmentError> {
        SegmentReader::open_at(source, Position::default())
    }

    /// A reader at the record another one stood at.
    pub fn open_at(source: Source, position: Position) -> Result<SegmentReader, SegmentError> {
        let is_done = position.is_end() || source.bytes() == 0;
        let mut reader = SegmentReader {
            source,
            block: Vec::new(),
            stored: Vec::new(),
            span: Span::default(),
            block_at: position.block,
            record: 0,
            next_at: position.block,
            is_last: false,
            is_done,
        };
        if !is_done {
            reader.load()?;
            while reader.record < position.record {
                reader.step(reader.span.end)?;
                reader.record += 1;
            }
        }
        Ok(reader)
    }

    /// The current record's key; empty behind the last record.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.block[self.span.key..self.span.value]
    }

    /// The current record's value; empty behind the last record.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.block[self.span.value..self.span.end]
    }

    /// The current record as it stands in its block.
    #[inline]
    pub(in crate::data) fn encoded(&self) -> &[u8] {
        &self.block[self.span.at..self.span.end]
    }

    /// True behind the last record.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Goes to the next record.
    #[inline]
    pub fn advance(&mut self) -> Result<(), SegmentError> {
        if self.span.end < self.block.len() {
            self.record += 1;
            return self.step(self.span.end);
        }
        self.advance_block()
    }

    /// Where the reader stands.
    pub fn position(&self) -> Position {
        if self.is_done { Position::END } else { Position { block: self.block_at, record: self.record } }
    }

    #[inline]
    fn step(&mut self, at: usize) -> Result<(), SegmentError> {
        self.span = decode(&self.block, at).ok_or(SegmentError::Damaged { at: self.block_at })?;
        Ok(())
    }

    #[cold]
    fn advance_block(&mut self) -> Result<(), SegmentError> {
        if self.is_done {
            return Ok(());
        }
        if self.is_last {
            self.is_done = true;
            self.span = Span::default();
            self.block = Vec::new();
            self.stored = Vec::new();
            return Ok(());
        }
        self.block_at = self.next_at;
        self.record = 0;
        self.load()
    }

    /// Reads and verifies the block at `block_at`, and stands at its first record.
    fn load(&mut self) -> Result<(), SegmentError> {
        let damaged = SegmentError::Damaged { at: self.block_at };
        let content_at = self.block_at.checked_add(HEAD_BYTES as u64).filter(|at| *at <= self.source.bytes());
        let Some(content_at) = content_at else { return Err(damaged) };
        let mut head = [0; HEAD_BYTES];
        if !self.source.read(self.block_at, &mut head)? {
            return Err(damaged);
        }
        let head = Head::parse(&head);
        if !head.is_sound(self.source.bytes() - content_at) {
            return Err(damaged);
        }
        let content = if head.codec == PLAIN { &mut self.block } else { &mut self.stored };
        if !self.source.read_grown(content_at, head.stored_bytes, content)?
            || crc32c::crc32c_append(head.check_before, content) != head.check
        {
            return Err(damaged);
        }
        if head.codec == LZ4 {
            self.block.resize(head.raw_bytes, 0);
            let raw_bytes = lz4_flex::block::decompress_into(&self.stored, &mut self.block);
            if raw_bytes.ok() != Some(head.raw_bytes) {
                return Err(damaged);
            }
        }
        self.next_at = content_at + head.stored_bytes as u64;
        self.is_last = head.is_last;
        self.step(0)
    }
}

/// A block's head.
struct Head {
    codec: u8,
    is_last: bool,
    zero: [u8; 2],
    stored_bytes: usize,
    raw_bytes: usize,
    check: u32,
    /// The check of the head's own bytes, to be carried on over the content.
    check_before: u32,
}

impl Head {
    fn parse(bytes: &[u8; HEAD_BYTES]) -> Head {
        let [codec, last, zero @ .., s0, s1, s2, s3, r0, r1, r2, r3, c0, c1, c2, c3] = *bytes;
        Head {
            codec,
            is_last: last == 1,
            zero,
            stored_bytes: u32::from_le_bytes([s0, s1, s2, s3]) as usize,
            raw_bytes: u32::from_le_bytes([r0, r1, r2, r3]) as usize,
            check: u32::from_le_bytes([c0, c1, c2, c3]),
            check_before: crc32c::crc32c(&bytes[..12]),
        }
    }

    /// True if a writer may have written this with so many bytes to follow. What passes makes no one reserve more than
    /// a multiple of bytes that are there.
    fn is_sound(&self, left: u64) -> bool {
        let lengths_fit = match self.codec {
            PLAIN => self.raw_bytes == self.stored_bytes,
            LZ4 => self.raw_bytes / LZ4_RATIO_MAX <= self.stored_bytes,
            _ => false,
        };
        let is_at_end = self.stored_bytes as u64 == left;
        lengths_fit
            && self.zero == [0; 2]
            && (1..=RECORD_BYTES_MAX).contains(&self.raw_bytes)
            && self.stored_bytes as u64 <= left
            && self.is_last == is_at_end
    }
}

impl Source {
    /// Fills `to` from byte `at` of the segment on; false if the bytes are not there.
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

    /// Puts so many bytes in the place of what `to` holds, making room only as they turn out to exist.
    fn read_grown(&self, at: u64, bytes: usize, to: &mut Vec<u8>) -> io::Result<bool> {
        let mut filled = 0;
        while filled < bytes {
            let next = bytes.min(filled + BELIEVED_BYTES);
            if to.len() < next {
                to.resize(next, 0);
            }
            if !self.read(at + filled as u64, &mut to[filled..next])? {
                return Ok(false);
            }
            filled = next;
        }
        to.truncate(bytes);
        Ok(true)
    }
}

fn read_at(file: &File, at: u64, to: &mut [u8]) -> io::Result<bool> {
    match file.read_exact_at(to, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
