//! The application interface: records, and the traits that an application implements.
//!
//! Keys and values are bytes. Between map and reduce, records are sorted by key and then by value, both in byte order. A reducer therefore reads the
//! values of a key in order (for a secondary sort, put the sort field first in the value), and the output does not depend on the order in
//! which maps finish, on pauses, or on failures.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;

/// An input record: a line of a text file.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Name of the file, as in the job's input. Need not be UTF-8.
    pub file: &'a OsStr,
    /// Offset of the line in the file, in bytes (in the uncompressed text if the file is compressed).
    pub offset: u64,
    /// The line without its line end.
    pub line: &'a [u8],
}

/// Receives the records and counters of an application. Errors (a full disk, for example) are not returned; they end the task at the next record.
pub trait Emit {
    /// Emits one record.
    fn emit(&mut self, key: &[u8], value: &[u8]);

    /// Emits one record for each of several keys, all with the same value. The keys are parts of a text, in any order. With a combiner this is
    /// faster than as many calls of [`Emit::emit`].
    ///
    /// # Panics
    ///
    /// If a range is not within the text.
    fn emit_all(&mut self, text: &[u8], keys: &[Range<usize>], value: &[u8]) {
        keys.iter().for_each(|key| self.emit(&text[key.clone()], value));
    }

    /// Adds `by` to a counter of the job.
    fn count(&mut self, counter: &'static str, by: u64);

    /// True once the task must stop. Code that waits for something outside the task must check this regularly.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Maps input records to key-value pairs.
pub trait Mapper: Send {
    /// Processes one input record.
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError>;

    /// Called after the last record: at the end of the split, or where the map ends early.
    fn finish(&mut self, _out: &mut dyn Emit) -> Result<(), AppError> {
        Ok(())
    }
}

/// Reduces the values of each key to output records.
pub trait Reducer: Send {
    /// Processes one key with all its values, in order. Values that are not read are skipped.
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError>;

    /// Called after the last key: at the end of the partition, or where the reduce pauses. After a pause, a new reducer continues with the next key.
    fn finish(&mut self, _out: &mut dyn Emit) -> Result<(), AppError> {
        Ok(())
    }
}

/// The values of a key, in order.
pub trait Values {
    /// The next value; `None` after the last one.
    fn next(&mut self) -> Option<&[u8]>;
}

/// Reduces the amount of data between map and reduce. It may run any number of times, on any subsets of a key's values, and not at all on a
/// single value.
///
/// It runs while the mapper emits: whenever the values of a key fill a cell of 46 bytes next to the key, so about once for twenty values of one
/// byte. It is fastest if its results are small, because they then stay in that cell; larger ones get memory of their own.
pub trait Combiner: Send {
    /// Replaces these values, which are in no particular order, by fewer equivalent ones, by calling `out` for each.
    fn combine(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8]));
}

/// How the values of a key are combined on the map side.
pub enum Combine {
    Nothing,
    /// They are numbers, encoded as [`varint`], and are summed.
    Sum,
    /// By the application's combiner.
    With(Box<dyn Combiner>),
}

impl fmt::Debug for Combine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Combine::Nothing => "Nothing",
            Combine::Sum => "Sum",
            Combine::With(_) => "With(..)",
        })
    }
}

/// Error of an application. The message is shown to the job's owner: what failed, why, and what to do.
/// Any error type converts into it with `?`, and so does a string with `.into()`.
pub type AppError = Box<dyn std::error::Error + Send + Sync>;

/// Unsigned integers in LEB128 encoding: seven bits per byte, low bits first, so that numbers below 128 take one byte.
pub mod varint {
    /// Calls `f` with the encoding of a number (1 to 10 bytes).
    #[inline]
    pub fn with_encoded<R>(mut number: u64, f: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = [0; 10];
        let mut at = 0;
        while number >= 0x80 {
            bytes[at] = number as u8 | 0x80;
            number >>= 7;
            at += 1;
        }
        bytes[at] = number as u8;
        f(&bytes[..=at])
    }

    /// Decodes a number. Returns `None` if the bytes are not exactly one encoded number.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<u64> {
        if let [byte] = bytes
            && *byte < 0x80
        {
            return Some(u64::from(*byte));
        }
        let mut number = 0_u64;
        for (at, &byte) in bytes.iter().enumerate() {
            let part = u64::from(byte & 0x7f);
            number |= part.checked_shl(7 * at as u32).filter(|shifted| shifted >> (7 * at) == part)?;
            if byte < 0x80 {
                return (at + 1 == bytes.len()).then_some(number);
            }
        }
        None
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn numbers_round_trip() {
            for number in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
                assert_eq!(with_encoded(number, decode), Some(number));
            }
            assert_eq!(decode(&[]), None);
            assert_eq!(decode(&[0x80]), None);
            assert_eq!(decode(&[1, 1]), None);
            assert_eq!(decode(&[0xff; 11]), None);
        }
    }
}
