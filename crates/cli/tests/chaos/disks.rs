//! Disks for tests: small ones that fill up, and ones that lose what was not synced.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Enough for a journal, or for the outputs of some maps.
const BYTES: usize = 2 << 20;

const FILLER: &str = "filler";

/// A file system of its own, in memory. Unmounted when dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Whether this user may mount one. Prints a line if not.
    pub fn can_mount() -> bool {
        let folder = tempfile::tempdir().expect("cannot create a temporary directory");
        let mounted = SmallDisk::try_mount(folder.path()).is_some();
        if !mounted {
            eprintln!("skipped: mounting a small disk needs root");
        }
        mounted
    }

    /// Mounts it in a folder, which is created.
    pub fn mount(folder: &Path) -> SmallDisk {
        fs::create_dir_all(folder).expect("cannot create a folder");
        SmallDisk::try_mount(folder).expect("cannot mount a small disk")
    }

    fn try_mount(folder: &Path) -> Option<SmallDisk> {
        let options = format!("size={BYTES},mode=0700");
        let mounted = succeeds(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(folder));
        mounted.then(|| SmallDisk(folder.into()))
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
        unmount_lazily(&self.0);
    }
}

/// An ext4 file system in an image file. Unmounted when dropped.
pub struct DiskImage {
    mounted_at: PathBuf,
    images: TempDir,
    /// Number of the mounted image; it grows with each power cut.
    current: u32,
}

impl DiskImage {
    /// Whether this user may mount one. Prints a line if not.
    pub fn can_mount() -> bool {
        let folder = tempfile::tempdir().expect("cannot create a temporary directory");
        let mounted = DiskImage::try_mount(folder.path()).is_some();
        if !mounted {
            eprintln!("skipped: mounting a disk image needs root, mkfs.ext4 and loop devices");
        }
        mounted
    }

    /// Mounts an empty one in a folder.
    pub fn mount(folder: &Path) -> DiskImage {
        DiskImage::try_mount(folder).expect("cannot mount a disk image")
    }

    fn try_mount(folder: &Path) -> Option<DiskImage> {
        let images = tempfile::tempdir().expect("cannot create a temporary directory");
        let disk = DiskImage { mounted_at: folder.into(), images, current: 0 };
        let image = disk.image(0);
        fs::File::create_new(&image).and_then(|file| file.set_len(64 << 20)).expect("cannot create an image");
        (succeeds(Command::new("mkfs.ext4").arg("-q").arg(&image)) && disk.mount_current()).then_some(disk)
    }

    fn image(&self, number: u32) -> PathBuf {
        self.images.path().join(format!("disk-{number}"))
    }

    fn mount_current(&self) -> bool {
        // The file system itself syncs rarely, so that little is kept which no process has synced.
        let image = self.image(self.current);
        succeeds(Command::new("mount").args(["-o", "loop,commit=300"]).arg(image).arg(&self.mounted_at))
    }

    /// Continues with what has reached the disk: its image, copied while the file system is mounted. The processes that used it have been killed.
    pub fn cut_power(&mut self) {
        let next = self.image(self.current + 1);
        fs::copy(self.image(self.current), &next).expect("cannot copy the image");
        // Killed processes close their files a little later, on a busy machine much later.
        let is_unmounted = (0..6000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            succeeds(Command::new("umount").arg(&self.mounted_at))
        });
        assert!(is_unmounted, "{} is still in use", self.mounted_at.display());
        fs::remove_file(self.image(self.current)).expect("cannot remove the old image");
        self.current += 1;
        assert!(self.mount_current(), "cannot mount {}", next.display());
    }
}

impl Drop for DiskImage {
    fn drop(&mut self) {
        unmount_lazily(&self.mounted_at);
    }
}

/// Unmounts a file system as soon as no process uses it.
fn unmount_lazily(folder: &Path) {
    succeeds(Command::new("umount").arg("-l").arg(folder));
}

fn succeeds(command: &mut Command) -> bool {
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
