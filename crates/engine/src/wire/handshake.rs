//! The handshake: both sides tell the version of their protocol before they send messages, and the acceptor whether it serves the initiator.
//! The whole handshake has one deadline.
//!
//! | sender | bytes |
//! |---|---|
//! | initiator | magic (8), version (`u32`, little-endian), role (1) |
//! | acceptor | magic (8), version, length of the reason (`u16`; 0: the initiator is served), reason |

use super::WireError;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Version of the handshake and of the messages. Both sides must use the same one.
pub const PROTOCOL: u32 = 13;

const MAGIC: [u8; 8] = *b"giveway\n";

/// Time for the whole handshake. Afterwards reads block without limit.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest reason of a refusal. It fits into the buffer of a new connection, so a refusal never blocks.
const REASON_BYTES_MAX: usize = 2048;

const ACCEPT_CONTEXT: &str = "handshake with a connecting process";

/// What the initiator of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A worker that joins a coordinator.
    Worker = 1,
    /// A client that sends a user's requests to a coordinator.
    Client = 2,
}

/// Performs the handshake as initiator.
pub(super) fn initiate(stream: &mut UnixStream, context: &str, role: Role) -> Result<(), WireError> {
    let deadline = Instant::now() + TIMEOUT;
    let hello = [&MAGIC[..], &PROTOCOL.to_le_bytes(), &[role as u8]].concat();
    // If this fails, the peer has refused the connection already. The reason can be read.
    let written = stream.write_all(&hello);
    read_preamble(stream, deadline, context).map_err(|error| match (error, written) {
        (WireError::Io { .. }, Err(error)) => WireError::Io { what: context.into(), error },
        (error, _) => error,
    })?;
    let mut reason = vec![0; u16::from_le_bytes(read(stream, deadline, context)?).into()];
    if !reason.is_empty() {
        read_exact_until(stream, &mut reason, deadline).map_err(WireError::io(context))?;
        return Err(WireError::Refused(String::from_utf8_lossy(&reason).into_owned()));
    }
    stream.set_read_timeout(None).map_err(WireError::io(context))
}

/// Performs the handshake as acceptor and returns the role of the initiator.
pub fn accept(stream: &mut UnixStream) -> Result<Role, WireError> {
    let deadline = Instant::now() + TIMEOUT;
    let version = read_preamble(stream, deadline, ACCEPT_CONTEXT);
    if let Ok(()) | Err(WireError::Version { .. }) = version {
        // An initiator of another version gets an answer too, so that both sides can report the mismatch.
        stream.write_all(&answer("")).map_err(WireError::io(ACCEPT_CONTEXT))?;
    }
    version?;
    let role = match read(stream, deadline, ACCEPT_CONTEXT)? {
        [1] => Role::Worker,
        [2] => Role::Client,
        _ => return Err(WireError::UnknownPeer),
    };
    stream.set_read_timeout(None).map_err(WireError::io(ACCEPT_CONTEXT))?;
    Ok(role)
}

/// Tells an initiator why it is not served. Does not wait for anything that it sends.
pub(super) fn refuse(mut stream: &UnixStream, reason: &str) {
    // If it has gone, it does not need the answer.
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&answer(reason)));
}

fn answer(reason: &str) -> Vec<u8> {
    let reason = &reason.as_bytes()[..reason.len().min(REASON_BYTES_MAX)];
    [&MAGIC[..], &PROTOCOL.to_le_bytes(), &(reason.len() as u16).to_le_bytes(), reason].concat()
}

/// Fills a buffer before the deadline, however slowly the bytes arrive.
fn read_exact_until(stream: &mut UnixStream, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
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

fn read<const N: usize>(stream: &mut UnixStream, deadline: Instant, context: &str) -> Result<[u8; N], WireError> {
    let mut bytes = [0; N];
    read_exact_until(stream, &mut bytes, deadline).map_err(WireError::io(context))?;
    Ok(bytes)
}

fn read_preamble(stream: &mut UnixStream, deadline: Instant, context: &str) -> Result<(), WireError> {
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
    use crate::wire::{Listener, connect, connect_to_own};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// A listener that admits or refuses everybody; returns its folder and path.
    fn listen(admit: fn(u32) -> Result<(), String>) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let serve = |mut stream: UnixStream, ()| {
            if let Ok(role) = accept(&mut stream) {
                let _ = stream.write_all(&[role as u8]);
            }
        };
        listener.serve(admit, serve).unwrap();
        (folder, path)
    }

    #[test]
    fn the_acceptor_learns_the_role() {
        let (_folder, path) = listen(|_| Ok(()));
        for role in [Role::Worker, Role::Client] {
            let mut stream = connect_to_own(&path, role).unwrap();
            assert_eq!(read(&mut stream, Instant::now() + TIMEOUT, "test").unwrap(), [role as u8]);
        }
    }

    #[test]
    fn a_refused_initiator_gets_the_reason() {
        let (_folder, path) = listen(|uid| Err(format!("user {uid} may not")));
        for _ in 0..100 {
            let refused = connect_to_own(&path, Role::Client).unwrap_err();
            assert!(matches!(&refused, WireError::Refused(reason) if reason.ends_with("may not")), "{refused}");
        }
    }

    /// Peers that are refused and send nothing, or send without end, must not keep others from connecting.
    #[test]
    fn refused_peers_cost_nothing() {
        let (_folder, path) = listen(|_| Err("no".into()));
        let idle: Vec<UnixStream> = (0..300).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let flood = UnixStream::connect(&path).unwrap();
        let ended = std::thread::spawn(move || while (&flood).write_all(&[0; 1 << 16]).is_ok() {});
        assert!(matches!(connect_to_own(&path, Role::Client), Err(WireError::Refused(_))));
        ended.join().unwrap();
        drop(idle);
    }

    #[test]
    fn a_socket_of_another_user_is_refused() {
        let (_folder, path) = listen(|_| Ok(()));
        let refused = connect(&path, u32::MAX - 1, Role::Client).unwrap_err();
        assert!(matches!(refused, WireError::Io { ref error, .. } if error.kind() == io::ErrorKind::PermissionDenied));
    }

    /// A peer that sends a byte now and then must not keep its connection for longer than one that sends nothing.
    #[test]
    fn a_handshake_has_one_deadline() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let deadline = Instant::now() + Duration::from_millis(100);
        let sender = std::thread::spawn(move || {
            while (&theirs).write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let read = read::<32>(&mut ours, deadline, "test");
        drop(ours);
        sender.join().unwrap();
        assert!(
            matches!(read, Err(WireError::Io { ref error, .. }) if error.kind() == io::ErrorKind::TimedOut),
            "{read:?}"
        );
    }

    #[test]
    fn a_different_version_is_reported_to_both() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        ours.write_all(&MAGIC).unwrap();
        ours.write_all(&99_u32.to_le_bytes()).unwrap();
        assert!(matches!(accept(&mut theirs), Err(WireError::Version { theirs: 99, .. })));
        assert_eq!(read(&mut ours, Instant::now() + TIMEOUT, "test").unwrap(), MAGIC);
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[&MAGIC[..], &98_u32.to_le_bytes()].concat()).unwrap();
        assert!(matches!(initiate(&mut ours, "test", Role::Client), Err(WireError::Version { theirs: 98, .. })));
    }
}
