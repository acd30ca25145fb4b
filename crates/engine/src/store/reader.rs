//! Reading stored files: from the own disk where there is a replica, otherwise from a worker that has one.
//!
//! A replica that fails in the middle is no failure of the read: the next one goes on from the same byte. Only when nobody who should have
//! the block gives it, for a while, is it said to be missing.

use super::block::BlockFile;
use super::data::{self, PIECE_BYTES_MAX};
use super::manifest::id;
use super::{BlockId, Catalog, Holder, Name, Shelf, StoreAnswer, StoreRequest};
use crate::client::Client;
use crate::input::{InputError, ReadAt, Stored, packing};
use crate::job::{FileBlock, FileLocation, InputFile};
use crate::wire::Token;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a block is looked for: a worker that just died is only found lost after a while, and one that was restarted comes back.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Who knows where blocks are.
pub(super) trait Locate: Send + Sync {
    /// Workers that have a block.
    fn locate(&self, block: BlockId) -> io::Result<Vec<Holder>>;
}

impl Locate for Arc<Catalog> {
    fn locate(&self, block: BlockId) -> io::Result<Vec<Holder>> {
        Ok(self.holders(block))
    }
}

/// Asks the coordinator of the cluster in a folder, over a line that is made when it is first needed.
#[derive(Debug)]
pub(super) struct Asking {
    cluster: PathBuf,
    line: Mutex<Option<Client>>,
}

impl Asking {
    pub(super) fn new(cluster: PathBuf) -> Asking {
        Asking { cluster, line: Mutex::new(None) }
    }
}

impl Locate for Asking {
    fn locate(&self, block: BlockId) -> io::Result<Vec<Holder>> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let mut client = match line.take() {
            Some(client) => client,
            None => Client::connect(&self.cluster).map_err(io::Error::other)?,
        };
        match client.store(StoreRequest::Locate { block }).map_err(io::Error::other)? {
            StoreAnswer::At(holders) => {
                *line = Some(client);
                Ok(holders)
            }
            _ => Err(io::Error::other("the coordinator answered something else")),
        }
    }
}

/// The bytes of a stored file.
pub(super) struct BlocksReader {
    blocks: Vec<FileBlock>,
    shelf: Option<Arc<Shelf>>,
    token: Token,
    whereabouts: Box<dyn Locate>,
    /// Where the last read came from.
    open: Mutex<Option<(BlockId, Source)>>,
}

/// A replica that is being read.
enum Source {
    Own(Arc<Shelf>, BlockFile),
    Other(TcpStream),
}

