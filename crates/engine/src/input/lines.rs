//! Lines: what a map reads.
//!
//! A piece owns the lines that begin in it, to their ends, which may lie behind it. To know whether a line begins at its first byte, the
//! reader looks at the byte before. Lines are handed out where they lie in the buffer. A line ends before `\n`; the `\r` of a
//! `\r\n` stays part of it, as any other byte does.

use super::packed::unpack;
use super::{InputError, ReadAt, Stored, open};
use crate::job::{Codec, InputFile, InputSplit};
use crate::record::Record;
use memchr::memchr;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A longer line is an error: a file of such lines is not text, and memory is not endless.
pub const LONGEST_LINE: usize = 64 << 20;

/// How much is read at once.
const CHUNK: u64 = 1 << 20;

/// How much is read at once behind the end of the piece, where only the rest of one line is wanted.
const TAIL: u64 = 16 << 10;

/// Reads the lines that begin in a piece of a file.
pub struct LineReader {
    file: String,
    packing: Codec,
    text: Box<dyn Read + Send>,
    /// How many bytes were taken from the file, as packed.
    taken: Arc<AtomicU64>,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    filled: usize,
    /// Where `buffer[start]` is in the text.
    at: u64,
    begin: u64,
    end: u64,
    /// Still before the first line: `at` is in the line of the piece before.
    is_between: bool,
    longest: usize,
}

impl fmt::Debug for LineReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineReader").field("file", &self.file).field("at", &self.at).field("end", &self.end).finish()
    }
}

impl LineReader {
    /// A reader for a piece of this file.
    pub fn open(file: &InputFile, piece: InputSplit, stored: &dyn Stored) -> Result<LineReader, InputError> {
        Ok(LineReader::over(file, piece, open(file, stored, end_of(file, piece))?))
    }

    /// A reader for a piece of this file, whose bytes are these.
    pub fn over(file: &InputFile, piece: InputSplit, bytes: Box<dyn ReadAt>) -> LineReader {
        // Packed files are read whole, whatever the piece says.
        let (begin, end) = match file.codec {
            Codec::Plain => (piece.offset, piece.offset + piece.bytes),
            _ => (0, u64::MAX),
        };
        let at = begin.saturating_sub(1);
        let bytes = FromStart { at, ..FromStart::new(bytes) };
        LineReader {
            file: file.name.clone(),
            packing: file.codec,
            taken: bytes.taken.clone(),
            text: unpack(file.codec, bytes),
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            at,
            begin,
            end,
            is_between: begin > 0,
            longest: LONGEST_LINE,
        }
    }

    /// With another limit for the length of a line.
    pub fn with_longest_line(mut self, bytes: usize) -> LineReader {
        self.longest = bytes;
        self
    }

    /// The next line.
    // Inlined, so that a record is passed on in registers; what happens once in a chunk stays apart.
    #[allow(clippy::should_implement_trait, reason = "a line lends the buffer, which an iterator cannot say")]
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, InputError> {
        let mut bytes = None;
        if !self.is_between && self.at < self.end {
            bytes = memchr(b'\n', &self.buffer[self.start..self.filled]).filter(|bytes| *bytes <= self.longest);
        }
        let (bytes, ending) = match bytes {
            Some(bytes) => (bytes, 1),
            None => match self.find_line()? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let (start, offset) = (self.start, self.at);
        self.start += bytes + ending;
        self.at += (bytes + ending) as u64;
        Ok(Some(Record { file: &self.file, offset, line: &self.buffer[start..start + bytes] }))
    }

    /// Brings the next line into the buffer as a whole. Its length, and that of its end; nothing if there is no line.
    #[cold]
    fn find_line(&mut self) -> Result<Option<(usize, usize)>, InputError> {
        if self.is_between {
            self.skip_line()?;
        }
        if self.at >= self.end {
            return Ok(None);
        }
        let mut searched = 0;
        let (bytes, ending) = loop {
            if let Some(found) = memchr(b'\n', &self.buffer[self.start + searched..self.filled]) {
                break (searched + found, 1);
            }
            searched = self.filled - self.start;
            if searched > self.longest {
                break (searched, 0);
            }
            if !self.fill()? {
                if searched == 0 {
                    return Ok(None);
                }
                break (searched, 0);
            }
        };
        if bytes > self.longest {
            return Err(InputError::LongLine { name: self.file.clone(), offset: self.at, limit: self.longest });
        }
        Ok(Some((bytes, ending)))
    }

    /// Where the next unread line begins: a map that ends early here leaves the piece from there on. It may be at or behind the end of
    /// the piece; then nothing is left. `None` for packed files, which cannot be entered there.
    pub fn position(&self) -> Option<u64> {
        (self.packing == Codec::Plain).then_some(self.at.max(self.begin))
    }

    /// How many bytes of the piece are done, as packed; for progress.
    pub fn bytes_done(&self) -> u64 {
        match self.packing {
            Codec::Plain => self.at.clamp(self.begin, self.end) - self.begin,
            _ => self.taken.load(Ordering::Relaxed),
        }
    }

    /// Passes over the line that the piece before this one owns. It may be long; it is not kept.
    fn skip_line(&mut self) -> Result<(), InputError> {
        while self.at < self.end {
            match memchr(b'\n', &self.buffer[self.start..self.filled]) {
                Some(found) => {
                    self.start += found + 1;
                    self.at += found as u64 + 1;
                    break;
                }
                None => {
                    self.at += (self.filled - self.start) as u64;
                    self.start = self.filled;
                    if !self.fill()? {
                        break;
                    }
                }
            }
        }
        self.is_between = false;
        Ok(())
    }

    /// Reads more into the buffer; false at the end of the text.
    fn fill(&mut self) -> Result<bool, InputError> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        let read_to = self.at + self.filled as u64;
        let wanted = if read_to < self.end { CHUNK.min(self.end - read_to) } else { TAIL } as usize;
        if self.buffer.len() < self.filled + wanted {
            self.buffer.resize(self.filled + wanted, 0);
        }
        loop {
            match self.text.read(&mut self.buffer[self.filled..self.filled + wanted]) {
                Ok(0) if self.packing == Codec::Plain && read_to < self.end => {
                    return Err(InputError::Shrunk { name: self.file.clone(), found: read_to });
                }
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.filled += bytes;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(InputError::while_reading(&self.file, self.packing, source)),
            }
        }
    }
}

