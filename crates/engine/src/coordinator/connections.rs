//! Connections: threads that convert received bytes into inputs of the coordinator's loop, and its messages into sent bytes.

use super::inputs::{ClientLink, Input, WorkerLink};
use super::planning;
use crate::access::{self, Access, Caller, OpenConnections};
use crate::apps::Apps;
use crate::store::{CoordinatorStoreAccess, Namespace, StoreSession};
use crate::wire::{
    self, FromClient, FromWorker, Handshaking, Listener, MESSAGE_BYTES_MAX, Role, Stream, ToClient, ToWorker, Token,
};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;
use tracing::warn;

/// How long a peer may take to read what was sent to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts a thread that accepts connections and serves each on a thread of its own. It runs until the process ends.
pub(super) fn listen(
    listener: Listener,
    token: Token,
    apps: Apps,
    store: Arc<Namespace>,
    inputs: Sender<Input>,
    ids: Arc<AtomicU64>,
) -> io::Result<()> {
    listener.serve("connection", move |stream, handshaking| {
        let stored = CoordinatorStoreAccess { namespace: Arc::clone(&store), token: token.clone() };
        serve(stream, handshaking, &ids, stored, &apps, &inputs);
    })
}

fn serve(
    mut stream: Stream,
    handshaking: Handshaking,
    ids: &AtomicU64,
    stored: CoordinatorStoreAccess,
    apps: &Apps,
    inputs: &Sender<Input>,
) {
    let accepted = wire::accept(&mut stream, &stored.token);
    drop(handshaking);
    // A peer that does not read must not make messages for it pile up: its connection is closed.
    if let Err(error) = stream.set_write_timeout(Some(WRITE_TIMEOUT)) {
        return warn!("connection closed: {error}");
    }
    let served = match accepted {
        Ok(Role::Worker) => serve_worker(stream, ids.fetch_add(1, Ordering::Relaxed), inputs),
        Ok(Role::Client) => serve_client(stream, ids, &stored, apps, inputs, None),
        Ok(Role::Data) => {
            warn!("connection refused: the peer requested data, which only workers serve");
            Ok(())
        }
        Err(error) => Err(error),
    };
    warn_unless_disconnected(served);
}

fn warn_unless_disconnected(served: Result<(), wire::WireError>) {
    if let Err(error) = served
        && !error.is_disconnect()
    {
        warn!("connection closed: {error}");
    }
}

/// Like [`listen`], on the socket for other users.
pub(super) fn listen_shared(
    listener: Listener,
    access: Access,
    token: Token,
    apps: Apps,
    store: Arc<Namespace>,
    inputs: Sender<Input>,
    ids: Arc<AtomicU64>,
) -> io::Result<()> {
    let connections = OpenConnections::default();
    listener.serve("connection", move |stream, handshaking| {
        let stored = CoordinatorStoreAccess { namespace: Arc::clone(&store), token: token.clone() };
        let callers = (&access, &connections);
        warn_unless_disconnected(serve_shared(stream, handshaking, callers, &ids, &stored, &apps, &inputs));
    })
}

fn serve_shared(
    mut stream: Stream,
    handshaking: Handshaking,
    (access, connections): (&Access, &OpenConnections),
    ids: &AtomicU64,
    stored: &CoordinatorStoreAccess,
    apps: &Apps,
    inputs: &Sender<Input>,
) -> Result<(), wire::WireError> {
    let failed = || wire::WireError::io("connection of another user");
    let uid = stream.peer_uid().map_err(failed())?;
    wire::accept_shared(&mut stream)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT)).map_err(failed())?;
    let caller = uid.and_then(|uid| Some((access.caller(uid)?, connections.begin(uid))));
    let reason = match caller {
        Some((caller, Some(_counted))) => {
            drop(handshaking);
            return serve_client(stream, ids, stored, apps, inputs, Some(&caller));
        }
        Some((_, None)) => access::too_many_connections(),
        None => access::no_access(rustix::process::geteuid().as_raw(), uid.unwrap_or(u32::MAX)),
    };
    // Counted as a handshake until it is closed.
    stream.set_read_timeout(Some(WRITE_TIMEOUT)).map_err(failed())?;
    let _: FromClient = wire::receive(&mut stream, MESSAGE_BYTES_MAX)?;
    wire::send(&mut stream, &ToClient::Refused { reason })
}

