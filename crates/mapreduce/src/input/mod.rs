//! Input: from the paths of a request to the lines a map reads.
//!
//! [`find_files`] expands local files, directories and globs into input files and detects how each is compressed; [`compute_splits`] divides them into
//! splits, one per map; [`LineReader`] reads the lines that *begin* in a split. A line begins at the start of a file or after a `\n`, wherever the file
//! was split. So every division yields each line exactly once, and the rest that a map leaves when it ends early is a split like any other.
//!
//! Files in HDFS are read through [`hdfs`]. No scheduling and no application code are here.

mod decompress;
mod error;
mod find;
mod glob;
mod lines;
mod sample;
mod splits;
mod version;

pub(crate) use glob::matches as matches_glob;

pub use error::InputError;
pub use find::{detect_codec, find_files};
pub use lines::{LINE_BYTES_MAX, LineReader};
pub use sample::{cut_points, sample_lines};
pub use splits::{automatic_split_bytes, compute_splits, split_count_bound};

use crate::hdfs;
use crate::job::{Codec, FileLocation, FileVersion, InputFile};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Whether an input is in HDFS.
pub fn is_remote(path: &std::ffi::OsStr) -> bool {
    path.as_encoded_bytes().starts_with(hdfs::SCHEME.as_bytes())
}

/// Random access to bytes.
pub trait ReadAt: Send + Sync {
    /// Reads some bytes from an offset on. Returns 0 only at the end, or if the buffer is empty.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
}

/// Opens an input file for reading as stored, that is, compressed. The caller is going to read the bytes before `read_to` in order, so those of a
/// remote file may be prefetched.
pub fn open(file: &InputFile, read_to: u64) -> Result<Box<dyn ReadAt>, InputError> {
    let opened = match &file.location {
        FileLocation::Local(path) => File::open(path).map(|file| Box::new(file) as Box<dyn ReadAt>),
        FileLocation::LocalVersion { path, version } => {
            version::open(path, *version, file.bytes).map(|file| Box::new(file) as Box<dyn ReadAt>)
        }
        FileLocation::Hdfs(_) => hdfs::open(&file.name.to_string_lossy(), read_to),
    };
    opened.map_err(|source| InputError::while_reading(&file.name.to_string_lossy(), Codec::Plain, source))
}

/// The whole text of an input file, decompressed.
pub fn read_text(file: &InputFile) -> Result<Vec<u8>, InputError> {
    let mut text = Vec::new();
    let bytes = lines::SequentialReader::new(open(file, file.bytes)?);
    match decompress::decompress(file.codec, bytes).read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(source) => Err(InputError::while_reading(&file.name.to_string_lossy(), file.codec, source)),
    }
}
