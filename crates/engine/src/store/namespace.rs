//! The namespace: paths of stored files with their manifests, and the replica map. Writing files is in `pending_file.rs`.
//!
//! It is shared by the threads that serve clients and by the coordinator's loop, which passes on the workers' reports and fetches commands for
//! them. The lock of its state is never held during disk or network I/O. Files are only added and removed under a second lock, which only
//! writers and removers wait for.

use super::manifest::{Manifest, ManifestDir, ManifestError};
use super::pending_file::PendingFile;
use super::replica_map::ReplicaMap;
use super::{BlockId, DfsPath, Entry, FileStatus, StoreCommand, StoreError, StoreReport, WorkerEndpoint};
use crate::job::FileBlock;
use giveway_core::NodeId;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Limit of entries in one response to a listing.
const ENTRIES_PER_RESPONSE_MAX: usize = 10_000;

/// The files and blocks of a cluster.
#[derive(Debug)]
pub struct Namespace {
    pub(super) manifests: ManifestDir,
    state: Mutex<State>,
    /// Held while files are added or removed.
    paths: Mutex<()>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) files: BTreeMap<DfsPath, Arc<Manifest>>,
    pub(super) unreadable: Vec<(PathBuf, ManifestError)>,
    pub(super) replica_map: ReplicaMap,
    /// Files being written, by write id.
    pub(super) pending_files: BTreeMap<u64, PendingFile>,
    pub(super) next_write_id: u64,
}

impl Namespace {
    /// Reads the manifests in a coordinator's directory. Nothing is repaired for the duration `safe_mode`, in which workers reconnect.
    pub fn open(dir: &Path, safe_mode: Duration) -> io::Result<Namespace> {
        let manifests = ManifestDir::open(dir)?;
        let found = manifests.read();
        let mut replica_map = ReplicaMap::new(Instant::now() + safe_mode);
        for (_, manifest) in &found.files {
            for info in &manifest.blocks {
                replica_map.add_block(info.block, manifest.replicas, Some(*info));
            }
        }
        for (path, error) in &found.unreadable {
            tracing::warn!("manifest {} is unreadable: {error}", path.display());
        }
        let files = found.files.into_iter().map(|(path, manifest)| (path, Arc::new(manifest))).collect();
        let state = State {
            files,
            unreadable: found.unreadable,
            replica_map,
            pending_files: BTreeMap::new(),
            next_write_id: 1,
        };
        Ok(Namespace { manifests, state: Mutex::new(state), paths: Mutex::new(()) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // No code panics under the lock in the middle of a change, so a poisoned state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the set of files against changes by others.
    pub(super) fn lock_paths(&self) -> MutexGuard<'_, ()> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the nodes in the journal (name, and whether it was up), ordered by id. Reports of those that were up are awaited.
    pub fn expect_nodes<'a>(&self, nodes: impl Iterator<Item = (&'a str, bool)>) {
        self.state().replica_map.expect_nodes(nodes);
    }

    /// Handles a worker's connection.
    pub fn on_node_joined(&self, node: NodeId, name: &str, address: &str) {
        self.state().replica_map.on_node_joined(node, name, address, Instant::now());
    }

    /// Handles the loss of a worker.
    pub fn on_node_lost(&self, node: NodeId) {
        self.state().replica_map.on_node_lost(node);
    }

    /// Handles a worker's report.
    pub fn on_report(&self, node: NodeId, report: StoreReport) {
        self.state().replica_map.on_report(node, report, Instant::now());
    }

    /// Returns the commands to be sent to workers now. The caller must send each of them; it is not returned again.
    pub fn take_commands(&self) -> Vec<(NodeId, StoreCommand)> {
        let state = &mut *self.state();
        state.replica_map.repair(Instant::now(), state.unreadable.is_empty())
    }

    /// Workers that are up and have a valid replica of a block.
    pub fn locations(&self, block: BlockId) -> Vec<WorkerEndpoint> {
        self.state().replica_map.locations(block)
    }

    /// Workers that have the block in which a byte of a file is.
    pub fn nodes_at(&self, blocks: &[FileBlock], offset: u64) -> Vec<NodeId> {
        let end = blocks.partition_point(|at| at.offset <= offset);
        let Some(at) = blocks[..end].last() else { return Vec::new() };
        self.locations(BlockId(at.block)).into_iter().map(|endpoint| endpoint.node).collect()
    }

    /// The metadata of a file.
    pub(super) fn file(&self, path: &DfsPath) -> Result<Arc<Manifest>, StoreError> {
        let state = self.state();
        match state.files.get(path) {
            Some(manifest) => Ok(Arc::clone(manifest)),
            None if state.is_dir(path) => Err(StoreError::IsDirectory { path: path.clone() }),
            None => Err(StoreError::NotFound { path: path.clone() }),
        }
    }

    /// The file of this path, or all files below this directory.
    pub(super) fn files_under(&self, path: &DfsPath) -> Result<Vec<(DfsPath, Arc<Manifest>)>, StoreError> {
        let state = self.state();
        let owned = |(path, manifest): (&DfsPath, &Arc<Manifest>)| (path.clone(), Arc::clone(manifest));
        if let Some(file) = state.files.get_key_value(path) {
            return Ok(vec![owned(file)]);
        }
        let below: Vec<_> = state.files_below(path).map(owned).collect();
        if below.is_empty() && !path.is_root() { Err(StoreError::NotFound { path: path.clone() }) } else { Ok(below) }
    }

    /// The entries of a directory after a path (without its scheme), and whether there are more.
    pub(super) fn list(&self, path: &DfsPath, after: Option<&str>) -> Result<(Vec<Entry>, bool), StoreError> {
        let state = self.state();
        if let Some(manifest) = state.files.get(path) {
            return Ok((vec![file_entry(path, manifest)], false));
        }
        if !path.is_root() && !state.is_dir(path) {
            return Err(StoreError::NotFound { path: path.clone() });
        }
        let prefix = path.dir_prefix();
        let mut entries = Vec::new();
        let mut from = after.map_or(Bound::Included(prefix.clone()), bound_after);
        while let Some((file, manifest)) =
            state.files.range::<str, _>((from.as_ref().map(String::as_str), Bound::Unbounded)).next()
            && let Some(rest) = file.as_str().strip_prefix(&prefix)
        {
            if entries.len() == ENTRIES_PER_RESPONSE_MAX {
                return Ok((entries, true));
            }
            let entry = match rest.split_once('/') {
                None => file_entry(file, manifest),
                Some((dir, _)) => Entry { path: format!("dfs:{prefix}{dir}/"), file: None },
            };
            from = bound_after(entry.path.trim_start_matches("dfs:"));
            entries.push(entry);
        }
        Ok((entries, false))
    }

    /// Removes a file, or a directory with its content.
    pub(super) fn remove(&self, path: &DfsPath, recursive: bool) -> Result<(), StoreError> {
        let _guard = self.lock_paths();
        let files = self.files_under(path)?;
        if !recursive && (files.len() != 1 || files[0].0 != *path) {
            return Err(StoreError::IsDirectory { path: path.clone() });
        }
        for (path, manifest) in files {
            // The manifest is removed first: a file whose blocks are being deleted must not be visible.
            self.manifests.remove(&path).map_err(|error| disk_error(self.manifests.local_path(&path), error))?;
            let mut state = self.state();
            state.files.remove(&path);
            manifest.blocks.iter().for_each(|info| state.replica_map.remove_block(info.block));
        }
        Ok(())
    }
}

impl State {
    /// True if there are files below this path.
    fn is_dir(&self, path: &DfsPath) -> bool {
        self.files_below(path).next().is_some()
    }

