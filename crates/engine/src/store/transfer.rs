//! Transfer of blocks between processes.
//!
//! | request | response |
//! |---|---|
//! | `ReadBlock` | a [`ReadResponse`], followed by the content |
//! | `WriteBlock` | the caller sends a [`Packet`] and its content until the block is complete; then a [`WriteResponse`] |
//! | `CheckBlocks` | a [`VerifyResponse`] per replica, then the end |
//!
//! Every range and every packet carries its checksum, so content that was corrupted on the network or in a process's memory is detected. Neither side
//! buffers more than 1 MiB of a block.

use super::block::{BLOCK_BYTES_MAX, is_corruption};
use super::{
    BlockId, BlockInfo, BlockStore, Packet, ReadResponse, StoreCommand, StoreReport, VerifyResponse, WriteResponse,
};
use crate::wire::{self, DataRequest, Role, Stream, Token, WireError};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Limit of one packet or range, in bytes.
pub(super) const PACKET_BYTES_MAX: usize = 1 << 20;

/// Limit of a message, in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// Timeout of reads and writes on a socket. Long enough for the sync of a large block on a busy disk.
const IO_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens a data connection to a worker.
pub(super) fn connect(address: &str, token: &Token) -> io::Result<Stream> {
    let stream = wire::connect(address, token, Role::Data).map_err(to_io)?;
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    Ok(stream)
}

/// Reads a range of a block from a worker. Returns `None` if that worker has no valid replica.
pub(super) fn read(stream: &mut Stream, block: BlockId, from: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let wanted = buffer.len().min(PACKET_BYTES_MAX);
    wire::send(stream, &DataRequest::ReadBlock { block, from, bytes: wanted as u32 }).map_err(to_io)?;
    let ReadResponse::Data { bytes, checksum } = wire::receive(stream, MESSAGE_BYTES_MAX).map_err(to_io)? else {
        return Ok(None);
    };
    let buffer = buffer[..wanted]
        .get_mut(..bytes as usize)
        .ok_or_else(|| invalid_data("the worker sent more bytes than requested"))?;
    stream.read_exact(buffer)?;
    if crc32c::crc32c(buffer) == checksum { Ok(Some(buffer.len())) } else { Err(checksum_mismatch()) }
}

/// Worker side of `ReadBlock`: verifies and sends a range of a block.
pub(crate) fn serve_read(
    store: &BlockStore,
    block: BlockId,
    from: u64,
    bytes: u32,
    stream: &mut Stream,
) -> Result<(), WireError> {
    let mut buffer = vec![0; PACKET_BYTES_MAX.min(bytes as usize)];
    match store.open_block(block).and_then(|file| store.read_at(&file, from, &mut buffer)) {
        Ok(read) => {
            let checksum = crc32c::crc32c(&buffer[..read]);
            wire::send(stream, &ReadResponse::Data { bytes: read as u32, checksum })?;
            stream.write_all(&buffer[..read]).map_err(transfer_failed)
        }
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!("cannot read block {block}: {error}");
            }
            wire::send(stream, &ReadResponse::Unavailable)
        }
    }
}

/// Sends a block to a worker.
#[derive(Debug)]
pub(super) struct BlockSender {
    stream: Stream,
}

impl BlockSender {
    /// Connects and announces a block of `bytes` bytes.
    pub(super) fn begin(address: &str, token: &Token, block: BlockId, bytes: u64) -> io::Result<BlockSender> {
        let mut stream = connect(address, token)?;
        wire::send(&mut stream, &DataRequest::WriteBlock { block, bytes }).map_err(to_io)?;
        Ok(BlockSender { stream })
    }

    /// Sends the next packet: 1 to [`PACKET_BYTES_MAX`] bytes.
    pub(super) fn send(&mut self, content: &[u8]) -> io::Result<()> {
        let packet = Packet { bytes: content.len() as u32, checksum: crc32c::crc32c(content) };
        wire::send(&mut self.stream, &packet).map_err(to_io)?;
        self.stream.write_all(content)
    }

    /// Waits until the replica is on the worker's disk. All announced bytes must have been sent.
    pub(super) fn finish(mut self) -> io::Result<BlockInfo> {
        match wire::receive(&mut self.stream, MESSAGE_BYTES_MAX).map_err(to_io)? {
            WriteResponse::Written(info) => Ok(info),
            WriteResponse::Refused { reason } => Err(io::Error::other(reason)),
        }
    }
}

