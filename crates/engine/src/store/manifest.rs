//! Manifests: the list of a stored file's blocks, one small file each.
//!
//! The tree below `names` mirrors the namespace. A manifest is written to the directory `uncommitted`, synced, and renamed into place, so that a
//! reader finds either all of it or nothing. Its first line contains the checksum of the rest, which is JSON.

use super::path::RESERVED_NAME;
use super::{BlockId, BlockInfo, DfsPath, SCHEME, StoreError, sync_dir};
use crate::cluster_id::{self, ClusterId};
use crate::job::FileBlock;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The first line up to the checksum, which is hexadecimal.
const HEADER: &str = "giveway manifest 1 crc32c ";

/// Metadata of a stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Size in bytes: the sum of the blocks' sizes.
    pub(super) bytes: u64,
    /// Replicas each block should have.
    pub(super) replicas: u8,
    /// Blocks in order.
    pub(super) blocks: Vec<BlockInfo>,
}

/// Why a manifest cannot be read.
#[derive(Debug, Error)]
pub(super) enum ManifestError {
    #[error(
        "the names of the stored files are missing, or belong to another cluster: no block is deleted; restore the directory from a backup, or run `giveway dfs fsck --repair` to give up the files it had"
    )]
    NamesMissing,
    #[error("its name is not valid UTF-8")]
    NotUtf8,
    #[error(transparent)]
    Path(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is corrupt, or written by another release; restore it from a backup or remove it")]
    Corrupt,
}

impl Manifest {
    pub(super) fn new(replicas: u8, blocks: Vec<BlockInfo>) -> Manifest {
        Manifest { bytes: blocks.iter().map(|info| info.bytes).sum(), replicas, blocks }
    }

    /// The blocks with their offsets in the file.
    pub(super) fn block_positions(&self) -> Vec<FileBlock> {
        let mut offset = 0;
        let position = |info: &BlockInfo| {
            let at = FileBlock { block: info.block.0, offset, bytes: info.bytes };
            offset += info.bytes;
            at
        };
        self.blocks.iter().map(position).collect()
    }

    fn to_text(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        format!("{HEADER}{:08x}\n{json}\n", crc32c::crc32c(json.as_bytes()))
    }

    fn from_text(text: &str) -> Option<Manifest> {
        let (checksum, json) = text.strip_prefix(HEADER)?.split_once('\n')?;
        let json = json.strip_suffix('\n')?;
        if u32::from_str_radix(checksum, 16).ok()? != crc32c::crc32c(json.as_bytes()) {
            return None;
        }
        let manifest: Manifest = serde_json::from_str(json).ok()?;
        let bytes = manifest.blocks.iter().try_fold(0_u64, |sum, info| sum.checked_add(info.bytes));
        (bytes == Some(manifest.bytes)).then_some(manifest)
    }
}

/// Reads a manifest as it is, and its JSON with a correct checksum, for fuzzing.
pub(crate) fn read_manifest(text: &str) {
    let json = text.split_once('\n').map_or(text, |(_, json)| json).trim_end_matches('\n');
    let corrected = format!("{HEADER}{:08x}\n{json}\n", crc32c::crc32c(json.as_bytes()));
    for text in [text, &corrected] {
        if let Some(manifest) = Manifest::from_text(text) {
            manifest.block_positions();
            assert_eq!(Manifest::from_text(&manifest.to_text()).as_ref(), Some(&manifest));
        }
    }
}

/// The directories of the manifests.
#[derive(Debug)]
pub(super) struct ManifestDir {
    names: PathBuf,
    uncommitted: PathBuf,
    cluster: ClusterId,
}

/// All manifests on disk.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    pub(super) files: Vec<(DfsPath, Manifest)>,
    /// Manifests that cannot be read. While there are any, no block is known to be orphaned.
    pub(super) unreadable: Vec<(PathBuf, ManifestError)>,
}

impl ManifestDir {
    /// Opens the manifests in a coordinator's directory. What interrupted writes of an earlier process left is removed.
    pub(super) fn open(dir: &Path) -> io::Result<ManifestDir> {
        let known = ClusterId::read(&dir.join(cluster_id::FILE))?;
        let is_new = known.is_none();
        let cluster = known.map_or_else(ClusterId::random, Ok)?;
        let manifests = ManifestDir { names: dir.join("names"), uncommitted: dir.join("uncommitted"), cluster };
        fs::create_dir_all(&manifests.names)?;
        if is_new {
            // In this order: a cluster that has an id has had names.
            manifests.mark_names()?;
            manifests.cluster.write(&dir.join(cluster_id::FILE))?;
        }
        match fs::remove_dir_all(&manifests.uncommitted) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(&manifests.uncommitted)?;
        remove_empty_dirs(&manifests.names)?;
        Ok(manifests)
    }

    /// Marks the names as those of this cluster. Only valid for a new cluster, or if the user has given up the files of a lost directory.
    pub(super) fn mark_names(&self) -> io::Result<()> {
        fs::create_dir_all(&self.names)?;
        self.cluster.write(&self.mark_path())
    }

    fn mark_path(&self) -> PathBuf {
        self.names.join(RESERVED_NAME)
    }

    /// Reads all manifests.
    pub(super) fn read(&self) -> Manifests {
        let mut found = Manifests::default();
        if !matches!(ClusterId::read(&self.mark_path()), Ok(Some(cluster)) if cluster == self.cluster) {
            found.unreadable.push((self.names.clone(), ManifestError::NamesMissing));
        }
        self.walk(&self.names, &mut found);
        found
    }

