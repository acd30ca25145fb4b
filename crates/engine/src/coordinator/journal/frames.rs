//! The frames of a journal file: each has the records of one sync, and is there completely or not at all.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic, at the start of the file only |
//! | 4 | length of the content, little-endian |
//! | 4 | CRC-32C of the length and the content |
//! | length | content |
//!
//! The last frame may be incomplete or garbled after a crash: if it was not synced, nothing depends on it, and it is dropped. An invalid frame with a
//! valid one after it is damage, which is reported and never skipped.

/// First bytes of a journal file.
pub(super) const MAGIC: [u8; 8] = *b"gwjrnl1\n";

/// Length and checksum before the content.
pub(super) const HEADER_BYTES: usize = 8;

/// Appends a frame to `out`. Returns false, and appends nothing, if the content is too long.
#[must_use]
pub(super) fn write(content: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(length) = u32::try_from(content.len()) else { return false };
    let length = length.to_le_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum(length, content).to_le_bytes());
    out.extend_from_slice(content);
    true
}

fn checksum(length: [u8; 4], content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length), content)
}

/// The content of the frame at the start of `bytes`; `None` if it is incomplete or its checksum is wrong.
pub(super) fn read(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (stored, rest) = rest.split_first_chunk::<4>()?;
    let content = rest.get(..u32::from_le_bytes(*length) as usize)?;
    (checksum(*length, content) == u32::from_le_bytes(*stored)).then_some(content)
}

/// An invalid frame that is followed by a valid one, or a file that does not begin with the magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged {
    /// Offset of the invalid bytes in the file.
    pub(super) at_bytes: usize,
}

/// The contents of all valid frames of a file and the length of the valid part of it.
pub(super) fn read_all(file: &[u8]) -> Result<(Vec<&[u8]>, usize), Damaged> {
    if !file.starts_with(&MAGIC) {
        return Err(Damaged { at_bytes: 0 });
    }
    let (mut contents, mut valid_bytes) = (Vec::new(), MAGIC.len());
    while let Some(content) = file.get(valid_bytes..).and_then(read) {
        contents.push(content);
        valid_bytes += HEADER_BYTES + content.len();
    }
    // An empty frame is never written, and zeros, as a file system may leave them, would look like one.
    let is_frame = |at: usize| file.get(at..).and_then(read).is_some_and(|content| !content.is_empty());
    if (valid_bytes + 1..file.len()).any(is_frame) {
        return Err(Damaged { at_bytes: valid_bytes });
    }
    Ok((contents, valid_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        for content in ["first", "the second", "3"] {
            assert!(write(content.as_bytes(), &mut file));
        }
        file
    }

    #[test]
    fn a_truncated_file_has_its_complete_frames() {
        let file = file();
        for length in MAGIC.len()..file.len() {
            let (contents, valid_bytes) = read_all(&file[..length]).unwrap();
            let complete = [21, 39].iter().filter(|&&end| end <= length).count();
            assert_eq!((contents.len(), valid_bytes), (complete, [8, 21, 39][complete]), "{length}");
        }
    }

    #[test]
    fn any_changed_bit_is_found() {
        for bit in 0..file().len() * 8 {
            let mut changed = file();
            changed[bit / 8] ^= 1 << (bit % 8);
            match (bit / 8, read_all(&changed)) {
                (0..39, Err(damaged)) => assert!(damaged.at_bytes <= bit / 8),
                (39.., Ok((contents, 39))) => {
                    assert_eq!(contents.len(), 2, "the last frame cannot be told from an incomplete one")
                }
                (at, other) => panic!("byte {at}: {other:?}"),
            }
        }
    }

    #[test]
    fn zeros_at_the_end_are_an_incomplete_frame() {
        let mut file = file();
        let length = file.len();
        file.resize(length + 100, 0);
        assert_eq!(read_all(&file).unwrap().1, length);
    }
}
