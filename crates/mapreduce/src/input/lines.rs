//! Lines: the records a map reads.
//!
//! A split owns the lines that begin in it, to their ends, which may lie after the split. To find out whether a line begins at the split's first byte,
//! the reader also reads the byte before it. Lines are returned as slices of the buffer. A line ends before `\n`; the `\r` of a `\r\n` is part of
//! the line.

use super::decompress::decompress;
use super::{InputError, ReadAt, open};
use crate::byte_masks::{BLOCK_BYTES, newlines};
use crate::job::{Codec, InputFile, InputSplit};
use crate::record::Record;
use memchr::memchr;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of a line's length, in bytes. A file with longer lines is probably not text, and a line must fit in memory.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Bytes per read: little enough to stay in the L2 cache until they are processed.
const CHUNK_BYTES: u64 = 256 << 10;

/// Bytes per read after the end of the split, where only the rest of one line is needed.
const TAIL_CHUNK_BYTES: u64 = 16 << 10;

/// Reads the lines that begin in a split of a file: the fast way to read lines, also outside of a map.
///
/// Newlines are searched 64 bytes at a time, and lines are slices of the reader's buffer.
pub struct LineReader {
    file: OsString,
    codec: Codec,
    text: Box<dyn Read + Send>,
    /// Bytes read from the file, compressed.
    bytes_read: Arc<AtomicU64>,
    buffer: Vec<u8>,
    /// The unread part of the buffer is `start..filled`.
    start: usize,
    filled: usize,
    /// The newlines of the block that ends at `scanned` and that are not passed yet. Those after `scanned` are not known yet.
    newlines: u64,
    scanned: usize,
    /// Offset of `buffer[start]` in the text.
    offset: u64,
    begin: u64,
    end: u64,
    /// True until the line of the previous split is skipped, in which `offset` is.
    must_skip: bool,
    line_bytes_max: usize,
}

impl fmt::Debug for LineReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineReader")
            .field("file", &self.file)
            .field("offset", &self.offset)
            .field("end", &self.end)
            .finish()
    }
}

impl LineReader {
    /// Opens a split of a file.
    pub fn open(file: &InputFile, split: InputSplit) -> Result<LineReader, InputError> {
        Ok(LineReader::over(file, split, open(file, end_of(file, split))?))
    }

    /// A reader of a split of a file whose bytes (compressed) are given.
    pub fn over(file: &InputFile, split: InputSplit, bytes: Box<dyn ReadAt>) -> LineReader {
        // Compressed files are always read whole.
        let (begin, end) = match file.codec {
            Codec::Plain => (split.offset, split.offset + split.bytes),
            _ => (0, u64::MAX),
        };
        let offset = begin.saturating_sub(1);
        let bytes = SequentialReader { offset, ..SequentialReader::new(bytes) };
        LineReader {
            file: file.name.clone(),
            codec: file.codec,
            bytes_read: bytes.bytes_read.clone(),
            text: decompress(file.codec, bytes),
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            newlines: 0,
            scanned: 0,
            offset,
            begin,
            end,
            must_skip: begin > 0,
            line_bytes_max: LINE_BYTES_MAX,
        }
    }

    /// Sets the limit of a line's length; the default is [`LINE_BYTES_MAX`].
    pub fn with_line_bytes_max(mut self, bytes: usize) -> LineReader {
        self.line_bytes_max = bytes;
        self
    }

