//! A block on disk: its content, and behind it a checksum for each chunk of 64 KiB.
//!
//! | bytes | what |
//! |---|---|
//! | n | content |
//! | 4 for each chunk | CRC-32C of the chunk, little-endian; the last chunk may be short |
//! | 8 | n, little-endian |
//! | 8 | the block's number, little-endian |
//! | 4 | the *seal*: CRC-32C of everything behind the content so far |
//! | 8 | `gwblock1` |
//!
//! Nothing is handed out whose checksum was not computed again from what the disk gave. The number is inside, so that a file under a
//! wrong name is no replica.

use super::{BlockId, Held};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What one checksum covers.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// A larger block is no block: its table of checksums should stay small.
pub const BLOCK_BYTES_MAX: u64 = 4 << 30;

const MARK: [u8; 8] = *b"gwblock1";
const TRAILER_BYTES: usize = 8 + 8 + 4 + 8;

/// Writes a block's content and keeps its checksums.
#[derive(Debug)]
pub(super) struct BlockWriter<W> {
    out: W,
    table: Vec<u8>,
    bytes: u64,
    /// The checksum of the chunk begun, and how much of it is there.
    chunk: (u32, usize),
}

impl<W: Write> BlockWriter<W> {
    pub(super) fn new(out: W) -> BlockWriter<W> {
        BlockWriter { out, table: Vec::new(), bytes: 0, chunk: (0, 0) }
    }

    pub(super) fn write(&mut self, mut content: &[u8]) -> io::Result<()> {
        self.out.write_all(content)?;
        self.bytes += content.len() as u64;
        while !content.is_empty() {
            let (sum, filled) = self.chunk;
            let (now, later) = content.split_at(content.len().min(CHUNK_BYTES - filled));
            self.chunk = (crc32c::crc32c_append(sum, now), filled + now.len());
            if self.chunk.1 == CHUNK_BYTES {
                self.end_chunk();
            }
            content = later;
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        self.table.extend_from_slice(&self.chunk.0.to_le_bytes());
        self.chunk = (0, 0);
    }

    /// Writes what stands behind the content.
    pub(super) fn finish(mut self, block: BlockId) -> io::Result<(W, Held)> {
        if self.chunk.1 > 0 {
            self.end_chunk();
        }
        self.table.extend_from_slice(&self.bytes.to_le_bytes());
        self.table.extend_from_slice(&block.0.to_le_bytes());
        let seal = crc32c::crc32c(&self.table);
        self.table.extend_from_slice(&seal.to_le_bytes());
        self.table.extend_from_slice(&MARK);
        self.out.write_all(&self.table)?;
        self.out.flush()?;
        Ok((self.out, Held { block, bytes: self.bytes, seal }))
    }
}

/// A replica that is open for reading.
#[derive(Debug)]
pub(super) struct BlockFile {
    file: File,
    held: Held,
    sums: Vec<u32>,
}

impl BlockFile {
    /// Opens a replica and checks its sizes and its table. `InvalidData` if it is no sound one.
    pub(super) fn open(path: &Path, block: BlockId) -> io::Result<BlockFile> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let trailer_at = size.checked_sub(TRAILER_BYTES as u64).ok_or_else(|| damaged("it is too short"))?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, trailer_at)?;
        let number = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().expect("eight bytes"));
        let (bytes, inside) = (number(0), BlockId(number(8)));
        let seal = u32::from_le_bytes(trailer[16..20].try_into().expect("four bytes"));
        let chunks = bytes.div_ceil(CHUNK_BYTES as u64);
        if trailer[20..] != MARK || bytes > BLOCK_BYTES_MAX || bytes + chunks * 4 != trailer_at {
            return Err(damaged("its size is wrong"));
        }
        if inside != block {
            return Err(damaged("it is another block"));
        }
        let mut table = vec![0; chunks as usize * 4];
        file.read_exact_at(&mut table, bytes)?;
        if crc32c::crc32c_append(crc32c::crc32c(&table), &trailer[..16]) != seal {
            return Err(damaged("its table of checksums is damaged"));
        }
        let sums = table.chunks_exact(4).map(|sum| u32::from_le_bytes(sum.try_into().expect("four bytes"))).collect();
        Ok(BlockFile { file, held: Held { block, bytes, seal }, sums })
    }

    pub(super) fn held(&self) -> Held {
        self.held
    }

    /// Reads from a position of the content, as much as there is and fits. `InvalidData` if the disk gives back something else than was written.
    pub(super) fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(self.held.bytes.saturating_sub(at) as usize);
        let mut scratch = Vec::new();
        let mut done = 0;
        while done < wanted {
            let position = at + done as u64;
            let (chunk, inside) = ((position / CHUNK_BYTES as u64) as usize, (position % CHUNK_BYTES as u64) as usize);
            let length = self.chunk_bytes(chunk);
            let to = &mut buffer[done..wanted];
            if inside == 0 && to.len() >= length {
                self.read_chunk(chunk, &mut to[..length])?;
                done += length;
            } else {
                // The ends of what is wanted lie within chunks, which can only be checked whole.
                scratch.resize(length, 0);
                self.read_chunk(chunk, &mut scratch)?;
                let part = to.len().min(length - inside);
                to[..part].copy_from_slice(&scratch[inside..inside + part]);
                done += part;
            }
        }
        Ok(wanted)
    }

    /// Reads everything once.
    pub(super) fn check(&self) -> io::Result<()> {
        let mut content = vec![0; CHUNK_BYTES];
        (0..self.sums.len()).try_for_each(|chunk| self.read_chunk(chunk, &mut content[..self.chunk_bytes(chunk)]))
    }

    fn chunk_bytes(&self, chunk: usize) -> usize {
        CHUNK_BYTES.min((self.held.bytes - (chunk * CHUNK_BYTES) as u64) as usize)
    }

    fn read_chunk(&self, chunk: usize, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, (chunk * CHUNK_BYTES) as u64)?;
        if crc32c::crc32c(to) == self.sums[chunk] { Ok(()) } else { Err(damaged("its content is damaged")) }
    }
}

