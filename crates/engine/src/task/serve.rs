//! The other end of a fetch: a worker gives out the segments of the map outputs it keeps.

use super::names;
use crate::data::{MapOutput, Source};
use crate::wire::{self, WireError};
use giveway_core::{AttemptId, Kind};
use serde::{Deserialize, Serialize};
use std::io::{self, Seek, SeekFrom};
use std::net::TcpStream;
use std::path::Path;

/// The longest [`SegmentRequest`] or [`SegmentAnswer`] as a message.
pub const SEGMENT_MESSAGE_BYTES_MAX: usize = 4096;

/// What a reduce asks of the node that keeps a map's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentRequest {
    /// The map's attempt.
    pub map: AttemptId,
    /// Which reduce's segment.
    pub reduce: u32,
}

/// What it hears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentAnswer {
    /// So many bytes of segment follow behind this message.
    Here {
        /// How many.
        bytes: u64,
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
    let (mut file, bytes) = match find(request, dir) {
        Ok(found) => found,
        Err(why) => return wire::send(stream, &SegmentAnswer::Gone { why: why.chars().take(1000).collect() }),
    };
    wire::send(stream, &SegmentAnswer::Here { bytes })?;
    let sent = io::copy(&mut io::Read::take(&mut file, bytes), stream).map_err(broken)?;
    // A promise that cannot be kept ends the connection: the other side counts what it gets.
    if sent < bytes { Err(broken(io::ErrorKind::UnexpectedEof.into())) } else { Ok(()) }
}

fn find(request: SegmentRequest, dir: &Path) -> Result<(std::fs::File, u64), String> {
    let SegmentRequest { map, reduce } = request;
    if map.task.kind != Kind::Map {
        return Err(format!("{map} is not a map"));
    }
    let output = MapOutput::open(&names::map_output(dir, map)).map_err(|error| error.to_string())?;
    if reduce as usize >= output.parts.len() {
        return Err(format!("the output of {map} has no part {reduce}; there are {}", output.parts.len()));
    }
    let Source::File { file, offset, bytes } = output.part(reduce) else {
        return Err(format!("the output of {map} is not in a file"));
    };
    drop(output);
    // `open` has just made this handle, so no one else moves its cursor.
    let mut file = std::sync::Arc::try_unwrap(file).map_err(|_| "the file is in use".to_string())?;
    file.seek(SeekFrom::Start(offset)).map_err(|error| error.to_string())?;
    Ok((file, bytes))
}
