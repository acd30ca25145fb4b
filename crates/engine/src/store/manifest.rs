//! Manifests: which blocks a stored file is made of, one small file each.
//!
//! The tree below `names` is the tree of names. A manifest is written beside it (`unsealed`), synced, and renamed into place; whoever
//! looks finds all of it or nothing. Its first line has a checksum of the rest, which is JSON.

use super::{BlockId, Held, Name, SCHEME, sync_folder};
use crate::job::FileBlock;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const HEAD: &str = "giveway manifest 1 crc32c ";

/// What a stored file is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Its size.
    pub(super) bytes: u64,
    /// Replicas each block should have.
    pub(super) replicas: u8,
    /// Its blocks in order.
    pub(super) blocks: Vec<Held>,
}

impl Manifest {
    pub(super) fn new(replicas: u8, blocks: Vec<Held>) -> Manifest {
        Manifest { bytes: blocks.iter().map(|held| held.bytes).sum(), replicas, blocks }
    }

    /// The blocks with their places in the file.
    pub(super) fn places(&self) -> Vec<FileBlock> {
        let mut offset = 0;
        let place = |held: &Held| {
            let at = FileBlock { block: held.block.0, offset, bytes: held.bytes };
            offset += held.bytes;
            at
        };
        self.blocks.iter().map(place).collect()
    }

    fn to_text(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        format!("{HEAD}{:08x}\n{json}\n", crc32c::crc32c(json.as_bytes()))
    }

    fn from_text(text: &str) -> Option<Manifest> {
        let (sum, json) = text.strip_prefix(HEAD)?.split_once('\n')?;
        let json = json.strip_suffix('\n')?;
        if u32::from_str_radix(sum, 16).ok()? != crc32c::crc32c(json.as_bytes()) {
            return None;
        }
        let manifest: Manifest = serde_json::from_str(json).ok()?;
        (manifest == Manifest::new(manifest.replicas, manifest.blocks.clone())).then_some(manifest)
    }
}

/// The folders in which manifests are.
#[derive(Debug)]
pub(super) struct Manifests {
    names: PathBuf,
    unsealed: PathBuf,
}

/// What was found on disk.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: Vec<(Name, Manifest)>,
    /// Manifests that cannot be read, and why. As long as there are any, no block can be said to belong to no file.
    pub(super) unreadable: Vec<(PathBuf, String)>,
}

impl Manifests {
    /// In a coordinator's folder. What was cut short in an earlier life is removed.
    pub(super) fn open(folder: &Path) -> io::Result<Manifests> {
        let manifests = Manifests { names: folder.join("names"), unsealed: folder.join("unsealed") };
        fs::create_dir_all(&manifests.names)?;
        match fs::remove_dir_all(&manifests.unsealed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(&manifests.unsealed)?;
        prune(&manifests.names)?;
        Ok(manifests)
    }

    /// Reads all of them.
    pub(super) fn read(&self) -> Found {
        let mut found = Found::default();
        self.walk(&self.names, &mut found);
        found
    }

    fn walk(&self, folder: &Path, found: &mut Found) {
        let entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => return found.unreadable.push((folder.into(), error.to_string())),
        };
        for path in entries.iter().map(fs::DirEntry::path) {
            if path.is_dir() {
                self.walk(&path, found);
                continue;
            }
            match self.read_one(&path) {
                Ok(file) => found.files.push(file),
                Err(why) => found.unreadable.push((path, why)),
            }
        }
    }

    fn read_one(&self, path: &Path) -> Result<(Name, Manifest), String> {
        let below = path.strip_prefix(&self.names).expect("found below it");
        let name = below.to_str().ok_or("its name is not text")?;
        let name = Name::parse(&format!("{SCHEME}/{name}")).map_err(|error| error.to_string())?;
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let manifest = Manifest::from_text(&text).ok_or("it is damaged, or of another release")?;
        Ok((name, manifest))
    }