    fn files_below(&self, path: &DfsPath) -> impl Iterator<Item = (&DfsPath, &Arc<Manifest>)> {
        let prefix = path.dir_prefix();
        let from = self.files.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.take_while(move |(file, _)| file.as_str().starts_with(&prefix))
    }

    /// Fails if a file of this path cannot be created.
    pub(super) fn check_free(&self, path: &DfsPath) -> Result<(), StoreError> {
        if path.is_root() || self.is_dir(path) {
            return Err(StoreError::IsDirectory { path: path.clone() });
        }
        if self.files.contains_key(path) {
            return Err(StoreError::Exists { path: path.clone() });
        }
        match path.parents().find(|parent| self.files.contains_key(*parent)) {
            Some(file) => Err(StoreError::ParentIsFile { path: path.clone(), file: format!("dfs:{file}") }),
            None => Ok(()),
        }
    }
}

/// Where a listing continues after an entry. A directory's path ends with `/`, and everything in it sorts before the next character, `0`.
fn bound_after(path: &str) -> Bound<String> {
    match path.strip_suffix('/') {
        Some(dir) => Bound::Included(format!("{dir}0")),
        None => Bound::Excluded(path.into()),
    }
}

fn file_entry(path: &DfsPath, manifest: &Manifest) -> Entry {
    let blocks = manifest.blocks.len() as u32;
    Entry {
        path: path.to_string(),
        file: Some(FileStatus { bytes: manifest.bytes, blocks, replicas: manifest.replicas }),
    }
}

pub(super) fn disk_error(path: PathBuf, error: io::Error) -> StoreError {
    StoreError::Disk { path, error }
}

#[cfg(test)]
mod tests {
    use super::super::BlockInfo;
    use super::*;

