//! Connections between processes: Unix sockets, and TCP on the loopback interface where it was asked for.
//!
//! An address is `unix:PATH` or `HOST:PORT`. Unix sockets are in a folder that only its owner can enter (`run_folder.rs`), and the kernel tells each side
//! the user of the other one: a process of another user is refused on both sides before anything is sent.

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const UNIX: &str = "unix:";

/// Maximum number of connections of one listener that are not authenticated yet. Further ones are closed.
const HANDSHAKES_MAX: usize = 128;

/// Delay before the next connection is accepted after an error, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// Over a Unix socket.
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Calls a method of the socket.
macro_rules! forward {
    ($stream:expr, $socket:ident => $call:expr) => {
        match $stream {
            Stream::Unix($socket) => $call,
            Stream::Tcp($socket) => $call,
        }
    };
}

impl Stream {
    /// Connects to an address. Fails if the process there runs as another user.
    pub fn connect(address: &str) -> io::Result<Stream> {
        let stream = match address.strip_prefix(UNIX) {
            Some(path) => Stream::Unix(UnixStream::connect(path)?),
            None => Stream::Tcp(TcpStream::connect(address)?),
        };
        stream.check_user().map(|()| stream)
    }

    /// Connects to a Unix socket. Fails if the process there does not run as this user.
    pub(super) fn connect_to_user(socket: &Path, user: u32) -> io::Result<Stream> {
        let stream = Stream::Unix(UnixStream::connect(socket)?);
        match stream.peer_uid()? {
            Some(peer) if peer == user => Ok(stream),
            _ => Err(io::Error::new(io::ErrorKind::PermissionDenied, "somebody else listens there")),
        }
    }

    /// The user of the peer, as the kernel reports it. It does not know this for TCP.
    pub(crate) fn peer_uid(&self) -> io::Result<Option<u32>> {
        match self {
            Stream::Unix(socket) => Ok(Some(socket_peercred(socket)?.uid.as_raw())),
            Stream::Tcp(_) => Ok(None),
        }
    }

    /// Fails if the kernel reports that the peer is a process of another user. It does not know this for TCP.
    pub(super) fn check_user(&self) -> io::Result<()> {
        let Stream::Unix(socket) = self else { return Ok(()) };
        let (peer, own) = (socket_peercred(socket)?.uid, geteuid());
        if peer == own {
            return Ok(());
        }
        let text = format!("the peer runs as user {}, not as {}", peer.as_raw(), own.as_raw());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }

    /// The address that the initiator connected to, as this side sees it. Both sides see the same one unless somebody relays the connection.
    pub(super) fn dialled_address(&self, is_initiator: bool) -> io::Result<Vec<u8>> {
        Ok(match (self, is_initiator) {
            (Stream::Unix(socket), true) => unix_path(&socket.peer_addr()?),
            (Stream::Unix(socket), false) => unix_path(&socket.local_addr()?),
            (Stream::Tcp(socket), true) => socket.peer_addr()?.to_string().into_bytes(),
            (Stream::Tcp(socket), false) => socket.local_addr()?.to_string().into_bytes(),
        })
    }

    /// Sends small messages at once.
    pub(super) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Stream::Unix(_) => Ok(()),
            Stream::Tcp(socket) => socket.set_nodelay(true),
        }
    }

    /// Sets the timeout of reads; `None` for no limit.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        forward!(self, socket => socket.set_read_timeout(timeout))
    }

    /// Sets the timeout of writes; `None` for no limit.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        forward!(self, socket => socket.set_write_timeout(timeout))
    }

    /// A second handle to the connection.
    pub fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Unix(socket) => socket.try_clone().map(Stream::Unix),
            Stream::Tcp(socket) => socket.try_clone().map(Stream::Tcp),
        }
    }

    /// Closes the connection for all its handles.
    pub fn shutdown(&self) -> io::Result<()> {
        forward!(self, socket => socket.shutdown(Shutdown::Both))
    }

    /// Copies from a file, within the kernel where it can. Returns the number of bytes.
    pub fn copy_from(&mut self, file: &mut io::Take<&mut std::fs::File>) -> io::Result<u64> {
        forward!(self, socket => io::copy(file, socket))
    }
}

