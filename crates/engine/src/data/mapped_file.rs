//! Parts of files as memory.
//!
//! A reduce reads a map output of the same machine twice, to verify it and to merge it; mapped, it is copied neither time.
//!
//! Mapping is `unsafe`, because Rust's references require memory that nobody changes. Only
//! finished map outputs are mapped: a map writes its file under a temporary name and renames it, and from then on it is only
//! linked and unlinked. If somebody else writes to a worker's folder, the checksum of a block fails, as for any corrupt file;
//! if the file is truncated, or the disk fails, reading kills the process with SIGBUS, and the coordinator runs the tasks of
//! the lost worker again.

#![allow(unsafe_code)]

use bytes::Bytes;
use memmap2::MmapOptions;
use std::fs::File;
use std::io;

/// Maps a part of a file that is never written again.
pub(super) fn map(file: &File, offset: u64, bytes: u64) -> io::Result<Bytes> {
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: the file does not change; see the head of this file.
    let map = unsafe { MmapOptions::new().offset(offset).len(bytes).map(file)? };
    Ok(Bytes::from_owner(map))
}
