//! The handshake. Each side sends a magic number, its protocol version and a random nonce. It then proves that it holds the token with an
//! HMAC-SHA-256 over its side, the role, the address that the initiator connected to and both nonces, keyed with the token. The token itself is never
//! sent. The address makes a relayed handshake fail: a process that waits at one address cannot use what it receives at another one. On a Unix socket
//! the kernel also tells who the peer is (`stream.rs`). The whole handshake has one deadline.
//!
//! | sender | bytes |
//! |---|---|
//! | initiator | magic (8), version (`u32`, little-endian), role (1), nonce (32) |
//! | acceptor | magic (8), version, nonce (32), proof (32) |
//! | initiator | proof (32) |
//! | acceptor | 1 if the proof is valid, else 0 (1) |

use super::{Stream, WireError};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Version of the handshake and of the messages. Both sides must use the same one.
pub const PROTOCOL: u32 = 9;

const MAGIC: [u8; 8] = *b"giveway\n";

/// Time for the whole handshake. Afterwards reads block without limit.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

// The HMAC's first input: which side computed the proof. It keeps one side's proof from being valid as the other's.
const ACCEPTOR: &[u8] = b"called";
const INITIATOR: &[u8] = b"caller";

const ACCEPT_CONTEXT: &str = "handshake with a connecting process";

/// What the initiator of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A worker that joins a coordinator.
    Worker = 1,
    /// A client that sends a user's requests to a coordinator.
    Client = 2,
    /// A process that reads map outputs and blocks from a worker or writes blocks to it.
    Data = 3,
}

/// The 256-bit secret that all processes of a cluster share.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// In place of a token where there is no secret: it proves nothing, and keeps the handshake the same.
    const PUBLIC: Token = Token([0; 32]);

    /// Reads the token file, or creates it with a random token and mode 0600.
    pub fn read_or_create(path: &Path) -> io::Result<Token> {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                let token = Token(random_bytes()?);
                let text: String = token.0.iter().map(|byte| format!("{byte:02x}")).collect();
                file.write_all(format!("{text}\n").as_bytes())?;
                file.sync_all()?;
                Ok(token)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Token::read(path),
            Err(error) => Err(error),
        }
    }

    /// Reads the token file: 64 hexadecimal digits. A file that the group or others can access is refused.
    pub fn read(path: &Path) -> io::Result<Token> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
        let mut file = File::open(path)?;
        if file.metadata()?.mode() & 0o077 != 0 {
            return Err(invalid(
                "other users can access this token file; run `chmod 600` on it, or remove it to create a new token if it may have leaked",
            ));
        }
        let mut text = String::new();
        Read::take(&mut file, 1024).read_to_string(&mut text)?;
        let text = text.trim();
        let mut token = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(invalid("not a token file: expected 64 hexadecimal digits"));
        }
        for (byte, digits) in token.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).expect("ascii");
            *byte = u8::from_str_radix(digits, 16)
                .map_err(|_| invalid("not a token file: expected 64 hexadecimal digits"))?;
        }
        Ok(Token(token))
    }

    fn mac(&self, side: &[u8], role: Role, address: &[u8], nonces: [&[u8; 32]; 2]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC accepts keys of any length");
        // All parts but the address have a fixed length, so their concatenation is unambiguous.
        for part in [side, &[role as u8], nonces[0], nonces[1], address] {
            mac.update(part);
        }
        mac
    }
}

fn random_bytes() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("cannot read random bytes: {error}")))?;
    Ok(bytes)
}

/// Connects to a process and performs the handshake as initiator.
pub fn connect(address: &str, token: &Token, role: Role) -> Result<Stream, WireError> {
    let context = || format!("cannot connect to {address}");
    let stream = Stream::connect(address).map_err(WireError::io(context()))?;
    initiate(stream, &context, token, role)
}

/// Connects as a client to the socket for other users of the cluster of this owner.
pub(crate) fn connect_shared(socket: &Path, owner: u32) -> Result<Stream, WireError> {
    let context = || format!("cannot connect to {}", socket.display());
    let stream = Stream::connect_to_user(socket, owner).map_err(WireError::io(context()))?;
    initiate(stream, &context, &Token::PUBLIC, Role::Client)
}

