//! The id of a cluster, a random number. Every folder that belongs to a cluster has it in a file, so that data of one cluster is never mistaken for
//! leftovers of another one.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Name of the file.
pub(crate) const FILE: &str = "cluster-id";

/// A cluster's id: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterId(String);

impl ClusterId {
    /// Reads the id in a cluster directory, or creates one. Returns whether it is new.
    pub(crate) fn read_or_create(folder: &Path) -> io::Result<(ClusterId, bool)> {
        if let Some(id) = ClusterId::read(&folder.join(FILE))? {
            return Ok((id, false));
        }
        let id = ClusterId::random()?;
        id.write(&folder.join(FILE))?;
        Ok((id, true))
    }

    /// A new id.
    pub(crate) fn random() -> io::Result<ClusterId> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(ClusterId(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Reads a file with an id; `None` if it does not exist.
    pub(crate) fn read(path: &Path) -> io::Result<Option<ClusterId>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = text.trim_end();
        if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Some(ClusterId(text.into())));
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "not the id of a cluster: expected 32 hexadecimal digits"))
    }

    /// Writes the id to a file. It is there completely or not at all.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(format!("{}\n", self.0).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    }

    /// Marks a folder as one of this cluster. Returns false, and changes nothing, if it belongs to another one.
    pub(crate) fn claim(&self, folder: &Path) -> io::Result<bool> {
        let path = folder.join(FILE);
        match ClusterId::read(&path)? {
            Some(found) => Ok(found == *self),
            None => self.write(&path).map(|()| true),
        }
    }

    /// The first digits, for names of files.
    pub(crate) fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_cluster_is_not_claimed() {
        let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let (id, is_new) = ClusterId::read_or_create(folders[0].path()).unwrap();
        assert!(is_new);
        assert_eq!(ClusterId::read_or_create(folders[0].path()).unwrap(), (id.clone(), false));
        let (other, _) = ClusterId::read_or_create(folders[1].path()).unwrap();
        assert!(id.claim(folders[2].path()).unwrap() && id.claim(folders[2].path()).unwrap());
        assert!(!other.claim(folders[2].path()).unwrap());
        fs::write(folders[2].path().join(FILE), "zzz").unwrap();
        assert!(id.claim(folders[2].path()).is_err());
    }
}
