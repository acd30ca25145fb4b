//! The handshake. Each side sends a mark, its protocol version and a random number, and proves with a keyed hash over both numbers that it holds
//! the token; the token itself never travels.
//!
//! | who | bytes |
//! |---|---|
//! | caller | mark (8), version (`u32`, little-endian), role (1), number (32) |
//! | called | mark (8), version, number (32), proof (32) |
//! | caller | proof (32) |
//! | called | 1 if it was right |

use super::WireError;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// The version of handshake and messages.
pub const PROTOCOL: u32 = 2;

const MARK: [u8; 8] = *b"giveway\n";
const PATIENCE: Duration = Duration::from_secs(5);

/// What a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// It is a worker and reports to the coordinator.
    Worker = 1,
    /// It asks the coordinator for something on a user's behalf.
    Client = 2,
    /// It fetches from, or stores with, a worker.
    Data = 3,
}

/// The secret all processes of a cluster share.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Reads the token file, or makes one that only its owner can read.
    pub fn read_or_make(path: &Path) -> io::Result<Token> {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                let token = Token(random()?);
                let text: String = token.0.iter().map(|byte| format!("{byte:02x}")).collect();
                file.write_all(format!("{text}\n").as_bytes())?;
                file.sync_all()?;
                Ok(token)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Token::read(path),
            Err(error) => Err(error),
        }
    }

    /// Reads the token file. One that others can read is refused: then the secret is none.
    pub fn read(path: &Path) -> io::Result<Token> {
        let problem = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
        let mut file = File::open(path)?;
        if file.metadata()?.mode() & 0o077 != 0 {
            return Err(problem(
                "others can read this token file; run `chmod 600` on it, and make a new one if they did",
            ));
        }
        let mut text = String::new();
        Read::take(&mut file, 1024).read_to_string(&mut text)?;
        let text = text.trim();
        let mut token = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(problem("this is not a token file: it should hold 64 hexadecimal digits"));
        }
        for (byte, digits) in token.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).expect("ascii");
            *byte = u8::from_str_radix(digits, 16)
                .map_err(|_| problem("this is not a token file: it should hold 64 hexadecimal digits"))?;
        }
        Ok(Token(token))
    }

    fn mac(&self, who: &[u8], role: Role, caller: &[u8; 32], called: &[u8; 32]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length of key will do");
        for part in [who, &[role as u8], caller, called] {
            mac.update(part);
        }
        mac
    }
}

fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(format!("no randomness: {error}")))?;
    Ok(bytes)
}

/// Calls a process and proves who we are.
pub fn connect(address: &str, token: &Token, role: Role) -> Result<TcpStream, WireError> {
    let context = || format!("cannot reach {address}");
    let mut stream = TcpStream::connect(address).map_err(WireError::io(context()))?;
    prepare(&stream).map_err(WireError::io(context()))?;
    let ours = random().map_err(WireError::io(context()))?;
    let mut hello = Vec::with_capacity(45);
    hello.extend_from_slice(&MARK);
    hello.extend_from_slice(&PROTOCOL.to_le_bytes());
    hello.push(role as u8);
    hello.extend_from_slice(&ours);
    stream.write_all(&hello).map_err(WireError::io(context()))?;
    read_mark(&mut stream, &context())?;
    let theirs: [u8; 32] = read(&mut stream, &context())?;
    let proof: [u8; 32] = read(&mut stream, &context())?;
    token.mac(b"called", role, &ours, &theirs).verify_slice(&proof).map_err(|_| WireError::Token)?;
    let proof = token.mac(b"caller", role, &ours, &theirs).finalize().into_bytes();
    stream.write_all(&proof).map_err(WireError::io(context()))?;
    let [verdict] = read::<1>(&mut stream, &context())?;
    if verdict != 1 {
        return Err(WireError::Token);
    }
    stream.set_read_timeout(None).map_err(WireError::io(context()))?;
    Ok(stream)
}

/// Answers a caller and has it prove who it is.
pub fn accept(stream: &mut TcpStream, token: &Token) -> Result<Role, WireError> {
    let context = "a caller";
    prepare(stream).map_err(WireError::io(context))?;
    // Also to one of another version, so that both sides can say so.
    let ours = random().map_err(WireError::io(context))?;
    let mut answer = Vec::with_capacity(76);
    answer.extend_from_slice(&MARK);
    answer.extend_from_slice(&PROTOCOL.to_le_bytes());
    answer.extend_from_slice(&ours);
    let version = read_mark(stream, context);
    if let Err(WireError::Version { .. }) = version {
        let _ = stream.write_all(&answer);
    }
    version?;
    let [role] = read::<1>(stream, context)?;
    let role = match role {
        1 => Role::Worker,
        2 => Role::Client,
        3 => Role::Data,
        _ => return Err(WireError::Stranger),
    };
    let theirs: [u8; 32] = read(stream, context)?;
    answer.extend_from_slice(&token.mac(b"called", role, &theirs, &ours).finalize().into_bytes());
    stream.write_all(&answer).map_err(WireError::io(context))?;
    let proof: [u8; 32] = read(stream, context)?;
    let right = token.mac(b"caller", role, &theirs, &ours).verify_slice(&proof).is_ok();
    stream.write_all(&[u8::from(right)]).map_err(WireError::io(context))?;
    if !right {
        return Err(WireError::Token);
    }
    stream.set_read_timeout(None).map_err(WireError::io(context))?;
    Ok(role)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))
}

fn read<const N: usize>(stream: &mut TcpStream, context: &str) -> Result<[u8; N], WireError> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map_err(|error| match error.kind() {
        // A called process that finds our proof wrong says so; one that finds its caller strange just hangs up.
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => WireError::Io {
            what: format!("{context}: the other side hung up during the handshake (another token, or not Giveway)"),
            error,
        },
        _ => WireError::Io { what: context.to_string(), error },
    })?;
    Ok(bytes)
}

fn read_mark(stream: &mut TcpStream, context: &str) -> Result<(), WireError> {
    if read::<8>(stream, context)? != MARK {
        return Err(WireError::Stranger);
    }
    let theirs = u32::from_le_bytes(read(stream, context)?);
    if theirs != PROTOCOL {
        return Err(WireError::Version { theirs, ours: PROTOCOL });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    fn meet(ours: Token, theirs: Token) -> (Result<(), WireError>, Result<Role, WireError>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let called = std::thread::spawn(move || accept(&mut listener.accept().unwrap().0, &theirs));
        let caller = connect(&address, &ours, Role::Data).map(drop);
        (caller, called.join().unwrap())
    }

    #[test]
    fn holders_of_one_token_meet() {
        let (caller, called) = meet(Token([7; 32]), Token([7; 32]));
        caller.unwrap();
        assert_eq!(called.unwrap(), Role::Data);
    }

    #[test]
    fn another_token_is_refused_on_both_sides() {
        let (caller, called) = meet(Token([7; 32]), Token([8; 32]));
        assert!(matches!(caller, Err(WireError::Token)), "{caller:?}");
        assert!(called.is_err());
    }

    #[test]
    fn another_version_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let called = std::thread::spawn(move || accept(&mut listener.accept().unwrap().0, &Token([7; 32])));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&MARK).unwrap();
        stream.write_all(&99_u32.to_le_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..8], MARK);
        assert!(matches!(called.join().unwrap(), Err(WireError::Version { theirs: 99, .. })));
    }

    #[test]
    fn the_token_file_is_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let made = Token::read_or_make(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Token::read_or_make(&path).unwrap().0, made.0);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Token::read(&path).unwrap_err().to_string().contains("chmod"));
    }
}
