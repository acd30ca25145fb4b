//! Atomic file writes: a file is either replaced completely or left unchanged.

use anyhow::{Context, Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;

/// Writes to a temporary file in the same directory and renames it to `file`. Devices, pipes and links are written directly.
pub fn write(file: &Path, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
    let context = || cannot_write(file);
    match temporary_beside(file)? {
        None => fs::write(file, content).with_context(context),
        Some(temporary) => {
            fs::write(temporary.path(), content).with_context(context)?;
            temporary.persist(file).map_err(|error| error.error).with_context(context)?;
            Ok(())
        }
    }
}

/// Checks that the files can be created, before a long computation whose results they will hold.
pub fn check_writable<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    files.into_iter().try_for_each(|file| temporary_beside(file).map(drop))
}

/// Creates a temporary file in the directory of `file`. `None` for a device, pipe or link, which must be written to, not replaced.
fn temporary_beside(file: &Path) -> Result<Option<NamedTempFile>> {
    ensure!(!file.is_dir(), "cannot write {}: it is a directory; name a file", file.display());
    if fs::symlink_metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(None);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // The default mode of a new file; the process's umask applies.
    builder.prefix(".giveway-").permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(folder).map(Some).with_context(|| cannot_write(file))
}

fn cannot_write(file: &Path) -> String {
    format!("cannot write {}; check that the directory exists, is writable and has free space", file.display())
}