fn serve_worker(mut stream: Stream, id: u64, inputs: &Sender<Input>) -> Result<(), wire::WireError> {
    let FromWorker::Join(join) = wire::receive(&mut stream, MESSAGE_BYTES_MAX)? else {
        return Err(wire::WireError::UnknownPeer);
    };
    let (sender, outgoing) = mpsc::channel();
    let Ok(write_half) = stream.try_clone() else { return Ok(()) };
    let writer =
        thread::Builder::new().name("connection-writer".into()).spawn(move || write_messages(write_half, &outgoing));
    if writer.is_err() {
        return Ok(());
    }
    let _ = inputs.send(Input::WorkerJoined { join, link: WorkerLink { id, sender } });
    loop {
        match wire::receive(&mut stream, MESSAGE_BYTES_MAX) {
            Ok(message) => {
                if inputs.send(Input::WorkerMessage { link: id, message }).is_err() {
                    return Ok(());
                }
            }
            Err(error) => {
                let _ = inputs.send(Input::WorkerDisconnected { link: id });
                return Err(error);
            }
        }
    }
}

/// Sends messages to a worker until the coordinator drops the sender, then closes the connection.
fn write_messages(stream: Stream, outgoing: &Receiver<ToWorker>) {
    let mut out = BufWriter::new(&stream);
    while let Ok(message) = outgoing.recv() {
        let mut sent = wire::send(&mut out, &message);
        // All pending messages share one flush.
        while sent.is_ok() {
            match outgoing.try_recv() {
                Ok(message) => sent = wire::send(&mut out, &message),
                Err(_) => break,
            }
        }
        if sent.is_err() || out.flush().is_err() {
            break;
        }
    }
    let _ = out.flush();
    let _ = stream.shutdown();
}

/// Serves a client of the owner, or with a `caller` of another user.
fn serve_client(
    mut stream: Stream,
    ids: &AtomicU64,
    stored: &CoordinatorStoreAccess,
    apps: &Apps,
    inputs: &Sender<Input>,
    caller: Option<&Caller>,
) -> Result<(), wire::WireError> {
    // Dropped with the connection: uploads that were not completed are then discarded.
    let mut session = StoreSession::new(Arc::clone(&stored.namespace), stored.token.clone());
    loop {
        let mut message: FromClient = wire::receive(&mut stream, MESSAGE_BYTES_MAX)?;
        if let Some(caller) = caller
            && let Err(reason) = restrict(&mut message, caller)
        {
            wire::send(&mut stream, &ToClient::Refused { reason: reason.into() })?;
            continue;
        }
        let (sender, answers) = mpsc::channel();
        let limited_to = caller.filter(|caller| !caller.is_admin).map(|caller| caller.name.clone());
        let client = ClientLink { id: ids.fetch_add(1, Ordering::Relaxed), limited_to, sender };
        let sent = match message {
            FromClient::Submit(request) => match planning::plan(*request, apps, stored) {
                Ok(plan) => inputs.send(Input::JobPlanned { plan: Box::new(plan), client }),
                Err(error) => {
                    wire::send(&mut stream, &ToClient::Refused { reason: error.to_string() })?;
                    continue;
                }
            },
            FromClient::Store(request) => {
                wire::send(&mut stream, &session.handle(request))?;
                continue;
            }
            request => inputs.send(Input::ClientRequest { request, client }),
        };
        if sent.is_err() {
            let reason = "the coordinator is stopping; try again after it has been restarted".into();
            return wire::send(&mut stream, &ToClient::Refused { reason });
        }
        // One answer, or several if a job is followed. The coordinator drops its sender after the last.
        while let Ok(answer) = answers.recv() {
            wire::send(&mut stream, &answer)?;
        }
    }
}

/// Sets who submits a job, and refuses what is the owner's alone.
fn restrict(message: &mut FromClient, caller: &Caller) -> Result<(), &'static str> {
    match message {
        FromClient::Submit(request) => {
            request.user = caller.name.clone();
            Ok(())
        }
        FromClient::Store(_) => Err(access::STORED_FILES_REFUSED),
        FromClient::Stop => Err("only the cluster's owner can stop it; ask the owner"),
        _ => Ok(()),
    }
}
