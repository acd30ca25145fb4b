//! The demo's workload: one large job, a few medium ones, and many small ones that arrive while the large one runs.

use crate::local_cluster::{InputSpec, TextInput, TimedJob, TimedWorkload};
use anyhow::Result;
use giveway_mapreduce::apps::Apps;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::path::Path;
use std::time::Duration;

/// Size groups of the jobs, smallest first.
pub const GROUPS: [&str; 3] = ["small", "medium", "large"];

/// Input lines per map task.
const LINES_PER_MAP: usize = 800;

/// Maximum records (lines) that a task reads per second.
const RECORDS_PER_S: u64 = 2_000;

/// How long a map takes at least, in seconds.
pub const MAP_S: f64 = LINES_PER_MAP as f64 / RECORDS_PER_S as f64;

/// When a worker is killed, after the start of the run.
const KILL_AT: Duration = Duration::from_millis(2_500);

/// Generates the input files in `folder` and computes the expected output of each job.
pub fn generate(folder: &Path, apps: &Apps) -> Result<TimedWorkload> {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut input = |name: &str, maps: usize| {
        TextInput::generate(folder, name, InputSpec { maps, lines_per_map: LINES_PER_MAP, numbered: true }, &mut rng)
    };
    let (large, medium, small) = (input("large", 72)?, input("medium", 8)?, input("small", 2)?);
    let mut jobs = Vec::new();
    let mut add = |submit_at_ms, group, app: &str, input: &TextInput, reduces| -> Result<()> {
        jobs.push(TimedJob::new(submit_at_ms, group, input.request(app, reduces, Some(RECORDS_PER_S)), apps)?);
        Ok(())
    };
    add(0, 2, "sort", &large, 4)?;
    for (submit_at_ms, app) in [(300, "invertedindex"), (1_000, "sequencecount"), (1_700, "sort")] {
        add(submit_at_ms, 1, app, &medium, 2)?;
    }
    for number in 0..10 {
        let app = ["wordcount", "grep", "termvector"][number % 3];
        add(600 + 350 * number as u64, 0, app, &small, 1)?;
    }
    jobs.sort_by_key(|job| job.submit_at_ms);
    Ok(TimedWorkload { groups: GROUPS.map(String::from).into(), jobs, kill_at: Some(KILL_AT) })
}

/// Number of jobs in a size group.
pub fn count(workload: &TimedWorkload, group: &str) -> usize {
    workload.jobs.iter().filter(|job| GROUPS[usize::from(job.group)] == group).count()
}
