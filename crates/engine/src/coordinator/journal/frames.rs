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

/// Interval at which checksums are kept while damage is looked for.
const CHECKSUM_INTERVAL: usize = 256;

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
    match has_frame(file.get(valid_bytes + 1..).unwrap_or_default()) {
        true => Err(Damaged { at_bytes: valid_bytes }),
        false => Ok((contents, valid_bytes)),
    }
}

/// Whether there is a valid frame anywhere in these bytes. An empty frame is never written, and zeros, as a file system may leave them, would look like one.
///
/// Every position may be that of a frame of any length. The checksums of long ones follow from those of the beginnings of `bytes`, so that the time does not
/// grow with the square of the length.
fn has_frame(bytes: &[u8]) -> bool {
    // The checksum of the first `n * CHECKSUM_INTERVAL` bytes, for every n.
    let mut prefixes = vec![0_u32];
    for chunk in bytes.chunks_exact(CHECKSUM_INTERVAL) {
        prefixes.push(crc32c::crc32c_append(prefixes.last().copied().unwrap_or(0), chunk));
    }
    let prefix = |length: usize| {
        let known = length / CHECKSUM_INTERVAL;
        crc32c::crc32c_append(prefixes[known], &bytes[known * CHECKSUM_INTERVAL..length])
    };
    let is_frame = |at: usize| {
        let (length, rest) = bytes[at..].split_first_chunk::<4>()?;
        let (stored, rest) = rest.split_first_chunk::<4>()?;
        let content = rest.get(..u32::from_le_bytes(*length) as usize).filter(|content| !content.is_empty())?;
        let checksum = if content.len() < 2 * CHECKSUM_INTERVAL {
            checksum(*length, content)
        } else {
            let start = at + HEADER_BYTES;
            let of_content = prefix(start + content.len()) ^ crc32c::crc32c_combine(prefix(start), 0, content.len());
            crc32c::crc32c_combine(crc32c::crc32c(length), of_content, content.len())
        };
        Some(checksum == u32::from_le_bytes(*stored))
    };
    (0..bytes.len()).any(|at| is_frame(at) == Some(true))
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
    fn a_frame_is_found_behind_any_bytes() {
        for content in [1, 255, 511, 512, 513, 5_000, 70_000] {
            for before in [0, 1, 7, 255, 256, 1_000] {
                let mut bytes: Vec<u8> = (0..before).map(|at: u32| (at * 131 % 251) as u8).collect();
                assert!(!has_frame(&bytes));
                assert!(write(&vec![7; content], &mut bytes));
                bytes.extend([9; 300]);
                assert!(has_frame(&bytes), "{content} bytes after {before}");
                let last = before as usize + HEADER_BYTES + content - 1;
                bytes[last] ^= 1;
                assert!(!has_frame(&bytes), "{content} bytes after {before}, changed");
            }
        }
    }

    /// In a frame that was not written completely, thousands of positions could begin a frame of megabytes.
    #[test]
    fn a_long_torn_frame_is_dropped() {
        let mut file = MAGIC.to_vec();
        assert!(write(b"first", &mut file));
        let valid = file.len();
        let mut random = 1_u64;
        let noise = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        });
        assert!(write(&noise.take(6_000_000).collect::<Vec<u8>>(), &mut file));
        file.pop();
        assert_eq!(read_all(&file).unwrap().1, valid);
    }

    #[test]
    fn zeros_at_the_end_are_an_incomplete_frame() {
        let mut file = file();
        let length = file.len();
        file.resize(length + 100, 0);
        assert_eq!(read_all(&file).unwrap().1, length);
    }
}
