//! Fetches segments for a reduce: from files of this worker, or from the worker that ran the map. Workers share a machine, so a large segment of
//! another worker is also read from its file in place; what cannot be read that way is transferred over TCP.
//!
//! A fetch yields a complete, verified segment or nothing. Errors are classified by remedy: a lost or corrupt output must be recomputed, so it is
//! reported; a node that does not respond may recover, or the coordinator will declare it lost.

use super::control::Control;
use super::error::WriteError;
use super::output_tracker::MapOutputLocation;
use super::paths;
use super::runs::RunSet;
use super::serve::{self, SEGMENT_MESSAGE_BYTES_MAX, SegmentRequest, SegmentResponse};
use super::verify::{SegmentVerifier, is_valid_segment};
use crate::data::{MapOutput, Source};
use crate::wire::{self, Role, Stream, Token, WireError};
use giveway_core::{AttemptId, JobId, Kind, NodeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Segments of at least this size are read in place; smaller ones are not worth a mapping each.
const IN_PLACE_BYTES_MIN: u64 = 1 << 20;

/// How long a socket read blocks before the task checks for a request.
const REQUEST_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How long a node may send nothing within a response.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum number of idle connections to one node.
const IDLE_CONNECTIONS_MAX: usize = 8;

/// A segment in flight is completed before a pause if at most this much of it remains. A longer transfer would delay the pause too much.
const COMPLETE_BYTES_MAX: u64 = 16 << 20;

const CHUNK_BYTES: usize = 256 << 10;

/// Fetches map outputs for all reduces of a worker.
pub struct ShuffleClient {
    node: NodeId,
    token: Token,
    addresses: RwLock<HashMap<NodeId, String>>,
    /// Idle connections by address.
    idle: Mutex<HashMap<String, Vec<Stream>>>,
    report_bad_output: Box<dyn Fn(AttemptId) + Send + Sync>,
}

impl fmt::Debug for ShuffleClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShuffleClient")
            .field("node", &self.node)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

/// Result of a successful fetch.
#[derive(Debug)]
pub(super) enum Fetched {
    /// The segment was added to the reduce's runs.
    Added,
    /// The segment has no records.
    Empty,
}

/// Why a fetch failed.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    /// The map must run again.
    #[error("the map output is lost or corrupt")]
    BadOutput,
    /// A retry may succeed.
    #[error("the node does not respond")]
    Unreachable,
    #[error("a request to the task interrupted the fetch")]
    Interrupted,
    /// This node's own disk failed.
    #[error(transparent)]
    Local(#[from] WriteError),
}

impl ShuffleClient {
    /// A client for the worker that is `node`. `report_bad_output` is called with the map attempt whose output is lost or corrupt, possibly more than
    /// once for the same attempt.
    pub fn new(node: NodeId, token: Token, report_bad_output: impl Fn(AttemptId) + Send + Sync + 'static) -> Self {
        let report_bad_output = Box::new(report_bad_output);
        ShuffleClient { node, token, addresses: RwLock::default(), idle: Mutex::default(), report_bad_output }
    }

    /// The node of this worker.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Sets the address of a node's data server; `None` if the node is lost. Closes idle connections to the previous address.
    pub fn set_address(&self, node: NodeId, address: Option<String>) {
        let mut addresses = self.addresses.write().unwrap_or_else(PoisonError::into_inner);
        let previous = match address {
            Some(address) => addresses.insert(node, address),
            None => addresses.remove(&node),
        };
        if let Some(previous) = previous {
            self.idle().remove(&previous);
        }
    }

    /// The addresses of all nodes.
    pub(crate) fn addresses(&self) -> BTreeMap<NodeId, String> {
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        addresses.iter().map(|(node, address)| (*node, address.clone())).collect()
    }

    /// Reports a map output as lost or corrupt.
    pub(super) fn report_bad_output(&self, map: AttemptId) {
        (self.report_bad_output)(map);
    }

    /// Fetches a reduce's segment of an output, verifies it and adds it to `runs`. `dir` is the job's folder on this worker.
    pub(super) fn fetch(
        &self,
        job: JobId,
        dir: &Path,
        output: &MapOutputLocation,
        reduce: u32,
        runs: &mut RunSet,
        control: &Control,
    ) -> Result<Fetched, FetchError> {
        let map = AttemptId::new(job, Kind::Map, output.map, output.number);
        if output.node == self.node {
            return fetch_local(dir, map, reduce, runs, control);
        }
        let address = self.addresses.read().unwrap_or_else(PoisonError::into_inner).get(&output.node).cloned();
        let address = address.ok_or(FetchError::Unreachable)?;
        let request = SegmentRequest { map, reduce, in_place_bytes_min: in_place_bytes_min(runs) };
        // The peer may have closed an idle connection; that does not mean that the node is unreachable.
        if let Some(mut stream) = self.take_idle(&address) {
            match fetch_remote(&mut stream, request, runs, control) {
                Err(FetchError::Unreachable) => {}
                result => return self.release(address, stream, result),
            }
        }
        let connected = wire::connect(&address, &self.token, Role::Data);
        let mut stream = connected.map_err(|_| FetchError::Unreachable)?;
        stream.set_read_timeout(Some(REQUEST_CHECK_INTERVAL)).map_err(|_| FetchError::Unreachable)?;
        let result = fetch_remote(&mut stream, request, runs, control);
        self.release(address, stream, result)
    }

    fn take_idle(&self, address: &str) -> Option<Stream> {
        self.idle().get_mut(address)?.pop()
    }

    /// Returns the connection to the pool if the response was read to its end; otherwise closes it.
    fn release(
        &self,
        address: String,
        stream: Stream,
        result: Result<(Fetched, Integrity), FetchError>,
    ) -> Result<Fetched, FetchError> {
        let (fetched, integrity) = result?;
        let mut idle = self.idle();
        let streams = idle.entry(address).or_default();
        if streams.len() < IDLE_CONNECTIONS_MAX {
            streams.push(stream);
        }
        match integrity {
            Integrity::Valid => Ok(fetched),
            Integrity::Bad => Err(FetchError::BadOutput),
        }
    }

    /// A panic cannot leave the lists of connections inconsistent, so poisoning is ignored.
    fn idle(&self) -> MutexGuard<'_, HashMap<String, Vec<Stream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a response that was read to its end contained a usable segment.
enum Integrity {
    Valid,
    Bad,
}

fn fetch_local(
    dir: &Path,
    map: AttemptId,
    reduce: u32,
    runs: &mut RunSet,
    control: &Control,
) -> Result<Fetched, FetchError> {
    let opened = serve::open_output(&paths::map_output_path(dir, map)).map_err(|_| FetchError::Unreachable)?;
    let output = opened.map_err(|_| FetchError::BadOutput)?;
    let segment = output.segments.get(reduce as usize).ok_or(FetchError::BadOutput)?;
    if segment.stored_bytes == 0 {
        return Ok(Fetched::Empty);
    }
    if segment.stored_bytes >= in_place_bytes_min(runs) {
        if !add_in_place(&output, reduce, runs, control)? {
            runs.add_copy(&output, reduce)?;
        }
        return Ok(Fetched::Added);
    }
    let bytes = read_all(&output.segment(reduce)).map_err(|_| FetchError::BadOutput)?;
    let mut verifier = SegmentVerifier::default();
    verifier.update(&bytes);
    if !verifier.is_valid() {
        return Err(FetchError::BadOutput);
    }
    runs.add_memory(bytes);
    Ok(Fetched::Added)
}

/// Adds a segment of another worker's output in place. Returns false if it cannot be read that way.
fn fetch_in_place(path: &str, reduce: u32, runs: &mut RunSet, control: &Control) -> Result<bool, FetchError> {
    match serve::open_output(Path::new(path)) {
        Ok(Ok(output)) if output.segments.len() > reduce as usize => add_in_place(&output, reduce, runs, control),
        _ => Ok(false),
    }
}

/// Minimum size of a segment that is read in place instead of being copied to memory.
fn in_place_bytes_min(runs: &RunSet) -> u64 {
    IN_PLACE_BYTES_MIN.min(runs.memory_segment_bytes_max())
}

/// Verifies a segment and adds it in place. Returns false if the file cannot be linked: it is gone, or on another file system.
fn add_in_place(output: &MapOutput, reduce: u32, runs: &mut RunSet, control: &Control) -> Result<bool, FetchError> {
    let should_continue = || {
        control.tick();
        control.requested().is_none()
    };
    match is_valid_segment(&output.segment(reduce), should_continue).map_err(|_| FetchError::BadOutput)? {
        true => Ok(runs.add_in_place(output, reduce).is_ok()),
        false if control.requested().is_some() => Err(FetchError::Interrupted),
        false => Err(FetchError::BadOutput),
    }
}

fn read_all(source: &Source) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    match source {
        Source::Memory(bytes) => Ok(bytes.to_vec()),
        Source::File { file, offset, bytes } => {
            let mut content = vec![0; *bytes as usize];
            file.read_exact_at(&mut content, *offset)?;
            Ok(content)
        }
    }
}

/// Requests a segment and processes the response. If this returns `Ok`, the response was read to its end and the connection can be reused.
fn fetch_remote(
    stream: &mut Stream,
    request: SegmentRequest,
    runs: &mut RunSet,
    control: &Control,
) -> Result<(Fetched, Integrity), FetchError> {
    let wire_error = |error: WireError| match error {
        WireError::Io { error, .. } if error.kind() == io::ErrorKind::Other => FetchError::Interrupted,
        _ => FetchError::Unreachable,
    };
    wire::send(stream, &request).map_err(wire_error)?;
    let mut from = InterruptibleReader { stream, control, last_read: Instant::now() };
    match wire::receive::<SegmentResponse>(&mut from, SEGMENT_MESSAGE_BYTES_MAX).map_err(wire_error)? {
        SegmentResponse::Unavailable { .. } => Ok((Fetched::Empty, Integrity::Bad)),
        SegmentResponse::InPlace { path } => match fetch_in_place(&path, request.reduce, runs, control) {
            Ok(true) => Ok((Fetched::Added, Integrity::Valid)),
            Ok(false) if request.in_place_bytes_min < u64::MAX => {
                let request = SegmentRequest { in_place_bytes_min: u64::MAX, ..request };
                fetch_remote(stream, request, runs, control)
            }
            Ok(false) => Err(FetchError::Unreachable),
            Err(FetchError::BadOutput) => Ok((Fetched::Empty, Integrity::Bad)),
            Err(error) => Err(error),
        },
        SegmentResponse::Content { bytes: 0 } => Ok((Fetched::Empty, Integrity::Valid)),
        SegmentResponse::Content { bytes } if bytes <= runs.memory_segment_bytes_max() => {
            let mut content = Vec::with_capacity(bytes as usize);
            from.take(bytes).read_to_end(&mut content).map_err(InterruptibleReader::fetch_error)?;
            if (content.len() as u64) < bytes {
                return Err(FetchError::Unreachable);
            }
            let mut verifier = SegmentVerifier::default();
            verifier.update(&content);
            if !verifier.is_valid() {
                return Ok((Fetched::Empty, Integrity::Bad));
            }
            runs.add_memory(content);
            Ok((Fetched::Added, Integrity::Valid))
        }
        SegmentResponse::Content { bytes } => fetch_to_file(&mut from, bytes, runs),
    }
}

fn fetch_to_file(
    from: &mut InterruptibleReader<'_>,
    bytes: u64,
    runs: &mut RunSet,
) -> Result<(Fetched, Integrity), FetchError> {
    let (number, mut file) = runs.create_file()?;
    match copy(from, bytes, &mut file, runs.folder()) {
        Ok(true) => {
            runs.add_file(number, file, bytes);
            Ok((Fetched::Added, Integrity::Valid))
        }
        Ok(false) => {
            runs.remove_file(number);
            Ok((Fetched::Empty, Integrity::Bad))
        }
        Err(error) => {
            runs.remove_file(number);
            Err(error)
        }
    }
}

/// Copies a segment to a file, to its end even if it turns out to be corrupt, and returns whether it is valid.
fn copy(
    from: &mut InterruptibleReader<'_>,
    bytes: u64,
    to: &mut impl Write,
    folder: &Path,
) -> Result<bool, FetchError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut verifier = SegmentVerifier::default();
    let mut remaining = bytes;
    while remaining > 0 {
        let is_long = remaining > COMPLETE_BYTES_MAX;
        if from.control.is_stopped() || (is_long && from.control.requested().is_some()) {
            return Err(FetchError::Interrupted);
        }
        let want = chunk.len().min(remaining as usize);
        let read = match from.read(&mut chunk[..want]).map_err(InterruptibleReader::fetch_error)? {
            0 => return Err(FetchError::Unreachable),
            read => read,
        };
        verifier.update(&chunk[..read]);
        to.write_all(&chunk[..read]).map_err(|error| WriteError::new(folder, error))?;
        remaining -= read as u64;
    }
    Ok(verifier.is_valid())
}

/// Reads from a connection and checks for requests while the peer sends nothing, so that an unresponsive node does not delay a preemption.
struct InterruptibleReader<'a> {
    stream: &'a mut Stream,
    control: &'a Control,
    last_read: Instant,
}

impl InterruptibleReader<'_> {
    /// The meaning of an error of [`InterruptibleReader::read`].
    fn fetch_error(error: io::Error) -> FetchError {
        match error.kind() {
            io::ErrorKind::Other => FetchError::Interrupted,
            _ => FetchError::Unreachable,
        }
    }
}

impl Read for InterruptibleReader<'_> {
    /// Fails with [`io::ErrorKind::Other`] if a request arrives while there is nothing to read.
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            self.control.tick();
            match self.stream.read(to) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if self.control.requested().is_some() {
                        return Err(io::Error::other("interrupted by a request to the task"));
                    }
                    if self.last_read.elapsed() > READ_TIMEOUT {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    self.last_read = Instant::now();
                    return read;
                }
            }
        }
    }
}
