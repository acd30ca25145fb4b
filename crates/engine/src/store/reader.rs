//! Reading stored files: from the local disk if there is a replica, otherwise from a worker that has one.
//!
//! A replica that fails in the middle does not fail the read: the next replica continues at the same byte. A block is reported as unavailable only
//! after no replica could be read for [`LOCATE_TIMEOUT`].

use super::block::BlockFile;
use super::manifest::block_id;
use super::transfer::{self, PACKET_BYTES_MAX};
use super::{BlockId, BlockStore, DfsPath, Namespace, StoreRequest, StoreResponse, WorkerEndpoint};
use crate::client::Client;
use crate::input::{InputError, ReadAt, StoreAccess, detect_codec};
use crate::job::{FileBlock, FileLocation, InputFile};
use crate::wire::{Stream, Token};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a block is tried before the read fails. Longer than a worker's restart, and than the detection of a lost worker.
const LOCATE_TIMEOUT: Duration = Duration::from_secs(15);

/// Delay between two attempts to read a block.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Finds the workers that have a block.
pub(super) trait BlockLocator: Send + Sync {
    /// Workers that are up and have a valid replica.
    fn locate(&self, block: BlockId) -> io::Result<Vec<WorkerEndpoint>>;
}

impl BlockLocator for Arc<Namespace> {
    fn locate(&self, block: BlockId) -> io::Result<Vec<WorkerEndpoint>> {
        Ok(self.locations(block))
    }
}

/// Asks the coordinator of the cluster in a directory. Connects on first use.
#[derive(Debug)]
pub(super) struct CoordinatorLocator {
    cluster: PathBuf,
    connection: Mutex<Option<Client>>,
}

impl CoordinatorLocator {
    pub(super) fn new(cluster: PathBuf) -> CoordinatorLocator {
        CoordinatorLocator { cluster, connection: Mutex::new(None) }
    }
}

impl BlockLocator for CoordinatorLocator {
    fn locate(&self, block: BlockId) -> io::Result<Vec<WorkerEndpoint>> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut client = match connection.take() {
            Some(client) => client,
            None => Client::connect(&self.cluster).map_err(io::Error::other)?,
        };
        match client.store(StoreRequest::Locate { block }).map_err(io::Error::other)? {
            StoreResponse::Located(workers) => {
                *connection = Some(client);
                Ok(workers)
            }
            _ => Err(io::Error::other("unexpected response of the coordinator; use programs of the same release")),
        }
    }
}

/// Reads the content of a stored file.
pub(super) struct StoredFileReader {
    blocks: Vec<FileBlock>,
    local: Option<Arc<BlockStore>>,
    token: Token,
    locator: Box<dyn BlockLocator>,
    /// The replica of the last read; the next read tries it first.
    current: Mutex<Option<(BlockId, Source)>>,
}

/// A replica that is being read.
enum Source {
    Local(Arc<BlockStore>, BlockFile),
    Remote(Stream),
}

