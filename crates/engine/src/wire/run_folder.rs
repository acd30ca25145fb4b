//! The folder of a cluster's sockets. The path of a socket is limited to 107 bytes, so it is not in the cluster directory but in a short one: in
//! `$XDG_RUNTIME_DIR` if that is set and private, otherwise in `/tmp/giveway-UID`. Only its owner can enter it.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cluster that has just created its folder may not listen yet.
const LEFT_AFTER: Duration = Duration::from_secs(60);
/// A longer `$XDG_RUNTIME_DIR` is not used.
const RUNTIME_DIR_BYTES_MAX: usize = 60;

/// Creates the folder for the socket of a cluster, or checks the existing one. `name` is short and unique to the cluster. Its path may change: who
/// connects reads it from the cluster directory.
pub(crate) fn create(name: &str) -> io::Result<PathBuf> {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| {
        dir.is_absolute() && dir.as_os_str().len() <= RUNTIME_DIR_BYTES_MAX && check_private(dir).is_ok()
    });
    match runtime_dir {
        Some(dir) => create_below(&dir.join("giveway"), name),
        None => create_in(Path::new("/tmp"), geteuid().as_raw(), name),
    }
}

/// In a folder where everybody can create files. Somebody else may have taken the usual name, by mistake or to keep the cluster from starting: then another
/// one is used.
fn create_in(temporary: &Path, user: u32, name: &str) -> io::Result<PathBuf> {
    let usual = temporary.join(format!("giveway-{user}"));
    match create_below(&usual, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!("{error}");
            let random = getrandom::u64().map_err(io::Error::other)?;
            create_below(&temporary.join(format!("giveway-{user}-{random:016x}")), name)
        }
        created => created,
    }
}

fn create_below(base: &Path, name: &str) -> io::Result<PathBuf> {
    create_private(base)?;
    remove_leftovers(base, LEFT_AFTER);
    let folder = base.join(name);
    create_private(&folder)?;
    Ok(folder)
}

/// Removes the folders of clusters that were killed: those in which nobody has answered for a while. A cluster that starts again creates its own anew.
fn remove_leftovers(base: &Path, left_after: Duration) {
    let entries = fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_old = |path: &Path| {
        let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
        changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age >= left_after))
    };
    let is_dead = |file: &PathBuf| {
        fs::symlink_metadata(file).is_ok_and(|found| found.file_type().is_socket()) && is_refused(file)
    };
    for folder in entries.filter(|folder| is_old(folder)) {
        let sockets: Vec<PathBuf> = fs::read_dir(&folder).into_iter().flatten().flatten().map(|of| of.path()).collect();
        if !sockets.is_empty() && sockets.iter().all(is_dead) {
            // What cannot be removed stays.
            let _ = sockets.iter().try_for_each(fs::remove_file).and_then(|()| fs::remove_dir(&folder));
        }
    }
}

/// True if nobody listens on a socket. Does not wait for a process that listens and does not accept, because it is stopped.
fn is_refused(file: &Path) -> bool {
    let connected = SocketAddrUnix::new(file).and_then(|address| {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        connect(&socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?, &address)
    });
    connected == Err(Errno::CONNREFUSED)
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
    let text = format!("{} is not a directory that belongs to you and only you can enter", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use super::super::SocketFile;
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

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
        fs::write(folder.join("other"), "").unwrap();
        drop(SocketFile::new(folder.join("coordinator")));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        drop(SocketFile::new(folder.join("other")));
        assert!(!folder.exists());
    }

    #[test]
    fn a_socket_that_another_process_has_put_in_place_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("coordinator");
        let _old = UnixListener::bind(&path).unwrap();
        let old = SocketFile::new(path.clone());
        fs::rename(&path, folder.join("kept, so that its inode is not used again")).unwrap();
        let _new = UnixListener::bind(&path).unwrap();
        drop(old);
        assert!(path.exists());
    }

    #[test]
    fn folders_of_killed_clusters_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let with_socket = |name: &str| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            UnixListener::bind(folder.join("coordinator")).unwrap()
        };
        let _runs = with_socket("runs");
        drop(with_socket("killed"));
        fs::create_dir(root.path().join("starts")).unwrap();
        drop(with_socket("other"));
        fs::write(root.path().join("other/notes"), "of somebody").unwrap();
        remove_leftovers(root.path(), LEFT_AFTER);
        assert!(root.path().join("killed").exists(), "it may be about to listen");
        remove_leftovers(root.path(), Duration::ZERO);
        let mut left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["other", "runs", "starts"]);
    }

    #[test]
    fn a_taken_name_does_not_prevent_a_start() {
        let root = tempfile::tempdir().unwrap();
        let usual = create_in(root.path(), 7, "cluster").unwrap();
        assert_eq!(usual, root.path().join("giveway-7/cluster"));
        fs::set_permissions(root.path().join("giveway-7"), fs::Permissions::from_mode(0o777)).unwrap();
        let other = create_in(root.path(), 7, "cluster").unwrap();
        assert_ne!(other, usual);
        check_private(&other).unwrap();
        check_private(other.parent().unwrap()).unwrap();
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
