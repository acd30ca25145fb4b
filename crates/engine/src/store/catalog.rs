//! The catalogue: names of stored files, and who has which block. How names come about is `put.rs`.
//!
//! It is shared by the threads of those who ask, and by the desk, which passes on what workers say and fetches the orders for them. Its lock is
//! never held while a disk or a socket is waited for; names only change under a second lock, which only those wait for who store or
//! remove files.

use super::holdings::Holdings;
use super::manifest::{Manifest, Manifests};
use super::put::Put;
use super::{BlockId, Entry, EntryFile, Holder, Name, StoreError, StoreNews, StoreOrder};
use crate::job::FileBlock;
use giveway_core::NodeId;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a listing that are sent at once.
const LISTED_MOST: usize = 10_000;

/// The names and blocks of a cluster.
#[derive(Debug)]
pub struct Catalog {
    pub(super) manifests: Manifests,
    state: Mutex<State>,
    /// Held by whoever changes names.
    naming: Mutex<()>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) files: BTreeMap<Name, Arc<Manifest>>,
    /// Manifests that cannot be read.
    pub(super) unreadable: Vec<(PathBuf, String)>,
    pub(super) holdings: Holdings,
    pub(super) puts: BTreeMap<u64, Put>,
    pub(super) next_put: u64,
}

