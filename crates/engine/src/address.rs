//! The address of a cluster's coordinator: a file in the cluster directory with the path of its socket, for clients and workers.
//!
//! The file also names the directory it was written for, by device and inode. Whoever has a copy of a cluster directory, from a backup for example, does not reach
//! the original with it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file in a cluster directory.
pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join("address")
}

/// Replaces the address by renaming a new file over it. Readers see the old one or the new, never a part. Not synced.
pub(crate) fn write(folder: &Path, socket: &Path) -> io::Result<()> {
    let (file, new) = (path(folder), folder.join("address.new"));
    let content = [socket.as_os_str().as_bytes(), b"\n", identity(folder)?.as_bytes(), b"\n"].concat();
    fs::write(&new, content)?;
    fs::rename(&new, file)
}

/// The socket of the coordinator that was last started in a directory; `None` if there was none, or in a copy of the directory.
pub(crate) fn read(folder: &Path) -> io::Result<Option<PathBuf>> {
    let content = match fs::read(path(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let mut lines = content.split(|byte| *byte == b'\n');
    let (Some(socket), Some(written_for)) = (lines.next(), lines.next()) else { return Ok(None) };
    let is_copy = written_for != identity(folder)?.as_bytes();
    Ok((!is_copy).then(|| PathBuf::from(OsString::from_vec(socket.to_vec()))))
}

fn identity(folder: &Path) -> io::Result<String> {
    let metadata = fs::metadata(folder)?;
    Ok(format!("{}:{}", metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_directory_has_no_address() {
        let [folder, copy] = [0, 1].map(|_| tempfile::tempdir().unwrap());
        assert_eq!(read(folder.path()).unwrap(), None);
        write(folder.path(), Path::new("/run/socket")).unwrap();
        assert_eq!(read(folder.path()).unwrap(), Some("/run/socket".into()));
        fs::copy(path(folder.path()), path(copy.path())).unwrap();
        assert_eq!(read(copy.path()).unwrap(), None);
        fs::write(path(folder.path()), "/run/socket").unwrap();
        assert_eq!(read(folder.path()).unwrap(), None, "of an earlier release");
    }
}
