//! The output of a map: one file with a segment for each reduce, followed by an index.
//!
//! # Format
//!
//! The segments are stored one after the other, without gaps, from byte 0. Then comes the index:
//!
//! | index | |
//! |---|---|
//! | bytes | a [`SegmentEntry`] for each segment, in postcard encoding |
//! | `u32` | length of the entries, little-endian |
//! | `u32` | CRC-32C of the entries and their length, little-endian |
//! | 8 bytes | the magic number `89 47 57 4d 41 50 4f 31` (0x89, then `GWMAPO1`) |

use super::mapped_file;
use super::segment::{Compression, SegmentInfo, SegmentWriter, Source};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

const MAGIC: [u8; 8] = *b"\x89GWMAPO1";
const FOOTER_BYTES: usize = 16;

/// The finished output of a map.
#[derive(Clone, Debug)]
pub struct MapOutput {
    pub path: PathBuf,
    /// Index entry of each reduce's segment, by reduce.
    pub segments: Vec<SegmentEntry>,
    file: Arc<File>,
}

/// Index entry of a segment: its location in the file and its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Offset in the file, in bytes.
    pub offset: u64,
    pub stored_bytes: u64,
    /// Length of the records before compression.
    pub raw_bytes: u64,
    pub records: u64,
}

/// Why a map output cannot be used.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The index does not match the file, or its checksum is wrong.
    #[error("map output {path} is corrupt: {what}; its map must run again", path = .path.display())]
    Corrupt { path: PathBuf, what: &'static str },
    /// The file cannot be read.
    #[error("cannot read map output {path}: {error}; check that disk", path = .path.display())]
    Io { path: PathBuf, error: io::Error },
}

impl MapOutput {
    /// Opens a finished output and verifies its index. The segments are verified when they are read.
    pub fn open(path: &Path) -> Result<MapOutput, OutputError> {
        let io_error = |error| OutputError::Io { path: path.to_owned(), error };
        let corrupt = |what| OutputError::Corrupt { path: path.to_owned(), what };
        let file = File::open(path).map_err(io_error)?;
        let file_bytes = file.metadata().map_err(io_error)?.len();
        let mut footer = [0; FOOTER_BYTES];
        let footer_at = file_bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(|| corrupt("the file is too short"))?;
        file.read_exact_at(&mut footer, footer_at).map_err(io_error)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3, magic @ ..] = footer;
        if magic != MAGIC {
            return Err(corrupt("the file does not end with the magic number"));
        }
        let index_bytes = u32::from_le_bytes([l0, l1, l2, l3]);
        let index_at =
            footer_at.checked_sub(index_bytes.into()).ok_or_else(|| corrupt("the index is longer than the file"))?;
        let mut index = vec![0; index_bytes as usize];
        file.read_exact_at(&mut index, index_at).map_err(io_error)?;
        if index_crc(&index) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(corrupt("the checksum of the index is wrong"));
        }
        let segments: Vec<SegmentEntry> =
            postcard::from_bytes(&index).map_err(|_| corrupt("the index cannot be decoded"))?;
        let segments_end = segments
            .iter()
            .try_fold(0_u64, |at, entry| if entry.offset == at { at.checked_add(entry.stored_bytes) } else { None });
        if segments_end != Some(index_at) {
            return Err(corrupt("the index does not match the file"));
        }
        Ok(MapOutput { path: path.to_owned(), segments, file: Arc::new(file) })
    }

    /// The segment of a reduce.
    ///
    /// # Panics
    ///
    /// If `reduce` is not less than the number of `segments`.
    pub fn segment(&self, reduce: u32) -> Source {
        segment_source(&self.file, &self.segments[reduce as usize])
    }

    /// The segment of a reduce in memory, mapped instead of read; from the file if it cannot be mapped.
    ///
    /// # Panics
    ///
    /// If `reduce` is not less than the number of `segments`.
    pub fn mapped_segment(&self, reduce: u32) -> Source {
        let SegmentEntry { offset, stored_bytes, .. } = self.segments[reduce as usize];
        mapped_file::map(&self.file, offset, stored_bytes).map_or_else(|_| self.segment(reduce), Source::Memory)
    }
}

/// The source of a segment in this file.
pub(super) fn segment_source(file: &Arc<File>, entry: &SegmentEntry) -> Source {
    Source::File { file: file.clone(), offset: entry.offset, bytes: entry.stored_bytes }
}

fn index_crc(index: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(index), &(index.len() as u32).to_le_bytes())
}

/// Writes the segments of all partitions into one file, in the order of the partitions.
#[derive(Debug)]
pub(super) struct PartitionedWriter {
    writer: SegmentWriter<File>,
    reduces: u32,
    /// Finished segments. The one being written belongs to the next partition.
    segments: Vec<SegmentEntry>,
    offset: u64,
}

impl PartitionedWriter {
    pub fn new(file: File, reduces: u32, compression: Compression) -> PartitionedWriter {
        let writer = SegmentWriter::new(file, compression);
        PartitionedWriter { writer, reduces, segments: Vec::with_capacity(reduces as usize), offset: 0 }
    }

    /// The writer for a partition. Partitions must be requested in ascending order.
    #[inline]
    pub fn segment(&mut self, partition: u32) -> io::Result<&mut SegmentWriter<File>> {
        debug_assert!(partition < self.reduces && partition as usize >= self.segments.len());
        while self.segments.len() < partition as usize {
            self.end_segment()?;
        }
        Ok(&mut self.writer)
    }

    /// Ends the last segment. Returns the file, which has no index, and the entries.
    pub fn finish(mut self) -> io::Result<(File, Vec<SegmentEntry>)> {
        while self.segments.len() < self.reduces as usize {
            self.end_segment()?;
        }
        let (file, _) = self.writer.finish()?;
        Ok((file, self.segments))
    }

    /// Ends the last segment and appends the index.
    pub fn finish_with_index(self) -> io::Result<()> {
        let (mut file, segments) = self.finish()?;
        let mut footer = postcard::to_allocvec(&segments).map_err(io::Error::other)?;
        let crc = index_crc(&footer);
        footer.extend_from_slice(&(footer.len() as u32).to_le_bytes());
        footer.extend_from_slice(&crc.to_le_bytes());
        footer.extend_from_slice(&MAGIC);
        file.write_all(&footer)
    }

    fn end_segment(&mut self) -> io::Result<()> {
        let SegmentInfo { stored_bytes, raw_bytes, records } = self.writer.end_segment()?;
        self.segments.push(SegmentEntry { offset: self.offset, stored_bytes, raw_bytes, records });
        self.offset += stored_bytes;
        Ok(())
    }
}
