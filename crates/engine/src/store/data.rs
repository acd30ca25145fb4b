//! Blocks on their way between processes.
//!
//! | request | then |
//! |---|---|
//! | `ReadBlock` | a [`ReadAnswer`], and its bytes behind it |
//! | `WriteBlock` | from the caller: for each piece a [`Piece`] and its bytes, until all have come; then a [`WriteAnswer`] |
//! | `CheckBlocks` | a [`CheckAnswer`] for each block, and an end |
//!
//! Every range and every piece has its checksum with it, so nothing that the wire or a process's memory has bent is taken for content. No side
//! holds more than a megabyte of a block at once.

use super::block::{BLOCK_BYTES_MAX, is_damage};
use super::{BlockId, CheckAnswer, Held, Piece, ReadAnswer, Shelf, StoreNews, StoreOrder, WriteAnswer};
use crate::wire::{self, DataRequest, Role, Token, WireError};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The most that is read or written in one go.
pub(super) const PIECE_BYTES_MAX: usize = 1 << 20;

/// The longest message here.
const MESSAGE_BYTES_MAX: usize = 4096;

/// How long the other side may be silent. A sync of a large block on a busy disk takes its time.
const SILENCE: Duration = Duration::from_secs(30);

/// Calls a worker for data.
pub(super) fn call(address: &str, token: &Token) -> io::Result<TcpStream> {
    let stream = wire::connect(address, token, Role::Data).map_err(to_io)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(stream)
}

/// Reads a range of a block from a worker. Nothing if that worker has no sound replica.
pub(super) fn read(stream: &mut TcpStream, block: BlockId, from: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let wanted = buffer.len().min(PIECE_BYTES_MAX);
    wire::send(stream, &DataRequest::ReadBlock { block, from, bytes: wanted as u32 }).map_err(to_io)?;
    let ReadAnswer::Here { bytes, sum } = wire::receive(stream, MESSAGE_BYTES_MAX).map_err(to_io)? else {
        return Ok(None);
    };
    let buffer = buffer[..wanted].get_mut(..bytes as usize).ok_or_else(|| bent("more came than was asked for"))?;
    stream.read_exact(buffer)?;
    if crc32c::crc32c(buffer) == sum { Ok(Some(buffer.len())) } else { Err(bent("it was bent on its way")) }
}

/// Gives out a range of a block, checked.
pub(crate) fn serve_read(
    shelf: &Shelf,
    block: BlockId,
    from: u64,
    bytes: u32,
    stream: &mut TcpStream,
) -> Result<(), WireError> {
    let mut buffer = vec![0; PIECE_BYTES_MAX.min(bytes as usize)];
    match shelf.block(block).and_then(|file| shelf.read_at(&file, from, &mut buffer)) {
        Ok(read) => {
            wire::send(stream, &ReadAnswer::Here { bytes: read as u32, sum: crc32c::crc32c(&buffer[..read]) })?;
            stream.write_all(&buffer[..read]).map_err(broken)
        }
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!("block {block} cannot be read: {error}");
            }
            wire::send(stream, &ReadAnswer::NotHere)
        }
    }
}

/// A block on its way to a worker.
#[derive(Debug)]
pub(super) struct Sending {
    stream: TcpStream,
}

impl Sending {
    pub(super) fn begin(address: &str, token: &Token, block: BlockId, bytes: u64) -> io::Result<Sending> {
        let mut stream = call(address, token)?;
        wire::send(&mut stream, &DataRequest::WriteBlock { block, bytes }).map_err(to_io)?;
        Ok(Sending { stream })
    }

    pub(super) fn send(&mut self, content: &[u8]) -> io::Result<()> {
        let piece = Piece { bytes: content.len() as u32, sum: crc32c::crc32c(content) };
        wire::send(&mut self.stream, &piece).map_err(to_io)?;
        self.stream.write_all(content)
    }

    /// Waits until it is on the worker's disk.
    pub(super) fn finish(mut self) -> io::Result<Held> {
        match wire::receive(&mut self.stream, MESSAGE_BYTES_MAX).map_err(to_io)? {
            WriteAnswer::Written(held) => Ok(held),
            WriteAnswer::Refused { why } => Err(io::Error::other(why)),
        }
    }
}

