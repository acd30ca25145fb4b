//! Lines and JSON objects of bounded size.

use crate::input::Input;
use crate::{Diagnostics, Oddity};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::path::PathBuf;

/// The lines of one or several files.
pub(crate) struct Lines {
    input: Input,
    /// Files that follow; their lines continue the first file's.
    rest: VecDeque<PathBuf>,
    buffer: Vec<u8>,
    text: String,
    number: u64,
    limit: usize,
}

impl Lines {
    pub(crate) fn new(input: Input, rest: Vec<PathBuf>, limit: usize) -> Lines {
        Lines { input, rest: rest.into(), buffer: Vec::new(), text: String::new(), number: 0, limit }
    }

    /// The next line without its end, and its number from 1; None at the end. Lines that are too long are counted and skipped.
    pub(crate) fn next(&mut self, diagnostics: &mut Diagnostics) -> Option<(u64, &str)> {
        loop {
            self.buffer.clear();
            self.number += 1;
            match read_line(&mut self.input, &mut self.buffer, self.limit) {
                Ok(LineEnd::Line) => break,
                Ok(LineEnd::TooLong) => diagnostics.odd(Oddity::LongLine, format_args!("line {}", self.number)),
                Ok(LineEnd::NoMore) => self.next_file(diagnostics)?,
                Err(error) => {
                    let file = self.input.file.display();
                    diagnostics.odd(Oddity::TruncatedInput, format_args!("{file}, line {}: {error}", self.number));
                    self.next_file(diagnostics)?;
                }
            }
        }
        let text = text(&self.buffer, diagnostics, || format!("line {}", self.number));
        // Reuses the allocation of the previous line.
        self.text.clear();
        self.text.push_str(&text);
        Some((self.number, &self.text))
    }

    /// What follows the last line in its file, for formats that begin with lines.
    pub(crate) fn rest(&mut self) -> &mut impl BufRead {
        &mut self.input
    }

    fn next_file(&mut self, diagnostics: &mut Diagnostics) -> Option<()> {
        loop {
            let file = self.rest.pop_front()?;
            match Input::open(&file) {
                Ok(input) => {
                    (self.input, self.number) = (input, 0);
                    return Some(());
                }
                Err(error) => diagnostics.odd(Oddity::TruncatedInput, error),
            }
        }
    }
}

enum LineEnd {
    Line,
    TooLong,
    NoMore,
}

/// Reads one line of at most `limit` bytes, without its end. A longer line is read to its end and not stored.
fn read_line(input: &mut impl BufRead, buffer: &mut Vec<u8>, limit: usize) -> io::Result<LineEnd> {
    let (mut any, mut too_long) = (false, false);
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(match (any, too_long) {
                (false, _) => LineEnd::NoMore,
                (true, true) => LineEnd::TooLong,
                (true, false) => LineEnd::Line,
            });
        }
        any = true;
        let newline = memchr::memchr(b'\n', available);
        let part = &available[..newline.unwrap_or(available.len())];
        too_long |= buffer.len() + part.len() > limit;
        if !too_long {
            buffer.extend_from_slice(part);
        }
        let consumed = part.len() + usize::from(newline.is_some());
        input.consume(consumed);
        if newline.is_some() {
            if buffer.last() == Some(&b'\r') {
                buffer.pop();
            }
            return Ok(if too_long { LineEnd::TooLong } else { LineEnd::Line });
        }
    }
}

/// The bytes as text; invalid bytes are counted and replaced.
pub(crate) fn text<'a>(bytes: &'a [u8], diagnostics: &mut Diagnostics, place: impl FnOnce() -> String) -> Cow<'a, str> {
    let text = String::from_utf8_lossy(bytes);
    if let Cow::Owned(_) = text {
        diagnostics.odd(Oddity::NotUtf8, place());
    }
    text
}

/// The JSON objects of a file: a sequence of objects, an array of objects, or an array within an object.
pub(crate) struct Objects {
    input: Input,
    buffer: Vec<u8>,
    number: u64,
    limit: usize,
    /// Whether the objects are elements of an array within an outer object, whose other members are skipped.
    nested: bool,
}

impl Objects {
    /// Objects at the top level, or elements of an array at the top level.
    pub(crate) fn new(input: Input, limit: usize) -> Objects {
        Objects { input, buffer: Vec::new(), number: 0, limit, nested: false }
    }

    /// The elements of the first array in the file.
    pub(crate) fn of_first_array(mut input: Input, limit: usize) -> Objects {
        // A read error is seen again by the first `next`.
        while let Ok(available) = input.fill_buf() {
            let (length, bracket) = (available.len(), memchr::memchr(b'[', available));
            input.consume(bracket.map_or(length, |at| at + 1));
            if bracket.is_some() || length == 0 {
                break;
            }
        }
        Objects { nested: true, ..Objects::new(input, limit) }
    }

