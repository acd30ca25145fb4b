//! A model of a disk: what is not synced may be lost or torn when the power fails.
//!
//! The content of a file is durable after a sync of the file. Changes of folders (new, renamed and removed entries) become durable in their order: a
//! sync of a folder makes the changes up to the last one in this folder durable. A power cut keeps any number of the changes that follow, and
//! any part of a file's content that was not synced. A killed process loses nothing but what it had not done yet.

use super::random::Random;
use crate::coordinator::file_system::{AppendFile, Entry, FileSystem};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type NodeNumber = usize;

const ROOT: NodeNumber = 0;

/// What is wrong with the disk for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskFault {
    /// Writes fail, and may write a part.
    Full,
    /// Any operation may fail.
    Errors,
}

#[derive(Clone, Debug)]
enum Node {
    File { content: Vec<u8>, durable: Vec<u8> },
    Folder { entries: BTreeMap<OsString, NodeNumber>, durable: BTreeMap<OsString, NodeNumber> },
}

/// A change of folders that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    Added { folder: NodeNumber, name: OsString, node: NodeNumber },
    Removed { folder: NodeNumber, name: OsString },
    Renamed { from: NodeNumber, old: OsString, to: NodeNumber, new: OsString, node: NodeNumber },
}

#[derive(Debug)]
struct State {
    nodes: Vec<Node>,
    pending: Vec<Change>,
    fault: Option<DiskFault>,
    random: Random,
    /// Operations that counted handles may still do; after that they fail.
    operations_left: Option<u64>,
    /// Operations of counted handles so far.
    operations: u64,
    torn_writes: u64,
}

/// A handle of the disk. All handles share one disk.
#[derive(Clone, Debug)]
pub(super) struct ModelDisk {
    state: Arc<Mutex<State>>,
    /// True if operations count against the limit of a process.
    counted: bool,
}

impl ModelDisk {
    pub(super) fn new(random: Random) -> ModelDisk {
        let root = Node::Folder { entries: BTreeMap::new(), durable: BTreeMap::new() };
        let state = State {
            nodes: vec![root],
            pending: Vec::new(),
            fault: None,
            random,
            operations_left: None,
            operations: 0,
            torn_writes: 0,
        };
        ModelDisk { state: Arc::new(Mutex::new(state)), counted: false }
    }

    /// A handle whose operations count against the limit.
    pub(super) fn counted(&self) -> ModelDisk {
        ModelDisk { state: Arc::clone(&self.state), counted: true }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_fault(&self, fault: Option<DiskFault>) {
        self.state().fault = fault;
    }

    /// Lets counted handles do this many operations more, and then none: their process is killed.
    pub(super) fn limit(&self, operations: Option<u64>) {
        self.state().operations_left = operations;
    }

    /// True if the limit was reached.
    pub(super) fn is_limit_reached(&self) -> bool {
        self.state().operations_left == Some(0)
    }

    pub(super) fn operations(&self) -> u64 {
        self.state().operations
    }

    pub(super) fn torn_writes(&self) -> u64 {
        self.state().torn_writes
    }

    /// Cuts the power: what was not synced is lost, or a part of it.
    pub(super) fn cut_power(&self) {
        let state = &mut *self.state();
        let kept = state.random.below(state.pending.len() as u64 + 1) as usize;
        let pending = std::mem::take(&mut state.pending);
        pending.into_iter().take(kept).for_each(|change| state.make_durable(change));
        for node in &mut state.nodes {
            match node {
                Node::Folder { entries, durable } => entries.clone_from(durable),
                Node::File { content, durable } if content != durable => {
                    state.torn_writes += 1;
                    let torn = tear(content, durable, &mut state.random);
                    (*content, *durable) = (torn.clone(), torn);
                }
                Node::File { .. } => {}
            }
        }
    }

    /// Changes a bit of a file, on disk too. Returns false if there is no such file, or if it is empty.
    pub(super) fn flip_bit(&self, path: &Path, bit: u64) -> bool {
        let state = &mut *self.state();
        let Some(Node::File { content, durable }) = state.find(path).and_then(|node| state.nodes.get_mut(node)) else {
            return false;
        };
        let at = (bit / 8) as usize;
        for bytes in [content, durable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (bit % 8);
            }
        }
        true
    }

    /// All files below a folder with their contents.
    pub(super) fn files_below(&self, folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        let mut files = BTreeMap::new();
        let mut folders: Vec<(PathBuf, NodeNumber)> =
            state.find(folder).map(|node| (folder.to_path_buf(), node)).into_iter().collect();
        while let Some((path, node)) = folders.pop() {
            match &state.nodes[node] {
                Node::File { content, .. } => drop(files.insert(path, content.clone())),
                Node::Folder { entries, .. } => {
                    folders.extend(entries.iter().map(|(name, &node)| (path.join(name), node)));
                }
            }
        }
        files
    }
}

