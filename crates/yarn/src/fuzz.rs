//! Entry point for fuzzing: arbitrary bytes are read as what a plug-in sends. No input may cause a panic.

use crate::handshake;
use crate::wire;
use std::io;
use std::net::SocketAddr;

/// A handshake, and the frames of messages.
pub fn frames(bytes: &[u8]) {
    let address = SocketAddr::from(([127, 0, 0, 1], 7040));
    let proved = handshake::accept(&mut &bytes[..], &mut io::sink(), "token", address);
    assert!(proved.is_err(), "nobody guesses a proof");
    let mut rest = bytes;
    while let Ok(message) = wire::read_message(&mut rest) {
        drop(message);
    }
}