impl Source {
    fn read_at(&mut self, block: BlockId, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self {
            Source::Own(shelf, file) => shelf.read_at(file, at, buffer)?,
            Source::Other(stream) => data::read(stream, block, at, buffer)?.ok_or(io::ErrorKind::NotFound)?,
        };
        // Nobody asks for bytes behind the end of a block.
        if read > 0 { Ok(read) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl fmt::Debug for BlocksReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlocksReader").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl BlocksReader {
    pub(super) fn new(
        blocks: &[FileBlock],
        shelf: Option<Arc<Shelf>>,
        token: Token,
        whereabouts: impl Locate + 'static,
    ) -> BlocksReader {
        let whereabouts = Box::new(whereabouts);
        BlocksReader { blocks: blocks.to_vec(), shelf, token, whereabouts, open: Mutex::new(None) }
    }

    /// Reads from whatever replica gives it, and says which one did.
    fn read_block(&self, block: BlockId, at: u64, buffer: &mut [u8]) -> io::Result<(usize, Source)> {
        if let Some(shelf) = &self.shelf
            && let Ok(file) = shelf.block(block)
        {
            let mut own = Source::Own(Arc::clone(shelf), file);
            if let Ok(read) = own.read_at(block, at, buffer) {
                return Ok((read, own));
            }
        }
        let mut last = io::Error::other("no worker that is up has a sound replica; see `giveway dfs fsck`");
        for holder in self.whereabouts.locate(block)? {
            let mut asked = data::call(&holder.address, &self.token).map(Source::Other);
            let read = match &mut asked {
                Ok(other) => other.read_at(block, at, buffer),
                Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
            };
            match (read, asked) {
                (Ok(read), Ok(other)) => return Ok((read, other)),
                (Err(error), _) => last = io::Error::new(error.kind(), format!("{}: {error}", holder.node)),
                (Ok(_), Err(error)) => last = error,
            }
        }
        Err(last)
    }
}

impl ReadAt for BlocksReader {
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let behind = self.blocks.partition_point(|block| block.offset <= at);
        let Some(place) = self.blocks[..behind].last() else { return Ok(0) };
        let (block, inside) = (id(place), at - place.offset);
        let wanted = (buffer.len().min(PIECE_BYTES_MAX) as u64).min(place.bytes.saturating_sub(inside)) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..wanted];
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, mut source)) = open.take()
            && of == block
            && let Ok(read) = source.read_at(block, inside, buffer)
        {
            *open = Some((of, source));
            return Ok(read);
        }
        let began = Instant::now();
        loop {
            match self.read_block(block, inside, buffer) {
                Ok((read, source)) => {
                    *open = Some((block, source));
                    return Ok(read);
                }
                Err(error) if began.elapsed() > PATIENCE => {
                    return Err(io::Error::new(error.kind(), format!("block {block} cannot be had: {error}")));
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}

/// Stored files, as tasks on a worker read them.
#[derive(Debug)]
pub struct OnWorker {
    /// The replicas this worker has itself.
    pub shelf: Arc<Shelf>,
    /// The cluster's token.
    pub token: Token,
    /// The cluster's folder.
    pub cluster: PathBuf,
}

impl Stored for OnWorker {
    fn open(&self, blocks: &[FileBlock]) -> io::Result<Box<dyn ReadAt>> {
        let asking = Asking::new(self.cluster.clone());
        Ok(Box::new(BlocksReader::new(blocks, Some(Arc::clone(&self.shelf)), self.token.clone(), asking)))
    }
}

/// Stored files, as the coordinator sees them when it plans a job.
#[derive(Debug)]
pub struct OnCoordinator {
    /// The names.
    pub catalog: Arc<Catalog>,
    /// The cluster's token.
    pub token: Token,
}

impl Stored for OnCoordinator {
    fn find(&self, path: &str) -> Result<Vec<InputFile>, InputError> {
        let not_stored =
            |error: super::StoreError| InputError::NotStored { path: path.into(), detail: error.to_string() };
        let wanted = Name::parse(path).map_err(not_stored)?;
        let mut found = Vec::new();
        for (name, manifest) in self.catalog.files(&wanted).map_err(not_stored)? {
            // As with local folders: markers and half-written output are no input unless they are named.
            let below = &name.as_str()[wanted.as_str().len()..];
            if below.split('/').any(|part| part.starts_with(['.', '_'])) {
                continue;
            }
            let (name, blocks) = (name.to_string(), manifest.places());
            let opened = self.open(&blocks).map_err(|source| InputError::Unreadable { name: name.clone(), source })?;
            let packing = packing(&name, opened.as_ref())?;
            found.push(InputFile {
                name,
                location: FileLocation::Blocks(blocks),
                codec: packing,
                bytes: manifest.bytes,
            });
        }
        if found.is_empty() { Err(InputError::EmptyFolder { path: path.into() }) } else { Ok(found) }
    }

    fn open(&self, blocks: &[FileBlock]) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(BlocksReader::new(blocks, None, self.token.clone(), Arc::clone(&self.catalog))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StoreNews, serve_read, serve_write};
    use super::*;
    use crate::wire::{self, DataRequest};
    use giveway_core::NodeId;
    use std::net::TcpListener;

    /// A worker's shelf, and its data server.
    struct Worker {
        folder: tempfile::TempDir,
        shelf: Arc<Shelf>,
        address: String,
    }

    fn worker(token: &Token) -> Worker {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Arc::new(Shelf::open(folder.path().into()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (serving, token) = (Arc::clone(&shelf), token.clone());
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (serving, token) = (Arc::clone(&serving), token.clone());
                thread::spawn(move || -> Result<(), wire::WireError> {
                    wire::accept(&mut stream, &token)?;
                    loop {
                        match wire::receive(&mut stream, 4096)? {
                            DataRequest::ReadBlock { block, from, bytes } => {
                                serve_read(&serving, block, from, bytes, &mut stream)?
                            }
                            DataRequest::WriteBlock { block, bytes } => {
                                serve_write(&serving, block, bytes, &mut stream)?
                            }
                            _ => return Ok(()),
                        }
                    }
                });
            }
        });
        Worker { folder, shelf, address }
    }

    struct Cluster {
        folder: tempfile::TempDir,
        token: Token,
        catalog: Arc<Catalog>,
        workers: Vec<Worker>,
    }

    impl Cluster {
        /// Two workers, and a file of two blocks with a replica on each.
        fn with_file(content: &[u8]) -> Cluster {
            let folder = tempfile::tempdir().unwrap();
            let token = Token::read_or_create(&folder.path().join("token")).unwrap();
            let workers: Vec<Worker> = (0..2).map(|_| worker(&token)).collect();
            let catalog = Arc::new(Catalog::open(folder.path(), Duration::ZERO).unwrap());
            for (worker, node) in workers.iter().zip(0..) {
                catalog.joined(NodeId(node), "n", &worker.address);
                catalog.heard(NodeId(node), StoreNews::Holds { held: Vec::new(), damaged: Vec::new() });
            }
            let put = catalog.create(Name::parse("dfs:/d/f").unwrap(), 2).unwrap();
            let blocks: Vec<_> = content
                .chunks(content.len().div_ceil(2))
                .map(|part| {
                    let (block, targets) = catalog.allot(put, None, &[]).unwrap();
                    let written: Vec<_> = targets
                        .iter()
                        .map(|target| {
                            let mut sending =
                                data::Sending::begin(&target.address, &token, block, part.len() as u64).unwrap();
                            part.chunks(PIECE_BYTES_MAX).for_each(|piece| sending.send(piece).unwrap());
                            sending.finish().unwrap()
                        })
                        .collect();
                    assert_eq!(written[0], written[1]);
                    (written[0], targets.iter().map(|target| target.node).collect())
                })
                .collect();
            catalog.seal(put, &blocks).unwrap();
            Cluster { folder, token, catalog, workers }
        }

        fn damage(&self, worker: usize, at: usize) {
            for file in std::fs::read_dir(self.workers[worker].folder.path()).unwrap() {
                let path = file.unwrap().path();
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[at] ^= 1;
                std::fs::write(path, bytes).unwrap();
            }
        }

        fn read(&self, shelf: Option<Arc<Shelf>>) -> io::Result<Vec<u8>> {
            let places = self.catalog.file(&Name::parse("dfs:/d/f").unwrap()).unwrap().places();
            let reader = BlocksReader::new(&places, shelf, self.token.clone(), Arc::clone(&self.catalog));
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
    fn a_file_is_read_from_others_and_from_the_own_disk() {
        let cluster = Cluster::with_file(&content());
        assert!(cluster.read(None).unwrap() == content());
        assert!(cluster.read(Some(Arc::clone(&cluster.workers[0].shelf))).unwrap() == content());
        assert!(cluster.folder.path().join("names/d/f").exists());
    }

    #[test]
    fn damage_in_the_middle_sends_the_reader_to_another_replica() {
        let cluster = Cluster::with_file(&content());
        cluster.damage(0, 1_000_000);
        assert!(cluster.read(None).unwrap() == content());
        assert!(cluster.workers[0].shelf.blocks().is_empty(), "it was asked first, and set both aside");
        assert_eq!(cluster.workers[1].shelf.blocks().len(), 2);
        let cluster = Cluster::with_file(&content());
        cluster.damage(1, 0);
        assert!(cluster.read(Some(Arc::clone(&cluster.workers[1].shelf))).unwrap() == content());
        assert!(cluster.workers[1].shelf.blocks().is_empty());
    }

    #[test]
    fn the_coordinator_finds_files_and_folders_as_input() {
        let cluster = Cluster::with_file(&content());
        let stored = OnCoordinator { catalog: Arc::clone(&cluster.catalog), token: cluster.token.clone() };
        for path in ["dfs:/d/f", "dfs:/d", "dfs:/"] {
            let files = stored.find(path).unwrap();
            assert_eq!(files.len(), 1);
            assert_eq!((files[0].name.as_str(), files[0].bytes), ("dfs:/d/f", content().len() as u64));
        }
        for wrong in ["dfs:/e", "dfs:/d/../d", "dfs:d"] {
            assert!(matches!(stored.find(wrong), Err(InputError::NotStored { .. })), "{wrong}");
        }
    }
}
