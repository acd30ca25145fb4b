//! Parsing of cluster and workload files: errors with file, line and remedy, and the checks that raise them.
//!
//! Both files are TOML and are read key by key: the code that reads a key has its name, its range and its default. Keys that are not read are
//! errors. Any content gives a value or a [`FileError`], never a panic. The keys are described in `docs/files.md`.

use giveway_core::TenantsError;
use serde::de::{IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A megabyte in these files: 2^20 bytes, because Hadoop's block sizes are powers of two.
pub(crate) const MB: u64 = 1 << 20;
/// A gigabyte in these files: 2^30 bytes.
pub(crate) const GB: u64 = 1 << 30;

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

/// The text of a file and its name, for error locations.
#[derive(Clone, Copy)]
struct SourceFile<'a> {
    file: &'a str,
    text: &'a str,
}

impl SourceFile<'_> {
    /// The location of a span of the text.
    fn location(&self, span: Range<usize>) -> Location {
        let start = span.start.min(self.text.len());
        let before = &self.text.as_bytes()[..start];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
        Location { file: self.file.into(), line: before.iter().filter(|&&byte| byte == b'\n').count() + 1, column }
    }

    fn syntax_error(&self, error: &toml::de::Error) -> FileError {
        // The message may have several lines; errors are reported in one line.
        let problem = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        FileError::Syntax { at: self.location(error.span().unwrap_or(0..0)), problem }
    }
}

/// A table of a file.
pub(crate) struct Table<'a> {
    source: SourceFile<'a>,
    /// What its keys are called in errors: they follow this.
    prefix: String,
    span: Range<usize>,
    keys: DeTable<'a>,
    /// The keys that were read.
    known: RefCell<Vec<String>>,
}

