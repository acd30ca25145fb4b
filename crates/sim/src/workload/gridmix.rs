//! GridMix2, which FCS uses as a stress test with 60 to 300 jobs (sections 5.2 and 5.5).
//!
//! The benchmark has six kinds of job in three sizes. Each kind reads a data set of 500 GB: a large job reads all hundred parts of it, a medium one
//! thirty, a small one three (its README and the input patterns in its runner); the numbers of reduces are its runner's defaults, 370, 170 and 15,
//! except one for a scan. The mix is defined in a configuration file that FCS does not print, so it is chosen here: three jobs in four are small and
//! one in twenty is large, a heavy tail like that of FCS's tables; kinds are weighted after the benchmark's motivation (sampling is common, sorting
//! compressed data less so). The three stages of a monster query are one job here, with the sizes of the first stage: the other two read 1/25 of it.

use super::apps::App;
use super::random::{apportion, poisson, rng};
use super::{JobPlan, Workload};
use crate::files::{GB, MB};
use giveway_core::Tenants;
use rand::seq::SliceRandom;

const BLOCK: u64 = 128 * MB;
/// Mean time between arrivals, in seconds (section 5.2.1).
const MEAN_GAP_S: f64 = 30.0;
/// Size of one data set of a hundred parts.
const DATA_SET: u64 = 500 * GB;

/// Size, parts read, reduces, weight.
const SIZES: [(&str, u64, u32, f64); 3] = [("small", 3, 15, 75.0), ("medium", 30, 170, 20.0), ("large", 100, 370, 5.0)];

/// Kind and weight.
const KINDS: [(&str, f64); 6] = [
    ("streamsort", 3.0),
    ("javasort", 3.0),
    ("combiner", 4.0),
    ("monsterquery", 3.0),
    ("webdatascan", 5.0),
    ("webdatasort", 2.0),
];

/// Largest N in `gridmix-N`.
pub(super) const MAX_JOBS: u32 = 10_000;

/// `count` jobs of the mix, in random order at random times.
pub(super) fn gridmix(count: u32, seed: u64) -> Workload {
    let mut jobs: Vec<JobPlan> = Vec::new();
    let counts = apportion(count, &SIZES.map(|size| size.3));
    for (group, (&(size, parts, reduces, _), count)) in SIZES.iter().zip(counts).enumerate() {
        let counts = apportion(count, &KINDS.map(|kind| kind.1));
        for (&(kind, _), count) in KINDS.iter().zip(&counts) {
            let app = App::by_name(kind).expect("the application is in the table");
            let maps = (DATA_SET * parts / 100).div_ceil(BLOCK) as u32;
            let reduces = if kind == "webdatascan" { 1 } else { reduces };
            for i in 1..=*count {
                jobs.push(JobPlan {
                    group: group as u16,
                    ..app.job(format!("{size}-{kind}-{i}"), maps, BLOCK, reduces)
                });
            }
        }
    }
    jobs.shuffle(&mut rng(seed, "gridmix order"));
    for (job, at) in jobs.iter_mut().zip(poisson(MEAN_GAP_S, &mut rng(seed, "gridmix arrivals"))) {
        job.submit = at;
    }
    Workload::numbered(&format!("gridmix-{count}"), Tenants::default(), &SIZES.map(|size| size.0), jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_proportions_of_the_mix() {
        let workload = gridmix(300, 1);
        let count = |group| workload.jobs.iter().filter(|job| job.group == group).count();
        assert_eq!((count(0), count(1), count(2)), (225, 60, 15));
        let maps = |group| workload.jobs.iter().find(|job| job.group == group).unwrap().maps;
        assert_eq!((maps(0), maps(1), maps(2)), (120, 1_200, 4_000));
    }

    #[test]
    fn the_number_of_jobs_is_exact() {
        for count in [1, 2, 60, 131, MAX_JOBS] {
            assert_eq!(gridmix(count, 3).jobs.len(), count as usize);
        }
    }
}
