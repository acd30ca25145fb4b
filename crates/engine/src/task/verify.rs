//! Verifies the checksums of a segment that arrives in chunks of any size, without decompressing it.
//!
//! A reader verifies every block it reads anyway (see [`crate::data::segment`] for the format). But a reduce reads long after it has fetched, and
//! corruption should be found while another copy is still available. So a segment is verified on arrival and counts as fetched only if it is valid.

use crate::data::Source;
use std::io;
use std::os::unix::fs::FileExt;

const HEADER_BYTES: usize = 16;
const CHUNK_BYTES: usize = 256 << 10;

/// Incremental verification of one segment.
#[derive(Debug, Default)]
pub(super) struct SegmentVerifier {
    header: [u8; HEADER_BYTES],
    /// Bytes of the current block's header received so far.
    header_filled: usize,
    /// Bytes of the current block's content still to come.
    remaining: u64,
    crc: u32,
    /// The last block has begun; no block may follow it.
    is_last: bool,
    is_corrupt: bool,
    total_bytes: u64,
}

impl SegmentVerifier {
    /// Processes the next chunk. Returns false as soon as the segment is known to be corrupt.
    pub(super) fn update(&mut self, mut bytes: &[u8]) -> bool {
        self.total_bytes += bytes.len() as u64;
        while !bytes.is_empty() && !self.is_corrupt {
            if self.remaining > 0 {
                let taken = bytes.len().min(usize::try_from(self.remaining).unwrap_or(usize::MAX));
                self.crc = crc32c::crc32c_append(self.crc, &bytes[..taken]);
                self.remaining -= taken as u64;
                bytes = &bytes[taken..];
                if self.remaining == 0 {
                    self.is_corrupt = self.crc != u32_at(&self.header, 12);
                }
            } else if self.is_last {
                self.is_corrupt = true;
            } else {
                let taken = bytes.len().min(HEADER_BYTES - self.header_filled);
                self.header[self.header_filled..][..taken].copy_from_slice(&bytes[..taken]);
                self.header_filled += taken;
                bytes = &bytes[taken..];
                if self.header_filled == HEADER_BYTES {
                    self.begin_block();
                }
            }
        }
        !self.is_corrupt
    }

    fn begin_block(&mut self) {
        self.header_filled = 0;
        self.remaining = u32_at(&self.header, 4).into();
        self.crc = crc32c::crc32c(&self.header[..12]);
        self.is_last = self.header[1] == 1;
        self.is_corrupt = self.remaining == 0;
    }

    /// True if the chunks so far are one complete, valid segment. A segment without records is zero bytes.
    pub(super) fn is_valid(&self) -> bool {
        let is_complete = self.is_last && self.remaining == 0;
        !self.is_corrupt && (is_complete || self.total_bytes == 0)
    }
}

/// Reads a segment and returns whether it is complete and valid. `should_continue` is called between chunks; once it returns false, reading stops
/// and the result is meaningless.
pub(super) fn is_valid_segment(source: &Source, mut should_continue: impl FnMut() -> bool) -> io::Result<bool> {
    let mut verifier = SegmentVerifier::default();
    match source {
        Source::Memory(bytes) => {
            verifier.update(bytes);
        }
        Source::File { file, offset, bytes } => {
            let mut chunk = vec![0; CHUNK_BYTES.min(*bytes as usize)];
            let mut at = 0;
            while at < *bytes && should_continue() {
                let want = chunk.len().min((*bytes - at) as usize);
                match file.read_at(&mut chunk[..want], offset + at)? {
                    0 => return Ok(false),
                    read => {
                        verifier.update(&chunk[..read]);
                        at += read as u64;
                    }
                }
            }
        }
    }
    Ok(verifier.is_valid())
}

fn u32_at(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Compression, SegmentWriter};

    fn segment() -> Vec<u8> {
        let mut writer = SegmentWriter::new(Vec::new(), Compression::Auto);
        for number in 0..20_000_u32 {
            writer.push(&number.to_be_bytes(), b"some value").unwrap();
        }
        writer.finish().unwrap().0
    }

    fn is_valid(bytes: &[u8], chunk_bytes: usize) -> bool {
        let mut verifier = SegmentVerifier::default();
        for chunk in bytes.chunks(chunk_bytes) {
            verifier.update(chunk);
        }
        verifier.is_valid()
    }

    #[test]
    fn a_valid_segment_passes_in_chunks_of_any_size() {
        let bytes = segment();
        for chunk_bytes in [1, 7, 16, 17, 4096, bytes.len()] {
            assert!(is_valid(&bytes, chunk_bytes), "in chunks of {chunk_bytes}");
        }
        assert!(is_valid(&[], 1), "a segment without records is zero bytes");
    }

    #[test]
    fn every_kind_of_corruption_is_detected() {
        let bytes = segment();
        for at in (0..bytes.len()).step_by(bytes.len() / 200) {
            let mut corrupt = bytes.clone();
            corrupt[at] ^= 0x10;
            assert!(!is_valid(&corrupt, 1000), "byte {at} changed");
            assert!(at == 0 || !is_valid(&bytes[..at], 1000), "truncated at {at}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(!is_valid(&longer, 1000));
        longer.pop();
        longer.extend_from_slice(&bytes);
        assert!(!is_valid(&longer, 1000), "two segments are not one");
    }
}
