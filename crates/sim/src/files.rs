//! What the two kinds of text file share: errors that name file, line and remedy, and the checks that raise them.
//!
//! Both files are TOML, and both are read in two steps. The shape comes first (`serde`, unknown keys refused), then the
//! meaning, key by key, with the place of each key still at hand. Whatever is written in a file, the answer is a value
//! or a [`FileError`], never a panic. The keys themselves are described in `docs/files.md`.

use giveway_core::TenantsError;
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::ops::Range;
use thiserror::Error;
use toml::Spanned;

/// Bytes in what the files call a megabyte. Hadoop's block sizes are powers of two, so the files follow.
pub(crate) const MB: u64 = 1 << 20;
/// Bytes in what the files call a gigabyte.
pub(crate) const GB: u64 = 1 << 30;

/// A key that may be left out, and where it stands if it is there.
pub(crate) type Key<T> = Option<Spanned<T>>;

/// Where in a file something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as its reader named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Why a file makes no cluster or no workload. Always reads `FILE:LINE: what is wrong; what to do`.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FileError {
    /// It is not TOML, or not these keys, or not these kinds of value.
    #[error("{at}: {problem}; every key is described in docs/files.md")]
    Shape {
        /// Where.
        at: Place,
        /// What is wrong.
        problem: String,
    },
    /// A value that cannot be.
    #[error("{at}: {problem}; {remedy}")]
    Value {
        /// Where.
        at: Place,
        /// What is wrong.
        problem: String,
        /// What to write instead.
        remedy: String,
    },
    /// Users or pools that make no sense together.
    #[error("{at}: {problem}")]
    Tenants {
        /// Where the first of them is declared.
        at: Place,
        /// What is wrong and what to do.
        problem: TenantsError,
    },
}

impl FileError {
    /// Where in the file.
    pub fn place(&self) -> &Place {
        match self {
            FileError::Shape { at, .. } | FileError::Value { at, .. } | FileError::Tenants { at, .. } => at,
        }
    }
}

/// A file under examination: its text, so that places can be named, and the checks.
pub(crate) struct Page<'a> {
    file: &'a str,
    text: &'a str,
}

impl<'a> Page<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Page<'a> {
        Page { file, text }
    }

    /// Reads the shape.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        toml::from_str(self.text).map_err(|error| {
            // The message may hold lines of its own; the promise is one line a problem.
            let problem = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            FileError::Shape { at: self.place(error.span().unwrap_or(0..0)), problem }
        })
    }

    /// The place of a piece of the text.
    pub(crate) fn place(&self, span: Range<usize>) -> Place {
        let start = span.start.min(self.text.len());
        let before = &self.text.as_bytes()[..start];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
        Place { file: self.file.into(), line: before.iter().filter(|&&byte| byte == b'\n').count() + 1, column }
    }

    /// The error for a value that cannot be.
    pub(crate) fn wrong(&self, span: Range<usize>, problem: String, remedy: &str) -> FileError {
        FileError::Value { at: self.place(span), problem, remedy: remedy.into() }
    }

    /// The number at `key`, which must lie in `range`, or the default if it is left out.
    pub(crate) fn number(&self, name: &str, key: &Key<f64>, default: f64, range: Bounds) -> Result<f64, FileError> {
        let Some(key) = key else { return Ok(default) };
        let value = *key.get_ref();
        if range.hold(value) {
            return Ok(value);
        }
        Err(self.wrong(key.span(), format!("{name} is {value}"), &format!("write a number {range}")))
    }

    /// The count at `key`, which must be at least `low` and at most `high`, or the default if it is left out.
    pub(crate) fn count(
        &self,
        name: &str,
        key: &Key<i64>,
        default: u32,
        low: u32,
        high: u32,
    ) -> Result<u32, FileError> {
        let Some(key) = key else { return Ok(default) };
        match u32::try_from(*key.get_ref()) {
            Ok(value) if (low..=high).contains(&value) => Ok(value),
            _ => Err(self.wrong(
                key.span(),
                format!("{name} is {}", key.get_ref()),
                &format!("write a whole number from {low} to {high}"),
            )),
        }
    }

    /// The seconds at `key`, at least `low` and at most `high`, or the default if they are left out.
    pub(crate) fn seconds(
        &self,
        name: &str,
        key: &Key<Seconds>,
        default: f64,
        low: f64,
        high: f64,
    ) -> Result<f64, FileError> {
        let Some(key) = key else { return Ok(default) };
        let value = key.get_ref().0;
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        let remedy = format!("write a time from {low} s to {high} s, as \"1m 30s\" or as seconds");
        Err(self.wrong(key.span(), format!("{name} is {value} s"), &remedy))
    }
}