impl Catalog {
    /// Reads the manifests in a coordinator's folder. For so long nothing is repaired: workers may be on their way.
    pub fn open(folder: &Path, quiet: Duration) -> io::Result<Catalog> {
        let manifests = Manifests::open(folder)?;
        let found = manifests.read();
        let mut holdings = Holdings::new(Instant::now() + quiet);
        for (_, manifest) in &found.files {
            for held in &manifest.blocks {
                holdings.add(held.block, manifest.replicas, Some(*held));
            }
        }
        for (path, why) in &found.unreadable {
            tracing::warn!("the manifest {} cannot be read: {why}", path.display());
        }
        let files = found.files.into_iter().map(|(name, manifest)| (name, Arc::new(manifest))).collect();
        let state = State { files, unreadable: found.unreadable, holdings, puts: BTreeMap::new(), next_put: 1 };
        Ok(Catalog { manifests, state: Mutex::new(state), naming: Mutex::new(()) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn naming(&self) -> MutexGuard<'_, ()> {
        self.naming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes of which the journal speaks, by number; those that were up are waited for.
    pub fn expect<'a>(&self, nodes: impl Iterator<Item = (&'a str, bool)>) {
        self.state().holdings.expect(nodes);
    }

    /// A worker has called.
    pub fn joined(&self, node: NodeId, name: &str, address: &str) {
        self.state().holdings.joined(node, name, address, Instant::now());
    }

    /// A worker counts as lost.
    pub fn lost(&self, node: NodeId) {
        self.state().holdings.lost(node);
    }

    /// A worker says something.
    pub fn heard(&self, node: NodeId, news: StoreNews) {
        self.state().holdings.heard(node, news, Instant::now());
    }

    /// What workers should do now.
    pub fn orders(&self) -> Vec<(NodeId, StoreOrder)> {
        let state = &mut *self.state();
        state.holdings.turn(Instant::now(), state.unreadable.is_empty())
    }

    /// Workers that have a block.
    pub fn holders(&self, block: BlockId) -> Vec<Holder> {
        self.state().holdings.holders(block)
    }

    /// Workers that have the block in which a byte of a file is.
    pub fn nodes_at(&self, blocks: &[FileBlock], offset: u64) -> Vec<NodeId> {
        let behind = blocks.partition_point(|at| at.offset <= offset);
        let Some(at) = blocks[..behind].last() else { return Vec::new() };
        self.holders(BlockId(at.block)).into_iter().map(|holder| holder.node).collect()
    }

    /// A file.
    pub(super) fn file(&self, name: &Name) -> Result<Arc<Manifest>, StoreError> {
        let state = self.state();
        match state.files.get(name) {
            Some(manifest) => Ok(Arc::clone(manifest)),
            None if state.is_folder(name) => Err(StoreError::IsFolder { name: name.clone() }),
            None => Err(StoreError::Missing { name: name.clone() }),
        }
    }

    /// A file, or all files below a folder.
    pub(super) fn files(&self, name: &Name) -> Result<Vec<(Name, Arc<Manifest>)>, StoreError> {
        let state = self.state();
        let own = |(name, manifest): (&Name, &Arc<Manifest>)| (name.clone(), Arc::clone(manifest));
        if let Some(file) = state.files.get_key_value(name) {
            return Ok(vec![own(file)]);
        }
        let below: Vec<_> = state.below(name).map(own).collect();
        if below.is_empty() && !name.is_root() { Err(StoreError::Missing { name: name.clone() }) } else { Ok(below) }
    }

    /// What is in a folder, from behind a name on, and whether there is more.
    pub(super) fn list(&self, name: &Name, after: Option<&str>) -> Result<(Vec<Entry>, bool), StoreError> {
        let state = self.state();
        if let Some(manifest) = state.files.get(name) {
            return Ok((vec![entry(name, manifest)], false));
        }
        if !name.is_root() && !state.is_folder(name) {
            return Err(StoreError::Missing { name: name.clone() });
        }
        let folder = name.as_folder();
        let mut entries = Vec::new();
        let mut from = after.map_or(Bound::Included(folder.clone()), behind);
        while let Some((file, manifest)) =
            state.files.range::<str, _>((from.as_ref().map(String::as_str), Bound::Unbounded)).next()
            && let Some(rest) = file.as_str().strip_prefix(&folder)
        {
            if entries.len() == LISTED_MOST {
                return Ok((entries, true));
            }
            let one = match rest.split_once('/') {
                None => entry(file, manifest),
                Some((part, _)) => Entry { name: format!("dfs:{folder}{part}/"), file: None },
            };
            from = behind(one.name.trim_start_matches("dfs:"));
            entries.push(one);
        }
        Ok((entries, false))
    }

    /// Removes a file, or a folder with all that is in it.
    pub(super) fn remove(&self, name: &Name, recursive: bool) -> Result<(), StoreError> {
        let _naming = self.naming();
        let files = self.files(name)?;
        if !recursive && (files.len() != 1 || files[0].0 != *name) {
            return Err(StoreError::IsFolder { name: name.clone() });
        }
        for (name, manifest) in files {
            // The name goes first: a file whose blocks are going must not be found.
            self.manifests.remove(&name).map_err(|error| disk(self.manifests.path(&name), error))?;
            let mut state = self.state();
            state.files.remove(&name);
            manifest.blocks.iter().for_each(|held| state.holdings.drop_block(held.block));
        }
        Ok(())
    }
}

impl State {
    /// True if there are files below this name.
    fn is_folder(&self, name: &Name) -> bool {
        self.below(name).next().is_some()
    }

    fn below(&self, name: &Name) -> impl Iterator<Item = (&Name, &Arc<Manifest>)> {
        let folder = name.as_folder();
        let from = self.files.range::<str, _>((Bound::Included(folder.as_str()), Bound::Unbounded));
        from.take_while(move |(file, _)| file.as_str().starts_with(&folder))
    }

