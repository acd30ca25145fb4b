//! Checks a segment's bytes as they pass by, in pieces of any size, without unpacking them.
//!
//! A reader checks every block it reads anyway (see [`crate::data::segment`] for the bytes). But a reduce reads long after it has fetched, and
//! damage should be found while another copy can still be had: so what is fetched is checked on arrival and counts as fetched only then.

use crate::data::Source;
use std::io;
use std::os::unix::fs::FileExt;

const HEAD_BYTES: usize = 16;
const CHUNK_BYTES: usize = 256 << 10;

/// How far a check has come.
#[derive(Debug, Default)]
pub(super) struct Check {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the current block's content still to come.
    left: u64,
    crc: u32,
    /// The last block has begun; nothing may follow it.
    is_last: bool,
    is_damaged: bool,
    bytes: u64,
}

impl Check {
    /// The next bytes. False as soon as something is wrong.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> bool {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() && !self.is_damaged {
            if self.left > 0 {
                let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.crc = crc32c::crc32c_append(self.crc, &bytes[..taken]);
                self.left -= taken as u64;
                bytes = &bytes[taken..];
                if self.left == 0 {
                    self.is_damaged = self.crc != u32_at(&self.head, 12);
                }
            } else if self.is_last {
                self.is_damaged = true;
            } else {
                let taken = bytes.len().min(HEAD_BYTES - self.head_bytes);
                self.head[self.head_bytes..][..taken].copy_from_slice(&bytes[..taken]);
                self.head_bytes += taken;
                bytes = &bytes[taken..];
                if self.head_bytes == HEAD_BYTES {
                    self.begin_block();
                }
            }
        }
        !self.is_damaged
    }

    fn begin_block(&mut self) {
        self.head_bytes = 0;
        self.left = u32_at(&self.head, 4).into();
        self.crc = crc32c::crc32c(&self.head[..12]);
        self.is_last = self.head[1] == 1;
        self.is_damaged = self.left == 0;
    }

    /// True if what has passed by is a whole, sound segment.
    pub(super) fn is_sound(&self) -> bool {
        let is_whole = self.is_last && self.left == 0;
        !self.is_damaged && (is_whole || self.bytes == 0)
    }
}

/// True if these bytes are a whole, sound segment. `go_on` is asked now and then; if it says no, the answer does not count.
pub(super) fn is_sound(source: &Source, mut go_on: impl FnMut() -> bool) -> io::Result<bool> {
    let mut check = Check::default();
    match source {
        Source::Memory(bytes) => {
            check.feed(bytes);
        }
        Source::File { file, offset, bytes } => {
            let mut chunk = vec![0; CHUNK_BYTES.min(*bytes as usize)];
            let mut at = 0;
            while at < *bytes && go_on() {
                let want = chunk.len().min((*bytes - at) as usize);
                match file.read_at(&mut chunk[..want], offset + at)? {
                    0 => return Ok(false),
                    read => {
                        check.feed(&chunk[..read]);
                        at += read as u64;
                    }
                }
            }
        }
    }
    Ok(check.is_sound())
}

fn u32_at(head: &[u8; HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
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

    fn check(bytes: &[u8], piece: usize) -> bool {
        let mut check = Check::default();
        for piece in bytes.chunks(piece) {
            check.feed(piece);
        }
        check.is_sound()
    }

    #[test]
    fn sound_in_pieces_of_any_size() {
        let bytes = segment();
        for piece in [1, 7, 16, 17, 4096, bytes.len()] {
            assert!(check(&bytes, piece), "in pieces of {piece}");
        }
        assert!(check(&[], 1), "a segment without records is no bytes");
    }

    #[test]
    fn every_kind_of_damage_shows() {
        let bytes = segment();
        for at in (0..bytes.len()).step_by(bytes.len() / 200) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(!check(&damaged, 1000), "byte {at} is another one");
            assert!(at == 0 || !check(&bytes[..at], 1000), "cut short at {at}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(!check(&longer, 1000));
        longer.pop();
        longer.extend_from_slice(&bytes);
        assert!(!check(&longer, 1000), "two segments are not one");
    }
}
