//! Small disks that a test fills up.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Enough for a journal, or for the outputs of some maps.
const BYTES: usize = 2 << 20;

const FILLER: &str = "filler";

/// A file system of its own, in memory. Unmounted when dropped.
pub struct SmallDisk(PathBuf);

/// Whether this user may mount file systems. Prints a line if not.
pub fn can_mount() -> bool {
    let folder = tempfile::tempdir().expect("cannot create a temporary directory");
    let mounted = mount(folder.path());
    if mounted {
        drop(SmallDisk(folder.path().into()));
    } else {
        eprintln!("skipped: mounting a small disk needs root");
    }
    mounted
}

fn mount(folder: &Path) -> bool {
    let options = format!("size={BYTES},mode=0700");
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &options, "none"]).arg(folder).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl SmallDisk {
    /// Mounts it in a folder, which is created.
    pub fn mount(folder: &Path) -> SmallDisk {
        fs::create_dir_all(folder).expect("cannot create a folder");
        assert!(mount(folder), "cannot mount a disk in {}", folder.display());
        SmallDisk(folder.into())
    }

    /// Fills it with a file.
    pub fn fill(&self) {
        let error = fs::write(self.0.join(FILLER), vec![0; 2 * BYTES]).expect_err("a disk of this size");
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    }

    /// Removes that file.
    pub fn free(&self) {
        fs::remove_file(self.0.join(FILLER)).expect("cannot remove a file");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: processes of the cluster may still have files open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
