//! Connections between processes: Unix sockets. The kernel tells each side the user of the other one, and nothing else proves who a peer is: there is
//! no password and no token. Sockets are in a folder that only its owner can enter (`run_folder.rs`); the one for other users is described in
//! [`crate::access`].

use super::WireError;
use super::handshake::{self, Role};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Delay before the next connection is accepted after an error, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Connects to a socket and performs the handshake. Fails if the process there does not run as this user.
pub fn connect(socket: &Path, user: u32, role: Role) -> Result<UnixStream, WireError> {
    let context = || format!("cannot connect to {}", socket.display());
    let mut stream = UnixStream::connect(socket).map_err(WireError::io(context()))?;
    let peer = peer_uid(&stream).map_err(WireError::io(context()))?;
    if peer != user {
        let error = io::Error::new(io::ErrorKind::PermissionDenied, format!("user {peer} listens there, not {user}"));
        return Err(WireError::Io { what: context(), error });
    }
    handshake::initiate(&mut stream, &context(), role)?;
    Ok(stream)
}

/// Connects to a socket of this user.
pub fn connect_to_own(socket: &Path, role: Role) -> Result<UnixStream, WireError> {
    connect(socket, geteuid().as_raw(), role)
}

/// The user of the peer, as the kernel reports it.
fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    Ok(socket_peercred(stream)?.uid.as_raw())
}

/// Closes a connection for all its handles.
pub(crate) fn shut_down(stream: &UnixStream) {
    // Fails if the peer has closed it already.
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens on a socket to which only this user can connect. A socket that an ended process left under this path is replaced; the caller must know
    /// that it has ended.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        Listener::bind_with_mode(path, 0o600)
    }

    /// Listens on a socket to which every user can connect.
    pub(crate) fn bind_shared(path: &Path) -> io::Result<Listener> {
        Listener::bind_with_mode(path, 0o666)
    }

    fn bind_with_mode(path: &Path, mode: u32) -> io::Result<Listener> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        Ok(Listener { socket, path: path.to_owned() })
    }

    /// The path to connect to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for a connection.
    pub fn accept(&self) -> io::Result<UnixStream> {
        self.socket.accept().map(|(stream, _)| stream)
    }

    /// Starts a thread that accepts connections and serves each on a thread of its own. It runs until the process ends. `admit` is called with the
    /// user of each peer. A peer that it refuses is told the reason and costs neither a thread nor a wait, so it cannot keep others from connecting.
    pub fn serve<T: Send + 'static>(
        self,
        admit: impl Fn(u32) -> Result<T, String> + Send + 'static,
        serve: impl Fn(UnixStream, T) + Send + Sync + Clone + 'static,
    ) -> io::Result<()> {
        let accept = move || {
            let stream = self.accept()?;
            match admit(peer_uid(&stream)?) {
                Ok(admitted) => {
                    let serve = serve.clone();
                    thread::Builder::new().name("connection".into()).spawn(move || serve(stream, admitted)).map(drop)
                }
                Err(reason) => {
                    handshake::refuse(&stream, &reason);
                    Ok(())
                }
            }
        };
        thread::Builder::new().name("listener".into()).spawn(move || {
            loop {
                if let Err(error) = accept() {
                    tracing::warn!("cannot serve a connection: {error}");
                    thread::sleep(ACCEPT_RETRY_DELAY);
                }
            }
        })?;
        Ok(())
    }
}

/// Removes the file of a Unix socket when dropped, and its folder if that is empty then. A file that has replaced it meanwhile is left alone.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// The file of a socket that this process listens on.
    pub fn new(path: PathBuf) -> SocketFile {
        let identity = identity(&path);
        SocketFile { path, identity }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_none() || identity(&self.path) != self.identity {
            return;
        }
        let _ = std::fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}