fn initiate(mut stream: Stream, context: &dyn Fn() -> String, token: &Token, role: Role) -> Result<Stream, WireError> {
    stream.set_nodelay().map_err(WireError::io(context()))?;
    let dialled = stream.dialled_address(true).map_err(WireError::io(context()))?;
    let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
    let our_nonce = random_bytes().map_err(WireError::io(context()))?;
    let mut hello = Vec::with_capacity(45);
    hello.extend_from_slice(&MAGIC);
    hello.extend_from_slice(&PROTOCOL.to_le_bytes());
    hello.push(role as u8);
    hello.extend_from_slice(&our_nonce);
    stream.write_all(&hello).map_err(WireError::io(context()))?;
    read_preamble(&mut stream, deadline, &context())?;
    let their_nonce: [u8; 32] = read(&mut stream, deadline, &context())?;
    let proof: [u8; 32] = read(&mut stream, deadline, &context())?;
    let nonces = [&our_nonce, &their_nonce];
    token.mac(ACCEPTOR, role, &dialled, nonces).verify_slice(&proof).map_err(|_| WireError::Token)?;
    let proof = token.mac(INITIATOR, role, &dialled, nonces).finalize().into_bytes();
    stream.write_all(&proof).map_err(WireError::io(context()))?;
    let [valid] = read::<1>(&mut stream, deadline, &context())?;
    if valid != 1 {
        return Err(WireError::Token);
    }
    stream.set_read_timeout(None).map_err(WireError::io(context()))?;
    Ok(stream)
}

/// Performs the handshake as acceptor and returns the role of the initiator.
pub fn accept(stream: &mut Stream, token: &Token) -> Result<Role, WireError> {
    stream.check_user().map_err(WireError::io(ACCEPT_CONTEXT))?;
    respond(stream, token)
}

/// Performs the handshake on the socket for other users, where the kernel and not a token tells who the client is.
pub(crate) fn accept_shared(stream: &mut Stream) -> Result<(), WireError> {
    match respond(stream, &Token::PUBLIC)? {
        Role::Client => Ok(()),
        Role::Worker | Role::Data => Err(WireError::UnknownPeer),
    }
}

fn respond(stream: &mut Stream, token: &Token) -> Result<Role, WireError> {
    let context = ACCEPT_CONTEXT;
    stream.set_nodelay().map_err(WireError::io(context))?;
    let dialled = stream.dialled_address(false).map_err(WireError::io(context))?;
    let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
    let our_nonce = random_bytes().map_err(WireError::io(context))?;
    let mut answer = Vec::with_capacity(76);
    answer.extend_from_slice(&MAGIC);
    answer.extend_from_slice(&PROTOCOL.to_le_bytes());
    answer.extend_from_slice(&our_nonce);
    let version = read_preamble(stream, deadline, context);
    if let Err(WireError::Version { .. }) = version {
        // An initiator of another version gets an answer too, so that both sides can report the mismatch.
        let _ = stream.write_all(&answer);
    }
    version?;
    let [role] = read::<1>(stream, deadline, context)?;
    let role = match role {
        1 => Role::Worker,
        2 => Role::Client,
        3 => Role::Data,
        _ => return Err(WireError::UnknownPeer),
    };
    let their_nonce: [u8; 32] = read(stream, deadline, context)?;
    let nonces = [&their_nonce, &our_nonce];
    answer.extend_from_slice(&token.mac(ACCEPTOR, role, &dialled, nonces).finalize().into_bytes());
    stream.write_all(&answer).map_err(WireError::io(context))?;
    let proof: [u8; 32] = read(stream, deadline, context)?;
    let valid = token.mac(INITIATOR, role, &dialled, nonces).verify_slice(&proof).is_ok();
    stream.write_all(&[u8::from(valid)]).map_err(WireError::io(context))?;
    if !valid {
        return Err(WireError::Token);
    }
    stream.set_read_timeout(None).map_err(WireError::io(context))?;
    Ok(role)
}