/// What is left of a file after a power cut.
fn tear(content: &[u8], durable: &[u8], random: &mut Random) -> Vec<u8> {
    let base = if content.starts_with(durable) { durable.len() } else { 0 };
    if base == 0 && random.chance(2) {
        return durable.to_vec();
    }
    let kept = base + random.below((content.len() - base) as u64 + 1) as usize;
    let mut torn = content[..kept].to_vec();
    if random.chance(3) {
        // The length was written, the last bytes were not.
        let lost = random.below((kept - base) as u64 + 1) as usize;
        torn[kept - lost..].fill(0);
    }
    torn
}

impl State {
    fn find(&self, path: &Path) -> Option<NodeNumber> {
        path.components().skip(1).try_fold(ROOT, |node, name| match &self.nodes[node] {
            Node::Folder { entries, .. } => entries.get(name.as_os_str()).copied(),
            Node::File { .. } => None,
        })
    }

    fn folder_of<'a>(&self, path: &'a Path) -> io::Result<(NodeNumber, &'a OsStr)> {
        let parent = path.parent().and_then(|parent| self.find(parent)).ok_or(io::ErrorKind::NotFound)?;
        Ok((parent, path.file_name().ok_or(io::ErrorKind::InvalidInput)?))
    }

    fn entries(&mut self, folder: NodeNumber) -> io::Result<&mut BTreeMap<OsString, NodeNumber>> {
        match &mut self.nodes[folder] {
            Node::Folder { entries, .. } => Ok(entries),
            Node::File { .. } => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn durable_entries(&mut self, folder: NodeNumber) -> &mut BTreeMap<OsString, NodeNumber> {
        match &mut self.nodes[folder] {
            Node::Folder { durable, .. } => durable,
            Node::File { .. } => unreachable!("changes are of folders"),
        }
    }

    fn make_durable(&mut self, change: Change) {
        match change {
            Change::Added { folder, name, node } => drop(self.durable_entries(folder).insert(name, node)),
            Change::Removed { folder, name } => drop(self.durable_entries(folder).remove(&name)),
            Change::Renamed { from, old, to, new, node } => {
                self.durable_entries(from).remove(&old);
                self.durable_entries(to).insert(new, node);
            }
        }
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<NodeNumber> {
        let (folder, name) = self.folder_of(path)?;
        let number = self.nodes.len();
        self.entries(folder)?.insert(name.into(), number);
        self.nodes.push(node);
        self.pending.push(Change::Added { folder, name: name.into(), node: number });
        Ok(number)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from, old), (to, new)) = (self.folder_of(from)?, self.folder_of(to)?);
        let node = self.entries(from)?.remove(old).ok_or(io::ErrorKind::NotFound)?;
        self.entries(to)?.insert(new.into(), node);
        self.pending.push(Change::Renamed { from, old: old.into(), to, new: new.into(), node });
        Ok(())
    }

    /// Removes a file or folder with its content, the content first.
    fn remove(&mut self, folder: NodeNumber, name: &OsStr) -> io::Result<()> {
        let node = *self.entries(folder)?.get(name).ok_or(io::ErrorKind::NotFound)?;
        if let Node::Folder { entries, .. } = &self.nodes[node] {
            let names: Vec<OsString> = entries.keys().cloned().collect();
            names.iter().try_for_each(|name| self.remove(node, name))?;
        }
        self.entries(folder)?.remove(name);
        self.pending.push(Change::Removed { folder, name: name.into() });
        Ok(())
    }

    fn sync(&mut self, number: NodeNumber) {
        match &mut self.nodes[number] {
            Node::File { content, durable } => durable.clone_from(content),
            Node::Folder { .. } => {
                let touches = |change: &Change| match change {
                    Change::Added { folder, .. } | Change::Removed { folder, .. } => *folder == number,
                    Change::Renamed { from, to, .. } => *from == number || *to == number,
                };
                let count = self.pending.iter().rposition(touches).map_or(0, |last| last + 1);
                let synced: Vec<Change> = self.pending.drain(..count).collect();
                synced.into_iter().for_each(|change| self.make_durable(change));
            }
        }
    }

    /// Appends to a file. A full disk, or a process that is killed, may leave a part.
    fn append(&mut self, number: NodeNumber, bytes: &[u8], complete: bool) {
        let written = if complete { bytes.len() } else { self.random.below(bytes.len() as u64 + 1) as usize };
        if let Node::File { content, .. } = &mut self.nodes[number] {
            content.extend_from_slice(&bytes[..written]);
        }
    }
}

