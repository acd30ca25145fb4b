//! The serving side of the shuffle: a worker sends segments of the map outputs it stores.

use super::paths;
use crate::data::{MapOutput, OutputError, SegmentEntry};
use crate::wire::{self, Stream, WireError};
use giveway_core::{AttemptId, Kind};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Maximum size of a [`SegmentRequest`] or [`SegmentResponse`] message. The response may contain a path.
pub const SEGMENT_MESSAGE_BYTES_MAX: usize = 8192;

/// Request of a reduce to the node that stores a map output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRequest {
    /// The map attempt that wrote the output.
    pub map: AttemptId,
    /// Index of the reduce whose segment is requested.
    pub reduce: u32,
    /// For a segment of at least this size, respond with its file instead of its bytes. Workers share a machine and can read each other's files.
    pub in_place_bytes_min: u64,
}

/// Response to a [`SegmentRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentResponse {
    /// The segment's bytes follow this message.
    Content {
        /// Length of the segment.
        bytes: u64,
    },
    /// The segment is in this local file.
    InPlace {
        /// Absolute path of the map output.
        path: String,
    },
    /// The output is lost or corrupt on this node, or has no such segment.
    Unavailable {
        /// Cause, for the log.
        reason: String,
    },
}

/// Serves one request from a job's folder. The bytes are copied from the file to the socket within the kernel.
pub fn serve_segment(request: SegmentRequest, dir: &Path, stream: &mut Stream) -> Result<(), WireError> {
    let io_error = |error| WireError::Io { what: "cannot send a segment".into(), error };
    let (path, segment) = match locate(request, dir).map_err(io_error)? {
        Ok(found) => found,
        Err(reason) => {
            return wire::send(stream, &SegmentResponse::Unavailable { reason: reason.chars().take(1000).collect() });
        }
    };
    let bytes = segment.stored_bytes;
    if bytes >= request.in_place_bytes_min
        && let Some(path) = path.to_str().filter(|path| path.len() < SEGMENT_MESSAGE_BYTES_MAX / 2)
    {
        return wire::send(stream, &SegmentResponse::InPlace { path: path.into() });
    }
    let mut file = File::open(&path).map_err(io_error)?;
    file.seek(SeekFrom::Start(segment.offset)).map_err(io_error)?;
    wire::send(stream, &SegmentResponse::Content { bytes })?;
    let sent = stream.copy_from(&mut io::Read::take(&mut file, bytes)).map_err(io_error)?;
    // The announced length cannot be corrected any more, so the connection is closed: the receiver counts the bytes.
    if sent < bytes { Err(io_error(io::ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
}

/// Finds a segment. The inner error says why the output is unavailable; the outer one means that this is unknown, so the connection is closed and
/// the receiver retries.
fn locate(request: SegmentRequest, dir: &Path) -> io::Result<Result<(PathBuf, SegmentEntry), String>> {
    let SegmentRequest { map, reduce, .. } = request;
    if map.task.kind != Kind::Map {
        return Ok(Err(format!("{map} is not a map")));
    }
    let output = match open_output(&std::path::absolute(paths::map_output_path(dir, map))?)? {
        Ok(output) => output,
        Err(unusable) => return Ok(Err(unusable.to_string())),
    };
    match output.segments.get(reduce as usize) {
        Some(&segment) => Ok(Ok((output.path, segment))),
        None => {
            let count = output.segments.len();
            Ok(Err(format!("the output of {map} has no segment for reduce {reduce}; it has {count} segments")))
        }
    }
}

/// Opens a map output. The inner error means lost or corrupt: the map must run again. The outer error is transient (too many open files, for
/// example) and does not justify that.
pub(super) fn open_output(path: &Path) -> io::Result<Result<MapOutput, OutputError>> {
    match MapOutput::open(path) {
        Err(OutputError::Io { error, .. })
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) =>
        {
            Err(error)
        }
        opened => Ok(opened),
    }
}
