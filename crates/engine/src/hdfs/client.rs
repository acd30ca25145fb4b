//! NameNodes and the bytes behind them.

use super::conf::has_port;
use super::error::Problem;
use crate::input::ReadAt;
use futures::StreamExt;
use futures::stream::BoxStream;
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileReader;
use hdfs_native::{Client, ClientBuilder, HdfsError};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// How long a NameNode may take for an answer.
const ANSWER_MOST: Duration = Duration::from_secs(30);

/// How long a read may take. A DataNode that falls silent is left for the next one after a minute, so three of them are tried.
const READ_MOST: Duration = Duration::from_secs(200);

/// How long a task waits for a NameNode or a DataNode that is being started again.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// One thread for all connections of this process.
static RUNTIME: LazyLock<io::Result<Runtime>> =
    LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).thread_name("hdfs").enable_all().build());

/// Those that were called already, by address.
static NAMENODES: LazyLock<Mutex<HashMap<String, NameNode>>> = LazyLock::new(Mutex::default);

fn runtime() -> Result<&'static Runtime, Problem> {
    RUNTIME.as_ref().map_err(|error| Problem::NoThread(error.to_string()))
}

/// Waits for something, but not for ever; nothing if it takes longer.
pub(super) fn wait<T>(most: Duration, something: impl Future<Output = T>) -> Result<Option<T>, Problem> {
    Ok(runtime()?.block_on(async { tokio::time::timeout(most, something).await.ok() }))
}

/// A NameNode, or several that stand in for each other.
#[derive(Clone)]
pub(super) struct NameNode {
    address: String,
    client: Client,
}

impl NameNode {
    /// The one at this address. It is not called yet.
    pub(super) fn at(address: &str) -> Result<NameNode, Problem> {
        let mut known = NAMENODES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = known.get(address) {
            return Ok(node.clone());
        }
        let mut builder =
            ClientBuilder::new().with_url(format!("hdfs://{address}")).with_io_runtime(runtime()?.handle().clone());
        if has_port(address) {
            // Nobody stands in for it, so calling it again and again only holds up the bad news.
            builder = builder.with_config([("dfs.client.failover.max.attempts", "2")]);
        }
        let client = builder.build().map_err(|error| Problem::new(address, error))?;
        let node = NameNode { address: address.to_owned(), client };
        known.insert(address.to_owned(), node.clone());
        Ok(node)
    }

    /// What is known of a file or folder, if there is one.
    pub(super) fn status(&self, path: &str) -> Result<Option<FileStatus>, Problem> {
        match self.ask(ANSWER_MOST, self.client.get_file_info(path)) {
            Err(Problem::Missing) => Ok(None),
            status => status.map(Some),
        }
    }

    /// The files below a folder.
    pub(super) fn files_below(&self, folder: &str) -> Result<Vec<FileStatus>, Problem> {
        let listing = self.client.list_status_iter(folder, true);
        let mut files = Vec::new();
        // The folder may be large: each answer has its own time.
        while let Some(status) = self.ask(ANSWER_MOST, async { listing.next().await.transpose() })? {
            if !status.isdir {
                files.push(status);
            }
        }
        Ok(files)
    }

    /// The files and folders that match a glob.
    pub(super) fn matches(&self, pattern: &str) -> Result<Vec<FileStatus>, Problem> {
        self.ask(READ_MOST, self.client.glob_status(pattern))
    }

    /// The bytes of a file. Those before `read_to` are fetched ahead while they are read in order. For as long as `patience` says, what may pass is no failure.
    pub(super) fn reader(&self, path: &str, read_to: u64, patience: Duration) -> Reader {
        Reader { node: self.clone(), path: path.to_owned(), read_to, patience, opened: Mutex::new(None) }
    }

    fn ask<T>(&self, most: Duration, question: impl Future<Output = Result<T, HdfsError>>) -> Result<T, Problem> {
        match wait(most, question)? {
            Some(answer) => answer.map_err(|error| Problem::new(&self.address, error)),
            None => Err(Problem::Silent { address: self.address.clone(), seconds: most.as_secs() }),
        }
    }
}

/// The bytes of a file. It is opened when it is first read.
pub(super) struct Reader {
    node: NameNode,
    path: String,
    read_to: u64,
    patience: Duration,
    opened: Mutex<Option<Opened>>,
}

/// A file, and what is on its way.
struct Opened {
    file: FileReader,
    ahead: Option<Ahead>,
}

/// Bytes on their way.
struct Ahead {
    /// Where they begin in the file.
    at: u64,
    /// Those that are here, from `used` on.
    here: Vec<u8>,
    used: usize,
    coming: BoxStream<'static, Result<Vec<u8>, HdfsError>>,
}

impl Reader {
    /// Reads once. After a failure the file is opened anew the next time: somebody else may have it by then.
    fn read_once(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Problem> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let Opened { file, ahead } = match opened.take() {
            Some(opened) => opened,
            None => Opened { file: self.node.ask(ANSWER_MOST, self.node.client.read(&self.path))?, ahead: None },
        };
        let end = file.file_length() as u64;
        let read_to = self.read_to.min(end);
        let mut source = ahead.filter(|ahead| ahead.at == at);
        let mut read = 0;
        if at < end {
            // Behind what was announced only as much is fetched as is wanted.
            let wanted = at.saturating_add(buffer.len() as u64).min(end);
            let source = source.get_or_insert_with(|| Ahead::fetch(&file, at, wanted.max(read_to)));
            read = self.node.ask(READ_MOST, source.read(buffer))?;
        }
        *opened = Some(Opened { file, ahead: source.filter(|ahead| ahead.at < read_to) });
        Ok(read)
    }
}

impl Ahead {
    fn fetch(file: &FileReader, at: u64, to: u64) -> Ahead {
        let coming = file.read_range_stream(at as usize, (to - at) as usize).map(|part| part.map(Vec::from));
        Ahead { at, here: Vec::new(), used: 0, coming: coming.boxed() }
    }

    /// Fills the buffer, or as much of it as comes.
    async fn read(&mut self, buffer: &mut [u8]) -> Result<usize, HdfsError> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.used == self.here.len() {
                let Some(part) = self.coming.next().await else { break };
                (self.here, self.used) = (part?, 0);
            }
            let bytes = (buffer.len() - filled).min(self.here.len() - self.used);
            buffer[filled..filled + bytes].copy_from_slice(&self.here[self.used..self.used + bytes]);
            filled += bytes;
            self.used += bytes;
        }
        self.at += filled as u64;
        Ok(filled)
    }
}

impl ReadAt for Reader {
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        loop {
            match self.read_once(at, buffer) {
                Err(problem) if problem.may_pass() && began.elapsed() < self.patience => thread::sleep(PAUSE),
                read => return read.map_err(io::Error::other),
            }
        }
    }
}

/// The bytes of a file that [`find`](super::find) has named.
pub(crate) fn open(name: &str, read_to: u64) -> io::Result<Box<dyn ReadAt>> {
    let rest = name.strip_prefix("hdfs://").unwrap_or_default();
    let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let node = NameNode::at(address).map_err(io::Error::other)?;
    Ok(Box::new(node.reader(path, read_to, PATIENCE)))
}
