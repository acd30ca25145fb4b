//! The folder of a cluster's sockets. The path of a socket is limited to 107 bytes, so it is not in the cluster directory but in a short one: in
//! `$XDG_RUNTIME_DIR` if that is set and private, otherwise in `/tmp/giveway-UID`. Only its owner can enter it.

use rustix::process::{Pid, geteuid, test_kill_process};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A longer `$XDG_RUNTIME_DIR` is not used.
const RUNTIME_DIR_BYTES_MAX: usize = 60;

/// Name of a worker's socket up to its process id.
const WORKER_PREFIX: &str = "worker-";

/// Name of the socket of a worker's process.
pub(crate) fn worker_socket(pid: u32) -> String {
    format!("{WORKER_PREFIX}{pid}")
}

/// Workers that were killed leave their sockets. They are removed when another worker starts, and before the folder is.
pub(crate) fn remove_sockets_of_ended_workers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(WORKER_PREFIX)?.parse().ok()).and_then(Pid::from_raw);
        if pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Creates the folder for the sockets of a cluster, or checks the existing one. `name` is short and unique to the cluster.
pub(crate) fn create(name: &str) -> io::Result<PathBuf> {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| {
        dir.is_absolute() && dir.as_os_str().len() <= RUNTIME_DIR_BYTES_MAX && check_private(dir).is_ok()
    });
    let base = match runtime_dir {
        Some(dir) => dir.join("giveway"),
        None => PathBuf::from(format!("/tmp/giveway-{}", geteuid().as_raw())),
    };
    create_private(&base)?;
    let folder = base.join(name);
    create_private(&folder)?;
    Ok(folder)
}

/// Creates a folder and its parents, and makes sure that only its owner can enter it.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if fs::metadata(folder)?.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Creates a folder that only its owner can enter, or checks that an existing one is such.
fn create_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_private(folder),
        created => created,
    }
}

fn check_private(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    let text = format!(
        "{} is not a directory that belongs to you and only you can enter; remove it, or set XDG_RUNTIME_DIR to another directory",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_clusters_folder_is_private() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/cluster");
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        make_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_last_socket_takes_the_folder_with_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        fs::create_dir(&folder).unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        fs::write(folder.join(worker_socket(ended.id())), "").unwrap();
        let running = folder.join(worker_socket(std::process::id()));
        fs::write(&running, "").unwrap();
        drop(super::super::SocketFile(folder.join("coordinator")));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "that of this process");
        drop(super::super::SocketFile(running));
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_that_others_can_enter_or_redirect_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        create_private(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        create_private(&folder).unwrap();
        symlink(&folder, root.path().join("link")).unwrap();
        assert!(create_private(&root.path().join("link")).is_err());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(create_private(&folder).unwrap_err().to_string().contains("only you can enter"));
    }
}