/// Worker side of `WriteBlock`: receives a block and stores it. After a disk error the remaining packets are read and dropped, so that the
/// sender receives the response.
pub(crate) fn serve_write(
    store: &BlockStore,
    block: BlockId,
    bytes: u64,
    stream: &mut Stream,
) -> Result<(), WireError> {
    let mut writer = match bytes {
        0..=BLOCK_BYTES_MAX => store.create(block),
        _ => Err(invalid_data("the block is larger than 4 GiB")),
    };
    let (mut content, mut left) = (Vec::new(), bytes);
    while left > 0 {
        let Packet { bytes, checksum } = wire::receive(stream, MESSAGE_BYTES_MAX)?;
        if bytes == 0 || bytes as usize > PACKET_BYTES_MAX || u64::from(bytes) > left {
            return Err(transfer_failed(invalid_data("a packet has an invalid size")));
        }
        content.resize(bytes as usize, 0);
        stream.read_exact(&mut content).map_err(transfer_failed)?;
        left -= u64::from(bytes);
        let verified = if crc32c::crc32c(&content) == checksum { Ok(()) } else { Err(checksum_mismatch()) };
        if let Ok(to) = &mut writer
            && let Err(error) = verified.and_then(|()| to.write(&content))
        {
            writer = Err(error);
        }
    }
    let response = match writer.and_then(|writer| writer.finish()) {
        Ok(info) => WriteResponse::Written(info),
        Err(error) => {
            tracing::warn!("cannot store block {block}: {error}");
            WriteResponse::Refused { reason: error.to_string() }
        }
    };
    wire::send(stream, &response)
}

/// Has a worker verify all its replicas. Returns those that are corrupt or missing. With `quarantine` they are replaced.
pub(super) fn verify_all(address: &str, token: &Token, quarantine: bool) -> io::Result<Vec<BlockId>> {
    let mut stream = connect(address, token)?;
    wire::send(&mut stream, &DataRequest::CheckBlocks { quarantine }).map_err(to_io)?;
    let mut corrupt = Vec::new();
    loop {
        match wire::receive(&mut stream, MESSAGE_BYTES_MAX).map_err(to_io)? {
            VerifyResponse::Valid(_) => {}
            VerifyResponse::Corrupt(block) => corrupt.push(block),
            VerifyResponse::End => return Ok(corrupt),
        }
    }
}

/// Worker side of `CheckBlocks`: verifies all replicas and responds for each.
pub(crate) fn serve_verify(store: &BlockStore, quarantine: bool, stream: &mut Stream) -> Result<(), WireError> {
    for block in store.blocks() {
        let response = match store.verify(block, quarantine) {
            Ok(info) => VerifyResponse::Valid(info),
            // Deleted since the blocks were listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if is_corruption(&error) => VerifyResponse::Corrupt(block),
            Err(error) => return Err(transfer_failed(error)),
        };
        wire::send(stream, &response)?;
    }
    wire::send(stream, &VerifyResponse::End)
}

/// Executes a command of the coordinator. Copies run on a thread of their own; a failed one is reported.
pub(crate) fn execute(store: &Arc<BlockStore>, token: &Token, command: StoreCommand) {
    match command {
        StoreCommand::Delete { block } => store.delete(block),
        StoreCommand::DeleteCorrupt { block } => store.delete_corrupt(block),
        StoreCommand::Replicate { block, to, address } => {
            let (source, token) = (Arc::clone(store), token.clone());
            let copying = thread::Builder::new().name("copy".into()).spawn(move || {
                if let Err(error) = replicate(&source, &token, block, &address) {
                    source.report(StoreReport::CopyFailed { block, to, reason: error.to_string() });
                }
            });
            if let Err(error) = copying {
                store.report(StoreReport::CopyFailed { block, to, reason: error.to_string() });
            }
        }
    }
}

/// Copies a replica to another worker.
fn replicate(store: &BlockStore, token: &Token, block: BlockId, address: &str) -> io::Result<()> {
    let file = store.open_block(block)?;
    let BlockInfo { bytes, .. } = file.info();
    let mut sender = BlockSender::begin(address, token, block, bytes)?;
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut offset = 0;
    while offset < bytes {
        let read = store.read_at(&file, offset, &mut buffer)?;
        sender.send(&buffer[..read])?;
        offset += read as u64;
    }
    match sender.finish()? {
        info if info == file.info() => Ok(()),
        _ => Err(invalid_data("the stored copy differs from the replica that was sent")),
    }
}

fn invalid_data(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn checksum_mismatch() -> io::Error {
    invalid_data("the checksum of the received data is wrong")
}

fn transfer_failed(error: io::Error) -> WireError {
    WireError::Io { what: "block transfer".into(), error }
}

pub(super) fn to_io(error: WireError) -> io::Error {
    match error {
        WireError::Io { what, error } => io::Error::new(error.kind(), format!("{what}: {error}")),
        other => io::Error::other(other.to_string()),
    }
}
