//! Local input files that may change while a job reads them: without notice, the result would be a mix of old and new content.
//!
//! Each read checks that the file is the one that was found when the job was submitted, and that nobody has written to it since. What is appended is not
//! read and does no harm, so a file that has only grown counts as unchanged, as logs do. (So a file that was rewritten in place and is now longer is not
//! noticed.)

use super::ReadAt;
use crate::job::FileVersion;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thiserror::Error;

/// The file is not as it was.
#[derive(Clone, Copy, Debug, Error)]
#[error("it was changed after the job was submitted")]
pub(super) struct FileChanged;

impl FileVersion {
    /// The version of a file that has this metadata.
    pub(super) fn of(found: &Metadata) -> FileVersion {
        let modified_ns = found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec());
        FileVersion { inode: found.ino(), modified_ns }
    }
}

/// A file of which one version is read.
#[derive(Debug)]
struct VersionedFile {
    file: File,
    version: FileVersion,
    /// Its size in this version.
    bytes: u64,
}

/// Opens a file that had this version and size when the job was submitted.
pub(super) fn open(path: &Path, version: FileVersion, bytes: u64) -> io::Result<impl ReadAt + use<>> {
    let opened = VersionedFile { file: File::open(path)?, version, bytes };
    opened.check()?;
    Ok(opened)
}

impl VersionedFile {
    fn check(&self) -> io::Result<()> {
        let found = self.file.metadata()?;
        let now = FileVersion::of(&found);
        let has_grown = now.inode == self.version.inode && found.len() > self.bytes;
        if now == self.version || has_grown { Ok(()) } else { Err(io::Error::other(FileChanged)) }
    }
}

impl ReadAt for VersionedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = ReadAt::read_at(&self.file, offset, buffer)?;
        // After reading: what was read is of this version.
        self.check()?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::input::{LineReader, compute_splits, find_files};
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::time::{Duration, SystemTime};

    /// Reads both lines of a file, which is changed before the second chunk.
    fn read(change: impl Fn(&std::path::Path)) -> Result<usize, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        // The second line is not in the first chunk.
        fs::write(&path, format!("first\n{}\n", "x".repeat(1 << 20))).unwrap();
        let files = find_files(&[path.clone().into()]).unwrap();
        let split = compute_splits(&files, u64::MAX)[0];
        let mut reader = LineReader::open(&files[0], split).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().line, b"first");
        change(&path);
        let second = reader.next().map(|line| line.unwrap().line.len()).map_err(|error| error.to_string());
        let reopened = LineReader::open(&files[0], split).map(drop).map_err(|error| error.to_string());
        if path.exists() {
            assert_eq!(second.as_ref().err(), reopened.as_ref().err(), "also noticed by the next map");
        }
        second
    }

    #[test]
    fn a_file_that_was_rewritten_in_place_is_not_read_on() {
        let rewrite = |path: &std::path::Path| {
            fs::write(path, format!("FIRST\n{}\n", "y".repeat(1 << 20))).unwrap();
            // The clock of the file system may be coarse.
            let later = SystemTime::now() + Duration::from_secs(1);
            OpenOptions::new().write(true).open(path).unwrap().set_modified(later).unwrap();
        };
        let error = read(rewrite).unwrap_err();
        assert!(
            error.contains("was changed after the job was submitted") && error.contains("submit the job again"),
            "{error}"
        );
    }

    #[test]
    fn a_file_may_grow_while_it_is_read() {
        let append = |path: &std::path::Path| {
            OpenOptions::new().append(true).open(path).unwrap().write_all(b"more\n").unwrap();
        };
        assert_eq!(read(append), Ok(1 << 20));
    }

    #[test]
    fn a_file_that_is_open_may_be_removed() {
        assert_eq!(read(|path| fs::remove_file(path).unwrap()), Ok(1 << 20));
    }
}
