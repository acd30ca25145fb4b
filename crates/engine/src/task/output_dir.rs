//! The output folder as a task uses it: by descriptors.
//!
//! Other users may be able to rename the folder, if they may write to the one above it, and to put something else in its place. So its path is opened once for
//! each use, without following links, and used only if it has this job's nonce, which nobody else can read. What is created, renamed and removed then is
//! in that folder, whatever happens to its name.

use super::paths::TEMPORARY;
use crate::job::Plan;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// File with the nonce, in the folder for temporary files.
pub(crate) const NONCE: &str = "_nonce";

/// Content of the file with the nonce.
pub(crate) fn nonce_text(nonce: u64) -> String {
    format!("{nonce:016x}\n")
}

/// The output folder of a job, and in it the one for temporary files.
#[derive(Debug)]
pub(super) struct OutputDir {
    output: OwnedFd,
    temporary: OwnedFd,
}

/// Opens something in a folder, or a path, without following a link at its end.
fn open(folder: impl AsFd, path: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened =
        openat(folder, path, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH);
    opened.map_err(|error| match error {
        // The system does not tell the two apart.
        Errno::LOOP | Errno::NOTDIR => {
            let text = "something else, or a symbolic link, which is not followed, is in its place";
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        }
        error => error.into(),
    })
}

impl OutputDir {
    /// Opens the folder of this job. Fails with `NotFound` if it is gone, or another one is in its place.
    pub(super) fn open(plan: &Plan) -> io::Result<OutputDir> {
        let folder = OFlags::RDONLY | OFlags::DIRECTORY;
        let output = open(CWD, plan.output.as_os_str(), folder)?;
        let temporary = open(&output, OsStr::new(TEMPORARY), folder)?;
        let nonce = open(&temporary, OsStr::new(NONCE), OFlags::RDONLY | OFlags::NONBLOCK)?;
        let found = fstat(&nonce)?;
        // Another name of the file could be in a folder of somebody else.
        let is_own_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink == 1;
        let expected = nonce_text(plan.nonce);
        let mut text = Vec::new();
        File::from(nonce).take(expected.len() as u64 + 1).read_to_end(&mut text)?;
        if !is_own_file || text != expected.as_bytes() {
            let text = "it is not the folder that was created for this job";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(OutputDir { output, temporary })
    }

    /// Creates an empty temporary file. One that an attempt of the same name has left is removed.
    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        let name = name(path)?;
        let create = || open(&self.temporary, name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL);
        match create() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                unlinkat(&self.temporary, name, AtFlags::empty())?;
                create()
            }
            created => created,
        }
        .map(File::from)
    }

    /// Opens a temporary file for writing.
    pub(super) fn open_to_write(&self, path: &Path) -> io::Result<File> {
        open(&self.temporary, name(path)?, OFlags::WRONLY).map(File::from)
    }

    /// Opens a temporary file for reading.
    pub(super) fn open_to_read(&self, path: &Path) -> io::Result<File> {
        open(&self.temporary, name(path)?, OFlags::RDONLY | OFlags::NONBLOCK).map(File::from)
    }

    /// Renames a temporary file to another temporary name.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(renameat(&self.temporary, name(from)?, &self.temporary, name(to)?)?)
    }

    /// Renames a temporary file to its final name in the output folder.
    pub(super) fn commit(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(renameat(&self.temporary, name(from)?, &self.output, name(to)?)?)
    }

    /// Makes the names of temporary files durable.
    pub(super) fn sync_temporary(&self) -> io::Result<()> {
        Ok(fsync(&self.temporary)?)
    }

    /// Makes the names of committed files durable.
    pub(super) fn sync_output(&self) -> io::Result<()> {
        Ok(fsync(&self.output)?)
    }
}

fn name(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
