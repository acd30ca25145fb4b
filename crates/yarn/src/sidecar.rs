//! The sidecar process: sockets, threads and the clock around the [`AppRegistry`].
//!
//! One thread accepts connections. One thread per connection performs the handshake and then reads messages. The caller's thread owns the registry:
//! it applies messages, sends rankings and answers heartbeats, so an answered heartbeat shows that the deciding thread is alive. There is one
//! ResourceManager: a new authenticated connection replaces the previous one.

use crate::adaptation::{Adapted, adapt, degradations};
use crate::app_registry::{AppRegistry, RegistryError};
use crate::handshake::{self, UntilDeadline};
use crate::wire::{self, PluginMessage, SidecarMessage, WireError};
use giveway_core::{Policy, Span, Time};
use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, io, thread};
use thiserror::Error;

/// Time for the whole handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time within which a complete message must arrive. The plug-in sends a heartbeat twice a second.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Time within which the plug-in must accept a frame.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Limit on connections at a time. One ResourceManager that reconnects needs only a few.
const CONNECTIONS_MAX: usize = 16;

/// Limit on queued inputs. When it is reached, the reading threads block, and so does the plug-in's sending thread.
const INPUT_QUEUE_MAX: usize = 65_536;

/// How often free slots are offered to paused containers.
const POLL_INTERVAL: Span = Span::from_secs(1);
const TOKEN_BYTES_MIN: usize = 16;

/// Options of a sidecar.
#[derive(Clone, Debug)]
pub struct Options {
    /// Adapted to YARN by [`adapt`](crate::adapt) when the sidecar binds.
    pub policy: Policy,
    /// Address to listen on. Must be a loopback address.
    pub listen: SocketAddr,
    /// File with the shared token, at least 16 bytes, readable by its owner only.
    pub token_file: PathBuf,
    /// File to write the event log to. An existing one is continued.
    pub event_log: Option<PathBuf>,
    /// Do what is possible if the policy needs more than the cluster offers. Otherwise the sidecar stops with an error then.
    pub degrade: bool,
    /// Time without a heartbeat after which a NodeManager counts as lost, if the policy recovers lost work at once; zero to leave that to the
    /// ResourceManager.
    pub node_expiry: Duration,
    /// Only record: send no ranking and no orders, so that the queues stay FIFO.
    pub record_only: bool,
}

/// Why a sidecar cannot start.
#[derive(Debug, Error)]
pub enum SidecarError {
    /// The address is not a loopback address.
    #[error(
        "cannot listen on {0}: it is reachable from other machines and connections are not encrypted; use 127.0.0.1 or ::1"
    )]
    NotLoopback(IpAddr),
    /// The address is in use or not available.
    #[error("cannot listen on {address}: {error}; check whether another sidecar is running")]
    Listen {
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
    /// The token file cannot be read.
    #[error("cannot read token file {file}: {error}; create it, for example with `openssl rand -hex 32`")]
    TokenFile {
        /// Path of the token file.
        file: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// Users other than the owner may read the token file.
    #[error("token file {0} is accessible to other users; run `chmod 600` on it")]
    TokenPermissions(PathBuf),
    /// The token is too short.
    #[error(
        "the token in {0} has fewer than {TOKEN_BYTES_MIN} bytes; write a longer one, for example with `openssl rand -hex 32`"
    )]
    TokenLength(PathBuf),
    /// The policy or the event log cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The policy has parts that YARN has no means for.
    #[error(
        "policy `{policy}` does more than YARN can; add --degrade to run it with this difference: {}", degradations.join("; ")
    )]
    NeedsDegrade {
        policy: String,
        /// What it would do instead.
        degradations: Vec<&'static str>,
    },
    /// The policy makes a difference between nodes, and the plug-in cannot refuse any.
    #[error(
        "policy `{policy}` matches applications to nodes, and the ResourceManager does not use Giveway's allocator; set \
         yarn.scheduler.app-placement-allocator.class to giveway.yarn.GivewayAppPlacementAllocator (`giveway yarn doctor` lists the \
         properties), or start with --degrade to rank applications without matching"
    )]
    CannotRefuseNodes { policy: String },
    /// The policy pauses containers and no NodeManager can.
    #[error(
        "policy `{policy}` pauses containers, and none of the {nodes} NodeManagers can; install giveway-yarn-nodemanager.jar on them \
         (`giveway yarn doctor` lists the properties), or start with --degrade to rank applications without pausing"
    )]
    CannotPause {
        policy: String,
        /// NodeManagers that are up.
        nodes: usize,
    },
    /// The event log cannot be closed.
    #[error("cannot close the event log: {0}; check the disk")]
    CloseEventLog(io::Error),
    /// The address of the socket cannot be read.
    #[error("cannot use the socket: {0}")]
    Socket(io::Error),
}

