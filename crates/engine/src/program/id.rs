//! The id of a program.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, Read};

/// The SHA-256 of an executable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProgramId([u8; 32]);

impl ProgramId {
    /// Reads to the end. Returns the id and the number of bytes.
    pub fn of(mut content: impl Read) -> io::Result<(ProgramId, u64)> {
        let (mut hasher, mut bytes, mut chunk) = (Hasher::default(), 0_u64, vec![0; 1 << 16]);
        loop {
            match content.read(&mut chunk) {
                Ok(0) => return Ok((hasher.finish(), bytes)),
                Ok(read) => {
                    hasher.update(chunk.get(..read).unwrap_or_default());
                    bytes = bytes.saturating_add(read as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The inverse of `to_string`.
    pub fn parse(text: &str) -> Option<ProgramId> {
        let mut id = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        // Other spellings of the same number are not names of files.
        let id = ProgramId(id);
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for ProgramId {
    /// 64 hexadecimal digits; with a precision, only the first ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.write_str(digits.get(..f.precision().unwrap_or(64)).unwrap_or(&digits))
    }
}

impl fmt::Debug for ProgramId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProgramId({self:.12})")
    }
}

/// Computes an id from pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Hasher(Sha256);

impl Hasher {
    pub(super) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(super) fn finish(self) -> ProgramId {
        ProgramId(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_sha_256_and_its_text_parses() {
        let (id, bytes) = ProgramId::of(&b"abc"[..]).unwrap();
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((id.to_string().as_str(), bytes), (text, 3));
        assert_eq!(format!("{id:.4}"), "ba78");
        assert_eq!(ProgramId::parse(text), Some(id));
        let upper = text.to_uppercase();
        let with_sign = format!("+{}", &text[1..]);
        for other in ["", &text[1..], "g".repeat(64).as_str(), &upper, &with_sign, "é".repeat(32).as_str()] {
            assert_eq!(ProgramId::parse(other), None, "{other}");
        }
    }
}
