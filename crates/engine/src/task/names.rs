//! What tasks call their files, and where they put them.
//!
//! | what | where |
//! |---|---|
//! | output of map 7, try 0, for the reduces | `map-7.0.out` in the job's folder on the worker |
//! | what reduce 3, try 1, holds of its input | the folder `reduce-3.1` there |
//! | output in the making | `_temporary/reduce-3.1.of-4` or `_temporary/map-7.0.of-4` (of job 4) in the output folder, which all nodes share |
//! | what is known of a paused reduce's output | `_temporary/reduce-3.1.of-4.kept` |
//! | output of a reduce | `part-r-00003` |
//! | output of a map without reduces | `part-m-00007`, and `part-m-00007-000000004096` for the rest of split 7 from byte 4096 on |
//!
//! The pieces of a split that ended early sort by name in the order of the input: the first one has the shortest name.

use crate::job::Plan;
use giveway_core::{AttemptId, JobId, Kind, TaskId};
use std::path::{Path, PathBuf};

/// The folder for output in the making, within the output folder.
pub const TEMPORARY: &str = "_temporary";

/// Where a map puts its output for the reduces.
pub fn map_output(dir: &Path, map: AttemptId) -> PathBuf {
    dir.join(format!("map-{}.{}.out", map.task.index, map.number))
}

/// Where a reduce keeps what it holds of its input.
pub fn reduce_folder(dir: &Path, reduce: AttemptId) -> PathBuf {
    dir.join(format!("reduce-{}.{}", reduce.task.index, reduce.number))
}

/// Output in the making.
pub(super) fn temporary(plan: &Plan, attempt: AttemptId) -> PathBuf {
    let TaskId { job, kind, index } = attempt.task;
    // With the job: one that was killed may still be leaving when the next one uses the same folder.
    plan.output.join(TEMPORARY).join(format!("{kind}-{index}.{}.of-{}", attempt.number, job.0))
}

/// What is known of a paused reduce's output.
pub(super) fn kept(plan: &Plan, attempt: AttemptId) -> PathBuf {
    let mut path = temporary(plan, attempt).into_os_string();
    path.push(".kept");
    path.into()
}

/// The output of a reduce.
pub fn reduce_part(plan: &Plan, reduce: u32) -> PathBuf {
    plan.output.join(format!("part-r-{reduce:05}"))
}

/// The output of a map without reduces.
pub fn map_part(plan: &Plan, split: u32, start_bytes: u64) -> PathBuf {
    plan.output.join(match start_bytes {
        0 => format!("part-m-{split:05}"),
        _ => format!("part-m-{split:05}-{start_bytes:012}"),
    })
}

/// The attempt of this job that a file's or folder's name in a job's folder speaks of, if it is one of ours.
pub(super) fn parse(job: JobId, name: &str) -> Option<AttemptId> {
    let (kind, rest) = match name.strip_prefix("map-") {
        Some(rest) => (Kind::Map, rest.strip_suffix(".out")?),
        None => (Kind::Reduce, name.strip_prefix("reduce-")?),
    };
    let (index, number) = rest.split_once('.')?;
    Some(AttemptId::new(job, kind, index.parse().ok()?, number.parse().ok()?))
}

/// True if this is the output of a map that was never finished, as [`crate::data::MapSink`] names it.
pub(super) fn is_unfinished(job: JobId, name: &str) -> bool {
    let of = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
    of.and_then(|name| parse(job, name)).is_some_and(|attempt| attempt.task.kind == Kind::Map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let dir = Path::new("/jobs/4");
        for kind in Kind::BOTH {
            let attempt = AttemptId::new(JobId(4), kind, 70_000, 12);
            let path = match kind {
                Kind::Map => map_output(dir, attempt),
                Kind::Reduce => reduce_folder(dir, attempt),
            };
            assert_eq!(parse(JobId(4), path.file_name().unwrap().to_str().unwrap()), Some(attempt));
        }
        for name in ["map-7.0", "map-7.0.out.tmp", "reduce-7", "reduce-x.1", "reduce-1.70000", "plan"] {
            assert_eq!(parse(JobId(4), name), None, "{name}");
        }
        assert!(is_unfinished(JobId(4), ".map-7.0.out.tmp"));
        assert!(!is_unfinished(JobId(4), "map-7.0.out") && !is_unfinished(JobId(4), ".plan.tmp"));
    }
}
