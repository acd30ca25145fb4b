//! The protocol between processes. `stream.rs` has the sockets: the kernel tells who the peer is. A connection begins with a handshake about versions and
//! roles (`handshake.rs`). After it, each message is a frame: a 4-byte little-endian length, then a postcard-encoded message (this file).
//! `message.rs` defines the messages.

mod handshake;
mod message;
pub(crate) mod run_folder;
mod stream;

pub use handshake::{PROTOCOL, Role, accept};
pub use message::*;
pub(crate) use stream::shut_down;
pub use stream::{Listener, SocketFile, connect, connect_to_own};

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use thiserror::Error;

/// Maximum size of a control message. Bulk data follows a frame as raw bytes and is not part of it.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Why a connection or a message failed.
#[derive(Debug, Error)]
pub enum WireError {
    /// The connection failed, timed out or could not be established.
    #[error("{what}: {error}")]
    Io {
        /// The operation that failed.
        what: String,
        error: io::Error,
    },
    /// The peer does not follow the protocol.
    #[error("the peer does not speak Giveway's protocol; check the address")]
    UnknownPeer,
    /// The peer runs another release.
    #[error("the peer uses protocol version {theirs}, this release uses {ours}; run the same release everywhere")]
    Version { theirs: u32, ours: u32 },
    /// The peer does not serve this user. The text is its reason and what to do.
    #[error("{0}")]
    Refused(String),
    /// A message exceeds the size limit of its receiver.
    #[error("message refused: {bytes} bytes exceed the limit of {max_bytes}")]
    TooLarge {
        /// The size, as declared by the sender.
        bytes: usize,
        max_bytes: usize,
    },
    /// A message cannot be encoded.
    #[error("cannot encode a message: {0}")]
    Encode(postcard::Error),
    /// A message cannot be decoded.
    #[error("cannot decode a message: {0}; run the same release everywhere")]
    Decode(postcard::Error),
}

impl WireError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> WireError {
        let what = what.into();
        move |error| WireError::Io { what, error }
    }

    /// True if the peer closed the connection. This is how connections normally end.
    pub fn is_disconnect(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        matches!(self, WireError::Io { error, .. }
            if matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted))
    }
}

/// Sends one message as a frame.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> Result<(), WireError> {
    let mut frame = vec![0; 4];
    frame = postcard::to_extend(message, frame).map_err(WireError::Encode)?;
    let bytes = frame.len() - 4;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(WireError::TooLarge { bytes, max_bytes: MESSAGE_BYTES_MAX });
    }
    frame[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
    to.write_all(&frame).map_err(WireError::io("cannot send a message"))
}

/// Blocks until one message has arrived. A message larger than `max_bytes` is an error and is not read.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read, max_bytes: usize) -> Result<T, WireError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(WireError::io("cannot receive a message"))?;
    let bytes = u32::from_le_bytes(length) as usize;
    if bytes > max_bytes {
        return Err(WireError::TooLarge { bytes, max_bytes });
    }
    let mut content = Vec::new();
    // The buffer grows as bytes arrive. A false length therefore cannot make us allocate more than the sender really sends.
    from.take(bytes as u64).read_to_end(&mut content).map_err(WireError::io("cannot receive a message"))?;
    if content.len() < bytes {
        let error = io::ErrorKind::UnexpectedEof.into();
        return Err(WireError::Io { what: "the connection ended within a message".into(), error });
    }
    postcard::from_bytes(&content).map_err(WireError::Decode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sent_message_is_received_unchanged() {
        let mut bytes = Vec::new();
        send(&mut bytes, &("hello", 7_u32)).unwrap();
        let received: (String, u32) = receive(&mut bytes.as_slice(), 100).unwrap();
        assert_eq!(received, ("hello".into(), 7));
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_allocating() {
        let length = (2_u32 << 30).to_le_bytes();
        let error = receive::<String>(&mut length.as_slice(), MESSAGE_BYTES_MAX).unwrap_err();
        assert!(matches!(error, WireError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn a_truncated_message_is_a_disconnect() {
        let mut bytes = Vec::new();
        send(&mut bytes, &"hello").unwrap();
        let error = receive::<String>(&mut &bytes[..bytes.len() - 2], 100).unwrap_err();
        assert!(error.is_disconnect(), "{error}");
    }

    #[test]
    fn undecodable_bytes_are_refused() {
        let bytes = [3, 0, 0, 0, 0xff, 0xff, 0xff];
        assert!(matches!(receive::<String>(&mut bytes.as_slice(), 100), Err(WireError::Decode(_))));
    }
}
