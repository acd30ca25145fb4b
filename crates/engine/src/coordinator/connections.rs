//! Connections: threads that convert received bytes into inputs of the coordinator's loop, and its messages into sent bytes.

use super::inputs::{ClientLink, Input, WorkerLink};
use super::planning::{self, Code};
use super::programs::ProgramSession;
use super::reload::{ReloadSource, Reloadable};
use super::{StartError, logs};
use crate::access::{self, Access, Caller, CountedConnection, OpenConnections};
use crate::apps::Apps;
use crate::program::{Planner, ProgramStore};
use crate::wire::{
    self, FromClient, FromWorker, Listener, MESSAGE_BYTES_MAX, RejectionCode, Role, SocketFile, ToClient, ToWorker,
    WireError,
};
use giveway_core::{AttemptId, TaskId};
use rustix::process::geteuid;
use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};
use tracing::warn;

/// How long a peer may take to read what was sent to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// Longest message of another user. It has room for the longest options and for the pieces of a program.
const MESSAGE_BYTES_OF_OTHERS_MAX: usize = 4 << 20;

/// What the threads of client connections work with.
#[derive(Clone)]
pub(super) struct Services {
    /// The applications that jobs may name.
    pub(super) apps: Apps,
    /// Programs that were shipped with jobs.
    pub(super) programs: Arc<ProgramStore>,
    /// Has them plan jobs.
    pub(super) planner: Planner,
    pub(super) folder: PathBuf,
    /// Inputs of the coordinator's loop.
    pub(super) inputs: Sender<Input>,
    /// The next id of a connection or request.
    pub(super) ids: Arc<AtomicU64>,
    /// Where policy, tenants and access are read again.
    pub(super) reload: Option<ReloadSource>,
    pub(super) shared: SharedAccess,
}

/// Who is admitted beside the owner, and the files of all sockets.
#[derive(Clone)]
pub(super) struct SharedAccess {
    access: Arc<RwLock<Access>>,
    /// Whether the socket for other users is open. It stays open once it is.
    is_open: Arc<Mutex<bool>>,
    sockets: Arc<Mutex<Vec<SocketFile>>>,
}

impl SharedAccess {
    pub(super) fn new(sockets: Arc<Mutex<Vec<SocketFile>>>) -> SharedAccess {
        SharedAccess { access: Arc::default(), is_open: Arc::default(), sockets }
    }

