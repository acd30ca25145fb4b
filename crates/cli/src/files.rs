//! Files that are written whole or not at all.

use anyhow::{Context, Result};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file beside its place and then puts it there, so that what stood there stays until the new one is whole.
pub fn write(file: &Path, text: &str) -> Result<()> {
    let explain = || format!("cannot write {}; check the folder and the space left", file.display());
    // A device or a pipe cannot be replaced, only written to.
    if fs::metadata(file).is_ok_and(|there| !there.is_file()) {
        return fs::write(file, text).with_context(explain);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // As any new file: the process's mask takes away what it will.
    builder.prefix(".giveway-").permissions(Permissions::from_mode(0o666));
    let beside = builder.tempfile_in(folder).with_context(explain)?;
    fs::write(beside.path(), text).with_context(explain)?;
    beside.persist(file).map_err(|error| error.error).with_context(explain)?;
    Ok(())
}