    /// The next line; `None` after the last line that begins in the split.
    // Inlined, so that a record is returned in registers; the code that runs once per chunk is in `find_line`.
    #[allow(clippy::should_implement_trait, reason = "a line borrows the buffer, which `Iterator` cannot express")]
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, InputError> {
        let mut bytes = None;
        if !self.must_skip && self.offset < self.end {
            while self.newlines == 0
                && let Some(block) = self.buffer[self.scanned..self.filled].first_chunk()
            {
                self.newlines = newlines(block);
                self.scanned += BLOCK_BYTES;
            }
            if self.newlines != 0 {
                let end = self.scanned - BLOCK_BYTES + self.newlines.trailing_zeros() as usize;
                self.newlines &= self.newlines - 1;
                bytes = Some(end - self.start).filter(|bytes| *bytes <= self.line_bytes_max);
            }
        }
        let (bytes, terminator) = match bytes {
            Some(bytes) => (bytes, 1),
            None => match self.find_line()? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let (start, offset) = (self.start, self.offset);
        self.start += bytes + terminator;
        self.offset += (bytes + terminator) as u64;
        Ok(Some(Record { file: &self.file, offset, line: &self.buffer[start..start + bytes] }))
    }

    /// Reads the next line into the buffer. Returns its length and that of its terminator; `None` if there is no line.
    #[cold]
    fn find_line(&mut self) -> Result<Option<(usize, usize)>, InputError> {
        if self.must_skip {
            self.skip_line()?;
        }
        if self.offset >= self.end {
            return Ok(None);
        }
        let mut searched = 0;
        let (bytes, terminator) = loop {
            if let Some(found) = memchr(b'\n', &self.buffer[self.start + searched..self.filled]) {
                break (searched + found, 1);
            }
            searched = self.filled - self.start;
            if searched > self.line_bytes_max {
                break (searched, 0);
            }
            if !self.fill()? {
                if searched == 0 {
                    return Ok(None);
                }
                break (searched, 0);
            }
        };
        if bytes > self.line_bytes_max {
            return Err(InputError::LineTooLong {
                name: self.file.to_string_lossy().into_owned(),
                offset: self.offset,
                limit: self.line_bytes_max,
            });
        }
        self.newlines = 0;
        self.scanned = self.start + bytes + terminator;
        Ok(Some((bytes, terminator)))
    }

    /// Offset of the next unread line: a map that ends early here leaves the split from there on. If it is at or after the end of the split,
    /// nothing is left. `None` for compressed files, which cannot be read from the middle.
    pub fn position(&self) -> Option<u64> {
        (self.codec == Codec::Plain).then_some(self.offset.max(self.begin))
    }

    /// Bytes of the split processed so far, compressed. For progress.
    pub fn bytes_done(&self) -> u64 {
        match self.codec {
            Codec::Plain => self.offset.clamp(self.begin, self.end) - self.begin,
            _ => self.bytes_read.load(Ordering::Relaxed),
        }
    }

    /// Skips the line that the previous split owns. It may be longer than the limit, so it is not buffered.
    fn skip_line(&mut self) -> Result<(), InputError> {
        while self.offset < self.end {
            match memchr(b'\n', &self.buffer[self.start..self.filled]) {
                Some(found) => {
                    self.start += found + 1;
                    self.offset += found as u64 + 1;
                    break;
                }
                None => {
                    self.offset += (self.filled - self.start) as u64;
                    self.start = self.filled;
                    if !self.fill()? {
                        break;
                    }
                }
            }
        }
        self.must_skip = false;
        Ok(())
    }

    /// Reads more text into the buffer. Returns false at the end of the text.
    fn fill(&mut self) -> Result<bool, InputError> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        (self.start, self.newlines, self.scanned) = (0, 0, 0);
        let read_to = self.offset + self.filled as u64;
        let wanted = if read_to < self.end { CHUNK_BYTES.min(self.end - read_to) } else { TAIL_CHUNK_BYTES } as usize;
        if self.buffer.len() < self.filled + wanted {
            self.buffer.resize(self.filled + wanted, 0);
        }
        loop {
            match self.text.read(&mut self.buffer[self.filled..self.filled + wanted]) {
                Ok(0) if self.codec == Codec::Plain && read_to < self.end => {
                    return Err(InputError::Shrunk { name: self.file.to_string_lossy().into_owned(), found: read_to });
                }
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(InputError::while_reading(&self.file.to_string_lossy(), self.codec, source)),
            }
        }
    }
}

/// End of a split in the file as stored. Compressed files are always read whole.
fn end_of(file: &InputFile, split: InputSplit) -> u64 {
    match file.codec {
        Codec::Plain => split.offset + split.bytes,
        _ => file.bytes,
    }
}

/// Reads bytes with random access in order.
pub(super) struct SequentialReader {
    bytes: Box<dyn ReadAt>,
    offset: u64,
    /// Shared with the owner of the decoder that reads from this, for progress.
    bytes_read: Arc<AtomicU64>,
}

impl SequentialReader {
    pub(super) fn new(bytes: Box<dyn ReadAt>) -> SequentialReader {
        SequentialReader { bytes, offset: 0, bytes_read: Arc::default() }
    }
}

