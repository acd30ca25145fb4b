//! Files that are written whole or not at all.

use anyhow::{Context, Result, ensure};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;

/// Writes a file beside its place and then puts it there, so that what stood there stays until the new one is whole.
pub fn write(file: &Path, text: &str) -> Result<()> {
    let explain = || cannot_write(file);
    match beside(file)? {
        None => fs::write(file, text).with_context(explain),
        Some(beside) => {
            fs::write(beside.path(), text).with_context(explain)?;
            beside.persist(file).map_err(|error| error.error).with_context(explain)?;
            Ok(())
        }
    }
}

/// Finds out whether files can be written, before the long work that fills them.
pub fn try_places<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    files.into_iter().try_for_each(|file| beside(file).map(drop))
}

/// A new file beside another one's place; none for a device, a pipe or a link, which are not to be replaced, only written to.
fn beside(file: &Path) -> Result<Option<NamedTempFile>> {
    ensure!(!file.is_dir(), "{} is a folder; name a file", file.display());
    if fs::symlink_metadata(file).is_ok_and(|there| !there.is_file()) {
        return Ok(None);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // As any new file: the process's mask takes away what it will.
    builder.prefix(".giveway-").permissions(Permissions::from_mode(0o666));
    builder.tempfile_in(folder).map(Some).with_context(|| cannot_write(file))
}

fn cannot_write(file: &Path) -> String {
    format!("cannot write {}; check the folder and the space left", file.display())
}
