//! Parts of files as memory.
//!
//! A reduce merges map outputs of the same machine where they are in the file cache, without copying them.
//!
//! Mapping is `unsafe`, because Rust's references require memory that nobody changes. Only finished map outputs are mapped: a
//! map writes its file under a temporary name and renames it, and from then on it is only linked and unlinked. Before it is
//! mapped, all of it was read and verified, so that an unreadable file is found where that is an ordinary error. If the disk
//! fails later, or somebody else truncates the file, reading kills the process with SIGBUS, and the coordinator runs the tasks
//! of the lost worker again.

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