    /// A namespace with this many workers, all up and empty.
    fn namespace(dir: &Path, nodes: u32) -> Namespace {
        let namespace = Namespace::open(dir, Duration::ZERO).unwrap();
        for node in (0..nodes).map(NodeId) {
            namespace.on_node_joined(node, &format!("n{}", node.0), &format!("at-{}", node.0));
            namespace.on_report(node, StoreReport::Full { blocks: Vec::new(), corrupt: Vec::new() });
        }
        namespace
    }

    fn path(text: &str) -> DfsPath {
        DfsPath::parse(text).unwrap()
    }

    /// Allocates a block and returns what a client that has written it commits.
    fn block(namespace: &Namespace, write_id: u64) -> (BlockInfo, Vec<NodeId>) {
        let (block, targets) = namespace.allocate_block(write_id, None, &[]).unwrap();
        (BlockInfo { block, bytes: 10, checksum: 1 }, targets.into_iter().map(|endpoint| endpoint.node).collect())
    }

    fn store(namespace: &Namespace, file: &str) {
        let write_id = namespace.create(path(file), 2).unwrap();
        let written = block(namespace, write_id);
        namespace.commit(write_id, &[written]).unwrap();
    }

    fn listed(namespace: &Namespace, dir: &str) -> Vec<String> {
        namespace.list(&path(dir), None).unwrap().0.into_iter().map(|entry| entry.path).collect()
    }

    #[test]
    fn a_file_is_visible_once_committed_and_survives_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = namespace(dir.path(), 3);
        let write_id = namespace.create(path("dfs:/a/b"), 2).unwrap();
        let blocks = [block(&namespace, write_id), block(&namespace, write_id)];
        assert!(blocks.iter().all(|(_, nodes)| nodes.len() == 2));
        assert!(namespace.file(&path("dfs:/a/b")).is_err());
        assert!(namespace.commit(write_id, &blocks[..1]).is_err(), "a block is missing");
        namespace.commit(write_id, &blocks).unwrap();
        assert_eq!(namespace.file(&path("dfs:/a/b")).unwrap().bytes, 20);
        assert!(namespace.commit(write_id, &blocks).is_err(), "committed already");
        drop(namespace);
        let again = Namespace::open(dir.path(), Duration::ZERO).unwrap();
        assert_eq!(again.file(&path("dfs:/a/b")).unwrap().blocks.len(), 2);
    }

