//! The demo's jobs: one large, a few medium, many small ones that arrive while the large one runs.

use crate::stage::{Input, Job, Lines, Play};
use anyhow::Result;
use giveway_engine::apps::Apps;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::path::Path;
use std::time::Duration;

/// Groups of jobs by size, smallest first.
pub const GROUPS: [&str; 3] = ["small", "medium", "large"];

/// Lines for one map.
const LINES_A_MAP: usize = 800;

/// Lines a task takes in a second.
const RECORDS_PER_S: u64 = 2_000;

/// When a worker is killed.
const KILL_AT: Duration = Duration::from_millis(2_500);

/// Makes input files and works out what each job must give.
pub fn make(folder: &Path, known: &Apps) -> Result<Play> {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut input = |name: &str, maps: usize| {
        Input::make(folder, name, Lines { maps, lines_a_map: LINES_A_MAP, numbered: true }, &mut random)
    };
    let (large, medium, small) = (input("large", 72)?, input("medium", 8)?, input("small", 2)?);
    let mut jobs = Vec::new();
    let mut add = |at_ms, group, app: &str, input: &Input, reduces| -> Result<()> {
        jobs.push(Job::new(at_ms, group, input.request(app, reduces, RECORDS_PER_S), known)?);
        Ok(())
    };
    add(0, 2, "sort", &large, 4)?;
    for (at_ms, app) in [(300, "invertedindex"), (1_000, "sequencecount"), (1_700, "sort")] {
        add(at_ms, 1, app, &medium, 2)?;
    }
    for number in 0..10 {
        let app = ["wordcount", "grep", "termvector"][number % 3];
        add(600 + 350 * number as u64, 0, app, &small, 1)?;
    }
    jobs.sort_by_key(|job| job.at_ms);
    Ok(Play { groups: GROUPS.map(String::from).into(), jobs, kill_at: Some(KILL_AT), stored: false })
}

/// How many jobs are of a size.
pub fn count(play: &Play, group: &str) -> usize {
    play.jobs.iter().filter(|job| GROUPS[usize::from(job.group)] == group).count()
}