/// Fills a buffer before the deadline, however slowly the bytes arrive.
fn read_exact_until(stream: &mut Stream, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the handshake takes too long"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => buffer = &mut buffer[bytes..],
            // The deadline is checked again.
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read<const N: usize>(stream: &mut Stream, deadline: Instant, context: &str) -> Result<[u8; N], WireError> {
    let mut bytes = [0; N];
    read_exact_until(stream, &mut bytes, deadline).map_err(|error| match error.kind() {
        // An acceptor answers an invalid proof with 0, but closes the connection when the protocol is not followed.
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => WireError::Io {
            what: format!(
                "{context}: the peer closed the connection during the handshake (different token, or not Giveway)"
            ),
            error,
        },
        _ => WireError::Io { what: context.to_string(), error },
    })?;
    Ok(bytes)
}

fn read_preamble(stream: &mut Stream, deadline: Instant, context: &str) -> Result<(), WireError> {
    if read::<8>(stream, deadline, context)? != MAGIC {
        return Err(WireError::UnknownPeer);
    }
    let theirs = u32::from_le_bytes(read(stream, deadline, context)?);
    if theirs != PROTOCOL {
        return Err(WireError::Version { theirs, ours: PROTOCOL });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Listener;
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    fn tcp() -> Listener {
        Listener::bind_tcp(&["127.0.0.1:0".parse().unwrap()]).unwrap()
    }

    /// Connects two ends with these tokens; returns the results of initiator and acceptor.
    fn handshake(
        listener: Listener,
        initiator: Token,
        acceptor: Token,
    ) -> (Result<(), WireError>, Result<Role, WireError>) {
        let address = listener.address().to_owned();
        let accepted = std::thread::spawn(move || accept(&mut listener.accept().unwrap(), &acceptor));
        let connected = connect(&address, &initiator, Role::Data).map(drop);
        (connected, accepted.join().unwrap())
    }

    /// A process that took over the address of another one passes everything on to a third one, which has the same token.
    #[test]
    fn a_relayed_handshake_fails() {
        let (relay, target) = (TcpListener::bind("127.0.0.1:0").unwrap(), tcp());
        let (relay_address, target_address) = (relay.local_addr().unwrap().to_string(), target.address().to_owned());
        let accepted = std::thread::spawn(move || accept(&mut target.accept().unwrap(), &Token([7; 32])));
        std::thread::spawn(move || {
            let caller = relay.accept().unwrap().0;
            let target = std::net::TcpStream::connect(target_address).unwrap();
            let (caller_half, target_half) = (caller.try_clone().unwrap(), target.try_clone().unwrap());
            let pass = |mut from: std::net::TcpStream, mut to: std::net::TcpStream| {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            };
            std::thread::spawn(move || pass(caller_half, target_half));
            pass(target, caller);
        });
        let connected = connect(&relay_address, &Token([7; 32]), Role::Worker);
        assert!(matches!(connected, Err(WireError::Token)), "{connected:?}");
        assert!(accepted.join().unwrap().is_err());
    }

    #[test]
    fn unix_sockets_connect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::bind_unix(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let (connected, accepted) = handshake(listener, Token([7; 32]), Token([7; 32]));
        connected.unwrap();
        assert_eq!(accepted.unwrap(), Role::Data);
    }

    /// A caller that sends a byte now and then must not keep its connection for longer than one that sends nothing.
    #[test]
    fn a_handshake_has_one_deadline() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let deadline = Instant::now() + Duration::from_millis(100);
        let sender = std::thread::spawn(move || {
            while (&theirs).write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mut ours = Stream::Unix(ours);
        let read = read::<32>(&mut ours, deadline, "test");
        drop(ours);
        sender.join().unwrap();
        assert!(
            matches!(read, Err(WireError::Io { ref error, .. }) if error.kind() == io::ErrorKind::TimedOut),
            "{read:?}"
        );
    }

    #[test]
    fn equal_tokens_connect() {
        let (connected, accepted) = handshake(tcp(), Token([7; 32]), Token([7; 32]));
        connected.unwrap();
        assert_eq!(accepted.unwrap(), Role::Data);
    }

    #[test]
    fn a_different_token_fails_on_both_sides() {
        let (connected, accepted) = handshake(tcp(), Token([7; 32]), Token([8; 32]));
        assert!(matches!(connected, Err(WireError::Token)), "{connected:?}");
        assert!(accepted.is_err());
    }

    #[test]
    fn a_different_version_is_reported() {
        let listener = tcp();
        let address = listener.address().to_owned();
        let accepted = std::thread::spawn(move || accept(&mut listener.accept().unwrap(), &Token([7; 32])));
        let mut stream = Stream::connect(&address).unwrap();
        stream.write_all(&MAGIC).unwrap();
        stream.write_all(&99_u32.to_le_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..8], MAGIC);
        assert!(matches!(accepted.join().unwrap(), Err(WireError::Version { theirs: 99, .. })));
    }

    #[test]
    fn a_token_file_open_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let created = Token::read_or_create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Token::read_or_create(&path).unwrap().0, created.0);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Token::read(&path).unwrap_err().to_string().contains("chmod"));
    }
}