    /// Whether a file of this name could be.
    pub(super) fn check_free(&self, name: &Name) -> Result<(), StoreError> {
        if name.is_root() || self.is_folder(name) {
            return Err(StoreError::IsFolder { name: name.clone() });
        }
        if self.files.contains_key(name) {
            return Err(StoreError::Exists { name: name.clone() });
        }
        match name.folders().find(|folder| self.files.contains_key(*folder)) {
            Some(file) => Err(StoreError::BelowFile { name: name.clone(), file: format!("dfs:{file}") }),
            None => Ok(()),
        }
    }
}

/// Where a listing goes on behind an entry: a folder ends with `/`, and all in it stands before the next character.
fn behind(name: &str) -> Bound<String> {
    match name.strip_suffix('/') {
        Some(folder) => Bound::Included(format!("{folder}0")),
        None => Bound::Excluded(name.into()),
    }
}

fn entry(name: &Name, manifest: &Manifest) -> Entry {
    let blocks = manifest.blocks.len() as u32;
    Entry {
        name: name.to_string(),
        file: Some(EntryFile { bytes: manifest.bytes, blocks, replicas: manifest.replicas }),
    }
}

pub(super) fn disk(path: PathBuf, error: io::Error) -> StoreError {
    StoreError::Disk { path, error }
}

#[cfg(test)]
mod tests {
    use super::super::Held;
    use super::*;

    /// A catalogue with so many workers, all there and empty.
    fn catalog(folder: &Path, nodes: u32) -> Catalog {
        let catalog = Catalog::open(folder, Duration::ZERO).unwrap();
        for node in (0..nodes).map(NodeId) {
            catalog.joined(node, &format!("n{}", node.0), &format!("at-{}", node.0));
            catalog.heard(node, StoreNews::Holds { held: Vec::new(), damaged: Vec::new() });
        }
        catalog
    }

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    /// Writes a block as a client does, and returns what it says of it.
    fn block(catalog: &Catalog, put: u64) -> (Held, Vec<NodeId>) {
        let (block, targets) = catalog.allot(put, None, &[]).unwrap();
        (Held { block, bytes: 10, seal: 1 }, targets.into_iter().map(|holder| holder.node).collect())
    }

    fn store(catalog: &Catalog, file: &str) {
        let put = catalog.create(name(file), 2).unwrap();
        let written = block(catalog, put);
        catalog.seal(put, &[written]).unwrap();
    }

    fn listed(catalog: &Catalog, path: &str) -> Vec<String> {
        catalog.list(&name(path), None).unwrap().0.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn a_put_is_seen_only_when_it_is_sealed_and_then_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path(), 3);
        let put = catalog.create(name("dfs:/a/b"), 2).unwrap();
        let blocks = [block(&catalog, put), block(&catalog, put)];
        assert!(blocks.iter().all(|(_, nodes)| nodes.len() == 2));
        assert!(catalog.file(&name("dfs:/a/b")).is_err());
        assert!(catalog.seal(put, &blocks[..1]).is_err(), "a block is missing");
        catalog.seal(put, &blocks).unwrap();
        assert_eq!(catalog.file(&name("dfs:/a/b")).unwrap().bytes, 20);
        assert!(catalog.seal(put, &blocks).is_err(), "once is enough");
        drop(catalog);
        let again = Catalog::open(folder.path(), Duration::ZERO).unwrap();
        assert_eq!(again.file(&name("dfs:/a/b")).unwrap().blocks.len(), 2);
    }

