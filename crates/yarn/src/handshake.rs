//! The handshake: both ends prove that they know the token, and neither sends it.
//!
//! The plug-in sends a random nonce (`HELLO`). The sidecar answers with one of its own and its proof (`CHALLENGE`), and only then the plug-in sends its own
//! (`PROOF`). A proof is an HMAC with the token as key over the prover's role, both nonces and the sidecar's address as the prover sees it. So whoever has taken
//! the sidecar's port learns no token and has its orders ignored, and cannot relay the handshake to the sidecar at another address either.

use crate::wire::{FieldReader, PROTOCOL_VERSION, WireError, read_error, read_frame};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Instant;

/// Limit on a frame of a peer that has not proved itself yet.
const FRAME_BYTES_MAX: u32 = 4 << 10;
const MAGIC: &[u8; 7] = b"GIVEWAY";

type Nonce = [u8; 32];

/// Who proves that it knows the token. A proof of one role is none of the other, so it cannot be sent back.
#[derive(Clone, Copy)]
enum Role {
    Sidecar,
    Plugin,
}

/// The HMAC of a proof.
fn proof(token: &str, role: Role, plugin: &Nonce, sidecar: &Nonce, address: SocketAddr) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(match role {
        Role::Sidecar => b"giveway sidecar",
        Role::Plugin => b"giveway plug-in",
    });
    mac.update(plugin);
    mac.update(sidecar);
    mac.update(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => mac.update(&ip.octets()),
        IpAddr::V6(ip) => mac.update(&ip.octets()),
    }
    mac
}

/// Performs the sidecar's part at this address. Returns whether the plug-in can refuse nodes to applications.
pub(crate) fn accept(
    from: &mut impl Read,
    to: &mut impl Write,
    token: &str,
    address: SocketAddr,
) -> Result<bool, WireError> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(|error| WireError::Io(io::Error::other(error)))?;
    accept_with(from, to, token, address, &nonce)
}

fn accept_with(
    from: &mut impl Read,
    to: &mut impl Write,
    token: &str,
    address: SocketAddr,
    nonce: &Nonce,
) -> Result<bool, WireError> {
    let plugin = read_hello(from)?;
    let own = proof(token, Role::Sidecar, &plugin, nonce, address).finalize().into_bytes();
    let challenge = [&b"X"[..], nonce, &own].concat();
    let frame = [&(challenge.len() as u32).to_be_bytes()[..], &challenge].concat();
    to.write_all(&frame).map_err(read_error)?;
    let content = match read_frame(from, FRAME_BYTES_MAX) {
        // A plug-in with another token does not believe this sidecar.
        Err(WireError::Closed) => return Err(WireError::Token),
        read => read?,
    };
    if content[0] != b'Y' {
        return Err(WireError::Decode { frame_type: content[0], problem: "expected PROOF" });
    }
    let mut fields = FieldReader::new(&content);
    let claimed = fields.bytes(32)?;
    // Compares in constant time.
    proof(token, Role::Plugin, &plugin, nonce, address).verify_slice(claimed).map_err(|_| WireError::Token)?;
    fields.take()
}

/// Reads a `HELLO` and returns its nonce.
fn read_hello(from: &mut impl Read) -> Result<Nonce, WireError> {
    let content = read_frame(from, FRAME_BYTES_MAX)?;
    let mut fields = FieldReader::new(&content);
    let magic = fields.bytes(MAGIC.len()).map_err(|_| WireError::UnknownPeer)?;
    if content[0] != b'H' || magic != MAGIC {
        return Err(WireError::UnknownPeer);
    }
    let plugin_version = fields.integer(2)? as u16;
    if plugin_version != PROTOCOL_VERSION {
        return Err(WireError::Version { plugin_version });
    }
    let mut nonce = Nonce::default();
    nonce.copy_from_slice(fields.bytes(32)?);
    Ok(nonce)
}