fn unix_path(address: &std::os::unix::net::SocketAddr) -> Vec<u8> {
    address.as_pathname().unwrap_or(Path::new("")).as_os_str().as_encoded_bytes().to_vec()
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        forward!(self, socket => socket.read(buffer))
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        forward!(*self, socket => (&mut &*socket).read(buffer))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        forward!(self, socket => socket.write_vectored(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        forward!(*self, socket => (&mut &*socket).write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: String,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a Unix socket. A socket that an ended process left under this path is replaced; the caller must know that it has ended.
    pub fn bind_unix(path: &Path) -> io::Result<Listener> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let text = path.to_str().ok_or_else(|| io::Error::other("the path of a socket must be UTF-8"))?;
        let socket = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Listener { socket: Socket::Unix(socket), address: format!("{UNIX}{text}") })
    }

    /// Listens on a Unix socket to which every user can connect.
    pub(crate) fn bind_shared(path: &Path) -> io::Result<Listener> {
        let listener = Listener::bind_unix(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
        Ok(listener)
    }

    /// Listens on TCP. Port 0 selects a free port.
    pub fn bind_tcp(addresses: &[SocketAddr]) -> io::Result<Listener> {
        let socket = TcpListener::bind(addresses)?;
        let address = socket.local_addr()?.to_string();
        Ok(Listener { socket: Socket::Tcp(socket), address })
    }

    /// The address to connect to.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Waits for a connection.
    pub fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Unix(socket) => socket.accept().map(|(stream, _)| Stream::Unix(stream)),
            Socket::Tcp(socket) => socket.accept().map(|(stream, _)| Stream::Tcp(stream)),
        }
    }

    /// Starts a thread that accepts connections and serves each on a thread of its own. It runs until the process ends. `serve` must drop the
    /// [`Handshaking`] once the peer is authenticated.
    pub fn serve(
        self,
        name: &'static str,
        serve: impl Fn(Stream, Handshaking) + Send + Sync + Clone + 'static,
    ) -> io::Result<()> {
        let handshakes = Arc::new(AtomicUsize::new(0));
        thread::Builder::new().name(name.into()).spawn(move || {
            loop {
                let stream = match self.accept() {
                    Ok(stream) => stream,
                    Err(error) => {
                        tracing::warn!("cannot accept connections on {}: {error}; trying again", self.address);
                        thread::sleep(ACCEPT_RETRY_DELAY);
                        continue;
                    }
                };
                let handshaking = Handshaking::begin(&handshakes);
                if handshaking.number > HANDSHAKES_MAX {
                    continue;
                }
                let serve = serve.clone();
                let spawned = thread::Builder::new().name(name.into()).spawn(move || serve(stream, handshaking));
                if let Err(error) = spawned {
                    tracing::warn!("connection closed: cannot start a thread for it: {error}");
                    thread::sleep(ACCEPT_RETRY_DELAY);
                }
            }
        })?;
        Ok(())
    }
}

/// Counts a connection among those that are not authenticated yet, until it is dropped.
#[derive(Debug)]
pub struct Handshaking {
    all: Arc<AtomicUsize>,
    number: usize,
}

impl Handshaking {
    fn begin(all: &Arc<AtomicUsize>) -> Handshaking {
        Handshaking { number: all.fetch_add(1, Ordering::Relaxed) + 1, all: Arc::clone(all) }
    }
}

impl Drop for Handshaking {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Removes the file of a Unix socket when dropped, and its folder if no process uses it any more.
#[derive(Debug)]
pub struct SocketFile(pub PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        if let Some(folder) = self.0.parent() {
            super::run_folder::remove_sockets_of_ended_workers(folder);
            let _ = std::fs::remove_dir(folder);
        }
    }
}