/// What becomes of an operation.
enum Permit {
    Granted,
    /// It fails; a write may leave a part.
    Refused(io::Error),
}

impl ModelDisk {
    fn permit(&self, state: &mut State, is_write: bool) -> Permit {
        if self.counted {
            state.operations += 1;
            match &mut state.operations_left {
                Some(0) => return Permit::Refused(io::Error::other("the process was killed")),
                Some(left) => {
                    *left -= 1;
                    if *left == 0 {
                        return Permit::Refused(io::Error::other("the process was killed"));
                    }
                }
                None => {}
            }
        }
        match state.fault {
            Some(DiskFault::Full) if is_write => Permit::Refused(io::ErrorKind::StorageFull.into()),
            Some(DiskFault::Errors) if state.random.chance(4) => Permit::Refused(io::Error::other("I/O error")),
            _ => Permit::Granted,
        }
    }

    /// The state, if the operation is granted.
    fn operation(&self, is_write: bool) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        match self.permit(&mut state, is_write) {
            Permit::Granted => Ok(state),
            Permit::Refused(error) => Err(error),
        }
    }
}

impl FileSystem for ModelDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.operation(false)?;
        match state.find(path).map(|node| &state.nodes[node]) {
            Some(Node::File { content, .. }) => Ok(content.clone()),
            Some(Node::Folder { .. }) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let state = self.operation(false)?;
        match state.find(folder).map(|node| &state.nodes[node]) {
            Some(Node::Folder { entries, .. }) => {
                let is_file = |node: &NodeNumber| matches!(state.nodes[*node], Node::File { .. });
                Ok(entries.iter().map(|(name, node)| Entry { name: name.clone(), is_file: is_file(node) }).collect())
            }
            Some(Node::File { .. }) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.operation(false)?.find(path).is_some())
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.operation(true)?;
        if state.find(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.add(path, Node::Folder { entries: BTreeMap::new(), durable: BTreeMap::new() }).map(drop)
    }

    fn create_folders(&self, path: &Path) -> io::Result<()> {
        if self.operation(false)?.find(path).is_some() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.create_folders(parent)?;
        }
        self.create_folder(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let permit = self.permit(&mut state, true);
        // The file is emptied before the disk turns out to be full.
        if let (Permit::Refused(_), None) = (&permit, state.find(path)) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let number = match state.find(path) {
            Some(number) => number,
            None => state.add(path, Node::File { content: Vec::new(), durable: Vec::new() })?,
        };
        match &mut state.nodes[number] {
            Node::File { content, .. } => content.clear(),
            Node::Folder { .. } => return Err(io::ErrorKind::IsADirectory.into()),
        }
        match permit {
            Permit::Granted => {
                state.append(number, bytes, true);
                Ok(())
            }
            Permit::Refused(error) => {
                state.append(number, bytes, false);
                Err(error)
            }
        }
    }

    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.operation(true)?;
        let number = match state.find(path) {
            Some(number) => number,
            None => state.add(path, Node::File { content: Vec::new(), durable: Vec::new() })?,
        };
        if let Node::File { content, .. } = &mut state.nodes[number] {
            let rest = content.get(bytes.len()..).unwrap_or_default();
            *content = [bytes, rest].concat();
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operation(true)?.rename(from, to)
    }

    fn rename_to_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.operation(true)?;
        if state.find(to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.rename(from, to)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        // Removing frees space: a full disk does not prevent it.
        let mut state = self.operation(false)?;
        match state.find(path) {
            None => Ok(()),
            Some(_) => {
                let (folder, name) = state.folder_of(path)?;
                state.remove(folder, name)
            }
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        let mut state = self.operation(false)?;
        let number = state.find(path).ok_or(io::ErrorKind::NotFound)?;
        state.sync(number);
        Ok(())
    }

    fn open_to_append(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn AppendFile>> {
        let mut state = self.operation(false)?;
        let number = state.find(path).ok_or(io::ErrorKind::NotFound)?;
        match &mut state.nodes[number] {
            Node::File { content, .. } => content.resize(bytes as usize, 0),
            Node::Folder { .. } => return Err(io::ErrorKind::IsADirectory.into()),
        }
        state.sync(number);
        drop(state);
        Ok(Box::new(OpenFile { disk: self.clone(), number }))
    }
}

/// A file that is open for appending.
struct OpenFile {
    disk: ModelDisk,
    number: NodeNumber,
}

impl AppendFile for OpenFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        match self.disk.permit(&mut state, true) {
            Permit::Granted => {
                state.append(self.number, bytes, true);
                Ok(())
            }
            Permit::Refused(error) => {
                state.append(self.number, bytes, false);
                Err(error)
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.operation(false)?;
        state.sync(self.number);
        Ok(())
    }
}
