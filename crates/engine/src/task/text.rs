//! A part of the job's output in the making: a file that is written to the side and becomes visible by one rename, whole or not at all.

use super::names;
use crate::job::{OutputFormat, Plan};
use crate::record::Failure;
use giveway_core::AttemptId;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Records are gathered to this much before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// Output in the making.
#[derive(Debug)]
pub(super) struct Text {
    path: PathBuf,
    file: File,
    format: OutputFormat,
    buffer: Vec<u8>,
    written_bytes: u64,
    /// What went wrong when a record was taken: [`crate::record::Emit`] cannot say it there, so the next look finds it here.
    problem: Option<io::Error>,
}

impl Text {
    /// With nothing in it.
    pub(super) fn begin(plan: &Plan, attempt: AttemptId) -> Result<Text, Failure> {
        let path = names::temporary(plan, attempt);
        // The folder is the job's: if it is gone, the job is over and nobody may bring it back.
        let file = File::create(&path).map_err(|error| cannot_write(&path, &error))?;
        Ok(Text::over(path, file, plan.format, 0))
    }

    /// Takes over the first bytes of what an earlier attempt left. Nothing if they are not there any more: moved files belong to whoever
    /// moved them first.
    pub(super) fn take_over(
        plan: &Plan,
        attempt: AttemptId,
        from: AttemptId,
        bytes: u64,
    ) -> Result<Option<Text>, Failure> {
        let (old, path) = (names::temporary(plan, from), names::temporary(plan, attempt));
        let claim = || {
            fs::rename(&old, &path)?;
            let mut file = OpenOptions::new().write(true).open(&path)?;
            if file.metadata()?.len() < bytes {
                return Err(io::Error::from(io::ErrorKind::NotFound));
            }
            file.set_len(bytes)?;
            file.seek(SeekFrom::Start(bytes))?;
            Ok(file)
        };
        match claim() {
            Ok(file) => Ok(Some(Text::over(path, file, plan.format, bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot_write(&path, &error)),
        }
    }

    fn over(path: PathBuf, file: File, format: OutputFormat, written_bytes: u64) -> Text {
        Text { path, file, format, buffer: Vec::with_capacity(BUFFER_BYTES), written_bytes, problem: None }
    }

    /// Appends a record.
    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.format.write(key, value, &mut self.buffer);
        if self.buffer.len() >= BUFFER_BYTES {
            self.spill();
        }
    }

    #[cold]
    fn spill(&mut self) {
        if self.problem.is_none() {
            match self.file.write_all(&self.buffer) {
                Ok(()) => self.written_bytes += self.buffer.len() as u64,
                Err(error) => self.problem = Some(error),
            }
        }
        self.buffer.clear();
        self.buffer.shrink_to(2 * BUFFER_BYTES);
    }

    /// What went wrong so far, if something did.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Failure> {
        match &self.problem {
            None => Ok(()),
            Some(error) => Err(cannot_write(&self.path, error)),
        }
    }

    /// Writes what is gathered. Returns the length of the output so far.
    pub(super) fn flush(&mut self) -> Result<u64, Failure> {
        self.spill();
        self.check().map(|()| self.written_bytes)
    }

    /// Makes the output visible under its name. Returns its length.
    pub(super) fn commit(mut self, to: &Path) -> Result<u64, Failure> {
        let bytes = self.flush()?;
        fs::rename(&self.path, to).map_err(|error| cannot_write(to, &error))?;
        Ok(bytes)
    }
}

/// A failure of the disk, in words.
pub(super) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "let workers write there",
        _ => "check that disk",
    };
    Failure(format!("cannot write {}: {error}; {hint}", path.display()))
}
