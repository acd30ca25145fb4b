//! Input: from the names a user gives to the lines a map reads.
//!
//! [`find`] turns local files, folders and globs into input files and knows how each is packed; [`cut`] makes pieces of them, one for each
//! map; [`LineReader`] hands out the lines that *begin* in a piece. A line begins at the start of a file or behind a `\n`, wherever the
//! file was cut, so any cutting gives each line once, and what a map leaves when it ends early is a piece like any other.
//!
//! Files in blocks on the workers' disks are reached through [`Stored`], which their owner implements, and files in HDFS through
//! [`hdfs`]. No scheduling, no sockets and no knowledge of applications live here.

mod error;
mod find;
mod lines;
mod packed;
mod sample;
mod splits;

pub use error::InputError;
pub use find::{find, packing};
pub use lines::{LONGEST_LINE, LineReader};
pub use sample::{cuts, sample};
pub use splits::cut;

use crate::hdfs;
use crate::job::{FileBlock, FileLocation, InputFile};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Bytes that can be read anywhere.
pub trait ReadAt: Send + Sync {
    /// Reads some bytes from a position on; none only at the end.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(self, buffer, at)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
}

/// Files that are not on the local disk but in the block store.
pub trait Stored: Send + Sync {
    /// The files a `dfs:` path names: one, or those of a folder. See [`packing`] for how each is packed.
    fn find(&self, path: &str) -> Result<Vec<InputFile>, InputError> {
        Err(InputError::NoStore { path: path.to_owned() })
    }

    /// The bytes of a file in these blocks.
    fn open(&self, _blocks: &[FileBlock]) -> io::Result<Box<dyn ReadAt>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "there is no block store here"))
    }
}

/// No block store: local files only.
#[derive(Clone, Copy, Debug)]
pub struct LocalOnly;

impl Stored for LocalOnly {}

/// The packed bytes of an input file. Those before `read_to` are going to be read in order: where they come from afar, they may be fetched ahead.
pub fn open(file: &InputFile, stored: &dyn Stored, read_to: u64) -> Result<Box<dyn ReadAt>, InputError> {
    let opened = match &file.location {
        FileLocation::Local(path) => File::open(path).map(|file| Box::new(file) as Box<dyn ReadAt>),
        FileLocation::Blocks(blocks) => stored.open(blocks),
        FileLocation::Hdfs(_) => hdfs::open(&file.name, read_to),
    };
    opened.map_err(|source| InputError::Unreadable { name: file.name.clone(), source })
}

/// The unpacked text of an input file, all of it.
pub fn text(file: &InputFile, stored: &dyn Stored) -> Result<Vec<u8>, InputError> {
    let mut text = Vec::new();
    match packed::unpack(file.codec, lines::FromStart::new(open(file, stored, file.bytes)?)).read_to_end(&mut text) {
        Ok(_) => Ok(text),
        Err(source) => Err(InputError::while_reading(&file.name, file.codec, source)),
    }
}
