//! Client of NameNodes and DataNodes.

use super::conf::has_port;
use super::error::HdfsError;
use crate::input::ReadAt;
use futures::StreamExt;
use futures::stream::BoxStream;
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileReader;
use hdfs_native::{Client, ClientBuilder};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Timeout of a request to a NameNode.
const RPC_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of a read, and of a glob. The client library gives up an unresponsive DataNode after a minute, so this is enough for three of them.
const READ_TIMEOUT: Duration = Duration::from_secs(200);

/// How long a task retries while a NameNode or DataNode restarts.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// Delay between two attempts.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The runtime of all connections of this process, with one thread.
static RUNTIME: LazyLock<io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).thread_name("hdfs").enable_all().build());

/// The NameNodes used so far, by address.
static NAMENODES: LazyLock<Mutex<HashMap<String, NameNode>>> = LazyLock::new(Mutex::default);

fn runtime() -> Result<&'static Runtime, HdfsError> {
    RUNTIME.as_ref().map_err(|error| HdfsError::Runtime(error.to_string()))
}

/// Blocks until a future is ready. Returns `None` after the timeout.
pub(super) fn block_on<T>(timeout: Duration, future: impl Future<Output = T>) -> Result<Option<T>, HdfsError> {
    Ok(runtime()?.block_on(async { tokio::time::timeout(timeout, future).await.ok() }))
}

/// A NameNode, or a name service of several (high availability).
#[derive(Clone)]
pub(super) struct NameNode {
    address: String,
    client: Client,
}

impl NameNode {
    /// The NameNode at an address. Does not connect yet.
    pub(super) fn at(address: &str) -> Result<NameNode, HdfsError> {
        let mut known = NAMENODES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = known.get(address) {
            return Ok(node.clone());
        }
        let mut builder =
            ClientBuilder::new().with_url(format!("hdfs://{address}")).with_io_runtime(runtime()?.handle().clone());
        if has_port(address) {
            // A single NameNode has no failover, so more attempts would only delay the error.
            builder = builder.with_config([("dfs.client.failover.max.attempts", "2")]);
        }
        let client = builder.build().map_err(|error| HdfsError::new(address, error))?;
        let node = NameNode { address: address.to_owned(), client };
        known.insert(address.to_owned(), node.clone());
        Ok(node)
    }

    /// The status of a file or directory; `None` if it does not exist.
    pub(super) fn status(&self, path: &str) -> Result<Option<FileStatus>, HdfsError> {
        match self.call(RPC_TIMEOUT, self.client.get_file_info(path)) {
            Err(HdfsError::NotFound) => Ok(None),
            status => status.map(Some),
        }
    }

    /// The status of all files below a directory.
    pub(super) fn files_below(&self, dir: &str) -> Result<Vec<FileStatus>, HdfsError> {
        let listing = self.client.list_status_iter(dir, true);
        let mut files = Vec::new();
        // The timeout applies to each response, because the directory may be large.
        while let Some(status) = self.call(RPC_TIMEOUT, async { listing.next().await.transpose() })? {
            if !status.isdir {
                files.push(status);
            }
        }
        Ok(files)
    }

    /// The status of the files and directories that match a glob.
    pub(super) fn glob(&self, pattern: &str) -> Result<Vec<FileStatus>, HdfsError> {
        self.call(READ_TIMEOUT, self.client.glob_status(pattern))
    }

    /// A reader of a file. Bytes before `read_to` are prefetched while they are read in order. Transient errors are retried for `retry_timeout`.
    pub(super) fn reader(&self, path: &str, read_to: u64, retry_timeout: Duration) -> Reader {
        Reader { node: self.clone(), path: path.to_owned(), read_to, retry_timeout, open_file: Mutex::new(None) }
    }

    fn call<T>(
        &self,
        timeout: Duration,
        request: impl Future<Output = Result<T, hdfs_native::HdfsError>>,
    ) -> Result<T, HdfsError> {
        match block_on(timeout, request)? {
            Some(response) => response.map_err(|error| HdfsError::new(&self.address, error)),
            None => Err(HdfsError::Timeout { address: self.address.clone(), seconds: timeout.as_secs() }),
        }
    }
}

/// Reads a file. It is opened on the first read.
pub(super) struct Reader {
    node: NameNode,
    path: String,
    read_to: u64,
    retry_timeout: Duration,
    open_file: Mutex<Option<OpenFile>>,
}

struct OpenFile {
    file: FileReader,
    prefetch: Option<Prefetch>,
}

/// A range of a file that is being fetched.
struct Prefetch {
    /// Offset of the next byte that [`Prefetch::read`] returns.
    offset: u64,
    /// The last part received; the bytes from `used` on are not read yet.
    part: Vec<u8>,
    used: usize,
    stream: BoxStream<'static, Result<Vec<u8>, hdfs_native::HdfsError>>,
}

impl Reader {
    /// Reads without a retry. After an error the file is opened again by the next read, because its block locations may have changed.
    fn read_once(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, HdfsError> {
        let mut open_file = self.open_file.lock().unwrap_or_else(PoisonError::into_inner);
        let OpenFile { file, prefetch } = match open_file.take() {
            Some(open_file) => open_file,
            None => OpenFile { file: self.node.call(RPC_TIMEOUT, self.node.client.read(&self.path))?, prefetch: None },
        };
        let end = file.file_length() as u64;
        let read_to = self.read_to.min(end);
        let mut prefetch = prefetch.filter(|prefetch| prefetch.offset == offset);
        let mut read = 0;
        if offset < end {
            // After `read_to` no more than the requested bytes is fetched.
            let wanted = offset.saturating_add(buffer.len() as u64).min(end);
            let prefetch = prefetch.get_or_insert_with(|| Prefetch::begin(&file, offset, wanted.max(read_to)));
            read = self.node.call(READ_TIMEOUT, prefetch.read(buffer))?;
        }
        *open_file = Some(OpenFile { file, prefetch: prefetch.filter(|prefetch| prefetch.offset < read_to) });
        Ok(read)
    }
}

impl Prefetch {
    fn begin(file: &FileReader, offset: u64, to: u64) -> Prefetch {
        let stream = file.read_range_stream(offset as usize, (to - offset) as usize).map(|part| part.map(Vec::from));
        Prefetch { offset, part: Vec::new(), used: 0, stream: stream.boxed() }
    }

    /// Fills the buffer up to its end or that of the range.
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, hdfs_native::HdfsError> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.used == self.part.len() {
                let Some(part) = self.stream.next().await else { break };
                (self.part, self.used) = (part?, 0);
            }
            let bytes = (buffer.len() - filled).min(self.part.len() - self.used);
            buffer[filled..filled + bytes].copy_from_slice(&self.part[self.used..self.used + bytes]);
            filled += bytes;
            self.used += bytes;
        }
        self.offset += filled as u64;
        Ok(filled)
    }
}

impl ReadAt for Reader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match self.read_once(offset, buffer) {
                Err(error) if error.is_transient() && began.elapsed() < self.retry_timeout => {
                    thread::sleep(RETRY_DELAY);
                }
                read => return read.map_err(io::Error::other),
            }
        }
    }
}

/// Opens a file by its name from [`find_files`](super::find_files).
pub(crate) fn open(name: &str, read_to: u64) -> io::Result<Box<dyn ReadAt>> {
    let rest = name.strip_prefix("hdfs://").unwrap_or_default();
    let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let node = NameNode::at(address).map_err(io::Error::other)?;
    Ok(Box::new(node.reader(path, read_to, RETRY_TIMEOUT)))
}