    /// Where a file's manifest is.
    pub(super) fn path(&self, name: &Name) -> PathBuf {
        name.below(&self.names)
    }

    /// Makes it a file. Once this returns, it is there to stay.
    pub(super) fn write(&self, put: u64, name: &Name, manifest: &Manifest) -> io::Result<()> {
        let beside = self.unsealed.join(put.to_string());
        let mut file = File::create(&beside)?;
        file.write_all(manifest.to_text().as_bytes())?;
        file.sync_all()?;
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::rename(&beside, &path)?;
        // Folders may be new as well, up to the one that is always there.
        path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.names)).try_for_each(sync_folder)
    }

    /// Removes it, and folders that hold nothing any more.
    pub(super) fn remove(&self, name: &Name) -> io::Result<()> {
        let path = self.path(name);
        fs::remove_file(&path)?;
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != self.names) {
            if fs::remove_dir(folder).is_err() {
                return sync_folder(folder);
            }
        }
        sync_folder(&self.names)
    }
}

/// Removes folders that were made for a file which never came.
fn prune(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            prune(&path)?;
            // Only what is empty can be removed.
            let _ = fs::remove_dir(&path);
        }
    }
    Ok(())
}

/// Blocks in the manner of a plan, as blocks of the store.
pub(super) fn id(at: &FileBlock) -> BlockId {
    BlockId(at.block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let held = |block, bytes| Held { block: BlockId(block), bytes, seal: 9 };
        Manifest::new(2, vec![held(u64::MAX, 10), held(1, 5)])
    }

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn a_manifest_comes_back_and_its_blocks_have_places() {
        let text = manifest().to_text();
        assert_eq!(Manifest::from_text(&text).unwrap(), manifest());
        let places: Vec<_> = manifest().places().iter().map(|at| (at.block, at.offset, at.bytes)).collect();
        assert_eq!(places, [(u64::MAX, 0, 10), (1, 10, 5)]);
        for at in 0..text.len() {
            assert_eq!(Manifest::from_text(&text[..at]), None, "cut at {at}");
            let mut bent = text.clone().into_bytes();
            bent[at] ^= 1;
            let bent = String::from_utf8(bent).unwrap();
            assert_eq!(Manifest::from_text(&bent), None, "bent at {at}");
        }
    }

    #[test]
    fn names_survive_and_leftovers_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = Manifests::open(folder.path()).unwrap();
        manifests.write(1, &name("dfs:/a/b/c"), &manifest()).unwrap();
        manifests.write(2, &name("dfs:/a/d"), &manifest()).unwrap();
        fs::write(manifests.unsealed.join("3"), b"half").unwrap();
        fs::create_dir_all(manifests.names.join("e/f")).unwrap();
        let manifests = Manifests::open(folder.path()).unwrap();
        assert!(!manifests.unsealed.join("3").exists() && !manifests.names.join("e").exists());
        let mut names: Vec<_> = manifests.read().files.into_iter().map(|(name, _)| name.to_string()).collect();
        names.sort();
        assert_eq!(names, ["dfs:/a/b/c", "dfs:/a/d"]);
        manifests.remove(&name("dfs:/a/b/c")).unwrap();
        assert!(!manifests.names.join("a/b").exists() && manifests.names.join("a").exists());
        manifests.remove(&name("dfs:/a/d")).unwrap();
        assert!(!manifests.names.join("a").exists() && manifests.names.exists());
    }

    #[test]
    fn a_damaged_manifest_is_found_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let manifests = Manifests::open(folder.path()).unwrap();
        manifests.write(1, &name("dfs:/a"), &manifest()).unwrap();
        fs::write(manifests.names.join("b"), b"giveway manifest 1 crc32c 00000000\n{}\n").unwrap();
        let found = manifests.read();
        assert_eq!(found.files.len(), 1);
        assert_eq!(found.unreadable.len(), 1);
        assert!(found.unreadable[0].0.ends_with("names/b"));
    }
}