    #[test]
    fn an_abandoned_write_leaves_no_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = namespace(dir.path(), 2);
        let write_id = namespace.create(path("dfs:/a"), 2).unwrap();
        let (info, _) = block(&namespace, write_id);
        namespace.on_report(NodeId(1), StoreReport::Received(info));
        assert!(matches!(namespace.create(path("dfs:/a"), 2), Err(StoreError::BeingWritten { .. })));
        namespace.abandon(write_id);
        assert_eq!(namespace.take_commands(), [(NodeId(1), StoreCommand::Delete { block: info.block })]);
        namespace.create(path("dfs:/a"), 2).unwrap();
    }

    #[test]
    fn paths_are_unique_and_files_have_no_children() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = namespace(dir.path(), 2);
        store(&namespace, "dfs:/a/b");
        let refused = |file: &str| namespace.create(path(file), 1).unwrap_err();
        assert!(matches!(refused("dfs:/a/b"), StoreError::Exists { .. }));
        assert!(matches!(refused("dfs:/a"), StoreError::IsDirectory { .. }));
        assert!(matches!(refused("dfs:/"), StoreError::IsDirectory { .. }));
        assert!(matches!(refused("dfs:/a/b/c"), StoreError::ParentIsFile { file, .. } if file == "dfs:/a/b"));
        // Of two conflicting writes the second commit is refused.
        let (one, two) = (namespace.create(path("dfs:/x"), 1).unwrap(), namespace.create(path("dfs:/x/y"), 1).unwrap());
        namespace.commit(one, &[]).unwrap();
        assert!(matches!(namespace.commit(two, &[]), Err(StoreError::ParentIsFile { .. })));
    }

    #[test]
    fn directories_are_listed_one_level_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = namespace(dir.path(), 2);
        for file in ["dfs:/a", "dfs:/b/1", "dfs:/b/c/2", "dfs:/b/c/3", "dfs:/b-", "dfs:/b0", "dfs:/c/d/e"] {
            store(&namespace, file);
        }
        assert_eq!(listed(&namespace, "dfs:/"), ["dfs:/a", "dfs:/b-", "dfs:/b/", "dfs:/b0", "dfs:/c/"]);
        assert_eq!(listed(&namespace, "dfs:/b"), ["dfs:/b/1", "dfs:/b/c/"]);
        assert_eq!(listed(&namespace, "dfs:/a"), ["dfs:/a"]);
        assert!(namespace.list(&path("dfs:/none"), None).is_err());
        let rest = namespace.list(&path("dfs:/"), Some("/b/")).unwrap().0;
        assert_eq!(rest.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["dfs:/b0", "dfs:/c/"]);
        assert_eq!(namespace.files_under(&path("dfs:/b")).unwrap().len(), 3);
    }

    #[test]
    fn removing_a_directory_requires_recursive() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = namespace(dir.path(), 2);
        ["dfs:/a/1", "dfs:/a/2", "dfs:/b"].iter().for_each(|file| store(&namespace, file));
        assert!(matches!(namespace.remove(&path("dfs:/a"), false), Err(StoreError::IsDirectory { .. })));
        assert!(matches!(namespace.remove(&path("dfs:/c"), true), Err(StoreError::NotFound { .. })));
        namespace.remove(&path("dfs:/a"), true).unwrap();
        assert_eq!(listed(&namespace, "dfs:/"), ["dfs:/b"]);
        assert_eq!(namespace.take_commands().len(), 4, "two files of one block with two replicas");
        assert_eq!(Namespace::open(dir.path(), Duration::ZERO).unwrap().state().files.len(), 1);
    }

    #[test]
    fn replicas_are_limited_by_the_number_of_workers() {
        let dir = tempfile::tempdir().unwrap();
        let none = namespace(dir.path(), 0);
        assert!(matches!(none.create(path("dfs:/a"), 2), Err(StoreError::TooFewWorkers { .. })));
        let one = namespace(dir.path(), 1);
        let write_id = one.create(path("dfs:/a"), 3).unwrap();
        assert_eq!(block(&one, write_id).1.len(), 1);
        assert!(matches!(one.allocate_block(write_id, None, &[NodeId(0)]), Err(StoreError::TooFewWorkers { .. })));
        assert!(one.create(path("dfs:/b"), 0).is_err());
    }

    #[test]
    fn a_position_in_a_file_has_the_nodes_of_its_block() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = namespace(dir.path(), 3);
        let write_id = namespace.create(path("dfs:/a"), 2).unwrap();
        let blocks = [block(&namespace, write_id), block(&namespace, write_id)];
        namespace.commit(write_id, &blocks).unwrap();
        let positions = namespace.file(&path("dfs:/a")).unwrap().block_positions();
        let sorted = |mut nodes: Vec<NodeId>| {
            nodes.sort();
            nodes
        };
        assert_eq!(namespace.nodes_at(&positions, 9), sorted(blocks[0].1.clone()));
        assert_eq!(namespace.nodes_at(&positions, 10), sorted(blocks[1].1.clone()));
        assert_eq!(namespace.nodes_at(&[], 0), []);
    }

    /// Without their names all blocks look like orphans.
    #[test]
    fn no_block_is_deleted_while_the_names_are_missing() {
        let dir = tempfile::tempdir().unwrap();
        let info = BlockInfo { block: BlockId(7), bytes: 10, checksum: 1 };
        for lose in [
            |names: &Path| std::fs::remove_dir_all(names).unwrap(),
            |names: &Path| {
                std::fs::remove_dir_all(names).unwrap();
                std::fs::create_dir(names).unwrap();
            },
        ] {
            drop(Namespace::open(dir.path(), Duration::ZERO).unwrap());
            lose(&dir.path().join("names"));
            let namespace = Namespace::open(dir.path(), Duration::ZERO).unwrap();
            namespace.on_node_joined(NodeId(0), "node-0", "nowhere");
            namespace.on_report(NodeId(0), StoreReport::Full { blocks: vec![info], corrupt: Vec::new() });
            let state = &mut *namespace.state();
            let later = Instant::now() + Duration::from_secs(100_000);
            assert!(state.replica_map.repair(later, state.unreadable.is_empty()).is_empty());
            for repair in [false, true] {
                let report = state.report(Default::default(), 1, repair);
                assert_eq!((report.orphans, report.orphans_deleted), (1, 0));
                assert!(report.problems[0].contains("the names of the stored files are missing"), "{report:?}");
            }
            // As a second `fsck --repair` does: the first one has given up the names.
            namespace.manifests.mark_names().unwrap();
            state.unreadable = namespace.manifests.read().unreadable;
            assert_eq!(state.report(Default::default(), 1, false).orphans_deleted, 0, "fsck only looks");
            assert_eq!(state.report(Default::default(), 1, true).orphans_deleted, 1);
        }
    }

    /// A worker reports a node that does not exist: one frame must not allocate memory for four billion nodes.
    #[test]
    fn node_numbers_in_reports_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let namespace = Namespace::open(dir.path(), Duration::ZERO).unwrap();
        namespace.on_node_joined(NodeId(0), "node-0", "nowhere");
        let (block, to) = (BlockId(1), NodeId(3_000_000));
        namespace.on_report(NodeId(0), StoreReport::CopyFailed { block, to, reason: String::new() });
        assert_eq!(namespace.state().replica_map.nodes.len(), 1);
    }
}