    /// What would change if these users had access.
    fn changes(&self, access: &Access) -> Vec<String> {
        access.changes_since(&self.access.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn caller(&self, uid: u32) -> Option<Caller> {
        self.access.read().unwrap_or_else(PoisonError::into_inner).caller(uid)
    }
}

/// Admits these users and no others, and opens the socket for them when the first are admitted.
pub(super) fn admit(services: &Services, access: Access) -> Result<(), StartError> {
    let mut is_open = services.shared.is_open.lock().unwrap_or_else(PoisonError::into_inner);
    if !access.is_empty() && !*is_open {
        let (listener, socket) = super::listen_shared(&services.folder)?;
        services.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner).push(SocketFile::new(socket));
        let failed = |error| StartError::Folder { path: services.folder.clone(), error };
        listen_shared(listener, services.clone()).map_err(failed)?;
        *is_open = true;
    }
    *services.shared.access.write().unwrap_or_else(PoisonError::into_inner) = access;
    Ok(())
}

impl Services {
    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

/// Serves the owner's processes on the private socket.
pub(super) fn listen(listener: Listener, services: Services) -> io::Result<()> {
    let owner = geteuid().as_raw();
    let admit = move |uid| match uid == owner {
        true => Ok(()),
        false => Err(access::no_access(owner, uid)),
    };
    listener.serve(admit, move |stream, ()| warn_unless_disconnected(serve(stream, &services, None)))
}

/// Serves other users on the socket for them.
fn listen_shared(listener: Listener, services: Services) -> io::Result<()> {
    let connections = OpenConnections::default();
    let shared = services.shared.clone();
    let admit = move |uid| {
        let caller = shared.caller(uid).ok_or_else(|| access::no_access(geteuid().as_raw(), uid))?;
        Ok((caller, connections.begin(uid)?))
    };
    listener.serve(admit, move |stream, other| warn_unless_disconnected(serve(stream, &services, Some(&other))))
}

/// An admitted user and one of the user's connections.
type OtherUser = (Caller, CountedConnection);

/// Serves a process of the owner, or of another user.
fn serve(mut stream: UnixStream, services: &Services, other: Option<&OtherUser>) -> Result<(), WireError> {
    let role = wire::accept(&mut stream)?;
    // A peer that does not read must not make messages for it pile up: its connection is closed.
    stream.set_write_timeout(Some(WRITE_TIMEOUT)).map_err(WireError::io("cannot set a timeout"))?;
    match (role, other) {
        (Role::Worker, None) => serve_worker(stream, services.next_id(), &services.inputs),
        (Role::Worker, Some(_)) => Err(WireError::UnknownPeer),
        (Role::Client, other) => serve_client(stream, services, other),
    }
}

fn warn_unless_disconnected(served: Result<(), WireError>) {
    if let Err(error) = served
        && !error.is_disconnect()
    {
        warn!("connection closed: {error}");
    }
}

fn serve_worker(mut stream: UnixStream, id: u64, inputs: &Sender<Input>) -> Result<(), WireError> {
    let FromWorker::Join(join) = wire::receive(&mut stream, MESSAGE_BYTES_MAX)? else {
        return Err(WireError::UnknownPeer);
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
fn write_messages(stream: UnixStream, outgoing: &Receiver<ToWorker>) {
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
    wire::shut_down(&stream);
}

/// A client that takes so long for one answer reads it on purpose as slowly as it can, while further ones pile up.
pub(super) struct Answers<'a>(&'a UnixStream);

impl Answers<'_> {
    pub(super) fn send(&self, answer: &ToClient) -> Result<(), WireError> {
        wire::send(&mut UntilDeadline { stream: self.0, deadline: Instant::now() + WRITE_TIMEOUT }, answer)
    }
}

/// A stream that is written to until a deadline, however slowly the peer reads.
struct UntilDeadline<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Write for UntilDeadline<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(Some(left))?;
        // The system allows the time left to each of its buffers of a write, so a long write could take many times as long.
        self.stream.write(&bytes[..bytes.len().min(32 << 10)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// True if the answer comes from memory, or from the journal as a whole: such requests of a user are answered one at a time.
fn is_question(message: &FromClient) -> bool {
    matches!(
        message,
        FromClient::Jobs { .. }
            | FromClient::Nodes
            | FromClient::EventLog
            | FromClient::Job { .. }
            | FromClient::Logs { .. }
            | FromClient::ReadLog { .. }
    )
}

/// Serves a client of the owner, or of another user.
fn serve_client(stream: UnixStream, services: &Services, other: Option<&OtherUser>) -> Result<(), WireError> {
    let Services { apps, inputs, .. } = services;
    let mut programs = ProgramSession::new(Arc::clone(&services.programs));
    let caller = other.map(|(caller, _)| caller);
    let bytes_max = if other.is_some() { MESSAGE_BYTES_OF_OTHERS_MAX } else { MESSAGE_BYTES_MAX };
    let to_client = Answers(&stream);
    loop {
        let mut message: FromClient = wire::receive(&mut &stream, bytes_max)?;
        if let Some(caller) = caller
            && let Err(reason) = restrict(&mut message, caller)
        {
            to_client.send(&ToClient::Rejected(RejectionCode::Forbidden.because(reason)))?;
            continue;
        }
        let turn = other.filter(|_| is_question(&message)).map(|(_, connection)| &connection.turn);
        let turn = turn.map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
        let (sender, answers) = mpsc::channel();
        let limited_to = caller.filter(|caller| !caller.is_admin).map(|caller| caller.name.clone());
        let client = ClientLink { id: services.next_id(), limited_to: limited_to.clone(), sender };
        let sent = match message {
            // Whether a job writes there is known to the loop.
            FromClient::Submit { ref request, .. } if request.output.is_absolute() && request.output.exists() => {
                inputs.send(Input::ClientRequest { request: message, client })
            }
            FromClient::Submit { request, shipped } => {
                let planned = match shipped {
                    true => programs.plan(*request, &services.planner),
                    false => planning::plan(*request, Code::BuiltIn(apps))
                        .map(|plan| (plan, None))
                        .map_err(|error| RejectionCode::Invalid.because(error.to_string())),
                };
                match planned {
                    Ok((plan, program)) => inputs.send(Input::JobPlanned { plan: Box::new(plan), program, client }),
                    Err(rejection) => {
                        to_client.send(&ToClient::Rejected(rejection))?;
                        continue;
                    }
                }
            }
            FromClient::OfferProgram { .. } | FromClient::ProgramPiece { .. } => {
                to_client.send(&programs.handle(message))?;
                continue;
            }
            FromClient::Reload => {
                to_client.send(&reload(services, client, &answers))?;
                continue;
            }
            FromClient::EventLog => {
                logs::send_event_log(&to_client, &services.folder)?;
                continue;
            }
            FromClient::Logs { job }
            | FromClient::ReadLog { attempt: AttemptId { task: TaskId { job, .. }, .. }, .. } => {
                let status = FromClient::Job { job, follow: false };
                let asked = inputs.send(Input::ClientRequest { request: status, client });
                let status = asked.ok().and_then(|()| answers.recv().ok());
                if let Some(status) = status {
                    let answer = logs::answer(&services.folder, &message, status, limited_to.as_deref());
                    to_client.send(&answer)?;
                    continue;
                }
                return to_client.send(&stopping());
            }
            request => inputs.send(Input::ClientRequest { request, client }),
        };
        if sent.is_err() {
            return to_client.send(&stopping());
        }
        // One answer, or several if a job is followed. The coordinator drops its sender after the last, or unanswered when it ends.
        let Ok(first) = answers.recv() else { return to_client.send(&stopping()) };
        drop(turn);
        to_client.send(&first)?;
        while let Ok(answer) = answers.recv() {
            to_client.send(&answer)?;
        }
    }
}

/// Reads policy, tenants and access again, and has them take effect.
fn reload(services: &Services, client: ClientLink, answers: &Receiver<ToClient>) -> ToClient {
    let rejected = |reason: String| RejectionCode::Conflict.because(reason).into();
    let Some(source) = &services.reload else {
        return rejected("this cluster was not started by `giveway up`: start it again to change its policy".into());
    };
    let Reloadable { policy, tenants, access } = match source.read() {
        Ok(read) => read,
        Err(problem) => return rejected(format!("{problem}; the previous policy and tenants stay in force")),
    };
    if services.inputs.send(Input::Reload { policy: Box::new(policy), tenants, client }).is_err() {
        return stopping();
    }
    let answer = answers.recv().unwrap_or_else(|_| stopping());
    let ToClient::Reloaded(mut reload) = answer else { return answer };
    let admitted = services.shared.changes(&access);
    if let Err(error) = admit(services, access) {
        return rejected(format!("policy and tenants are loaded, but other users cannot be admitted: {error}"));
    }
    reload.changed |= !admitted.is_empty();
    reload.changes.extend(admitted);
    ToClient::Reloaded(reload)
}

fn stopping() -> ToClient {
    RejectionCode::Unavailable.because("the coordinator is stopping; try again after it has been restarted").into()
}

/// Sets who submits a job, and refuses what is the owner's alone.
fn restrict(message: &mut FromClient, caller: &Caller) -> Result<(), &'static str> {
    match message {
        FromClient::Submit { request, .. } => {
            request.user = caller.name.clone();
            Ok(())
        }
        FromClient::Reload if !caller.is_admin => {
            Err("only the cluster's owner and its admins can change the policy; ask them")
        }
        FromClient::SetDrained { .. } if !caller.is_admin => {
            Err("only the cluster's owner and its admins can drain nodes; ask them")
        }
        FromClient::Stop => Err("only the cluster's owner can stop it; ask the owner"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A client that reads a byte now and then must not keep its thread, and the answers behind, for longer than one that reads nothing.
    #[test]
    fn an_answer_has_one_deadline() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let reader = thread::spawn(move || {
            while theirs.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
                thread::sleep(Duration::from_millis(10));
            }
        });
        let deadline = Instant::now() + Duration::from_millis(200);
        let sent = wire::send(&mut UntilDeadline { stream: &ours, deadline }, &"x".repeat(12 << 20));
        drop(ours);
        reader.join().unwrap();
        // The system may report the end of the time left as either.
        let expected = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(matches!(&sent, Err(WireError::Io { error, .. }) if expected.contains(&error.kind())), "{sent:?}");
    }
}