    fn walk(&self, dir: &Path, found: &mut Manifests) {
        let entries = match fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => return found.unreadable.push((dir.into(), error.into())),
        };
        for path in entries.iter().map(fs::DirEntry::path) {
            if path == self.mark_path() {
                continue;
            }
            if path.is_dir() {
                self.walk(&path, found);
                continue;
            }
            match self.read_one(&path) {
                Ok(file) => found.files.push(file),
                Err(error) => found.unreadable.push((path, error)),
            }
        }
    }

    fn read_one(&self, local: &Path) -> Result<(DfsPath, Manifest), ManifestError> {
        let below = local.strip_prefix(&self.names).expect("found below it");
        let path = DfsPath::parse(&format!("{SCHEME}/{}", below.to_str().ok_or(ManifestError::NotUtf8)?))?;
        let manifest = Manifest::from_text(&fs::read_to_string(local)?).ok_or(ManifestError::Corrupt)?;
        Ok((path, manifest))
    }

    /// The local path of a file's manifest.
    pub(super) fn local_path(&self, path: &DfsPath) -> PathBuf {
        path.below(&self.names)
    }

    /// Writes a manifest. It is durable once this returns; after an error it may or may not be in place.
    pub(super) fn write(&self, write_id: u64, path: &DfsPath, manifest: &Manifest) -> io::Result<()> {
        let temp_path = self.uncommitted.join(write_id.to_string());
        let mut file = File::create(&temp_path)?;
        file.write_all(manifest.to_text().as_bytes())?;
        file.sync_all()?;
        let local = self.local_path(path);
        if let Some(dir) = local.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::rename(&temp_path, &local)?;
        // The parent directories may be new, too, so all of them up to `names` are synced.
        local.ancestors().skip(1).take_while(|dir| dir.starts_with(&self.names)).try_for_each(sync_dir)
    }

    /// Removes a manifest, and the parent directories that are empty then.
    pub(super) fn remove(&self, path: &DfsPath) -> io::Result<()> {
        let local = self.local_path(path);
        fs::remove_file(&local)?;
        for dir in local.ancestors().skip(1).take_while(|dir| *dir != self.names) {
            if fs::remove_dir(dir).is_err() {
                return sync_dir(dir);
            }
        }
        sync_dir(&self.names)
    }
}

/// Removes empty directories, which an interrupted write has left.
fn remove_empty_dirs(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_empty_dirs(&path)?;
            // Fails if the directory is not empty.
            let _ = fs::remove_dir(&path);
        }
    }
    Ok(())
}

/// The store's id of a block in a job's plan.
pub(super) fn block_id(at: &FileBlock) -> BlockId {
    BlockId(at.block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let info = |block, bytes| BlockInfo { block: BlockId(block), bytes, checksum: 9 };
        Manifest::new(2, vec![info(u64::MAX, 10), info(1, 5)])
    }

    fn path(text: &str) -> DfsPath {
        DfsPath::parse(text).unwrap()
    }

    #[test]
    fn a_manifest_round_trips_and_any_flipped_bit_is_detected() {
        let text = manifest().to_text();
        assert_eq!(Manifest::from_text(&text).unwrap(), manifest());
        let positions: Vec<_> = manifest().block_positions().iter().map(|at| (at.block, at.offset, at.bytes)).collect();
        assert_eq!(positions, [(u64::MAX, 0, 10), (1, 10, 5)]);
        for at in 0..text.len() {
            assert_eq!(Manifest::from_text(&text[..at]), None, "truncated at {at}");
            let mut bad = text.clone().into_bytes();
            bad[at] ^= 1;
            let bad = String::from_utf8(bad).unwrap();
            assert_eq!(Manifest::from_text(&bad), None, "flipped at {at}");
        }
    }

    #[test]
    fn manifests_survive_a_restart_and_leftovers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let manifests = ManifestDir::open(dir.path()).unwrap();
        manifests.write(1, &path("dfs:/a/b/c"), &manifest()).unwrap();
        manifests.write(2, &path("dfs:/a/d"), &manifest()).unwrap();
        fs::write(manifests.uncommitted.join("3"), b"partial").unwrap();
        fs::create_dir_all(manifests.names.join("e/f")).unwrap();
        let manifests = ManifestDir::open(dir.path()).unwrap();
        assert!(!manifests.uncommitted.join("3").exists() && !manifests.names.join("e").exists());
        let mut paths: Vec<_> = manifests.read().files.into_iter().map(|(path, _)| path.to_string()).collect();
        paths.sort();
        assert_eq!(paths, ["dfs:/a/b/c", "dfs:/a/d"]);
        manifests.remove(&path("dfs:/a/b/c")).unwrap();
        assert!(!manifests.names.join("a/b").exists() && manifests.names.join("a").exists());
        manifests.remove(&path("dfs:/a/d")).unwrap();
        assert!(!manifests.names.join("a").exists() && manifests.names.exists());
    }

    #[test]
    fn a_corrupt_manifest_is_reported_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let manifests = ManifestDir::open(dir.path()).unwrap();
        manifests.write(1, &path("dfs:/a"), &manifest()).unwrap();
        fs::write(manifests.names.join("b"), b"giveway manifest 1 crc32c 00000000\n{}\n").unwrap();
        let found = manifests.read();
        assert_eq!(found.files.len(), 1);
        assert_eq!(found.unreadable.len(), 1);
        assert!(found.unreadable[0].0.ends_with("names/b"));
    }
}