/// Takes a block in. If the disk will not have it, the rest is passed over, so that the answer finds its reader.
pub(crate) fn serve_write(shelf: &Shelf, block: BlockId, bytes: u64, stream: &mut TcpStream) -> Result<(), WireError> {
    let mut incoming = match bytes {
        0..=BLOCK_BYTES_MAX => shelf.create(block),
        _ => Err(bent("a block cannot be so large")),
    };
    let (mut content, mut left) = (Vec::new(), bytes);
    while left > 0 {
        let Piece { bytes, sum } = wire::receive(stream, MESSAGE_BYTES_MAX)?;
        if bytes == 0 || bytes as usize > PIECE_BYTES_MAX || u64::from(bytes) > left {
            return Err(broken(bent("a piece has a wrong size")));
        }
        content.resize(bytes as usize, 0);
        stream.read_exact(&mut content).map_err(broken)?;
        left -= u64::from(bytes);
        let sound = if crc32c::crc32c(&content) == sum { Ok(()) } else { Err(bent("it was bent on its way")) };
        if let Ok(to) = &mut incoming
            && let Err(error) = sound.and_then(|()| to.write(&content))
        {
            incoming = Err(error);
        }
    }
    let answer = match incoming.and_then(|incoming| incoming.finish()) {
        Ok(held) => WriteAnswer::Written(held),
        Err(error) => {
            tracing::warn!("block {block} was not stored: {error}");
            WriteAnswer::Refused { why: error.to_string() }
        }
    };
    wire::send(stream, &answer)
}

/// Has a worker read all its blocks; returns those that are damaged or gone.
pub(super) fn check_all(address: &str, token: &Token) -> io::Result<Vec<BlockId>> {
    let mut stream = call(address, token)?;
    wire::send(&mut stream, &DataRequest::CheckBlocks).map_err(to_io)?;
    let mut bad = Vec::new();
    loop {
        match wire::receive(&mut stream, MESSAGE_BYTES_MAX).map_err(to_io)? {
            CheckAnswer::Sound(_) => {}
            CheckAnswer::Bad(block) => bad.push(block),
            CheckAnswer::End => return Ok(bad),
        }
    }
}

/// Reads all blocks and says of each how it is.
pub(crate) fn serve_check(shelf: &Shelf, stream: &mut TcpStream) -> Result<(), WireError> {
    for block in shelf.blocks() {
        let answer = match shelf.check(block) {
            Ok(held) => CheckAnswer::Sound(held),
            // Removed since the list was made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if is_damage(&error) => CheckAnswer::Bad(block),
            Err(error) => return Err(broken(error)),
        };
        wire::send(stream, &answer)?;
    }
    wire::send(stream, &CheckAnswer::End)
}

/// Does what the coordinator orders.
pub(crate) fn obey(shelf: &Arc<Shelf>, token: &Token, order: StoreOrder) {
    match order {
        StoreOrder::Forget { block } => shelf.forget(block),
        StoreOrder::Discard { block } => shelf.discard(block),
        StoreOrder::Copy { block, to, address } => {
            let (copier, token) = (Arc::clone(shelf), token.clone());
            let copying = thread::Builder::new().name("copy".into()).spawn(move || {
                if let Err(error) = copy(&copier, &token, block, &address) {
                    copier.tell(StoreNews::NotCopied { block, to, why: error.to_string() });
                }
            });
            if let Err(error) = copying {
                shelf.tell(StoreNews::NotCopied { block, to, why: error.to_string() });
            }
        }
    }
}

/// Gives a replica to another worker.
fn copy(shelf: &Shelf, token: &Token, block: BlockId, address: &str) -> io::Result<()> {
    let file = shelf.block(block)?;
    let Held { bytes, .. } = file.held();
    let mut sending = Sending::begin(address, token, block, bytes)?;
    let mut buffer = vec![0; PIECE_BYTES_MAX];
    let mut at = 0;
    while at < bytes {
        let read = shelf.read_at(&file, at, &mut buffer)?;
        sending.send(&buffer[..read])?;
        at += read as u64;
    }
    match sending.finish()? {
        held if held == file.held() => Ok(()),
        _ => Err(bent("what was stored is not what was sent")),
    }
}

fn bent(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn broken(error: io::Error) -> WireError {
    WireError::Io { what: "a block on its way".into(), error }
}

pub(super) fn to_io(error: WireError) -> io::Error {
    match error {
        WireError::Io { what, error } => io::Error::new(error.kind(), format!("{what}: {error}")),
        other => io::Error::other(other.to_string()),
    }
}
