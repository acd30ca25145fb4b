//! Names and locations of the files that tasks write.
//!
//! | file | location |
//! |---|---|
//! | output of map 7, attempt 0, for the reduces | `map-7.0.out` in the job's folder on the worker |
//! | spill 2 of map 7, attempt 0 | `map-7.0.run-2` in the job's folder on the worker, unlinked as soon as it is open |
//! | runs of reduce 3, attempt 1 | the folder `reduce-3.1` in the job's folder on the worker |
//! | uncommitted output of job 4 | `_temporary/reduce-3.1.of-4` or `_temporary/map-7.0.of-4` in the output folder, which all nodes share |
//! | output checkpoint of a paused reduce | `_temporary/reduce-3.1.of-4.checkpoint` |
//! | output of a reduce | `part-r-00003` in the output folder |
//! | output of a map without reduces | `part-m-00007`, and `part-m-00007-000000004096` for the part of split 7 that begins at byte 4096 |
//!
//! If a map ended early, the part files of its split sort by name in input order, because the first one has the shortest name.

use crate::apps::part_name;
use crate::job::Plan;
use giveway_core::{AttemptId, JobId, Kind, TaskId};
use std::path::{Path, PathBuf};

/// Name of the folder with the files of all jobs, within a worker's folder.
pub(crate) const JOBS: &str = "jobs";

/// Name of the folder for uncommitted output, within the output folder.
pub const TEMPORARY: &str = "_temporary";

/// Folder of a job's files in a worker's folder.
pub fn job_folder(worker: &Path, job: JobId) -> PathBuf {
    worker.join(JOBS).join(job.0.to_string())
}

/// Output file of a map attempt for the reduces. `dir` is the job's folder on the worker.
pub fn map_output_path(dir: &Path, map: AttemptId) -> PathBuf {
    dir.join(format!("map-{}.{}.out", map.task.index, map.number))
}

/// Name of a map attempt's output until it is complete: the one that [`crate::data::MapSink`] chooses.
pub(super) fn unfinished_map_output_path(dir: &Path, map: AttemptId) -> PathBuf {
    dir.join(format!(".map-{}.{}.out.tmp", map.task.index, map.number))
}

/// Path of a map attempt's spilled runs without their number. Maps of one job run concurrently in one folder, so the name has the attempt.
pub(super) fn map_spill_prefix(dir: &Path, map: AttemptId) -> PathBuf {
    dir.join(format!("map-{}.{}", map.task.index, map.number))
}

/// Folder of a reduce attempt's runs and checkpoint. `dir` is the job's folder on the worker.
pub fn reduce_runs_folder(dir: &Path, reduce: AttemptId) -> PathBuf {
    dir.join(format!("reduce-{}.{}", reduce.task.index, reduce.number))
}

/// Uncommitted output file of an attempt.
pub(crate) fn temporary_path(plan: &Plan, attempt: AttemptId) -> PathBuf {
    let TaskId { job, kind, index } = attempt.task;
    // The name contains the job, because tasks of a killed job may still be running when the next job writes to the same folder.
    plan.output.join(TEMPORARY).join(format!("{kind}-{index}.{}.of-{}", attempt.number, job.0))
}

/// Output checkpoint of a paused reduce attempt, beside its uncommitted output.
pub(super) fn output_checkpoint_path(plan: &Plan, attempt: AttemptId) -> PathBuf {
    let mut path = temporary_path(plan, attempt).into_os_string();
    path.push(".checkpoint");
    path.into()
}

/// Committed output file of a reduce.
pub fn reduce_part_path(plan: &Plan, reduce: u32) -> PathBuf {
    plan.output.join(part_name(plan, reduce))
}

/// Committed output file of a map without reduces. `start_bytes` is the offset of the map's input range in its split.
pub fn map_part_path(plan: &Plan, split: u32, start_bytes: u64) -> PathBuf {
    let name = part_name(plan, split);
    plan.output.join(if start_bytes == 0 { name } else { format!("{name}-{start_bytes:012}") })
}

/// Parses the name of a map output or of a runs folder into the attempt of `job` that wrote it. Returns `None` for other names.
pub(super) fn parse_attempt(job: JobId, name: &str) -> Option<AttemptId> {
    let (kind, rest) = match name.strip_prefix("map-") {
        Some(rest) => (Kind::Map, rest.strip_suffix(".out")?),
        None => (Kind::Reduce, name.strip_prefix("reduce-")?),
    };
    let (index, number) = rest.split_once('.')?;
    Some(AttemptId::new(job, kind, index.parse().ok()?, number.parse().ok()?))
}

/// True if this is the temporary name that [`crate::data::MapSink`] gives a map output until it is complete.
pub(super) fn is_unfinished_map_output(job: JobId, name: &str) -> bool {
    let final_name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
    final_name.and_then(|name| parse_attempt(job, name)).is_some_and(|attempt| attempt.task.kind == Kind::Map)
}

/// True if this is the name of a spilled run of a map attempt.
pub(super) fn is_map_spill(job: JobId, name: &str) -> bool {
    let Some((attempt, number)) = name.rsplit_once(".run-") else { return false };
    let is_attempt = parse_attempt(job, &format!("{attempt}.out")).is_some_and(|map| map.task.kind == Kind::Map);
    is_attempt && number.parse::<u64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_to_their_attempts() {
        let dir = Path::new("/jobs/4");
        for kind in Kind::BOTH {
            let attempt = AttemptId::new(JobId(4), kind, 70_000, 12);
            let path = match kind {
                Kind::Map => map_output_path(dir, attempt),
                Kind::Reduce => reduce_runs_folder(dir, attempt),
            };
            assert_eq!(parse_attempt(JobId(4), path.file_name().unwrap().to_str().unwrap()), Some(attempt));
        }
        for name in ["map-7.0", "map-7.0.out.tmp", "reduce-7", "reduce-x.1", "reduce-1.70000", "plan"] {
            assert_eq!(parse_attempt(JobId(4), name), None, "{name}");
        }
        assert!(is_unfinished_map_output(JobId(4), ".map-7.0.out.tmp"));
        let unfinished = unfinished_map_output_path(dir, AttemptId::new(JobId(4), Kind::Map, 7, 0));
        assert!(is_unfinished_map_output(JobId(4), unfinished.file_name().unwrap().to_str().unwrap()));
        assert!(!is_unfinished_map_output(JobId(4), "map-7.0.out"));
        assert!(is_map_spill(JobId(4), "map-7.0.run-12"));
        for name in ["map-7.0.out", "map-7.0.run-", "map-7.run-1", "reduce-7.0.run-1", "run-1"] {
            assert!(!is_map_spill(JobId(4), name), "{name}");
        }
        assert!(!is_unfinished_map_output(JobId(4), ".plan.tmp"));
    }
}
