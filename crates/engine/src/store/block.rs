//! Block files: the content, followed by a checksum for each chunk of 64 KiB.
//!
//! | bytes | content |
//! |---|---|
//! | n | the block's content |
//! | 4 per chunk | CRC-32C of the chunk, little-endian; the last chunk may be short |
//! | 8 | n, little-endian |
//! | 8 | the block's id, little-endian |
//! | 4 | block checksum, little-endian: CRC-32C of the chunk checksums, n and the id as stored |
//! | 8 | `gwblock1` |
//!
//! No content is returned unless its checksum was computed again from what was read. The id is part of the file, so that a file under a wrong name
//! is not taken for a replica.

use super::{BlockId, BlockInfo};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes covered by one checksum.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Limit of a block's size, in bytes. It keeps the checksum table, which is held in memory, small.
pub const BLOCK_BYTES_MAX: u64 = 4 << 30;

const MAGIC: [u8; 8] = *b"gwblock1";
const TRAILER_BYTES: usize = 8 + 8 + 4 + 8;

/// Writes a block file and computes its checksums.
#[derive(Debug)]
pub(super) struct BlockWriter<W> {
    out: W,
    /// Checksums of the complete chunks, as stored.
    table: Vec<u8>,
    bytes: u64,
    /// Checksum and size of the chunk in progress.
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
            let (checksum, filled) = self.chunk;
            let (part, rest) = content.split_at(content.len().min(CHUNK_BYTES - filled));
            self.chunk = (crc32c::crc32c_append(checksum, part), filled + part.len());
            if self.chunk.1 == CHUNK_BYTES {
                self.end_chunk();
            }
            content = rest;
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        self.table.extend_from_slice(&self.chunk.0.to_le_bytes());
        self.chunk = (0, 0);
    }

    /// Writes the checksum table and the trailer, and flushes. Syncing is up to the caller.
    pub(super) fn finish(mut self, block: BlockId) -> io::Result<(W, BlockInfo)> {
        if self.chunk.1 > 0 {
            self.end_chunk();
        }
        self.table.extend_from_slice(&self.bytes.to_le_bytes());
        self.table.extend_from_slice(&block.0.to_le_bytes());
        let checksum = crc32c::crc32c(&self.table);
        self.table.extend_from_slice(&checksum.to_le_bytes());
        self.table.extend_from_slice(&MAGIC);
        self.out.write_all(&self.table)?;
        self.out.flush()?;
        Ok((self.out, BlockInfo { block, bytes: self.bytes, checksum }))
    }
}

/// A replica that is open for reading.
#[derive(Debug)]
pub(super) struct BlockFile {
    file: File,
    info: BlockInfo,
    /// Checksum of each chunk.
    checksums: Vec<u32>,
}

impl BlockFile {
    /// Opens a replica and verifies its size, trailer and checksum table. Returns `InvalidData` if one of them is wrong.
    pub(super) fn open(path: &Path, block: BlockId) -> io::Result<BlockFile> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let trailer_at = size.checked_sub(TRAILER_BYTES as u64).ok_or_else(|| corrupt("the file is too short"))?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, trailer_at)?;
        let number = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().expect("eight bytes"));
        let (bytes, stored_id) = (number(0), BlockId(number(8)));
        let checksum = u32::from_le_bytes(trailer[16..20].try_into().expect("four bytes"));
        let chunks = bytes.div_ceil(CHUNK_BYTES as u64);
        if trailer[20..] != MAGIC || bytes > BLOCK_BYTES_MAX || bytes + chunks * 4 != trailer_at {
            return Err(corrupt("the file's size or trailer is wrong"));
        }
        if stored_id != block {
            return Err(corrupt("the file contains another block"));
        }
        let mut table = vec![0; chunks as usize * 4];
        file.read_exact_at(&mut table, bytes)?;
        if crc32c::crc32c_append(crc32c::crc32c(&table), &trailer[..16]) != checksum {
            return Err(corrupt("the checksum table is corrupt"));
        }
        let checksums =
            table.chunks_exact(4).map(|sum| u32::from_le_bytes(sum.try_into().expect("four bytes"))).collect();
        Ok(BlockFile { file, info: BlockInfo { block, bytes, checksum }, checksums })
    }

    pub(super) fn info(&self) -> BlockInfo {
        self.info
    }

    /// Reads content from an offset on, up to the end of the buffer or of the block. Returns `InvalidData` if a checksum does not match.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(self.info.bytes.saturating_sub(offset) as usize);
        let mut scratch = Vec::new();
        let mut done = 0;
        while done < wanted {
            let position = offset + done as u64;
            let (chunk, inside) = ((position / CHUNK_BYTES as u64) as usize, (position % CHUNK_BYTES as u64) as usize);
            let length = self.chunk_bytes(chunk);
            let to = &mut buffer[done..wanted];
            if inside == 0 && to.len() >= length {
                self.read_chunk(chunk, &mut to[..length])?;
                done += length;
            } else {
                // The range begins or ends within this chunk, and a checksum can only be verified over the whole chunk.
                scratch.resize(length, 0);
                self.read_chunk(chunk, &mut scratch)?;
                let part = to.len().min(length - inside);
                to[..part].copy_from_slice(&scratch[inside..inside + part]);
                done += part;
            }
        }
        Ok(wanted)
    }

    /// Reads the whole content and verifies every checksum.
    pub(super) fn verify(&self) -> io::Result<()> {
        let mut content = vec![0; CHUNK_BYTES];
        (0..self.checksums.len()).try_for_each(|chunk| self.read_chunk(chunk, &mut content[..self.chunk_bytes(chunk)]))
    }

    fn chunk_bytes(&self, chunk: usize) -> usize {
        CHUNK_BYTES.min((self.info.bytes - (chunk * CHUNK_BYTES) as u64) as usize)
    }

    fn read_chunk(&self, chunk: usize, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, (chunk * CHUNK_BYTES) as u64)?;
        if crc32c::crc32c(to) == self.checksums[chunk] { Ok(()) } else { Err(corrupt("a chunk's checksum is wrong")) }
    }
}

fn corrupt(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// True if an error means that the replica itself is corrupt, as opposed to, for example, too many open files in this process.
pub(super) fn is_corruption(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
        || error.raw_os_error() == Some(EIO)
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
    fn any_range_is_read_as_it_was_written() {
        for size in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 17] {
            let content = content(size);
            let block = open(&stored(&content)).unwrap();
            assert_eq!(block.info().bytes, size as u64);
            block.verify().unwrap();
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
    fn a_flipped_bit_is_detected_anywhere() {
        let good = stored(&content(CHUNK_BYTES + 100));
        for at in (0..good.len()).step_by(4099).chain(CHUNK_BYTES + 90..good.len()) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let error = open(&bad).and_then(|block| block.verify()).unwrap_err();
            assert!(is_corruption(&error), "{at}: {error}");
        }
    }

    #[test]
    fn a_truncated_file_is_refused() {
        let good = stored(&content(CHUNK_BYTES + 100));
        for length in (0..good.len()).step_by(997).chain(good.len() - 60..good.len()) {
            assert!(is_corruption(&open(&good[..length]).unwrap_err()), "{length}");
        }
    }

    #[test]
    fn chunks_beside_a_corrupt_one_stay_readable() {
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
