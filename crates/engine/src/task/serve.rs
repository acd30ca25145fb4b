//! The other end of a fetch: a worker gives out the segments of the map outputs it keeps.

use super::names;
use crate::data::{MapOutput, OutputError, PartAt};
use crate::wire::{self, WireError};
use giveway_core::{AttemptId, Kind};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// The longest [`SegmentRequest`] or [`SegmentAnswer`] as a message: there may be a path in it.
pub const SEGMENT_MESSAGE_BYTES_MAX: usize = 8192;

/// What a reduce asks of the node that keeps a map's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRequest {
    /// The map's attempt.
    pub map: AttemptId,
    /// Which reduce's segment.
    pub reduce: u32,
    /// Of a segment as large as this, only the place is wanted: workers stand on one machine and may read each other's files.
    pub in_place_bytes_min: u64,
}

/// What it hears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentAnswer {
    /// So many bytes of segment follow behind this message.
    Here {
        /// How many.
        bytes: u64,
    },
    /// It lies in this file, the output of the map.
    InPlace {
        /// The file.
        path: String,
    },
    /// It is not to be had here.
    Gone {
        /// Why.
        why: String,
    },
}

/// Answers a request from a job's folder. The bytes go from the file to the socket without passing through this process.
pub fn serve_segment(request: SegmentRequest, dir: &Path, stream: &mut TcpStream) -> Result<(), WireError> {
    let broken = |error| WireError::Io { what: "cannot send a segment".into(), error };
    let (path, part) = match find(request, dir).map_err(broken)? {
        Ok(found) => found,
        Err(why) => return wire::send(stream, &SegmentAnswer::Gone { why: why.chars().take(1000).collect() }),
    };
    let bytes = part.stored_bytes;
    if bytes >= request.in_place_bytes_min
        && let Some(path) = path.to_str().filter(|path| path.len() < SEGMENT_MESSAGE_BYTES_MAX / 2)
    {
        return wire::send(stream, &SegmentAnswer::InPlace { path: path.into() });
    }
    let mut file = File::open(&path).map_err(broken)?;
    file.seek(SeekFrom::Start(part.offset)).map_err(broken)?;
    wire::send(stream, &SegmentAnswer::Here { bytes })?;
    let sent = io::copy(&mut io::Read::take(&mut file, bytes), stream).map_err(broken)?;
    // A promise that cannot be kept ends the connection: the other side counts what it gets.
    if sent < bytes { Err(broken(io::ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
}

/// The file, and where the segment is in it; or why it is not here. An error says nothing about the output: the connection ends, and the
/// other side tries again.
fn find(request: SegmentRequest, dir: &Path) -> io::Result<Result<(PathBuf, PartAt), String>> {
    let SegmentRequest { map, reduce, .. } = request;
    if map.task.kind != Kind::Map {
        return Ok(Err(format!("{map} is not a map")));
    }
    let output = match open(&std::path::absolute(names::map_output(dir, map))?)? {
        Ok(output) => output,
        Err(gone) => return Ok(Err(gone.to_string())),
    };
    match output.parts.get(reduce as usize) {
        Some(&part) => Ok(Ok((output.path, part))),
        None => Ok(Err(format!("the output of {map} has no part {reduce}; there are {}", output.parts.len()))),
    }
}

/// Opens a map's output. What is gone or damaged is told apart from what cannot be opened just now (too many files, say): only the
/// former is worth running a map again.
pub(super) fn open(path: &Path) -> io::Result<Result<MapOutput, OutputError>> {
    match MapOutput::open(path) {
        Err(OutputError::Io { error, .. })
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) =>
        {
            Err(error)
        }
        opened => Ok(opened),
    }
}