/// Which numbers a key may hold. Nothing undefined or endless ever passes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bounds {
    /// Over the first, at most the second.
    Over(f64, f64),
    /// At least the first, at most the second.
    From(f64, f64),
    /// At least the first, below the second.
    Below(f64, f64),
}

impl Bounds {
    fn hold(self, value: f64) -> bool {
        match self {
            Bounds::Over(low, high) => value > low && value <= high,
            Bounds::From(low, high) => value >= low && value <= high,
            Bounds::Below(low, high) => value >= low && value < high,
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bounds::Over(low, high) => write!(f, "over {low} and up to {high}"),
            Bounds::From(low, high) => write!(f, "from {low} to {high}"),
            Bounds::Below(low, high) => write!(f, "from {low} to below {high}"),
        }
    }
}

/// A time as people write it: seconds as a number, or text like `"1m 30s"`. The number may be any: the meaning is
/// checked later, with the key's name at hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seconds(pub(crate) f64);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
        deserializer.deserialize_any(SecondsVisitor)
    }
}

struct SecondsVisitor;

impl Visitor<'_> for SecondsVisitor {
    type Value = Seconds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time, as \"1m 30s\" or as seconds")
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Seconds, E> {
        Ok(Seconds(value as f64))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Seconds, E> {
        Ok(Seconds(value as f64))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Seconds, E> {
        Ok(Seconds(value))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Seconds, E> {
        // The core's spans know how to read a time; going through them keeps one grammar for all files.
        let span = giveway_core::Span::deserialize(serde::de::value::StrDeserializer::<E>::new(text))?;
        Ok(Seconds(span.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Small {
        wait: Key<Seconds>,
        size: Key<f64>,
    }

    fn read(text: &str) -> Result<Small, FileError> {
        Page::new("a.toml", text).read()
    }

    #[test]
    fn a_time_is_text_or_seconds() {
        for (text, seconds) in
            [("wait = 90", 90.0), ("wait = 1.5", 1.5), ("wait = '1m 30s'", 90.0), ("wait = -3", -3.0)]
        {
            assert_eq!(read(text).unwrap().wait.unwrap().get_ref().0, seconds, "{text}");
        }
        let error = read("\nwait = 'soon'").unwrap_err().to_string();
        assert!(error.starts_with("a.toml:2: `soon` is not a span of time"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = read("size = 1\n\nweight = 2").unwrap_err();
        assert_eq!((error.place().line, error.place().column), (3, 1), "{error}");
        assert!(error.to_string().contains("unknown field `weight`"), "{error}");
    }

    #[test]
    fn no_bound_lets_the_undefined_pass() {
        let page = Page::new("a.toml", "size = nan");
        let small: Small = page.read().unwrap();
        for bounds in [Bounds::Over(0.0, 9.0), Bounds::From(0.0, 9.0), Bounds::Below(0.0, 9.0)] {
            let error = page.number("size", &small.size, 1.0, bounds).unwrap_err().to_string();
            assert!(error.starts_with("a.toml:1: size is NaN; write a number"), "{error}");
        }
    }

    #[test]
    fn places_count_characters_and_never_leave_the_text() {
        let page = Page::new("ä.toml", "é = 1\nü = 2");
        assert_eq!(page.place(10..11), Place { file: "ä.toml".into(), line: 2, column: 3 });
        assert_eq!(page.place(900..901).line, 2);
        assert_eq!(page.place(1..2).line, 1, "inside a character");
    }
}