fn damaged(how: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, how)
}

/// True if an error says that the replica itself is bad, and not that the process has, say, too many files open.
pub(super) fn is_damage(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) || error.raw_os_error() == Some(EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: BlockId = BlockId(7);

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
    }

    fn stored(content: &[u8]) -> Vec<u8> {
        let mut writer = BlockWriter::new(Vec::new());
        content.chunks(10_007).for_each(|part| writer.write(part).unwrap());
        writer.finish(BLOCK).unwrap().0
    }

    fn open(bytes: &[u8]) -> io::Result<BlockFile> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        BlockFile::open(file.path(), BLOCK)
    }

    #[test]
    fn any_range_comes_back_as_it_was_written() {
        for size in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 17] {
            let content = content(size);
            let block = open(&stored(&content)).unwrap();
            assert_eq!(block.held().bytes, size as u64);
            block.check().unwrap();
            for at in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 5, size, size + 1] {
                for length in [0, 1, 1000, CHUNK_BYTES, 2 * CHUNK_BYTES, size + 10] {
                    let mut buffer = vec![0; length];
                    let read = block.read_at(at as u64, &mut buffer).unwrap();
                    let expected = &content[at.min(size)..(at + length).min(size).max(at.min(size))];
                    assert_eq!(&buffer[..read], expected, "{size} {at} {length}");
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed() {
        let good = stored(&content(CHUNK_BYTES + 100));
        for at in (0..good.len()).step_by(4099).chain(CHUNK_BYTES + 90..good.len()) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let error = open(&bad).and_then(|block| block.check()).unwrap_err();
            assert!(is_damage(&error), "{at}: {error}");
        }
    }

    #[test]
    fn a_cut_file_is_no_block() {
        let good = stored(&content(CHUNK_BYTES + 100));
        for length in (0..good.len()).step_by(997).chain(good.len() - 60..good.len()) {
            assert!(is_damage(&open(&good[..length]).unwrap_err()), "{length}");
        }
    }

    #[test]
    fn damage_in_one_chunk_leaves_the_others_readable() {
        let content = content(3 * CHUNK_BYTES);
        let mut bad = stored(&content);
        bad[CHUNK_BYTES + 5] ^= 1;
        let block = open(&bad).unwrap();
        let mut buffer = vec![0; CHUNK_BYTES];
        assert_eq!(block.read_at(0, &mut buffer).unwrap(), CHUNK_BYTES);
        assert_eq!(buffer, &content[..CHUNK_BYTES]);
        assert!(block.read_at(10, &mut buffer).is_err());
        assert_eq!(block.read_at(2 * CHUNK_BYTES as u64, &mut buffer).unwrap(), CHUNK_BYTES);
    }
}