impl<'a> Table<'a> {
    /// The whole file.
    pub(crate) fn parse(file: &'a str, text: &'a str) -> Result<Table<'a>, FileError> {
        let source = SourceFile { file, text };
        let table = DeTable::parse(text).map_err(|error| source.syntax_error(&error))?;
        Ok(Table { source, prefix: String::new(), span: 0..0, keys: table.into_inner(), known: RefCell::default() })
    }

    /// The error for an invalid value.
    pub(crate) fn error(&self, span: Range<usize>, problem: String, remedy: &str) -> FileError {
        FileError::Value { at: self.source.location(span), problem, remedy: remedy.into() }
    }

    /// The error for an invalid value of a key.
    pub(crate) fn error_at(&self, key: &str, problem: String, remedy: &str) -> FileError {
        self.error(self.span_of(key), problem, remedy)
    }

    /// The error for a table as a whole.
    pub(crate) fn table_error(&self, problem: String, remedy: &str) -> FileError {
        self.error(self.span.clone(), problem, remedy)
    }

    pub(crate) fn location(&self, span: Range<usize>) -> Location {
        self.source.location(span)
    }

    fn find(&self, key: &str) -> Option<&Spanned<DeValue<'a>>> {
        self.keys.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Where the value of a key is; where the table is if it does not have the key.
    pub(crate) fn span_of(&self, key: &str) -> Range<usize> {
        self.find(key).map_or(self.span.clone(), Spanned::span)
    }

    /// Fails if a key is present that has no effect here.
    pub(crate) fn refuse(&self, key: &str, needed: &str) -> Result<(), FileError> {
        match self.has(key) {
            true => {
                Err(self.error_at(key, format!("{key} has no effect here"), &format!("remove it, or write {needed}")))
            }
            false => Ok(()),
        }
    }

    /// The names of all keys, for tables in which they are free.
    pub(crate) fn names(&self) -> Vec<String> {
        self.keys.iter().map(|(name, _)| name.get_ref().to_string()).collect()
    }

    /// The value of a key.
    pub(crate) fn get<T: Deserialize<'a>>(&self, key: &str) -> Result<Option<T>, FileError> {
        self.known.borrow_mut().push(key.into());
        let value = self.find(key).map(|value| T::deserialize(value.clone().into_deserializer()));
        value.transpose().map_err(|error| self.source.syntax_error(&error))
    }

    /// The number at a key, which must be within `range`.
    pub(crate) fn number_if_any(&self, key: &str, range: Bounds) -> Result<Option<f64>, FileError> {
        let value = self.get(key)?;
        if let Some(value) = value.filter(|value| !range.contains(*value)) {
            let problem = format!("{}{key} is {value}", self.prefix);
            return Err(self.error_at(key, problem, &format!("write a number {range}")));
        }
        Ok(value)
    }

    /// The same; the default if the key is absent.
    pub(crate) fn number(&self, key: &str, default: f64, range: Bounds) -> Result<f64, FileError> {
        Ok(self.number_if_any(key, range)?.unwrap_or(default))
    }

    /// The integer at a key, which must be within `range`; the default if the key is absent.
    pub(crate) fn count(&self, key: &str, default: u32, range: RangeInclusive<u32>) -> Result<u32, FileError> {
        let Some(value) = self.get::<i64>(key)? else { return Ok(default) };
        u32::try_from(value).ok().filter(|value| range.contains(value)).ok_or_else(|| {
            let remedy = format!("write a whole number from {} to {}", range.start(), range.end());
            self.error_at(key, format!("{}{key} is {value}", self.prefix), &remedy)
        })
    }

    /// The time at a key in seconds, which must be within `range`.
    pub(crate) fn seconds_if_any(&self, key: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, FileError> {
        let value = self.get::<Seconds>(key)?.map(|seconds| seconds.0);
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            let remedy =
                format!("write a time from {} s to {} s, as \"1m 30s\" or as seconds", range.start(), range.end());
            return Err(self.error_at(key, format!("{}{key} is {value} s", self.prefix), &remedy));
        }
        Ok(value)
    }

    /// The same; the default if the key is absent.
    pub(crate) fn seconds(&self, key: &str, default: f64, range: RangeInclusive<f64>) -> Result<f64, FileError> {
        Ok(self.seconds_if_any(key, range)?.unwrap_or(default))
    }

    /// What `read` makes of the table at a key, all of whose keys it must read.
    pub(crate) fn table<T>(
        &self,
        key: &str,
        read: impl FnOnce(&Table<'a>) -> Result<T, FileError>,
    ) -> Result<Option<T>, FileError> {
        self.known.borrow_mut().push(key.into());
        self.find(key).map(|value| self.nested(value, format!("{key}."), read)).transpose()
    }

    /// What `read` makes of each table in the array at a key.
    pub(crate) fn tables<T>(
        &self,
        key: &str,
        mut read: impl FnMut(&Table<'a>) -> Result<T, FileError>,
    ) -> Result<Vec<T>, FileError> {
        self.known.borrow_mut().push(key.into());
        match self.find(key) {
            None => Ok(Vec::new()),
            Some(value) => match value.get_ref() {
                DeValue::Array(array) => {
                    array.iter().map(|value| self.nested(value, String::new(), &mut read)).collect()
                }
                other => Err(self.wrong_type(value.span(), other, "an array of tables")),
            },
        }
    }

    fn nested<T>(
        &self,
        value: &Spanned<DeValue<'a>>,
        prefix: String,
        read: impl FnOnce(&Table<'a>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let DeValue::Table(keys) = value.get_ref() else {
            return Err(self.wrong_type(value.span(), value.get_ref(), "a table"));
        };
        let (source, known) = (self.source, RefCell::default());
        Table { source, prefix, span: value.span(), keys: keys.clone(), known }.read(read)
    }

    /// Calls `read`, which must read all keys of this table.
    pub(crate) fn read<T>(self, read: impl FnOnce(&Table<'a>) -> Result<T, FileError>) -> Result<T, FileError> {
        let value = read(&self);
        let known = self.known.borrow();
        match self.keys.iter().find(|(name, _)| value.is_ok() && !known.iter().any(|known| known == name.get_ref())) {
            Some((name, _)) => {
                let known = known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
                let problem = format!("unknown field `{}`, expected one of {known}", name.get_ref());
                Err(FileError::Syntax { at: self.source.location(name.span()), problem })
            }
            None => value,
        }
    }

    fn wrong_type(&self, span: Range<usize>, found: &DeValue<'_>, expected: &str) -> FileError {
        let problem = format!("invalid type: {}, expected {expected}", found.type_str());
        FileError::Syntax { at: self.source.location(span), problem }
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

    fn read<T>(text: &str, read: impl FnOnce(&Table<'_>) -> Result<T, FileError>) -> Result<T, FileError> {
        Table::parse("a.toml", text)?.read(read)
    }

    #[test]
    fn a_time_is_text_or_seconds() {
        let wait = |text: &str| read(text, |table| table.seconds("wait", 0.0, -10.0..=100.0));
        for (text, seconds) in
            [("wait = 90", 90.0), ("wait = 1.5", 1.5), ("wait = '1m 30s'", 90.0), ("wait = -3", -3.0), ("", 0.0)]
        {
            assert_eq!(wait(text).unwrap(), seconds, "{text}");
        }
        let error = wait("\nwait = 'soon'").unwrap_err().to_string();
        assert!(error.starts_with("a.toml:2: invalid span of time `soon`"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = read("size = 1\n\nweight = 2", |table| table.get::<f64>("size")).unwrap_err();
        assert_eq!((error.location().line, error.location().column), (3, 1), "{error}");
        assert!(error.to_string().contains("unknown field `weight`"), "{error}");
    }

    #[test]
    fn no_range_contains_nan() {
        for bounds in [Bounds::OpenLow(0.0, 9.0), Bounds::Closed(0.0, 9.0), Bounds::OpenHigh(0.0, 9.0)] {
            let error = read("size = nan", |table| table.number("size", 1.0, bounds)).unwrap_err().to_string();
            assert!(error.starts_with("a.toml:1: size is NaN; write a number"), "{error}");
        }
    }

    #[test]
    fn locations_count_characters_and_stay_within_the_text() {
        let source = SourceFile { file: "ä.toml", text: "é = 1\nü = 2" };
        assert_eq!(source.location(10..11), Location { file: "ä.toml".into(), line: 2, column: 3 });
        assert_eq!(source.location(900..901).line, 2);
        assert_eq!(source.location(1..2).line, 1, "inside a character");
    }
}