impl Source {
    fn read_at(&mut self, block: BlockId, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self {
            Source::Local(store, file) => store.read_at(file, offset, buffer)?,
            Source::Remote(stream) => transfer::read(stream, block, offset, buffer)?.ok_or(io::ErrorKind::NotFound)?,
        };
        // The caller requests no bytes beyond the end of a block, so an empty read is an error.
        if read > 0 { Ok(read) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl fmt::Debug for StoredFileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredFileReader").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl StoredFileReader {
    /// A reader of the file in these blocks. `local` is this worker's own store, if the process has one.
    pub(super) fn new(
        blocks: &[FileBlock],
        local: Option<Arc<BlockStore>>,
        token: Token,
        locator: impl BlockLocator + 'static,
    ) -> StoredFileReader {
        let locator = Box::new(locator);
        StoredFileReader { blocks: blocks.to_vec(), local, token, locator, current: Mutex::new(None) }
    }

    /// Reads from the first replica that succeeds, the local one first. Also returns that replica.
    fn read_block(&self, block: BlockId, offset: u64, buffer: &mut [u8]) -> io::Result<(usize, Source)> {
        if let Some(store) = &self.local
            && let Ok(file) = store.open_block(block)
        {
            let mut local = Source::Local(Arc::clone(store), file);
            if let Ok(read) = local.read_at(block, offset, buffer) {
                return Ok((read, local));
            }
        }
        let mut last = io::Error::other("no worker that is up has a valid replica; check `giveway dfs fsck`");
        for worker in self.locator.locate(block)? {
            let mut connected = transfer::connect(&worker.address, &self.token).map(Source::Remote);
            let read = match &mut connected {
                Ok(remote) => remote.read_at(block, offset, buffer),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            match (read, connected) {
                (Ok(read), Ok(remote)) => return Ok((read, remote)),
                (Err(error), _) => last = io::Error::new(error.kind(), format!("{}: {error}", worker.node)),
                (Ok(_), Err(error)) => last = error,
            }
        }
        Err(last)
    }
}

impl ReadAt for StoredFileReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.blocks.partition_point(|block| block.offset <= offset);
        let Some(position) = self.blocks[..end].last() else { return Ok(0) };
        let (block, inside) = (block_id(position), offset - position.offset);
        let wanted = (buffer.len().min(PACKET_BYTES_MAX) as u64).min(position.bytes.saturating_sub(inside)) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..wanted];
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, mut source)) = current.take()
            && of == block
            && let Ok(read) = source.read_at(block, inside, buffer)
        {
            *current = Some((of, source));
            return Ok(read);
        }
        let began = Instant::now();
        loop {
            match self.read_block(block, inside, buffer) {
                Ok((read, source)) => {
                    *current = Some((block, source));
                    return Ok(read);
                }
                Err(error) if began.elapsed() > LOCATE_TIMEOUT => {
                    return Err(io::Error::new(error.kind(), format!("cannot read block {block}: {error}")));
                }
                Err(_) => thread::sleep(RETRY_DELAY),
            }
        }
    }
}

/// Access to stored files for tasks on a worker.
#[derive(Debug)]
pub struct WorkerStoreAccess {
    /// The worker's own replicas.
    pub blocks: Arc<BlockStore>,
    /// The cluster's token.
    pub token: Token,
    /// The cluster's directory.
    pub cluster: PathBuf,
}

impl StoreAccess for WorkerStoreAccess {
    fn open(&self, blocks: &[FileBlock]) -> io::Result<Box<dyn ReadAt>> {
        let locator = CoordinatorLocator::new(self.cluster.clone());
        Ok(Box::new(StoredFileReader::new(blocks, Some(Arc::clone(&self.blocks)), self.token.clone(), locator)))
    }
}

/// Access to stored files for a task runner, which has no replicas of its own.
#[derive(Debug)]
pub(crate) struct RunnerStoreAccess {
    /// The cluster's token.
    pub(crate) token: Token,
    /// The cluster's directory.
    pub(crate) cluster: PathBuf,
    /// The worker that started it, whose replicas are tried first, if it was a worker.
    pub(crate) own: Option<WorkerEndpoint>,
}

impl StoreAccess for RunnerStoreAccess {
    fn open(&self, blocks: &[FileBlock]) -> io::Result<Box<dyn ReadAt>> {
        let locator = OwnWorkerFirst { own: self.own.clone(), others: CoordinatorLocator::new(self.cluster.clone()) };
        Ok(Box::new(StoredFileReader::new(blocks, None, self.token.clone(), locator)))
    }
}

/// Lists one worker before all others, and alone if the coordinator does not answer.
#[derive(Debug)]
struct OwnWorkerFirst {
    own: Option<WorkerEndpoint>,
    others: CoordinatorLocator,
}

