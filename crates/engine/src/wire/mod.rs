//! How processes talk: a handshake by which both sides prove that they hold the cluster's token (`auth.rs`), then frames of a length and a
//! postcard message (here). What the messages say is `message.rs`; they are wire types only and never leave the processes' edges.

mod auth;
mod message;

pub use auth::{PROTOCOL, Role, Token, accept, connect};
pub use message::*;

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use thiserror::Error;

/// The longest control message. Bulk data goes beside the frames, never in them.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Why two processes cannot talk.
#[derive(Debug, Error)]
pub enum WireError {
    /// The connection broke, timed out or never came about.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What went wrong.
        error: io::Error,
    },
    /// It is not Giveway that answers there.
    #[error("the other side does not speak Giveway's protocol; check the address")]
    Stranger,
    /// It is another release.
    #[error(
        "the other side speaks protocol version {theirs}, this release speaks {ours}; run the same release everywhere"
    )]
    Version {
        /// Their version.
        theirs: u32,
        /// Our version.
        ours: u32,
    },
    /// It has another token.
    #[error("the other side holds another token; use the token file of this cluster (`token` in its folder)")]
    Token,
    /// A message over the limit.
    #[error("a message of {bytes} bytes is over the limit of {limit}; refused")]
    TooLong {
        /// What it claimed.
        bytes: usize,
        /// What is allowed.
        limit: usize,
    },
    /// A message that makes no sense.
    #[error("a message makes no sense ({0}); run the same release everywhere")]
    Garbled(postcard::Error),
}

impl WireError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> WireError {
        let what = what.into();
        move |error| WireError::Io { what, error }
    }

    /// True if the other side just went away.
    pub fn is_goodbye(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        matches!(self, WireError::Io { error, .. }
            if matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe | ConnectionAborted))
    }
}

/// Sends one message.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> Result<(), WireError> {
    let mut frame = vec![0; 4];
    frame = postcard::to_extend(message, frame).map_err(WireError::Garbled)?;
    let bytes = frame.len() - 4;
    if bytes > MESSAGE_BYTES_MAX {
        return Err(WireError::TooLong { bytes, limit: MESSAGE_BYTES_MAX });
    }
    frame[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
    to.write_all(&frame).map_err(WireError::io("cannot send a message"))
}

/// Waits for one message of at most so many bytes.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read, max_bytes: usize) -> Result<T, WireError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(WireError::io("cannot receive a message"))?;
    let bytes = u32::from_le_bytes(length) as usize;
    if bytes > max_bytes {
        return Err(WireError::TooLong { bytes, limit: max_bytes });
    }
    let mut content = Vec::new();
    // Room is made as bytes arrive, so a length that lies costs its sender the bytes.
    from.take(bytes as u64).read_to_end(&mut content).map_err(WireError::io("cannot receive a message"))?;
    if content.len() < bytes {
        let error = io::ErrorKind::UnexpectedEof.into();
        return Err(WireError::Io { what: "the connection ended within a message".into(), error });
    }
    postcard::from_bytes(&content).map_err(WireError::Garbled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_trip() {
        let mut bytes = Vec::new();
        send(&mut bytes, &("hello", 7_u32)).unwrap();
        let back: (String, u32) = receive(&mut bytes.as_slice(), 100).unwrap();
        assert_eq!(back, ("hello".into(), 7));
    }

    #[test]
    fn a_long_claim_is_refused_before_room_is_made() {
        let claim = (2_u32 << 30).to_le_bytes();
        let error = receive::<String>(&mut claim.as_slice(), MESSAGE_BYTES_MAX).unwrap_err();
        assert!(matches!(error, WireError::TooLong { .. }), "{error}");
    }

    #[test]
    fn half_a_message_is_an_end_not_a_message() {
        let mut bytes = Vec::new();
        send(&mut bytes, &"hello").unwrap();
        let error = receive::<String>(&mut &bytes[..bytes.len() - 2], 100).unwrap_err();
        assert!(error.is_goodbye(), "{error}");
    }

    #[test]
    fn garbage_is_refused() {
        let bytes = [3, 0, 0, 0, 0xff, 0xff, 0xff];
        assert!(matches!(receive::<String>(&mut bytes.as_slice(), 100), Err(WireError::Garbled(_))));
    }
}