impl Read for SequentialReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.read_at(self.offset, buffer)?;
        self.offset += bytes as u64;
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::FileLocation;
    use proptest::prelude::*;

    fn plain(text: &[u8]) -> InputFile {
        let bytes = text.len() as u64;
        InputFile { name: "f".into(), location: FileLocation::Local("/f".into()), codec: Codec::Plain, bytes }
    }

    fn reader(text: &[u8], offset: u64, bytes: u64) -> LineReader {
        LineReader::over(&plain(text), InputSplit { file: 0, offset, bytes }, Box::new(text.to_vec()))
    }

    /// Up to `max` lines, each with its offset.
    fn take(reader: &mut LineReader, max: usize) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Vec::new();
        while lines.len() < max
            && let Some(record) = reader.next().unwrap()
        {
            lines.push((record.offset, record.line.to_vec()));
        }
        lines
    }

    /// Naive implementation: all lines with their offsets.
    fn lines_of(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut at = 0;
        let mut lines = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            lines.push((at, line.strip_suffix(b"\n").unwrap_or(line).to_vec()));
            at += line.len() as u64;
        }
        lines
    }

    #[test]
    fn a_split_owns_the_lines_that_begin_in_it() {
        let text = b"ab\ncd\r\n\nlast";
        let lines = |offset, bytes| {
            let lines = take(&mut reader(text, offset, bytes), 9);
            lines.iter().map(|(_, line)| String::from_utf8(line.clone()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(lines(0, 12), ["ab", "cd\r", "", "last"]);
        assert_eq!(lines(0, 3), ["ab"]);
        assert_eq!(lines(0, 4), ["ab", "cd\r"]);
        assert_eq!(lines(1, 2), [""; 0]);
        assert_eq!(lines(3, 1), ["cd\r"]);
        assert_eq!(lines(4, 4), [""]);
        assert_eq!(lines(9, 3), [""; 0]);
        assert_eq!(lines(0, 0), [""; 0]);
    }

    #[test]
    fn a_line_above_the_limit_is_an_error_only_in_its_split() {
        let text = [&[b'x'; 5000][..], b"\nshort\n"].concat();
        let error = reader(&text, 0, 5007).with_line_bytes_max(4999).next().unwrap_err().to_string();
        assert_eq!(error, "input f has a line of more than 4999 bytes at byte 0; check that it is a text file");
        assert_eq!(take(&mut reader(&text, 10, 4997).with_line_bytes_max(5), 9), [(5001, b"short".to_vec())]);
        assert_eq!(take(&mut reader(&text, 0, 5007).with_line_bytes_max(5000), 9).len(), 2);
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let mut reader = reader(b"one\ntwo\n", 0, 20);
        assert_eq!(reader.next().unwrap().unwrap().line, b"one");
        assert_eq!(reader.next().unwrap().unwrap().line, b"two");
        assert!(reader.next().unwrap_err().to_string().starts_with("input f ends at byte 8 but was longer"));
    }

    #[test]
    fn lines_may_be_longer_than_a_chunk() {
        let long = vec![b'y'; 3 * CHUNK_BYTES as usize + 7];
        let text = [&long[..], b"\nz"].concat();
        let lines = take(&mut reader(&text, 0, text.len() as u64), 9);
        assert_eq!(lines, [(0, long.clone()), (long.len() as u64 + 1, b"z".to_vec())]);
    }

    proptest! {
        /// Any division into splits, with any early ends, yields each line exactly once.
        #[test]
        fn splits_and_rests_yield_each_line_once(
            text in proptest::collection::vec(prop_oneof![3 => Just(b'\n'), 1 => Just(b'\r'), 6 => any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0_u64..200, 0..6),
            ends in proptest::collection::vec(0_usize..4, 0..20),
        ) {
            let size = text.len() as u64;
            let mut bounds: Vec<u64> = cuts.into_iter().map(|cut| cut.min(size)).chain([0, size]).collect();
            bounds.sort_unstable();
            let mut ends = ends.into_iter();
            let mut seen = Vec::new();
            for pair in bounds.windows(2) {
                let mut begin = pair[0];
                loop {
                    let mut reader = reader(&text, begin, pair[1] - begin);
                    let max = ends.next().unwrap_or(usize::MAX);
                    seen.extend(take(&mut reader, max));
                    let rest = reader.position().unwrap();
                    prop_assert!(rest >= begin);
                    if rest >= pair[1] || max == usize::MAX {
                        break;
                    }
                    begin = rest;
                }
            }
            prop_assert_eq!(seen, lines_of(&text));
        }
    }
}
