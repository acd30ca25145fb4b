//! The reading side. It reads the workers' files, so it works while workers or the whole cluster are down.

use super::{ELSEWHERE, FOLDER, attempt_name, parse_file};
use giveway_core::{AttemptId, JobId, Kind, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is stored of an attempt's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptLog {
    pub attempt: AttemptId,
    /// Name of the worker it ran on.
    pub node: String,
    /// Its files by the offset at which they begin, with their lengths.
    files: BTreeMap<u64, (PathBuf, u64)>,
}

/// A part of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogChunk {
    /// Offset of the first byte: later than requested if what was there is no longer stored.
    pub start: u64,
    /// The bytes, as they were printed; empty at the end of the log.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

impl AttemptLog {
    /// Short name of the attempt, such as `map-7.0`.
    pub fn name(&self) -> String {
        attempt_name(self.attempt)
    }

    /// Number of bytes that the attempt has printed, stored or not.
    pub fn bytes(&self) -> u64 {
        self.files.last_key_value().map_or(0, |(start, (_, length))| start + length)
    }

    /// Number of bytes that are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.files.values().map(|(_, length)| length).sum()
    }

    /// Offset at which the last `bytes` begin, or the log if it is shorter.
    pub fn tail_start(&self, bytes: u64) -> u64 {
        self.bytes().saturating_sub(bytes)
    }

    /// Reads at most `bytes_max` from an offset on.
    pub fn read(&self, from: u64, bytes_max: u64) -> io::Result<LogChunk> {
        let holds = |&(start, (_, length)): &(&u64, &(PathBuf, u64))| start + length > from;
        let Some((&start, (path, length))) = self.files.iter().find(holds) else {
            return Ok(LogChunk { start: from, bytes: Vec::new() });
        };
        let at = from.max(start);
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(mut file) => {
                file.seek(SeekFrom::Start(at - start))?;
                file.take(bytes_max.min(start + length - at)).read_to_end(&mut bytes)?;
            }
            // Removed meanwhile: continue with the next file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.read(start + length, bytes_max),
            Err(error) => return Err(error),
        }
        Ok(LogChunk { start: at, bytes })
    }
}

/// The logs of a job in the folder of a cluster, ordered by task and attempt.
pub fn find(cluster: &Path, job: JobId) -> io::Result<Vec<AttemptLog>> {
    let mut found: BTreeMap<(usize, u32, u16), AttemptLog> = BTreeMap::new();
    for (node, folder) in workers(cluster)? {
        for entry in fs::read_dir(folder.join(FOLDER).join(job.0.to_string())).into_iter().flatten().flatten() {
            let Some((attempt, start)) = parse_file(job, &entry.path()) else { continue };
            let Ok(metadata) = entry.metadata() else { continue };
            let key = (attempt.task.kind as usize, attempt.task.index, attempt.number);
            let log =
                found.entry(key).or_insert_with(|| AttemptLog { attempt, node: node.clone(), files: BTreeMap::new() });
            log.files.insert(start, (entry.path(), metadata.len()));
        }
    }
    Ok(found.into_values().collect())
}

/// Names and folders of the workers that a cluster has or had.
fn workers(cluster: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(cluster)?.flatten() {
        if entry.path().join(FOLDER).is_dir() {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    for entry in fs::read_dir(cluster.join(ELSEWHERE)).into_iter().flatten().flatten() {
        let Ok(content) = fs::read(entry.path()) else { continue };
        let Some(end) = content.iter().position(|&byte| byte == 0) else { continue };
        let (name, folder) = content.split_at(end);
        let folder = PathBuf::from(OsStr::from_bytes(folder.get(1..).unwrap_or_default()));
        found.push((String::from_utf8_lossy(name).into_owned(), folder));
    }
    Ok(found)
}

/// Selects attempts of a job: `map-7` (all attempts of a task), `map-7.0` (one of them), `map` or `reduce` (all of a kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskSelector {
    kind: Kind,
    index: Option<u32>,
    number: Option<u16>,
}

impl TaskSelector {
    /// True if the attempt is one of those selected.
    pub fn selects(&self, attempt: AttemptId) -> bool {
        let TaskId { kind, index, .. } = attempt.task;
        self.kind == kind
            && self.index.is_none_or(|wanted| wanted == index)
            && self.number.is_none_or(|wanted| wanted == attempt.number)
    }
}

impl std::str::FromStr for TaskSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskSelector, String> {
        let parse = || {
            let (kind, rest) = match text.strip_prefix("map") {
                Some(rest) => (Kind::Map, rest),
                None => (Kind::Reduce, text.strip_prefix("reduce")?),
            };
            if rest.is_empty() {
                return Some(TaskSelector { kind, index: None, number: None });
            }
            let rest = rest.strip_prefix(['-', ' '])?;
            let (index, number) = match rest.split_once('.') {
                Some((index, number)) => (index, Some(number.parse().ok()?)),
                None => (rest, None),
            };
            Some(TaskSelector { kind, index: Some(index.parse().ok()?), number })
        };
        parse().ok_or_else(|| {
            format!("invalid task `{text}`; use map-7 (a task), map-7.0 (one of its attempts), map or reduce")
        })
    }
}