/// A sidecar that is bound to its address and not yet running.
pub struct Sidecar {
    registry: AppRegistry,
    listener: TcpListener,
    token: Arc<str>,
    inputs: Receiver<Input>,
    input_sender: SyncSender<Input>,
    log: Log,
    degrade: bool,
    record_only: bool,
    node_expiry: Duration,
    /// What the policy does instead of what YARN has no means for.
    notes: Vec<&'static str>,
}

/// Stops a running sidecar from another thread.
#[derive(Clone)]
pub struct StopHandle(SyncSender<Input>);

impl StopHandle {
    /// Makes [`Sidecar::run`] close its event log and return. Has no effect if it has returned already.
    pub fn stop(&self) {
        let _ = self.0.send(Input::Stop);
    }
}

/// The operator's log. A line equal to the last one is dropped, so that a peer that keeps retrying does not fill the disk.
#[derive(Clone)]
struct Log(Arc<Mutex<LogSink>>);

struct LogSink {
    last_line: String,
    write_line: Box<dyn FnMut(&str) + Send>,
}

impl Log {
    fn line(&self, line: &str) {
        let mut sink = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if sink.last_line != line {
            sink.last_line = line.to_owned();
            (sink.write_line)(line);
        }
    }
}

/// What other threads send to the one that owns the registry. Connections are identified by number.
enum Input {
    /// With whether the plug-in can refuse nodes.
    Connected(u64, TcpStream, bool),
    Message(u64, PluginMessage),
    Disconnected(u64, WireError),
    Stop,
}

/// The current connection of the ResourceManager's plug-in.
struct Connection {
    number: u64,
    stream: TcpStream,
    refuses_nodes: bool,
    /// The last ranking sent; none after a snapshot, so that the ranking is sent even if it has not changed.
    sent_ranking: Option<Vec<String>>,
    /// The version of the node classes that were last sent.
    sent_nodes_version: Option<u64>,
    /// The refusals that were last sent.
    sent_refusals: Vec<(String, Vec<u16>)>,
}

impl Sidecar {
    /// Checks the options, opens the event log and binds the socket. `log` receives one line per call, for the operator.
    pub fn bind(options: Options, log: impl FnMut(&str) + Send + 'static) -> Result<Sidecar, SidecarError> {
        if !options.listen.ip().is_loopback() {
            return Err(SidecarError::NotLoopback(options.listen.ip()));
        }
        let token = read_token(&options.token_file)?;
        // A recording changes nothing in the cluster, so it needs nothing of it.
        let Adapted { policy, notes } = adapt(options.policy, options.degrade || options.record_only);
        let degradations = degradations(&policy);
        if !degradations.is_empty() {
            return Err(SidecarError::NeedsDegrade { policy: policy.name, degradations });
        }
        let registry = AppRegistry::open(policy, options.event_log.as_deref())?;
        let listener = TcpListener::bind(options.listen)
            .map_err(|error| SidecarError::Listen { address: options.listen, error })?;
        let (input_sender, inputs) = sync_channel(INPUT_QUEUE_MAX);
        let log = Log(Arc::new(Mutex::new(LogSink { last_line: String::new(), write_line: Box::new(log) })));
        let (degrade, record_only) = (options.degrade, options.record_only);
        let expires = registry.recovers_at_once() && !record_only;
        let node_expiry = if expires { options.node_expiry } else { Duration::ZERO };
        let token = token.into();
        Ok(Sidecar { registry, listener, token, inputs, input_sender, log, degrade, record_only, node_expiry, notes })
    }

