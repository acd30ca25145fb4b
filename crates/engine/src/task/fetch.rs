//! How a reduce gets its segments: from the files of this worker, or from the worker that ran the map. Workers stand on one machine, so a
//! large segment of another worker is read where it lies, too; what cannot be had that way comes over TCP.
//!
//! A fetch either brings a whole, checked segment or nothing. What stands in its way is told apart by what helps: an output that is gone or
//! damaged must be made again, so it is reported; a node that does not answer may be back in a moment, or the coordinator will find it lost.

use super::control::Control;
use super::hold::Hold;
use super::names;
use super::outputs::OutputAt;
use super::serve::{self, SEGMENT_MESSAGE_BYTES_MAX, SegmentAnswer, SegmentRequest};
use super::text::cannot_write;
use super::verify::{Check, is_sound};
use crate::data::{MapOutput, Source};
use crate::record::Failure;
use crate::wire::{self, DataRequest, Role, Token, WireError};
use giveway_core::{AttemptId, JobId, Kind, NodeId};
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Segments from this size on stay where they are; smaller ones are not worth a file handle each.
const IN_PLACE_BYTES_MIN: u64 = 1 << 20;

/// How long a read waits before the task looks whether something was asked of it.
const GLANCE: Duration = Duration::from_millis(50);

/// How long a node may be silent in the middle of an answer.
const SILENCE: Duration = Duration::from_secs(15);

/// Idle connections kept to one node.
const IDLE_MAX: usize = 8;

/// The segment in flight is finished before a pause if no more than this is left of it. A longer one would keep the slot too long.
const FINISH_BYTES_MAX: u64 = 16 << 20;

const CHUNK_BYTES: usize = 256 << 10;

/// How reduces on this worker reach the outputs of maps. One serves all tasks of a worker.
pub struct Shuffle {
    node: NodeId,
    token: Token,
    addresses: RwLock<HashMap<NodeId, String>>,
    /// Connections no one uses now, by address.
    idle: Mutex<HashMap<String, Vec<TcpStream>>>,
    report_bad: Box<dyn Fn(AttemptId) + Send + Sync>,
}

impl fmt::Debug for Shuffle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shuffle").field("node", &self.node).field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// What a fetch brought.
#[derive(Debug)]
pub(super) enum Fetched {
    /// The segment is in the reduce's hold.
    Taken,
    /// It has no records.
    Empty,
}

/// Why a fetch brought nothing.
#[derive(Debug)]
pub(super) enum NotFetched {
    /// The output is gone or damaged: its map has to run again.
    Gone,
    /// Its node does not answer now.
    Unreachable,
    /// Something was asked of the task while the other side was silent.
    Interrupted,
    /// This node's own disk fails.
    Broken(Failure),
}

impl Shuffle {
    /// For the worker that is this node. Outputs that are gone or damaged are reported by the attempt that made them, perhaps repeatedly.
    pub fn new(node: NodeId, token: Token, report_bad: impl Fn(AttemptId) + Send + Sync + 'static) -> Shuffle {
        let report_bad = Box::new(report_bad);
        Shuffle { node, token, addresses: RwLock::default(), idle: Mutex::default(), report_bad }
    }

    /// The node that this is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Where a node's data is to be had; nowhere if it is lost.
    pub fn set_address(&self, node: NodeId, address: Option<String>) {
        let mut addresses = self.addresses.write().unwrap_or_else(PoisonError::into_inner);
        let before = match address {
            Some(address) => addresses.insert(node, address),
            None => addresses.remove(&node),
        };
        if let Some(before) = before {
            self.idle().remove(&before);
        }
    }

    /// Says that an output is of no use.
    pub(super) fn report_bad(&self, map: AttemptId) {
        (self.report_bad)(map);
    }