    /// The text of the next object and its number from 1; None at the end. An object that is too large or cut off is counted and skipped.
    pub(crate) fn next(&mut self, diagnostics: &mut Diagnostics) -> Option<(u64, &[u8])> {
        loop {
            self.buffer.clear();
            match self.read_object(diagnostics) {
                Ok(ObjectEnd::Object) => {
                    self.number += 1;
                    break;
                }
                Ok(ObjectEnd::TooLarge) => {
                    self.number += 1;
                    diagnostics.odd(Oddity::LargeObject, format_args!("object {}", self.number));
                }
                Ok(ObjectEnd::NoMore) => return None,
                Ok(ObjectEnd::Cut) => {
                    diagnostics.odd(Oddity::TruncatedInput, format_args!("object {}", self.number + 1));
                    return None;
                }
                Err(error) => {
                    let file = self.input.file.display();
                    let place = format_args!("{file}, object {}: {error}", self.number + 1);
                    diagnostics.odd(Oddity::TruncatedInput, place);
                    return None;
                }
            }
        }
        Some((self.number, &self.buffer))
    }

    fn read_object(&mut self, diagnostics: &mut Diagnostics) -> io::Result<ObjectEnd> {
        let mut scanner = Scanner::default();
        let (mut stray, mut too_large) = (false, false);
        loop {
            let available = self.input.fill_buf()?;
            if available.is_empty() {
                return Ok(if scanner.depth == 0 { ObjectEnd::NoMore } else { ObjectEnd::Cut });
            }
            let mut at = 0;
            if scanner.depth == 0 {
                while let Some(&byte) = available.get(at) {
                    match byte {
                        b'{' => break,
                        b' ' | b'\t' | b'\r' | b'\n' | b',' | b'[' | b']' | 0xef | 0xbb | 0xbf => {}
                        // The end of the outer object, and whatever members follow the array.
                        _ if self.nested => {}
                        _ if stray => {}
                        _ => {
                            stray = true;
                            diagnostics.odd(Oddity::StrayText, format_args!("before object {}", self.number + 1));
                        }
                    }
                    at += 1;
                }
            }
            let (end, closed) = scanner.scan(available, at);
            too_large |= self.buffer.len() + (end - at) > self.limit;
            if !too_large {
                self.buffer.extend_from_slice(&available[at..end]);
            }
            self.input.consume(end);
            if closed {
                return Ok(if too_large { ObjectEnd::TooLarge } else { ObjectEnd::Object });
            }
        }
    }
}

enum ObjectEnd {
    Object,
    TooLarge,
    Cut,
    NoMore,
}

/// Finds the end of a JSON object: counts braces outside of strings.
#[derive(Default)]
struct Scanner {
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl Scanner {
    /// Scans from `at`; returns the position after the last scanned byte, and whether the object ended there.
    fn scan(&mut self, bytes: &[u8], mut at: usize) -> (usize, bool) {
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return (at, true);
                    }
                }
                _ => {}
            }
        }
        (at, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::path::Path;

    fn input(text: &[u8]) -> Input {
        Input::new(Path::new("x"), Cursor::new(text.to_vec())).unwrap()
    }

    fn lines(text: &[u8], limit: usize) -> (Vec<(u64, String)>, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let mut lines = Lines::new(input(text), Vec::new(), limit);
        let mut all = Vec::new();
        while let Some((number, line)) = lines.next(&mut diagnostics) {
            all.push((number, line.to_owned()));
        }
        (all, diagnostics)
    }

    fn objects(mut objects: Objects) -> (Vec<String>, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let mut all = Vec::new();
        while let Some((_, object)) = objects.next(&mut diagnostics) {
            all.push(String::from_utf8_lossy(object).into_owned());
        }
        (all, diagnostics)
    }

    #[test]
    fn long_lines_are_skipped_and_invalid_bytes_replaced() {
        let (all, diagnostics) = lines(b"one\r\nmuch too long\n\ntw\xffo", 5);
        let expected: [(u64, String); 3] = [(1, "one".into()), (3, "".into()), (4, "tw\u{fffd}o".into())];
        assert_eq!(all, expected);
        assert_eq!((diagnostics.of(Oddity::LongLine), diagnostics.of(Oddity::NotUtf8)), (1, 1));
    }

    #[test]
    fn objects_are_found_in_sequences_and_arrays() {
        for text in ["{\"a\":\"}\\\"{\"}\n{\"b\":{}}", "[{\"a\":\"}\\\"{\"} , {\"b\":{}}]"] {
            let (all, diagnostics) = objects(Objects::new(input(text.as_bytes()), 100));
            assert_eq!(all, ["{\"a\":\"}\\\"{\"}", "{\"b\":{}}"]);
            assert_eq!(diagnostics, Diagnostics::default());
        }
        let (all, diagnostics) =
            objects(Objects::of_first_array(input(b"{\"apps\":{\"app\":[{\"id\":1},{\"id\":2}]}}\n"), 100));
        assert_eq!((all.len(), diagnostics), (2, Diagnostics::default()));
    }

    #[test]
    fn large_cut_and_stray_parts_are_counted() {
        let text = b"{\"a\":1} huh? {\"b\":\"0123456789\"}{\"c\":2}{\"d\":";
        let (all, diagnostics) = objects(Objects::new(input(text), 12));
        assert_eq!(all, ["{\"a\":1}", "{\"c\":2}"]);
        for oddity in [Oddity::StrayText, Oddity::LargeObject, Oddity::TruncatedInput] {
            assert_eq!(diagnostics.of(oddity), 1, "{oddity:?}");
        }
    }
}
