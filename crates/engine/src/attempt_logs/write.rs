//! The writing side, in a worker.

use super::{ELSEWHERE, FILE_BYTES_MAX, FILES_MAX, FOLDER, attempt_name};
use crate::task_log::{self, CurrentTask};
use giveway_core::AttemptId;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Each file counts at least this much: that is what it takes on disk.
const FILE_BYTES_MIN: u64 = 4 << 10;

/// How much of the budget is left when files were removed, in percent: otherwise the next line would remove another one.
const KEPT_PERCENT: u64 = 90;

/// The logs of a worker.
#[derive(Debug)]
pub(crate) struct LogStore {
    folder: PathBuf,
    budget_bytes: u64,
    /// Bytes of all files. Approximate while several attempts write.
    stored_bytes: AtomicU64,
}

impl LogStore {
    /// Opens the logs in a worker's folder, which need not exist yet.
    pub(crate) fn open(worker: &Path, budget_bytes: u64) -> Arc<LogStore> {
        let store = LogStore { folder: worker.join(FOLDER), budget_bytes, stored_bytes: AtomicU64::new(0) };
        store.remove_excess();
        Arc::new(store)
    }

    /// Records where a worker's logs are, if that is not in the cluster directory.
    pub(crate) fn announce(cluster: &Path, worker: &Path, name: &str) -> io::Result<()> {
        if worker.parent() == Some(cluster) {
            return Ok(());
        }
        let folder = cluster.join(ELSEWHERE);
        fs::create_dir_all(&folder)?;
        let digest = Sha256::digest(worker.as_os_str().as_bytes());
        let file: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let content = [name.as_bytes(), b"\0", worker.as_os_str().as_bytes()].concat();
        let new = folder.join(format!(".{file}"));
        fs::write(&new, content)?;
        fs::rename(new, folder.join(file))
    }

    /// Has this thread write the log of an attempt until the result is dropped.
    pub(crate) fn begin(self: &Arc<LogStore>, attempt: AttemptId) -> CurrentTask {
        let mut writer = AttemptWriter {
            store: Arc::clone(self),
            attempt,
            file: None,
            start: 0,
            length: 0,
            last_starts: VecDeque::new(),
            has_failed: false,
        };
        task_log::begin(move |bytes| writer.write(bytes))
    }

    /// Removes the oldest files until the budget is kept, and counts what is left.
    fn remove_excess(&self) {
        let mut files = Vec::new();
        for job in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            for file in fs::read_dir(job.path()).into_iter().flatten().flatten() {
                let Ok(metadata) = file.metadata() else { continue };
                let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((written, file.path(), metadata.len().max(FILE_BYTES_MIN)));
            }
        }
        let mut bytes: u64 = files.iter().map(|(_, _, bytes)| bytes).sum();
        if bytes > self.budget_bytes {
            files.sort_unstable();
            for (_, path, size) in files {
                if bytes <= self.budget_bytes / 100 * KEPT_PERCENT {
                    break;
                }
                if fs::remove_file(&path).is_ok() {
                    bytes = bytes.saturating_sub(size);
                }
                // Succeeds if it was the job's last file.
                let _ = path.parent().map(fs::remove_dir);
            }
        }
        self.stored_bytes.store(bytes, Relaxed);
    }
}

/// Writes the log of one attempt. Its first file is created with the first byte: most attempts print nothing.
#[derive(Debug)]
struct AttemptWriter {
    store: Arc<LogStore>,
    attempt: AttemptId,
    file: Option<File>,
    /// Offset at which the current file begins, and its length.
    start: u64,
    length: u64,
    /// Offsets of the files that are kept beside the first one, the current one last.
    last_starts: VecDeque<u64>,
    has_failed: bool,
}

impl AttemptWriter {
    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.has_failed {
            if self.length >= FILE_BYTES_MAX {
                self.end_file();
            }
            let room = usize::try_from(FILE_BYTES_MAX - self.length).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            if let Err(error) = self.append(now) {
                tracing::warn!(attempt = %self.attempt, "cannot write the log of an attempt, the rest of it is dropped: {error}");
                self.has_failed = true;
            }
            bytes = later;
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let added = bytes.len() as u64;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let path = self.path(self.start);
                if let Some(folder) = path.parent() {
                    fs::create_dir_all(folder)?;
                }
                self.store.stored_bytes.fetch_add(FILE_BYTES_MIN, Relaxed);
                File::create(path)?
            }
        };
        file.write_all(bytes)?;
        self.file = Some(file);
        self.length += added;
        if self.store.stored_bytes.fetch_add(added, Relaxed).saturating_add(added) > self.store.budget_bytes {
            self.store.remove_excess();
        }
        Ok(())
    }

    /// Has the next bytes go to a new file, and removes the oldest of the last files if there are too many.
    fn end_file(&mut self) {
        self.start += self.length;
        (self.length, self.file) = (0, None);
        self.last_starts.push_back(self.start);
        if self.last_starts.len() >= FILES_MAX
            && let Some(oldest) = self.last_starts.pop_front()
        {
            let _ = fs::remove_file(self.path(oldest));
            self.store.stored_bytes.fetch_sub(FILE_BYTES_MAX, Relaxed);
        }
    }

    fn path(&self, start: u64) -> PathBuf {
        let job = self.attempt.task.job.0.to_string();
        self.store.folder.join(job).join(format!("{}@{start}", attempt_name(self.attempt)))
    }
}