    /// Fetches a reduce's segment of an output into its hold, checked.
    pub(super) fn fetch(
        &self,
        job: JobId,
        dir: &Path,
        output: &OutputAt,
        reduce: u32,
        hold: &mut Hold,
        control: &Control,
    ) -> Result<Fetched, NotFetched> {
        let map = AttemptId::new(job, Kind::Map, output.map, output.number);
        if output.node == self.node {
            return fetch_own(dir, map, reduce, hold, control);
        }
        let address = self.addresses.read().unwrap_or_else(PoisonError::into_inner).get(&output.node).cloned();
        let address = address.ok_or(NotFetched::Unreachable)?;
        let request = SegmentRequest { map, reduce, in_place_bytes_min: in_place_bytes_min(hold) };
        // A connection that has been idle may have been closed from the other side; that says nothing about the node.
        if let Some(mut stream) = self.take_idle(&address) {
            match fetch_over(&mut stream, request, hold, control) {
                Err(NotFetched::Unreachable) => {}
                ended => return self.keep(address, stream, ended),
            }
        }
        let connected = wire::connect(&address, &self.token, Role::Data);
        let mut stream = connected.map_err(|_| NotFetched::Unreachable)?;
        stream.set_read_timeout(Some(GLANCE)).map_err(|_| NotFetched::Unreachable)?;
        let ended = fetch_over(&mut stream, request, hold, control);
        self.keep(address, stream, ended)
    }

    fn take_idle(&self, address: &str) -> Option<TcpStream> {
        self.idle().get_mut(address)?.pop()
    }

    /// Keeps the connection if the answer was read to its end.
    fn keep(
        &self,
        address: String,
        stream: TcpStream,
        ended: Result<(Fetched, Sound), NotFetched>,
    ) -> Result<Fetched, NotFetched> {
        let (fetched, sound) = ended?;
        let mut idle = self.idle();
        let streams = idle.entry(address).or_default();
        if streams.len() < IDLE_MAX {
            streams.push(stream);
        }
        match sound {
            Sound::Yes => Ok(fetched),
            Sound::No => Err(NotFetched::Gone),
        }
    }