    /// The bound address; with the port that the system chose if port 0 was requested.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle that stops this sidecar.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.input_sender.clone())
    }

    /// Serves until stopped, then closes the event log. Blocks the calling thread.
    pub fn run(self) -> Result<(), SidecarError> {
        let Sidecar { mut registry, listener, token, inputs, input_sender, log, .. } = self;
        let (degrade, record_only, node_expiry, notes) = (self.degrade, self.record_only, self.node_expiry, self.notes);
        let address = listener.local_addr().map_err(SidecarError::Socket)?;
        let policy = if record_only { "record-only".to_owned() } else { registry.policy_name().to_owned() };
        log.line(&format!("listening on {address}, policy {policy}"));
        notes.iter().for_each(|note| log.line(&format!("policy {policy} on YARN: {note}")));
        let accept_log = log.clone();
        let node_expiry_ms = u32::try_from(node_expiry.as_millis()).unwrap_or(u32::MAX);
        let welcome = SidecarMessage::Welcome { policy, node_expiry_ms };
        thread::spawn(move || accept(&listener, &token, &welcome, &input_sender, &accept_log));
        let (started, start_time) = (Instant::now(), registry.start_time());
        let now = || start_time + Span(started.elapsed().as_micros() as u64);
        let mut connection: Option<Connection> = None;
        let mut poll_at = start_time;
        loop {
            let poll_due = registry.has_paused().then_some(poll_at);
            let wake_at = registry.next_timer().into_iter().chain(poll_due).min();
            let mut next = next_input(&inputs, wake_at, now());
            // All queued inputs are applied before a ranking is sent, so that a ranking is never older than they are.
            while let Some(input) = next {
                match input {
                    Input::Stop => {
                        log.line("stopped");
                        return registry.close().map_err(SidecarError::CloseEventLog);
                    }
                    input => on_input(input, &mut registry, &mut connection, now(), &log),
                }
                next = inputs.try_recv().ok();
            }
            if registry.next_timer().is_some_and(|at| at <= now()) {
                registry.fire_timers(now());
            }
            if registry.has_paused() && poll_at <= now() {
                registry.poll_paused(now());
                poll_at = now() + POLL_INTERVAL;
            }
            registry.flush();
            if let Some(warning) = registry.take_warning() {
                log.line(&warning);
            }
            if let Some(nodes) = registry.unable_to_pause(now()) {
                if !degrade && !record_only {
                    let policy = registry.policy_name().to_owned();
                    registry.close().map_err(SidecarError::CloseEventLog)?;
                    return Err(SidecarError::CannotPause { policy, nodes });
                }
                log.line(&format!(
                    "none of the {nodes} NodeManagers can pause containers: applications are ranked only"
                ));
            }
            if record_only {
                registry.take_orders();
                continue;
            }
            if registry.compares_nodes() && connection.as_ref().is_some_and(|connection| !connection.refuses_nodes) {
                if !degrade {
                    let policy = registry.policy_name().to_owned();
                    registry.close().map_err(SidecarError::CloseEventLog)?;
                    return Err(SidecarError::CannotRefuseNodes { policy });
                }
                log.line("the ResourceManager does not use Giveway's allocator: applications are not matched to nodes");
            } else if registry.compares_nodes() {
                registry.take_suggestions().iter().for_each(|line| log.line(line));
                send_refusals(&registry, &mut connection, &log);
            }
            send_ranking(&registry, &mut connection, &log);
            // Without a connection the orders are void: the next one begins with a snapshot.
            for order in registry.take_orders() {
                if connection.is_some() {
                    log.line(&order.log_line);
                }
                send(&mut connection, &order.message, &log);
            }
        }
    }
}