impl BlockLocator for OwnWorkerFirst {
    fn locate(&self, block: BlockId) -> io::Result<Vec<WorkerEndpoint>> {
        match (self.others.locate(block), &self.own) {
            (Ok(mut workers), Some(own)) => {
                workers.sort_by_key(|worker| worker.node != own.node);
                Ok(workers)
            }
            (Err(_), Some(own)) => Ok(vec![own.clone()]),
            (located, None) => located,
        }
    }
}

/// Access to stored files for the coordinator, which plans jobs.
#[derive(Clone, Debug)]
pub struct CoordinatorStoreAccess {
    /// The files and their blocks.
    pub namespace: Arc<Namespace>,
    /// The cluster's token.
    pub token: Token,
}

impl StoreAccess for CoordinatorStoreAccess {
    fn find(&self, path: &str) -> Result<Vec<InputFile>, InputError> {
        let store_error = |source: super::StoreError| InputError::Store { path: path.into(), source: source.into() };
        let root = DfsPath::parse(path).map_err(store_error)?;
        let mut found = Vec::new();
        for (file, manifest) in self.namespace.files_under(&root).map_err(store_error)? {
            // As in local directories: hidden files (markers, uncommitted output) are no input unless they are named.
            let below = &file.as_str()[root.as_str().len()..];
            if below.split('/').any(|component| component.starts_with(['.', '_'])) {
                continue;
            }
            let (name, blocks) = (file.to_string(), manifest.block_positions());
            let opened = self.open(&blocks).map_err(|source| InputError::Unreadable { name: name.clone(), source })?;
            let packing = detect_codec(&name, opened.as_ref())?;
            found.push(InputFile {
                name: name.into(),
                location: FileLocation::Blocks(blocks),
                codec: packing,
                bytes: manifest.bytes,
            });
        }
        if found.is_empty() { Err(InputError::EmptyDirectory { path: path.into() }) } else { Ok(found) }
    }

    fn open(&self, blocks: &[FileBlock]) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(StoredFileReader::new(blocks, None, self.token.clone(), Arc::clone(&self.namespace))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StoreReport, serve_read, serve_write};
    use super::*;
    use crate::wire::{self, DataRequest};
    use giveway_core::NodeId;
    use std::net::TcpListener;

    /// A worker's block store and its data server.
    struct Worker {
        dir: tempfile::TempDir,
        store: Arc<BlockStore>,
        address: String,
    }

    fn worker(token: &Token) -> Worker {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(BlockStore::open(dir.path().into()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (serving_store, token) = (Arc::clone(&store), token.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = Stream::Tcp(stream);
                let (serving_store, token) = (Arc::clone(&serving_store), token.clone());
                thread::spawn(move || -> Result<(), wire::WireError> {
                    wire::accept(&mut stream, &token)?;
                    loop {
                        match wire::receive(&mut stream, 4096)? {
                            DataRequest::ReadBlock { block, from, bytes } => {
                                serve_read(&serving_store, block, from, bytes, &mut stream)?
                            }
                            DataRequest::WriteBlock { block, bytes } => {
                                serve_write(&serving_store, block, bytes, &mut stream)?
                            }
                            _ => return Ok(()),
                        }
                    }
                });
            }
        });
        Worker { dir, store, address }
    }

    struct Cluster {
        dir: tempfile::TempDir,
        token: Token,
        namespace: Arc<Namespace>,
        workers: Vec<Worker>,
    }