    /// A list of idle connections is in order whoever panicked.
    fn idle(&self) -> MutexGuard<'_, HashMap<String, Vec<TcpStream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what came is what the map wrote.
enum Sound {
    Yes,
    No,
}

fn fetch_own(
    dir: &Path,
    map: AttemptId,
    reduce: u32,
    hold: &mut Hold,
    control: &Control,
) -> Result<Fetched, NotFetched> {
    let opened = serve::open(&names::map_output(dir, map)).map_err(|_| NotFetched::Unreachable)?;
    let output = opened.map_err(|_| NotFetched::Gone)?;
    let part = output.parts.get(reduce as usize).ok_or(NotFetched::Gone)?;
    if part.stored_bytes == 0 {
        return Ok(Fetched::Empty);
    }
    if part.stored_bytes >= in_place_bytes_min(hold) {
        if !take_in_place(&output, reduce, hold, control)? {
            hold.add_copy(&output, reduce).map_err(NotFetched::Broken)?;
        }
        return Ok(Fetched::Taken);
    }
    let bytes = read_all(&output.part(reduce)).map_err(|_| NotFetched::Gone)?;
    let mut check = Check::default();
    check.feed(&bytes);
    if !check.is_sound() {
        return Err(NotFetched::Gone);
    }
    hold.add_memory(bytes);
    Ok(Fetched::Taken)
}

/// Takes a segment of another worker's output where it lies. False if it cannot be had that way.
fn fetch_near(path: &str, reduce: u32, hold: &mut Hold, control: &Control) -> Result<bool, NotFetched> {
    match serve::open(Path::new(path)) {
        Ok(Ok(output)) if output.parts.len() > reduce as usize => take_in_place(&output, reduce, hold, control),
        _ => Ok(false),
    }
}

/// What this hold would rather leave where it lies than take.
fn in_place_bytes_min(hold: &Hold) -> u64 {
    IN_PLACE_BYTES_MIN.min(hold.memory_segment_bytes_max())
}

/// Takes a segment where it lies, checked. False if it cannot be kept there: its file has gone, or is on another disk.
fn take_in_place(output: &MapOutput, reduce: u32, hold: &mut Hold, control: &Control) -> Result<bool, NotFetched> {
    let go_on = || {
        control.tick();
        control.asked().is_none()
    };
    match is_sound(&output.part(reduce), go_on).map_err(|_| NotFetched::Gone)? {
        true => Ok(hold.add_in_place(output, reduce).is_ok()),
        false if control.asked().is_some() => Err(NotFetched::Interrupted),
        false => Err(NotFetched::Gone),
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

/// Asks for a segment and takes the answer. On success the connection stands behind the answer.
fn fetch_over(
    stream: &mut TcpStream,
    request: SegmentRequest,
    hold: &mut Hold,
    control: &Control,
) -> Result<(Fetched, Sound), NotFetched> {
    let not_fetched = |error: WireError| match error {
        WireError::Io { error, .. } if error.kind() == io::ErrorKind::Other => NotFetched::Interrupted,
        _ => NotFetched::Unreachable,
    };
    wire::send(stream, &DataRequest::Segment(request)).map_err(not_fetched)?;
    let mut from = Patient { stream, control, silent_since: Instant::now() };
    match wire::receive::<SegmentAnswer>(&mut from, SEGMENT_MESSAGE_BYTES_MAX).map_err(not_fetched)? {
        SegmentAnswer::Gone { .. } => Ok((Fetched::Empty, Sound::No)),
        SegmentAnswer::InPlace { path } => match fetch_near(&path, request.reduce, hold, control) {
            Ok(true) => Ok((Fetched::Taken, Sound::Yes)),
            Ok(false) if request.in_place_bytes_min < u64::MAX => {
                let request = SegmentRequest { in_place_bytes_min: u64::MAX, ..request };
                fetch_over(stream, request, hold, control)
            }
            Ok(false) => Err(NotFetched::Unreachable),
            Err(NotFetched::Gone) => Ok((Fetched::Empty, Sound::No)),
            Err(error) => Err(error),
        },
        SegmentAnswer::Here { bytes: 0 } => Ok((Fetched::Empty, Sound::Yes)),
        SegmentAnswer::Here { bytes } if bytes <= hold.memory_segment_bytes_max() => {
            let mut content = Vec::with_capacity(bytes as usize);
            from.take(bytes).read_to_end(&mut content).map_err(Patient::not_fetched)?;
            if (content.len() as u64) < bytes {
                return Err(NotFetched::Unreachable);
            }
            let mut check = Check::default();
            check.feed(&content);
            if !check.is_sound() {
                return Ok((Fetched::Empty, Sound::No));
            }
            hold.add_memory(content);
            Ok((Fetched::Taken, Sound::Yes))
        }
        SegmentAnswer::Here { bytes } => fetch_to_file(&mut from, bytes, hold),
    }
}

fn fetch_to_file(from: &mut Patient<'_>, bytes: u64, hold: &mut Hold) -> Result<(Fetched, Sound), NotFetched> {
    let (number, mut file) = hold.create().map_err(NotFetched::Broken)?;
    let copied = copy(from, bytes, &mut file, hold.folder());
    match copied {
        Ok(true) => {
            hold.add_file(number, file, bytes);
            Ok((Fetched::Taken, Sound::Yes))
        }
        Ok(false) => {
            hold.remove(number);
            Ok((Fetched::Empty, Sound::No))
        }
        Err(error) => {
            hold.remove(number);
            Err(error)
        }
    }
}

/// Copies a segment to a file, in whole even if it turns out to be damaged. True if it is sound.
fn copy(from: &mut Patient<'_>, bytes: u64, to: &mut impl Write, folder: &Path) -> Result<bool, NotFetched> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut check = Check::default();
    let mut left = bytes;
    while left > 0 {
        let is_long = left > FINISH_BYTES_MAX;
        if from.control.is_stopped() || (is_long && from.control.asked().is_some()) {
            return Err(NotFetched::Interrupted);
        }
        let want = chunk.len().min(left as usize);
        let read = match from.read(&mut chunk[..want]).map_err(Patient::not_fetched)? {
            0 => return Err(NotFetched::Unreachable),
            read => read,
        };
        check.feed(&chunk[..read]);
        to.write_all(&chunk[..read]).map_err(|error| NotFetched::Broken(cannot_write(folder, &error)))?;
        left -= read as u64;
    }
    Ok(check.is_sound())
}

/// Reads from a connection and looks up while the other side is silent: someone who is asked to give way does not wait for a dead node.
struct Patient<'a> {
    stream: &'a mut TcpStream,
    control: &'a Control,
    silent_since: Instant,
}

impl Patient<'_> {
    fn not_fetched(error: io::Error) -> NotFetched {
        match error.kind() {
            io::ErrorKind::Other => NotFetched::Interrupted,
            _ => NotFetched::Unreachable,
        }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            self.control.tick();
            match self.stream.read(to) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if self.control.asked().is_some() {
                        return Err(io::Error::other("something was asked of the task"));
                    }
                    if self.silent_since.elapsed() > SILENCE {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    self.silent_since = Instant::now();
                    return read;
                }
            }
        }
    }
}