/// Reads until a deadline, however slowly the bytes arrive.
pub(crate) struct UntilDeadline<'a> {
    pub(crate) stream: &'a TcpStream,
    pub(crate) deadline: Instant,
}

impl Read for UntilDeadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCES: [Nonce; 2] = [[1; 32], [2; 32]];

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn frame(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), content].concat()
    }

    fn hello(version: u16) -> Vec<u8> {
        frame(&[b"HGIVEWAY", &version.to_be_bytes()[..], &NONCES[0]].concat())
    }

    fn mac(token: &str, role: Role, to: &str) -> Vec<u8> {
        proof(token, role, &NONCES[0], &NONCES[1], address(to)).finalize().into_bytes().to_vec()
    }

    /// The sidecar's answer to these bytes, and what it has sent before.
    fn answer(bytes: &[u8]) -> (Result<bool, String>, Vec<u8>) {
        let mut sent = Vec::new();
        let answer = accept_with(&mut &*bytes, &mut sent, "secret", address("127.0.0.1:7040"), &NONCES[1]);
        (answer.map_err(|error| error.to_string()), sent)
    }

    /// `SidecarClientTest.java` has the same bytes.
    #[test]
    fn proofs_have_the_documented_bytes() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            hex(&mac("secret", Role::Sidecar, "127.0.0.1:7040")),
            "27e570bedcf4b1c09e0f12e52022b76daeb0d7bfba4ae8070a5f0aac1a4d5d3b"
        );
        assert_eq!(
            hex(&mac("secret", Role::Plugin, "[::1]:7040")),
            "d4500c402e7bf141835ff51962346e0ff8f694e6c77524713f75487544109147"
        );
    }

    #[test]
    fn a_proof_is_valid_for_its_token_role_and_address_only() {
        let proved = |proof: &[u8]| answer(&[hello(PROTOCOL_VERSION), frame(&[b"Y", proof, &[1]].concat())].concat());
        let (answer, sent) = proved(&mac("secret", Role::Plugin, "127.0.0.1:7040"));
        assert_eq!(answer, Ok(true));
        let own = mac("secret", Role::Sidecar, "127.0.0.1:7040");
        assert_eq!(sent, frame(&[&b"X"[..], &NONCES[1], &own].concat()), "it proves itself first");
        for wrong in [
            mac("secreT", Role::Plugin, "127.0.0.1:7040"),
            mac("secret", Role::Plugin, "127.0.0.1:7041"),
            mac("secret", Role::Plugin, "127.0.0.2:7040"),
            own,
        ] {
            assert!(proved(&wrong).0.unwrap_err().contains("token mismatch"));
        }
    }

    #[test]
    fn an_invalid_handshake_is_rejected_with_its_reason() {
        let good = hello(PROTOCOL_VERSION);
        let after = |bytes: Vec<u8>| [good.clone(), bytes].concat();
        for (bytes, reason) in [
            (good.clone(), "token mismatch"),
            (after(frame(b"b")), "frame of type `b`: expected PROOF"),
            (after(frame(b"Y123")), "ends within a field"),
            (after(vec![0, 0, 16, 1]), "invalid frame length 4097"),
            (hello(PROTOCOL_VERSION + 1), "version mismatch: plug-in 7, sidecar 6"),
            (frame(b"HGIVEWAY\0\x04\0\x06secret\x01"), "version mismatch: plug-in 4, sidecar 6"),
            (frame(b"HGIVEWAY\0\x06short"), "ends within a field"),
            (good[..9].to_vec(), "closed the connection within a frame"),
            (Vec::new(), "closed the connection"),
            (frame(b"GET / HTTP/1.1"), "the first frame is not a HELLO"),
            (b"GET / HTTP/1.1\r\n".to_vec(), "invalid frame length 1195725856"),
            (0x8000_0000u32.to_be_bytes().to_vec(), "invalid frame length 2147483648"),
        ] {
            let error = answer(&bytes).0.unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