    impl Cluster {
        /// Two workers, and a file of two blocks with a replica on each.
        fn with_file(content: &[u8]) -> Cluster {
            let dir = tempfile::tempdir().unwrap();
            let token = Token::read_or_create(&dir.path().join("token")).unwrap();
            let workers: Vec<Worker> = (0..2).map(|_| worker(&token)).collect();
            let namespace = Arc::new(Namespace::open(dir.path(), Duration::ZERO).unwrap());
            for (worker, node) in workers.iter().zip(0..) {
                namespace.on_node_joined(NodeId(node), "n", &worker.address);
                namespace.on_report(NodeId(node), StoreReport::Full { blocks: Vec::new(), corrupt: Vec::new() });
            }
            let write_id = namespace.create(DfsPath::parse("dfs:/d/f").unwrap(), 2).unwrap();
            let blocks: Vec<_> = content
                .chunks(content.len().div_ceil(2))
                .map(|part| {
                    let (block, targets) = namespace.allocate_block(write_id, None, &[]).unwrap();
                    let written: Vec<_> = targets
                        .iter()
                        .map(|target| {
                            let mut sender =
                                transfer::BlockSender::begin(&target.address, &token, block, part.len() as u64)
                                    .unwrap();
                            part.chunks(PACKET_BYTES_MAX).for_each(|packet| sender.send(packet).unwrap());
                            sender.finish().unwrap()
                        })
                        .collect();
                    assert_eq!(written[0], written[1]);
                    (written[0], targets.iter().map(|target| target.node).collect())
                })
                .collect();
            namespace.commit(write_id, &blocks).unwrap();
            Cluster { dir, token, namespace, workers }
        }

        fn corrupt(&self, worker: usize, at: usize) {
            for file in std::fs::read_dir(self.workers[worker].dir.path()).unwrap() {
                let path = file.unwrap().path();
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[at] ^= 1;
                std::fs::write(path, bytes).unwrap();
            }
        }

        fn read(&self, local: Option<Arc<BlockStore>>) -> io::Result<Vec<u8>> {
            let positions = self.namespace.file(&DfsPath::parse("dfs:/d/f").unwrap()).unwrap().block_positions();
            let reader = StoredFileReader::new(&positions, local, self.token.clone(), Arc::clone(&self.namespace));
            let (mut all, mut buffer) = (Vec::new(), vec![0; 70_001]);
            loop {
                match reader.read_at(all.len() as u64, &mut buffer)? {
                    0 => return Ok(all),
                    read => all.extend_from_slice(&buffer[..read]),
                }
            }
        }
    }

    fn content() -> Vec<u8> {
        (0..5_000_003_u64).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect()
    }

    #[test]
    fn a_file_is_read_from_other_workers_and_from_the_local_disk() {
        let cluster = Cluster::with_file(&content());
        assert!(cluster.read(None).unwrap() == content());
        assert!(cluster.read(Some(Arc::clone(&cluster.workers[0].store))).unwrap() == content());
        assert!(cluster.dir.path().join("names/d/f").exists());
    }

    #[test]
    fn corruption_in_the_middle_makes_the_reader_use_another_replica() {
        let cluster = Cluster::with_file(&content());
        cluster.corrupt(0, 1_000_000);
        assert!(cluster.read(None).unwrap() == content());
        assert!(cluster.workers[0].store.blocks().is_empty(), "it was tried first, and quarantined both replicas");
        assert_eq!(cluster.workers[1].store.blocks().len(), 2);
        let cluster = Cluster::with_file(&content());
        cluster.corrupt(1, 0);
        assert!(cluster.read(Some(Arc::clone(&cluster.workers[1].store))).unwrap() == content());
        assert!(cluster.workers[1].store.blocks().is_empty());
    }

    #[test]
    fn the_coordinator_finds_files_and_directories_as_input() {
        let cluster = Cluster::with_file(&content());
        let access = CoordinatorStoreAccess { namespace: Arc::clone(&cluster.namespace), token: cluster.token.clone() };
        for path in ["dfs:/d/f", "dfs:/d", "dfs:/"] {
            let files = access.find(path).unwrap();
            assert_eq!(files.len(), 1);
            assert_eq!((files[0].name.to_str(), files[0].bytes), (Some("dfs:/d/f"), content().len() as u64));
        }
        for invalid in ["dfs:/e", "dfs:/d/../d", "dfs:d"] {
            assert!(matches!(access.find(invalid), Err(InputError::Store { .. })), "{invalid}");
        }
    }
}
