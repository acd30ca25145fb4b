//! The connection to the coordinator, re-established whenever it breaks.

use super::tasks::RunningTask;
use super::{Worker, WorkerError};
use crate::task::ShuffleClient;
use crate::wire::{self, FromWorker, Join, MESSAGE_BYTES_MAX, Report, Role, Stream, ToWorker, WireError};
use giveway_core::{AttemptId, JobId, NodeId, Progress};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, BufWriter, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Delay between two attempts to connect.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// Queue of messages to the coordinator; empty while there is no connection.
#[derive(Debug, Default)]
pub(super) struct Outbox(Option<Sender<FromWorker>>);

impl Outbox {
    /// Sends a report if there is a connection. Without one, it is sent from the unacknowledged reports after reconnecting.
    pub(super) fn send_report(&self, seq: u64, report: &Report) {
        if let Some(sender) = &self.0 {
            let _ = sender.send(FromWorker::Report { seq, report: report.clone() });
        }
    }
}

/// Why a connection ended.
enum Closed {
    /// The coordinator requested the worker to stop.
    Stop,
    Broken,
}

/// Keeps a connection to the coordinator until it requests a stop or is unreachable for longer than the timeout.
pub(super) fn run(worker: &Arc<Worker>, data_address: &str) -> Result<(), WorkerError> {
    let mut last_connected = Instant::now();
    loop {
        match connect_and_serve(worker, data_address) {
            Ok(Closed::Stop) => return Ok(()),
            Ok(Closed::Broken) => last_connected = Instant::now(),
            Err(WorkerError::Wire(WireError::Io { .. })) => {}
            Err(error) => return Err(error),
        }
        worker.state().outbox = Outbox::default();
        let timeout = worker.options.reconnect_timeout;
        if last_connected.elapsed() > timeout {
            return Err(WorkerError::CoordinatorLost { timeout, folder: worker.options.folder.clone() });
        }
        thread::sleep(RECONNECT_DELAY);
    }
}

/// Connects to the coordinator and handles its messages until the connection ends.
fn connect_and_serve(worker: &Arc<Worker>, data_address: &str) -> Result<Closed, WorkerError> {
    let path = worker.options.cluster.join("address");
    let address =
        fs::read_to_string(&path).map_err(|error| WireError::Io { what: path.display().to_string(), error })?;
    let mut stream = wire::connect(&address, &worker.token, Role::Worker)?;
    wire::send(&mut stream, &FromWorker::Join(Box::new(join_message(worker, data_address))))?;
    let (node, keep_state, heartbeat_interval_ms) = match wire::receive(&mut stream, MESSAGE_BYTES_MAX)? {
        ToWorker::JoinAccepted { node, keep_state, heartbeat_interval_ms } => (node, keep_state, heartbeat_interval_ms),
        ToWorker::JoinRefused { reason } => return Err(WorkerError::Refused(reason)),
        _ => return Err(WireError::UnknownPeer.into()),
    };
    if !keep_state {
        worker.discard_all();
    }
    let name = &worker.options.name;
    tracing::info!(%name, %node, coordinator = %address, state_kept = keep_state, "joined the cluster");
    init_shuffle(worker, node);
    let Ok(writing) = stream.try_clone() else { return Ok(Closed::Broken) };
    let (sender, outgoing) = mpsc::channel();
    {
        let mut state = worker.state();
        state.unacked.iter().for_each(|(&seq, report)| {
            let _ = sender.send(FromWorker::Report { seq, report: report.clone() });
        });
        state.outbox = Outbox(Some(sender));
    }
    let (sending, interval) = (Arc::clone(worker), Duration::from_millis(u64::from(heartbeat_interval_ms)));
    let writer = thread::Builder::new()
        .name("coord-out".into())
        .spawn(move || send_messages(&sending, writing, &outgoing, interval));
    if writer.is_err() {
        return Ok(Closed::Broken);
    }
    let mut incoming = BufReader::new(stream);
    loop {
        match wire::receive(&mut incoming, MESSAGE_BYTES_MAX) {
            Ok(ToWorker::Stop) => return Ok(Closed::Stop),
            Ok(message) => worker.handle_message(message),
            Err(error) => {
                tracing::warn!(%error, "lost the connection to the coordinator; reconnecting");
                return Ok(Closed::Broken);
            }
        }
    }
}

/// Creates the shuffle client. It needs the worker's node id, which is known only after joining.
fn init_shuffle(worker: &Arc<Worker>, node: NodeId) {
    let mut state = worker.state();
    if state.shuffle.as_ref().is_none_or(|shuffle| shuffle.node() != node) {
        let reporter = Arc::clone(worker);
        let report_bad_output = move |map: AttemptId| {
            let epoch = reporter.state().epoch;
            reporter.report(epoch, Report::OutputLost { map });
        };
        state.shuffle = Some(Arc::new(ShuffleClient::new(node, worker.token.clone(), report_bad_output)));
    }
}

/// The worker's identity and current state, as the coordinator expects it in the first message.
fn join_message(worker: &Worker, data_address: &str) -> Join {
    let state = worker.state();
    let ended = state.unacked.values().filter_map(|report| match report {
        Report::Finished { attempt, .. }
        | Report::Failed { attempt, .. }
        | Report::Killed { attempt }
        | Report::Paused { attempt, .. }
        | Report::EndedEarly { attempt, .. } => Some(*attempt),
        Report::OutputLost { .. } => None,
    });
    let running: Vec<AttemptId> = state.running.keys().copied().chain(ended).collect();
    let stored = state.outputs.iter().chain(&state.paused).map(|attempt| attempt.task.job);
    let jobs: BTreeSet<JobId> = state.jobs.keys().copied().chain(stored).collect();
    Join {
        name: worker.options.name.clone(),
        incarnation: worker.incarnation,
        rack: worker.options.rack,
        host: worker.options.host.clone(),
        map_slots: worker.options.map_slots,
        reduce_slots: worker.options.reduce_slots,
        data_address: data_address.into(),
        pid: std::process::id(),
        running,
        outputs: state.outputs.iter().copied().collect(),
        paused: state.paused.iter().copied().collect(),
        jobs: jobs.into_iter().collect(),
    }
}

/// Sends queued messages as they arrive and a heartbeat at every interval, until the connection breaks.
fn send_messages(worker: &Arc<Worker>, stream: Stream, outgoing: &Receiver<FromWorker>, interval: Duration) {
    let mut out = BufWriter::new(&stream);
    let mut next_heartbeat = Instant::now() + interval;
    loop {
        let mut sent = match outgoing.recv_timeout(next_heartbeat.saturating_duration_since(Instant::now())) {
            Ok(message) => wire::send(&mut out, &message),
            Err(RecvTimeoutError::Timeout) => {
                next_heartbeat = Instant::now() + interval;
                worker.stop_hung_tasks();
                let progress_of = |(&attempt, task): (&AttemptId, &RunningTask)| Progress {
                    attempt,
                    progress_ppm: task.control.progress_ppm(),
                };
                let progress = worker.state().running.iter().map(progress_of).collect();
                wire::send(&mut out, &FromWorker::Heartbeat { progress })
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        while let (Ok(()), Ok(message)) = (&sent, outgoing.try_recv()) {
            sent = wire::send(&mut out, &message);
        }
        if sent.is_err() || out.flush().is_err() {
            break;
        }
    }
    let _ = stream.shutdown();
}