/// Waits for an input, at most until the next timer expires.
fn next_input(inputs: &Receiver<Input>, next_timer: Option<Time>, now: Time) -> Option<Input> {
    let timeout = next_timer.map_or(Duration::from_secs(3600), |at| Duration::from_micros(at.since(now).0));
    match inputs.recv_timeout(timeout) {
        Ok(input) => Some(input),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Input::Stop),
    }
}

fn on_input(input: Input, registry: &mut AppRegistry, connection: &mut Option<Connection>, now: Time, log: &Log) {
    match input {
        Input::Stop => {}
        Input::Connected(number, stream, refuses_nodes) => {
            let (sent_ranking, sent_nodes_version, sent_refusals) = (None, None, Vec::new());
            let new = Connection { number, stream, refuses_nodes, sent_ranking, sent_nodes_version, sent_refusals };
            if let Some(previous) = connection.replace(new) {
                let _ = previous.stream.shutdown(Shutdown::Both);
            }
        }
        Input::Message(number, message) if is_current(connection, number) => {
            if message == PluginMessage::Heartbeat {
                send(connection, &SidecarMessage::Heartbeat, log);
            }
            if registry.on_message(now, message) {
                let counts = registry.counts();
                log.line(&format!(
                    "synchronized with the ResourceManager: {} nodes, {} applications, {} containers",
                    counts.nodes, counts.apps, counts.containers
                ));
                if let Some(connection) = connection {
                    connection.sent_ranking = None;
                }
            }
        }
        // From a connection that has been replaced.
        Input::Message(..) => {}
        Input::Disconnected(number, error) => {
            if is_current(connection, number) {
                log.line(&format!("lost the connection to the ResourceManager's plug-in: {error}"));
                send(connection, &SidecarMessage::Rejected(error.to_string()), log);
                if let Some(connection) = connection.take() {
                    let _ = connection.stream.shutdown(Shutdown::Both);
                }
            }
        }
    }
}

fn is_current(connection: &Option<Connection>, number: u64) -> bool {
    connection.as_ref().is_some_and(|connection| connection.number == number)
}

/// Sends the ranking if it differs from the last one sent.
fn send_ranking(registry: &AppRegistry, connection: &mut Option<Connection>, log: &Log) {
    let Some(current) = connection else { return };
    let ranking = registry.ranking();
    if current.sent_ranking.as_ref() != Some(&ranking) {
        current.sent_ranking = Some(ranking.clone());
        send(connection, &SidecarMessage::Ranking(ranking), log);
    }
}

/// Sends the classes of nodes and what is refused to applications, if they differ from what was last sent.
fn send_refusals(registry: &AppRegistry, connection: &mut Option<Connection>, log: &Log) {
    let Some(current) = connection else { return };
    let version = Some(registry.nodes_version());
    let refused = registry.refusals();
    let (classes_changed, refused_changed) = (current.sent_nodes_version != version, current.sent_refusals != refused);
    (current.sent_nodes_version, current.sent_refusals) = (version, refused.clone());
    if classes_changed {
        let classes = registry.node_classes();
        log_classes(&classes, log);
        send(connection, &SidecarMessage::NodeClasses(classes), log);
    }
    if refused_changed {
        let max_wait = registry.refusal_max_wait();
        send(connection, &SidecarMessage::Refusals { max_wait, refused }, log);
    }
}

