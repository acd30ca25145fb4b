//! The file operations that the journal and output folders need, as a trait: the simulation replaces the disk by a model of one.

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(crate) trait FileSystem: Send + Sync {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The entries of a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>>;

    /// Whether there is a file or folder of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Creates a folder. Fails if the name is taken.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// Creates a folder and those above it, unless they exist.
    fn create_folders(&self, path: &Path) -> io::Result<()>;

    /// Creates or replaces a file. A link of this name is not followed.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Creates a file that only its owner can read.
    fn write_private(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.write(path, bytes)
    }

    /// Replaces the first bytes of a file in one write. Creates the file if it does not exist.
    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file or folder. Replaces a file of the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames a folder. Fails with `AlreadyExists` if the new name is taken.
    fn rename_to_new(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a folder with its content. Does nothing if it does not exist.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Makes a file's content, or the entries of a folder, durable.
    fn sync(&self, path: &Path) -> io::Result<()>;

    /// Opens an existing file for appending, cut to its first `bytes` bytes.
    fn open_to_append(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn AppendFile>>;
}

/// A file that is open for appending.
pub(crate) trait AppendFile: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything appended so far durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    /// True for a regular file.
    pub(crate) is_file: bool,
}

/// True if the error says that there is no such file, and not that the disk cannot tell.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The machine's file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk;

impl FileSystem for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            Ok(Entry { name: entry.file_name(), is_file: entry.file_type()?.is_file() })
        };
        fs::read_dir(folder)?.map(entry).collect()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if is_absence(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn create_folders(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
        file.write_all(bytes)
    }

    fn write_private(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
    }

    fn overwrite(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).create(true).truncate(false).open(path)?.write_all(bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_to_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system can do this in one step.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                if self.exists(to)? {
                    Err(io::ErrorKind::AlreadyExists.into())
                } else {
                    fs::rename(from, to)
                }
            }
            renamed => Ok(renamed?),
        }
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        match fs::remove_dir_all(path) {
            // Not if a file has the name, which is not removed either.
            Err(error) if is_absence(&error) && !self.exists(path)? => Ok(()),
            removed => removed,
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn open_to_append(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn AppendFile>> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        if file.metadata()?.len() != bytes {
            file.set_len(bytes)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::End(0))?;
        Ok(Box::new(file))
    }
}

impl AppendFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
