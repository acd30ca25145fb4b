//! Parsing of cluster and workload files: errors with file, line and remedy, and the checks that raise them.
//!
//! Both files are TOML and are read in two steps. The structure comes first (`serde`, unknown keys are errors), then the values, key by key, with the
//! location of each key. Any content gives a value or a [`FileError`], never a panic. The keys are described in `docs/files.md`.

use giveway_core::TenantsError;
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::ops::Range;
use thiserror::Error;
use toml::Spanned;

/// A megabyte in these files: 2^20 bytes, because Hadoop's block sizes are powers of two.
pub(crate) const MB: u64 = 1 << 20;
/// A gigabyte in these files: 2^30 bytes.
pub(crate) const GB: u64 = 1 << 30;

/// An optional key and its location in the file.
pub(crate) type Key<T> = Option<Spanned<T>>;

/// The location of an error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the file, as given by the caller.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// An invalid cluster or workload file. Every message has the form `FILE:LINE: what is wrong; what to do`.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FileError {
    /// The file is not valid TOML, or has an unknown key or a value of the wrong type.
    #[error("{at}: {problem}; every key is described in docs/files.md")]
    Syntax {
        /// Location of the error.
        at: Location,
        /// What is wrong.
        problem: String,
    },
    /// A value is out of range or contradicts another one.
    #[error("{at}: {problem}; {remedy}")]
    Value {
        /// Location of the error.
        at: Location,
        /// What is wrong.
        problem: String,
        /// What to write instead.
        remedy: String,
    },
    /// The users or pools are inconsistent.
    #[error("{at}: {problem}")]
    Tenants {
        /// Location of the first declaration.
        at: Location,
        /// What is wrong and what to do.
        problem: TenantsError,
    },
}

impl FileError {
    /// Location of the error in the file.
    pub fn location(&self) -> &Location {
        match self {
            FileError::Syntax { at, .. } | FileError::Value { at, .. } | FileError::Tenants { at, .. } => at,
        }
    }
}

/// The text of a file and its name, for parsing, checks and error locations.
pub(crate) struct SourceFile<'a> {
    file: &'a str,
    text: &'a str,
}

impl<'a> SourceFile<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> SourceFile<'a> {
        SourceFile { file, text }
    }

    /// Parses the structure.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, FileError> {
        toml::from_str(self.text).map_err(|error| {
            // The message may have several lines; errors are reported in one line.
            let problem = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            FileError::Syntax { at: self.location(error.span().unwrap_or(0..0)), problem }
        })
    }

    /// The location of a span of the text.
    pub(crate) fn location(&self, span: Range<usize>) -> Location {
        let start = span.start.min(self.text.len());
        let before = &self.text.as_bytes()[..start];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
        Location { file: self.file.into(), line: before.iter().filter(|&&byte| byte == b'\n').count() + 1, column }
    }

    /// The error for an invalid value.
    pub(crate) fn value_error(&self, span: Range<usize>, problem: String, remedy: &str) -> FileError {
        FileError::Value { at: self.location(span), problem, remedy: remedy.into() }
    }

    /// The number at `key`, which must be within `range`; the default if the key is absent.
    pub(crate) fn number(&self, name: &str, key: &Key<f64>, default: f64, range: Bounds) -> Result<f64, FileError> {
        let Some(key) = key else { return Ok(default) };
        let value = *key.get_ref();
        if range.contains(value) {
            return Ok(value);
        }
        Err(self.value_error(key.span(), format!("{name} is {value}"), &format!("write a number {range}")))
    }

    /// The integer at `key`, which must be at least `low` and at most `high`; the default if the key is absent.
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
            _ => Err(self.value_error(
                key.span(),
                format!("{name} is {}", key.get_ref()),
                &format!("write a whole number from {low} to {high}"),
            )),
        }
    }

    /// The time at `key` in seconds, at least `low` and at most `high`; the default if the key is absent.
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
        Err(self.value_error(key.span(), format!("{name} is {value} s"), &remedy))
    }
}

/// The valid range of a number. NaN and infinity are never valid.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bounds {
    /// Greater than the first, at most the second.
    OpenLow(f64, f64),
    /// At least the first, at most the second.
    Closed(f64, f64),
    /// At least the first, less than the second.
    OpenHigh(f64, f64),
}

impl Bounds {
    fn contains(self, value: f64) -> bool {
        match self {
            Bounds::OpenLow(low, high) => value > low && value <= high,
            Bounds::Closed(low, high) => value >= low && value <= high,
            Bounds::OpenHigh(low, high) => value >= low && value < high,
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bounds::OpenLow(low, high) => write!(f, "greater than {low} and at most {high}"),
            Bounds::Closed(low, high) => write!(f, "from {low} to {high}"),
            Bounds::OpenHigh(low, high) => write!(f, "from {low} to less than {high}"),
        }
    }
}

/// A time: seconds as a number, or text like `"1m 30s"`. The range is not checked here but later, where the key's name is known.
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
        // Parsed as a `Span` of the core, so that all files have the same grammar for times.
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
        SourceFile::new("a.toml", text).read()
    }

    #[test]
    fn a_time_is_text_or_seconds() {
        for (text, seconds) in
            [("wait = 90", 90.0), ("wait = 1.5", 1.5), ("wait = '1m 30s'", 90.0), ("wait = -3", -3.0)]
        {
            assert_eq!(read(text).unwrap().wait.unwrap().get_ref().0, seconds, "{text}");
        }
        let error = read("\nwait = 'soon'").unwrap_err().to_string();
        assert!(error.starts_with("a.toml:2: invalid span of time `soon`"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = read("size = 1\n\nweight = 2").unwrap_err();
        assert_eq!((error.location().line, error.location().column), (3, 1), "{error}");
        assert!(error.to_string().contains("unknown field `weight`"), "{error}");
    }

    #[test]
    fn no_range_contains_nan() {
        let source = SourceFile::new("a.toml", "size = nan");
        let small: Small = source.read().unwrap();
        for bounds in [Bounds::OpenLow(0.0, 9.0), Bounds::Closed(0.0, 9.0), Bounds::OpenHigh(0.0, 9.0)] {
            let error = source.number("size", &small.size, 1.0, bounds).unwrap_err().to_string();
            assert!(error.starts_with("a.toml:1: size is NaN; write a number"), "{error}");
        }
    }

    #[test]
    fn locations_count_characters_and_stay_within_the_text() {
        let source = SourceFile::new("ä.toml", "é = 1\nü = 2");
        assert_eq!(source.location(10..11), Location { file: "ä.toml".into(), line: 2, column: 3 });
        assert_eq!(source.location(900..901).line, 2);
        assert_eq!(source.location(1..2).line, 1, "inside a character");
    }
}