/// One line with the number of nodes of each class and one of their names.
fn log_classes(classes: &[(String, u16)], log: &Log) {
    if classes.is_empty() {
        return;
    }
    let mut by_class: BTreeMap<u16, (usize, &str)> = BTreeMap::new();
    for (name, class) in classes {
        by_class.entry(*class).or_insert((0, name)).0 += 1;
    }
    let text: Vec<String> =
        by_class.iter().map(|(class, (count, name))| format!("{class}: {count} ({name})")).collect();
    log.line(&format!("nodes by class: {}", text.join(", ")));
}

/// Sends a message; closes the connection if that fails.
fn send(connection: &mut Option<Connection>, message: &SidecarMessage, log: &Log) {
    let Some(current) = connection else { return };
    let mut bytes = Vec::new();
    message.write(&mut bytes).expect("writing to a Vec cannot fail");
    if let Err(error) = current.stream.write_all(&bytes) {
        log.line(&format!("cannot send to the ResourceManager's plug-in: {error}; waiting for it to reconnect"));
        let _ = current.stream.shutdown(Shutdown::Both);
        *connection = None;
    }
}

fn accept(
    listener: &TcpListener,
    token: &Arc<str>,
    welcome: &SidecarMessage,
    input_sender: &SyncSender<Input>,
    log: &Log,
) {
    let open = Arc::new(AtomicUsize::new(0));
    for number in 0.. {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                log.line(&format!("cannot accept a connection: {error}; retrying"));
                // Most likely out of file descriptors, which other connections will free.
                thread::sleep(Duration::from_millis(200));
                continue;
            }
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            log.line(&format!("closed a connection: more than {CONNECTIONS_MAX} at once"));
            continue;
        }
        let (token, welcome, input_sender, log, open) =
            (Arc::clone(token), welcome.clone(), input_sender.clone(), log.clone(), Arc::clone(&open));
        thread::spawn(move || {
            serve(number, stream, &token, &welcome, &input_sender, &log);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Performs the handshake on a new connection, then forwards its messages until it fails or closes.
fn serve(
    number: u64,
    stream: TcpStream,
    token: &str,
    welcome: &SidecarMessage,
    input_sender: &SyncSender<Input>,
    log: &Log,
) {
    let configure = || -> io::Result<(TcpStream, SocketAddr)> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok((stream.try_clone()?, stream.local_addr()?))
    };
    let Ok((mut write_half, address)) = configure() else { return };
    let mut unproved = UntilDeadline { stream: &stream, deadline: Instant::now() + HANDSHAKE_TIMEOUT };
    let refuses_nodes = match handshake::accept(&mut unproved, &mut write_half, token, address) {
        Ok(refuses_nodes) => refuses_nodes,
        Err(error) => {
            log.line(&format!("rejected a connection: {error}"));
            let _ = SidecarMessage::Rejected(error.to_string()).write(&mut write_half);
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    };
    let mut read_half = BufReader::new(&stream);
    let welcomed = welcome.write(&mut write_half).and_then(|()| stream.set_read_timeout(Some(READ_TIMEOUT)));
    if welcomed.is_err() || input_sender.send(Input::Connected(number, write_half, refuses_nodes)).is_err() {
        return;
    }
    let error = loop {
        match wire::read_message(&mut read_half) {
            Ok(message) => {
                if input_sender.send(Input::Message(number, message)).is_err() {
                    return;
                }
            }
            Err(error) => break error,
        }
    };
    let _ = input_sender.send(Input::Disconnected(number, error));
}

fn read_token(file: &Path) -> Result<String, SidecarError> {
    let io = |error| SidecarError::TokenFile { file: file.into(), error };
    let text = fs::read_to_string(file).map_err(io)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if fs::metadata(file).map_err(io)?.permissions().mode() & 0o077 != 0 {
            return Err(SidecarError::TokenPermissions(file.into()));
        }
    }
    let token = text.trim();
    if token.len() < TOKEN_BYTES_MIN {
        return Err(SidecarError::TokenLength(file.into()));
    }
    Ok(token.to_owned())
}