    #[test]
    fn an_abandoned_put_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path(), 2);
        let put = catalog.create(name("dfs:/a"), 2).unwrap();
        let (held, _) = block(&catalog, put);
        catalog.heard(NodeId(1), StoreNews::Got(held));
        assert!(matches!(catalog.create(name("dfs:/a"), 2), Err(StoreError::BeingWritten { .. })));
        catalog.abandon(put);
        assert_eq!(catalog.orders(), [(NodeId(1), StoreOrder::Forget { block: held.block })]);
        catalog.create(name("dfs:/a"), 2).unwrap();
    }

    #[test]
    fn names_are_taken_once_and_files_hold_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path(), 2);
        store(&catalog, "dfs:/a/b");
        let says = |file: &str| catalog.create(name(file), 1).unwrap_err();
        assert!(matches!(says("dfs:/a/b"), StoreError::Exists { .. }));
        assert!(matches!(says("dfs:/a"), StoreError::IsFolder { .. }));
        assert!(matches!(says("dfs:/"), StoreError::IsFolder { .. }));
        assert!(matches!(says("dfs:/a/b/c"), StoreError::BelowFile { file, .. } if file == "dfs:/a/b"));
        // Two puts that get in each other's way are told apart when the second is sealed.
        let (one, two) = (catalog.create(name("dfs:/x"), 1).unwrap(), catalog.create(name("dfs:/x/y"), 1).unwrap());
        catalog.seal(one, &[]).unwrap();
        assert!(matches!(catalog.seal(two, &[]), Err(StoreError::BelowFile { .. })));
    }

    #[test]
    fn folders_are_listed_one_level_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path(), 2);
        for file in ["dfs:/a", "dfs:/b/1", "dfs:/b/c/2", "dfs:/b/c/3", "dfs:/b-", "dfs:/b0", "dfs:/c/d/e"] {
            store(&catalog, file);
        }
        assert_eq!(listed(&catalog, "dfs:/"), ["dfs:/a", "dfs:/b-", "dfs:/b/", "dfs:/b0", "dfs:/c/"]);
        assert_eq!(listed(&catalog, "dfs:/b"), ["dfs:/b/1", "dfs:/b/c/"]);
        assert_eq!(listed(&catalog, "dfs:/a"), ["dfs:/a"]);
        assert!(catalog.list(&name("dfs:/none"), None).is_err());
        let rest = catalog.list(&name("dfs:/"), Some("/b/")).unwrap().0;
        assert_eq!(rest.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["dfs:/b0", "dfs:/c/"]);
        assert_eq!(catalog.files(&name("dfs:/b")).unwrap().len(), 3);
    }

    #[test]
    fn removing_takes_a_word_more_for_folders() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path(), 2);
        ["dfs:/a/1", "dfs:/a/2", "dfs:/b"].iter().for_each(|file| store(&catalog, file));
        assert!(matches!(catalog.remove(&name("dfs:/a"), false), Err(StoreError::IsFolder { .. })));
        assert!(matches!(catalog.remove(&name("dfs:/c"), true), Err(StoreError::Missing { .. })));
        catalog.remove(&name("dfs:/a"), true).unwrap();
        assert_eq!(listed(&catalog, "dfs:/"), ["dfs:/b"]);
        assert_eq!(catalog.orders().len(), 4, "two files of one block with two replicas");
        assert_eq!(Catalog::open(folder.path(), Duration::ZERO).unwrap().state().files.len(), 1);
    }

    #[test]
    fn no_more_replicas_than_nodes_and_none_without() {
        let folder = tempfile::tempdir().unwrap();
        let none = catalog(folder.path(), 0);
        assert!(matches!(none.create(name("dfs:/a"), 2), Err(StoreError::Nowhere { .. })));
        let one = catalog(folder.path(), 1);
        let put = one.create(name("dfs:/a"), 3).unwrap();
        assert_eq!(block(&one, put).1.len(), 1);
        assert!(matches!(one.allot(put, None, &[NodeId(0)]), Err(StoreError::Nowhere { .. })));
        assert!(one.create(name("dfs:/b"), 0).is_err());
    }

    #[test]
    fn a_split_knows_who_has_its_block() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = catalog(folder.path(), 3);
        let put = catalog.create(name("dfs:/a"), 2).unwrap();
        let blocks = [block(&catalog, put), block(&catalog, put)];
        catalog.seal(put, &blocks).unwrap();
        let places = catalog.file(&name("dfs:/a")).unwrap().places();
        let sorted = |mut nodes: Vec<NodeId>| {
            nodes.sort();
            nodes
        };
        assert_eq!(catalog.nodes_at(&places, 9), sorted(blocks[0].1.clone()));
        assert_eq!(catalog.nodes_at(&places, 10), sorted(blocks[1].1.clone()));
        assert_eq!(catalog.nodes_at(&[], 0), []);
    }
}
