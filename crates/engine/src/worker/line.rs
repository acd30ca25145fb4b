//! The line to the coordinator: found again whenever it breaks.

use super::tasks::Running;
use super::{Worker, WorkerError};
use crate::task::Shuffle;
use crate::wire::{self, FromWorker, Join, MESSAGE_BYTES_MAX, Report, Role, ToWorker, WireError};
use giveway_core::{AttemptId, JobId, NodeId, Progress};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, BufWriter, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait before the coordinator is called again.
const PAUSE: Duration = Duration::from_millis(100);

/// The way out, while there is one.
#[derive(Debug, Default)]
pub(super) struct Out(Option<Sender<FromWorker>>);

impl Out {
    /// Says that something ended, if there is a line; otherwise it is said when there is one again.
    pub(super) fn report(&self, seq: u64, news: &Report) {
        if let Some(out) = &self.0 {
            let _ = out.send(FromWorker::Report { seq, report: news.clone() });
        }
    }
}

/// How a line ended.
enum End {
    Stop,
    Broken,
}

/// Keeps a line to the coordinator until it says stop, or is gone for too long.
pub(super) fn keep(worker: &Arc<Worker>, data_address: &str) -> Result<(), WorkerError> {
    let mut last_seen = Instant::now();
    loop {
        match call(worker, data_address) {
            Ok(End::Stop) => return Ok(()),
            Ok(End::Broken) => last_seen = Instant::now(),
            Err(WorkerError::Wire(WireError::Io { .. })) => {}
            Err(error) => return Err(error),
        }
        worker.shared().line = Out::default();
        if last_seen.elapsed() > worker.options.patience {
            let (patience, folder) = (worker.options.patience, worker.options.folder.clone());
            return Err(WorkerError::Alone { patience, folder });
        }
        thread::sleep(PAUSE);
    }
}

/// Calls the coordinator and serves it as long as the line holds.
fn call(worker: &Arc<Worker>, data_address: &str) -> Result<End, WorkerError> {
    let path = worker.options.cluster.join("address");
    let address =
        fs::read_to_string(&path).map_err(|error| WireError::Io { what: path.display().to_string(), error })?;
    let mut stream = wire::connect(&address, &worker.token, Role::Worker)?;
    wire::send(&mut stream, &FromWorker::Join(Box::new(join(worker, data_address))))?;
    let (node, keep, beat_ms) = match wire::receive(&mut stream, MESSAGE_BYTES_MAX)? {
        ToWorker::JoinAccepted { node, keep_state: keep, heartbeat_interval_ms: beat_ms } => (node, keep, beat_ms),
        ToWorker::JoinRefused { reason } => return Err(WorkerError::Refused(reason)),
        _ => return Err(WireError::UnknownPeer.into()),
    };
    if !keep {
        worker.drop_everything();
    }
    tracing::info!("{} is {node} of {address}{}", worker.options.name, if keep { ", as before" } else { "" });
    settle_in(worker, node);
    let Ok(writing) = stream.try_clone() else { return Ok(End::Broken) };
    let (out, outbox) = mpsc::channel();
    {
        let mut shared = worker.shared();
        shared.unacked.iter().for_each(|(&seq, news)| {
            let _ = out.send(FromWorker::Report { seq, report: news.clone() });
        });
        shared.line = Out(Some(out.clone()));
    }
    worker.shelf.report_to(out);
    let (beating, beat) = (Arc::clone(worker), Duration::from_millis(u64::from(beat_ms)));
    let writer =
        thread::Builder::new().name("line-out".into()).spawn(move || write_out(&beating, writing, &outbox, beat));
    if writer.is_err() {
        return Ok(End::Broken);
    }
    let mut incoming = BufReader::new(stream);
    loop {
        match wire::receive(&mut incoming, MESSAGE_BYTES_MAX) {
            Ok(ToWorker::Stop) => return Ok(End::Stop),
            Ok(message) => worker.obey(message),
            Err(error) => {
                tracing::warn!("the line to the coordinator broke: {error}");
                return Ok(End::Broken);
            }
        }
    }
}

/// The shuffle knows its own node by number, so it is made once that is known.
fn settle_in(worker: &Arc<Worker>, node: NodeId) {
    let mut shared = worker.shared();
    if shared.shuffle.as_ref().is_none_or(|shuffle| shuffle.node() != node) {
        let reporter = Arc::clone(worker);
        let report = move |map: AttemptId| {
            let era = reporter.shared().era;
            reporter.report(era, Report::OutputLost { map });
        };
        shared.shuffle = Some(Arc::new(Shuffle::new(node, worker.token.clone(), report)));
    }
}

/// Who this worker is and what it has, right now.
fn join(worker: &Worker, data_address: &str) -> Join {
    let shared = worker.shared();
    let ended = shared.unacked.values().filter_map(|news| match news {
        Report::Finished { attempt, .. }
        | Report::Failed { attempt, .. }
        | Report::Killed { attempt }
        | Report::Paused { attempt, .. }
        | Report::EndedEarly { attempt, .. } => Some(*attempt),
        Report::OutputLost { .. } => None,
    });
    let at_work: Vec<AttemptId> = shared.running.keys().copied().chain(ended).collect();
    let kept = shared.outputs.iter().chain(&shared.paused).map(|attempt| attempt.task.job);
    let jobs: BTreeSet<JobId> = shared.jobs.keys().copied().chain(kept).collect();
    Join {
        name: worker.options.name.clone(),
        incarnation: worker.life,
        rack: worker.options.rack,
        host: worker.options.host.clone(),
        map_slots: worker.options.map_slots,
        reduce_slots: worker.options.reduce_slots,
        data_address: data_address.into(),
        pid: std::process::id(),
        running: at_work,
        outputs: shared.outputs.iter().copied().collect(),
        paused: shared.paused.iter().copied().collect(),
        jobs: jobs.into_iter().collect(),
    }
}

/// Sends reports as they come and a beat when it is time.
fn write_out(worker: &Arc<Worker>, stream: TcpStream, outbox: &Receiver<FromWorker>, beat: Duration) {
    let mut out = BufWriter::new(&stream);
    let mut next_beat = Instant::now() + beat;
    loop {
        let mut sent = match outbox.recv_timeout(next_beat.saturating_duration_since(Instant::now())) {
            Ok(message) => wire::send(&mut out, &message),
            Err(RecvTimeoutError::Timeout) => {
                next_beat = Instant::now() + beat;
                worker.give_up_hung();
                let of = |(&attempt, running): (&AttemptId, &Running)| Progress {
                    attempt,
                    progress_ppm: running.control.progress_ppm(),
                };
                let progress = worker.shared().running.iter().map(of).collect();
                wire::send(&mut out, &FromWorker::Heartbeat { progress })
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        while let (Ok(()), Ok(message)) = (&sent, outbox.try_recv()) {
            sent = wire::send(&mut out, &message);
        }
        if sent.is_err() || out.flush().is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}
