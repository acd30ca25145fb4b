//! The words of a MapReduce program: records, and the traits a user's code fills in.
//!
//! Keys and values are bytes. Between map and reduce, records are ordered by key and then by value, both as plain bytes: a reduce so sees its
//! values in order (that is the secondary sort: what values should be sorted by comes first in them), and no output depends on which map
//! was faster, on pauses, or on failures.

use std::fmt;

/// A piece of input: a line of a text file.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The file it is from, as the job names it.
    pub file: &'a str,
    /// Where it begins in that file (in the unpacked text, if the file is compressed).
    pub offset: u64,
    /// Its bytes, without the line end.
    pub line: &'a [u8],
}

/// Where programs put their records. What goes wrong behind it (a full disk) is kept and ends the task at the next record.
pub trait Emit {
    /// Takes one record.
    fn emit(&mut self, key: &[u8], value: &[u8]);

    /// Adds to a counter of the job.
    fn count(&mut self, counter: &'static str, by: u64);

    /// True once the task is to be given up. Code that waits for something outside looks here now and then.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Turns input records into key-value pairs.
pub trait Mapper: Send {
    /// One record of the input.
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure>;

    /// No more records come to this mapper: the split is at its end, or the map ends early here.
    fn finish(&mut self, _out: &mut dyn Emit) -> Result<(), Failure> {
        Ok(())
    }
}

/// Turns a key and its values into output.
pub trait Reducer: Send {
    /// One key with all its values, in order. Values that are not taken are skipped.
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure>;

    /// No more keys come to this reducer: the partition is at its end, or the reduce pauses here and another reducer takes the next key.
    fn finish(&mut self, _out: &mut dyn Emit) -> Result<(), Failure> {
        Ok(())
    }
}

/// The values of a key, in order.
pub trait Values {
    /// The next one.
    fn next(&mut self) -> Option<&[u8]>;
}

/// Shrinks the values of a key before they travel. How often it runs, and over which values together, is not defined.
pub trait Combiner: Send {
    /// Puts fewer values of the same meaning in the place of these.
    fn combine(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8]));
}

/// What is done with a key's values before they travel.
pub enum Combine {
    /// Nothing.
    Nothing,
    /// They are numbers (see [`number`]) and are added up.
    Sum,
    /// What the program says.
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

/// Why a program gave up, for the person who wrote it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// Numbers as values: little-endian base 128, so that small ones take one byte.
pub mod number {
    /// Calls `use_it` with the bytes of a number.
    #[inline]
    pub fn with<R>(mut number: u64, use_it: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = [0; 10];
        let mut at = 0;
        while number >= 0x80 {
            bytes[at] = number as u8 | 0x80;
            number >>= 7;
            at += 1;
        }
        bytes[at] = number as u8;
        use_it(&bytes[..=at])
    }

    /// The number these bytes stand for, if they stand for one.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<u64> {
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
        fn numbers_survive_the_trip() {
            for number in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
                assert_eq!(with(number, parse), Some(number));
            }
            assert_eq!(parse(&[]), None);
            assert_eq!(parse(&[0x80]), None);
            assert_eq!(parse(&[1, 1]), None);
            assert_eq!(parse(&[0xff; 11]), None);
        }
    }
}