/// Where a piece ends, in bytes as packed. Packed files are read whole, whatever the piece says.
fn end_of(file: &InputFile, piece: InputSplit) -> u64 {
    match file.codec {
        Codec::Plain => piece.offset + piece.bytes,
        _ => file.bytes,
    }
}

/// Bytes that can be read anywhere, read one after the other.
pub(super) struct FromStart {
    bytes: Box<dyn ReadAt>,
    at: u64,
    taken: Arc<AtomicU64>,
}

impl FromStart {
    pub(super) fn new(bytes: Box<dyn ReadAt>) -> FromStart {
        FromStart { bytes, at: 0, taken: Arc::default() }
    }
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.read_at(self.at, buffer)?;
        self.at += bytes as u64;
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
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

    /// Up to so many lines, each with where it begins.
    fn take(reader: &mut LineReader, most: usize) -> Vec<(u64, Vec<u8>)> {
        let mut lines = Vec::new();
        while lines.len() < most
            && let Some(record) = reader.next().unwrap()
        {
            lines.push((record.offset, record.line.to_vec()));
        }
        lines
    }

    /// The obvious twin: where lines begin, and what they are.
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
    fn a_piece_owns_the_lines_that_begin_in_it() {
        let text = b"ab\ncd\r\n\nlast";
        let starts = |offset, bytes| {
            let lines = take(&mut reader(text, offset, bytes), 9);
            lines.iter().map(|(_, line)| String::from_utf8(line.clone()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(starts(0, 12), ["ab", "cd\r", "", "last"]);
        assert_eq!(starts(0, 3), ["ab"]);
        assert_eq!(starts(0, 4), ["ab", "cd\r"]);
        assert_eq!(starts(1, 2), [""; 0]);
        assert_eq!(starts(3, 1), ["cd\r"]);
        assert_eq!(starts(4, 4), [""]);
        assert_eq!(starts(9, 3), [""; 0]);
        assert_eq!(starts(0, 0), [""; 0]);
    }

    #[test]
    fn a_long_line_is_an_error_for_its_owner_only() {
        let text = [&[b'x'; 5000][..], b"\nshort\n"].concat();
        let error = reader(&text, 0, 5007).with_longest_line(4999).next().unwrap_err().to_string();
        assert_eq!(error, "input f has a line of more than 4999 bytes at byte 0; is it text?");
        assert_eq!(take(&mut reader(&text, 10, 4997).with_longest_line(5), 9), [(5001, b"short".to_vec())]);
        assert_eq!(take(&mut reader(&text, 0, 5007).with_longest_line(5000), 9).len(), 2);
    }

    #[test]
    fn a_file_that_lost_bytes_is_an_error() {
        let mut reader = reader(b"one\ntwo\n", 0, 20);
        assert_eq!(reader.next().unwrap().unwrap().line, b"one");
        assert_eq!(reader.next().unwrap().unwrap().line, b"two");
        assert!(reader.next().unwrap_err().to_string().starts_with("input f ends at byte 8 but had more"));
    }

    #[test]
    fn lines_longer_than_a_chunk_are_whole() {
        let long = vec![b'y'; 3 * CHUNK as usize + 7];
        let text = [&long[..], b"\nz"].concat();
        let lines = take(&mut reader(&text, 0, text.len() as u64), 9);
        assert_eq!(lines, [(0, long.clone()), (long.len() as u64 + 1, b"z".to_vec())]);
    }

    proptest! {
        /// Any cutting, with any early ends, gives each line exactly once.
        #[test]
        fn pieces_and_rests_compose(
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
                    let most = ends.next().unwrap_or(usize::MAX);
                    seen.extend(take(&mut reader, most));
                    let rest = reader.position().unwrap();
                    prop_assert!(rest >= begin);
                    if rest >= pair[1] || most == usize::MAX {
                        break;
                    }
                    begin = rest;
                }
            }
            prop_assert_eq!(seen, lines_of(&text));
        }
    }
}
