//! Serde of paths and file names as bytes. Serde itself refuses names that are not UTF-8, which Unix allows.
//!
//! Binary formats get the bytes. Text formats (the options of a worker process) get a string if the name is one, and otherwise a list of bytes.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserializer, Serializer};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Serializes a path or a file name.
pub fn serialize<T: AsRef<std::ffi::OsStr>, S: Serializer>(name: &T, to: S) -> Result<S::Ok, S::Error> {
    let name = name.as_ref();
    match name.to_str() {
        Some(text) if to.is_human_readable() => to.serialize_str(text),
        None if to.is_human_readable() => to.collect_seq(name.as_bytes()),
        _ => to.serialize_bytes(name.as_bytes()),
    }
}

/// Deserializes what [`serialize`] wrote.
pub fn deserialize<'a, T: From<OsString>, D: Deserializer<'a>>(from: D) -> Result<T, D::Error> {
    let name = if from.is_human_readable() { from.deserialize_any(Name) } else { from.deserialize_byte_buf(Name) };
    name.map(T::from)
}

struct Name;

impl<'a> Visitor<'a> for Name {
    type Value = OsString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file name")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<OsString, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<OsString, E> {
        Ok(OsString::from_vec(bytes.to_vec()))
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut bytes: S) -> Result<OsString, S::Error> {
        let mut name = Vec::new();
        while let Some(byte) = bytes.next_element()? {
            name.push(byte);
        }
        Ok(OsString::from_vec(name))
    }
}

/// A list of paths or file names.
pub mod list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::{OsStr, OsString};

    #[derive(Serialize)]
    struct Borrowed<'a>(#[serde(with = "super")] &'a OsStr);

    #[derive(Deserialize)]
    struct Owned(#[serde(with = "super")] OsString);

    /// Serializes each element as a single one is.
    pub fn serialize<T: AsRef<OsStr>, S: Serializer>(names: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(names.iter().map(|name| Borrowed(name.as_ref())))
    }

    /// Deserializes what [`serialize`] wrote.
    pub fn deserialize<'a, T: From<OsString>, D: Deserializer<'a>>(from: D) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<Owned>::deserialize(from)?.into_iter().map(|name| T::from(name.0)).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Names {
        #[serde(with = "super")]
        path: PathBuf,
        #[serde(with = "super::list")]
        list: Vec<OsString>,
    }

    #[test]
    fn any_bytes_round_trip() {
        let strange = || OsString::from_vec(vec![b'/', b'a', 0xff, 0xc3]);
        let names = Names { path: strange().into(), list: vec!["plain".into(), strange()] };
        let binary = postcard::to_allocvec(&names).unwrap();
        assert_eq!(postcard::from_bytes::<Names>(&binary).unwrap(), names);
        let text = serde_json::to_string(&names).unwrap();
        assert!(text.contains("\"plain\""), "{text}");
        assert_eq!(serde_json::from_str::<Names>(&text).unwrap(), names);
    }
}
