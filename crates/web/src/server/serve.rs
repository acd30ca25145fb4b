//! Connections. Every user of the machine can connect to the loopback port, and each connection takes a file descriptor of the coordinator's process, which
//! needs its own. So their number, and the time that each may take for a request, are limited. The owner's programs use the Unix socket, where only the
//! times are.

use axum::Router;
use futures::future::select;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Notify;
use tokio::time::Sleep;
use tower_service::Service;

/// The most connections to the port at a time. If there are more, the oldest that has not shown a valid token is closed.
pub(super) const CONNECTIONS_MAX: usize = 256;

/// The most connections that one token keeps open. Further ones with it are closed like those without.
pub(super) const CONNECTIONS_OF_TOKEN_MAX: usize = 64;

/// Time in which the head of a request has to arrive, from the beginning of the connection or the end of the last request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 4 } else { 10 });

/// Time in which a client has to take something of what it is sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 4 } else { 30 });

/// Bytes of the head of a request, and of an answer that wait to be sent.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Delay before the next connection is accepted after an error, such as too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// A connection, as its requests know it.
#[derive(Clone, Debug)]
pub(super) struct Connection(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_from_owner: bool,
    /// The name of the valid token that a request had.
    token: Mutex<Option<String>>,
    closed: Notify,
    open: Open,
}

impl Connection {
    /// True if it came over the Unix socket, to which only the owner's processes can connect.
    pub(super) fn is_from_owner(&self) -> bool {
        self.0.is_from_owner
    }

    /// Remembers that a request had the valid token of this name, unless that has enough connections.
    pub(super) fn trust(&self, name: &str) {
        if self.token().is_some() {
            return;
        }
        let open = self.0.open.lock();
        if open.values().filter(|other| other.token().as_deref() == Some(name)).count() < CONNECTIONS_OF_TOKEN_MAX {
            *self.token() = Some(name.to_owned());
        }
    }

    fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.0.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open connections to the port, oldest first.
#[derive(Clone, Debug, Default)]
struct Open(Arc<Mutex<BTreeMap<u64, Connection>>>);

impl Open {
    /// Adds a connection and closes another one if there are too many. None if all others have shown a valid token.
    fn add(&self, id: u64) -> Option<Connection> {
        let mut open = self.lock();
        if open.len() >= CONNECTIONS_MAX {
            let oldest = open.iter().find(|(_, connection)| connection.token().is_none()).map(|(&id, _)| id)?;
            if let Some(connection) = open.remove(&oldest) {
                connection.0.closed.notify_one();
            }
        }
        let connection = Connection(Arc::new(State { open: self.clone(), ..State::default() }));
        open.insert(id, connection.clone());
        Some(connection)
    }

    fn remove(&self, id: u64) {
        self.lock().remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves everybody who connects to the port.
pub(super) async fn serve_port(listener: TcpListener, router: Router) {
    let open = Open::default();
    for id in 0.. {
        let stream = accepted(|| listener.accept()).await;
        if let Some(connection) = open.add(id) {
            let (open, router) = (open.clone(), router.clone());
            tokio::spawn(async move {
                serve(stream, connection, router).await;
                open.remove(id);
            });
        }
    }
}

/// Serves the owner's processes.
pub(super) async fn serve_owner(listener: UnixListener, router: Router) {
    loop {
        let stream = accepted(|| listener.accept()).await;
        let connection = Connection(Arc::new(State { is_from_owner: true, ..State::default() }));
        tokio::spawn(serve(stream, connection, router.clone()));
    }
}

async fn accepted<S, A, F: Future<Output = io::Result<(S, A)>>>(mut accept: impl FnMut() -> F) -> S {
    loop {
        match accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!("cannot accept a connection to the HTTP API: {error}");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(stream: S, connection: Connection, router: Router) {
    let stream = TokioIo::new(WriteTimeout { stream, expires: None });
    let closed = Arc::clone(&connection.0);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(connection.clone());
        router.clone().call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(stream, service);
    // How it has ended is the client's concern.
    let _ = select(pin!(served), pin!(closed.closed.notified())).await;
}

/// A stream whose reader has to take something now and then.
struct WriteTimeout<S> {
    stream: S,
    /// While the reader takes nothing.
    expires: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> WriteTimeout<S> {
    fn limit<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.expires = None;
            return polled;
        }
        let expires = self.expires.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_TIMEOUT)));
        expires.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.limit(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limit(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.limit(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
