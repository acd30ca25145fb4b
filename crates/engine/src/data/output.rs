//! The output of a map: one file with a segment for each reduce, and an index at its end.
//!
//! # Bytes
//!
//! The segments stand one behind the other, without gaps, from byte 0. Then comes the index:
//!
//! | index | |
//! |---|---|
//! | bytes | the parts in postcard's format |
//! | `u32` | their length, little-endian |
//! | `u32` | CRC-32C of them and their length, little-endian |
//! | 8 bytes | the mark `89 47 57 4d 41 50 4f 31` (0x89, then `GWMAPO1`) |

use super::segment::{Compression, SegmentInfo, SegmentWriter, Source};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

const MARK: [u8; 8] = *b"\x89GWMAPO1";
const TAIL_BYTES: usize = 16;

/// The finished output of a map.
#[derive(Clone, Debug)]
pub struct MapOutput {
    /// Its file.
    pub path: PathBuf,
    /// The segment of each reduce.
    pub parts: Vec<PartAt>,
    file: Arc<File>,
}

/// A segment's place in its file, and what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartAt {
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub stored_bytes: u64,
    /// The length of its records before compression.
    pub raw_bytes: u64,
    /// How many records it has.
    pub records: u64,
}

/// Why a map's output cannot be used.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The file is not what was written.
    #[error("map output {path} is damaged ({what}); its map has to run again", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read map output {path}: {error}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl MapOutput {
    /// Opens a finished output and checks its index. The segments are checked by those who read them.
    pub fn open(path: &Path) -> Result<MapOutput, OutputError> {
        let io_error = |error| OutputError::Io { path: path.to_owned(), error };
        let damaged = |what| OutputError::Damaged { path: path.to_owned(), what };
        let file = File::open(path).map_err(io_error)?;
        let file_bytes = file.metadata().map_err(io_error)?.len();
        let mut tail = [0; TAIL_BYTES];
        let tail_at = file_bytes.checked_sub(TAIL_BYTES as u64).ok_or_else(|| damaged("too short"))?;
        file.read_exact_at(&mut tail, tail_at).map_err(io_error)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3, mark @ ..] = tail;
        if mark != MARK {
            return Err(damaged("no mark at its end"));
        }
        let index_bytes = u32::from_le_bytes([l0, l1, l2, l3]);
        let index_at = tail_at.checked_sub(index_bytes.into()).ok_or_else(|| damaged("index too long"))?;
        let mut index = vec![0; index_bytes as usize];
        file.read_exact_at(&mut index, index_at).map_err(io_error)?;
        if check(&index) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(damaged("index does not fit its check"));
        }
        let parts: Vec<PartAt> = postcard::from_bytes(&index).map_err(|_| damaged("index makes no sense"))?;
        let is_gapless = parts
            .iter()
            .try_fold(0_u64, |at, part| if part.offset == at { at.checked_add(part.stored_bytes) } else { None });
        if is_gapless != Some(index_at) {
            return Err(damaged("index does not fit the file"));
        }
        Ok(MapOutput { path: path.to_owned(), parts, file: Arc::new(file) })
    }

    /// The segment of a reduce.
    ///
    /// # Panics
    ///
    /// If the output has no such part; `parts` tells how many there are.
    pub fn part(&self, reduce: u32) -> Source {
        source(&self.file, &self.parts[reduce as usize])
    }
}

/// A part of a file as the source of a segment.
pub(super) fn source(file: &Arc<File>, part: &PartAt) -> Source {
    Source::File { file: file.clone(), offset: part.offset, bytes: part.stored_bytes }
}

fn check(index: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(index), &(index.len() as u32).to_le_bytes())
}

/// Writes the segments of all partitions into one file, in the order of the partitions.
#[derive(Debug)]
pub(super) struct PartsWriter {
    segment: SegmentWriter<File>,
    reduces: u32,
    /// The parts that are finished; the segment in the making belongs to the one after them.
    parts: Vec<PartAt>,
    offset: u64,
}

impl PartsWriter {
    pub fn new(file: File, reduces: u32, compression: Compression) -> PartsWriter {
        let segment = SegmentWriter::new(file, compression);
        PartsWriter { segment, reduces, parts: Vec::with_capacity(reduces as usize), offset: 0 }
    }

    /// The writer for a partition, which may not come before the one asked for last.
    #[inline]
    pub fn part(&mut self, partition: u32) -> io::Result<&mut SegmentWriter<File>> {
        debug_assert!(partition < self.reduces && partition as usize >= self.parts.len());
        while self.parts.len() < partition as usize {
            self.end_part()?;
        }
        Ok(&mut self.segment)
    }

    /// Ends the last part: the file with all parts but without an index.
    pub fn finish(mut self) -> io::Result<(File, Vec<PartAt>)> {
        while self.parts.len() < self.reduces as usize {
            self.end_part()?;
        }
        let (file, _) = self.segment.finish()?;
        Ok((file, self.parts))
    }

    /// Ends the last part and appends the index.
    pub fn finish_with_index(self) -> io::Result<()> {
        let (mut file, parts) = self.finish()?;
        let mut tail = postcard::to_allocvec(&parts).map_err(io::Error::other)?;
        let check = check(&tail);
        tail.extend_from_slice(&(tail.len() as u32).to_le_bytes());
        tail.extend_from_slice(&check.to_le_bytes());
        tail.extend_from_slice(&MARK);
        file.write_all(&tail)
    }

    fn end_part(&mut self) -> io::Result<()> {
        let SegmentInfo { stored_bytes, raw_bytes, records } = self.segment.end()?;
        self.parts.push(PartAt { offset: self.offset, stored_bytes, raw_bytes, records });
        self.offset += stored_bytes;
        Ok(())
    }
}
