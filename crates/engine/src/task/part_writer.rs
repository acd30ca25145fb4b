//! Writes one part file of the job's output: under a temporary name, made visible by one atomic rename when it is complete.

use super::error::WriteError;
use super::output_dir::OutputDir;
use super::{paths, writeback};
use crate::job::{OutputFormat, Plan};
use giveway_core::AttemptId;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Records are buffered up to this size before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// Writer of a part file that is not committed yet.
#[derive(Debug)]
pub(super) struct PartWriter {
    dir: OutputDir,
    path: PathBuf,
    file: File,
    format: OutputFormat,
    /// Whether the job requires durable output.
    sync: bool,
    buffer: Vec<u8>,
    written_bytes: u64,
    /// Bytes whose writing to disk was started.
    writeback_bytes: u64,
    /// The first write error. [`crate::record::Emit`] cannot return errors, so it is stored until the next [`PartWriter::check`].
    error: Option<io::Error>,
}

impl PartWriter {
    /// Creates an empty part file for an attempt.
    pub(super) fn create(plan: &Plan, attempt: AttemptId) -> Result<PartWriter, WriteError> {
        let path = paths::temporary_path(plan, attempt);
        // The folder is created when the job starts. If it is gone, the job has ended and the folder must not be recreated.
        let create = || {
            let dir = OutputDir::open(plan)?;
            let file = dir.create(&path)?;
            Ok((dir, file))
        };
        let (dir, file) = create().map_err(|error| WriteError::new(&path, error))?;
        Ok(PartWriter::new(dir, path, file, plan, 0))
    }

    /// Takes over the first `bytes` bytes that the paused attempt `from` wrote, and appends to them. Returns `None` if they are gone: the file is
    /// claimed by a rename, so only the first attempt to claim it succeeds.
    pub(super) fn resume(
        plan: &Plan,
        attempt: AttemptId,
        from: AttemptId,
        bytes: u64,
    ) -> Result<Option<PartWriter>, WriteError> {
        let (old, path) = (paths::temporary_path(plan, from), paths::temporary_path(plan, attempt));
        let claim = || {
            let dir = OutputDir::open(plan)?;
            dir.rename(&old, &path)?;
            let mut file = dir.open_to_write(&path)?;
            if file.metadata()?.len() < bytes {
                return Err(io::Error::from(io::ErrorKind::NotFound));
            }
            file.set_len(bytes)?;
            file.seek(SeekFrom::Start(bytes))?;
            Ok((dir, file))
        };
        match claim() {
            Ok((dir, file)) => Ok(Some(PartWriter::new(dir, path, file, plan, bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(WriteError::new(&path, error)),
        }
    }

    fn new(dir: OutputDir, path: PathBuf, file: File, plan: &Plan, written_bytes: u64) -> PartWriter {
        let (format, sync) = (plan.format, plan.request.sync_output);
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        PartWriter { dir, path, file, format, sync, buffer, written_bytes, writeback_bytes: written_bytes, error: None }
    }

    /// Appends a record. Errors are stored; see [`PartWriter::check`].
    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.format.write(key, value, &mut self.buffer);
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_buffer();
        }
    }

    #[cold]
    fn write_buffer(&mut self) {
        if self.error.is_none() {
            match self.file.write_all(&self.buffer) {
                Ok(()) => {
                    self.written_bytes += self.buffer.len() as u64;
                    let new_bytes = self.written_bytes - self.writeback_bytes;
                    if self.sync && new_bytes >= writeback::STEP_BYTES {
                        writeback::start(&self.file, self.writeback_bytes, new_bytes);
                        self.writeback_bytes = self.written_bytes;
                    }
                }
                Err(error) => self.error = Some(error),
            }
        }
        self.buffer.clear();
        self.buffer.shrink_to(2 * BUFFER_BYTES);
    }

    /// Returns the first write error, if there was one.
    #[inline]
    pub(super) fn check(&self) -> Result<(), WriteError> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(self.write_error(error)),
        }
    }

    /// A copy of the stored error: the original stays, so that every later check fails too.
    #[cold]
    fn write_error(&self, error: &io::Error) -> WriteError {
        WriteError::new(&self.path, io::Error::new(error.kind(), error.to_string()))
    }

    /// Writes buffered records. Returns the length of the output so far, in bytes.
    pub(super) fn flush(&mut self) -> Result<u64, WriteError> {
        self.write_buffer();
        self.check().map(|()| self.written_bytes)
    }

    /// Flushes the file and, if the job requested it, makes its content durable. Returns its length in bytes.
    fn finish(&mut self) -> Result<u64, WriteError> {
        let bytes = self.flush()?;
        if self.sync {
            self.file.sync_data().map_err(|error| WriteError::new(&self.path, error))?;
        }
        Ok(bytes)
    }

    /// Finishes the file and leaves it under its temporary name. Returns its length in bytes.
    pub(super) fn complete(mut self) -> Result<u64, WriteError> {
        let bytes = self.finish()?;
        self.make_name_durable(OutputDir::sync_temporary, &self.path)?;
        Ok(bytes)
    }

    /// Finishes the file and renames it to its final name. Returns its length in bytes.
    pub(super) fn commit(mut self, to: &Path) -> Result<u64, WriteError> {
        let bytes = self.finish()?;
        self.dir.commit(&self.path, to).map_err(|error| WriteError::new(to, error))?;
        self.make_name_durable(OutputDir::sync_output, to)?;
        Ok(bytes)
    }

    /// Makes a file's name durable if the job requested it: the coordinator journals that the task is done, and after a power cut its output must be
    /// there.
    fn make_name_durable(&self, sync: fn(&OutputDir) -> io::Result<()>, path: &Path) -> Result<(), WriteError> {
        if self.sync { sync(&self.dir).map_err(|error| WriteError::new(path, error)) } else { Ok(()) }
    }
}
