//! FCS's two workloads: Tables 1 and 3, 171 jobs each in ten groups of increasing size, arriving as a Poisson process with a mean interval of thirty
//! seconds (sections 5.3 and 5.4).

use super::apps::App;
use super::random::{poisson, rng};
use super::{JobPlan, Workload};
use crate::files::MB;
use giveway_core::{Tenants, Time};
use rand::seq::SliceRandom;

/// HDFS block size (section 5.1).
const BLOCK: u64 = 128 * MB;
/// Mean time between arrivals, in seconds.
const MEAN_GAP_S: f64 = 30.0;

/// A row: application, maps, reduces, jobs. The group is the row's number.
type Row = (&'static str, u32, u32, u32);

const TABLE_1: [Row; 10] = [
    ("wordcount", 10, 1, 50),
    ("termvector", 20, 2, 40),
    ("invertedindex", 50, 4, 30),
    ("termvector", 100, 8, 20),
    ("kmeans", 500, 10, 10),
    ("termvector", 1_000, 20, 8),
    ("kmeans", 5_000, 20, 6),
    ("invertedindex", 10_000, 60, 4),
    ("termvector", 15_000, 120, 2),
    ("invertedindex", 20_000, 180, 1),
];

const TABLE_3: [Row; 10] = [
    ("terasort", 10, 2, 50),
    ("selfjoin", 20, 4, 40),
    ("sequencecount", 50, 8, 30),
    ("terasort", 100, 16, 20),
    ("selfjoin", 500, 32, 10),
    ("rankedinvertedindex", 1_000, 64, 8),
    ("terasort", 5_000, 128, 6),
    ("sequencecount", 10_000, 256, 4),
    ("terasort", 15_000, 512, 2),
    ("sequencecount", 20_000, 1_024, 1),
];

const GROUPS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];

pub(super) fn map_heavy(seed: u64) -> Workload {
    poisson_arrivals("fcs-map-heavy", &TABLE_1, seed)
}

pub(super) fn reduce_heavy(seed: u64) -> Workload {
    poisson_arrivals("fcs-reduce-heavy", &TABLE_3, seed)
}

/// The jobs of a table in random order at random times. All in one pool: the capacity scheduler then has one queue, "within which it adopts FIFO",
/// and the fair scheduler shares among the jobs.
fn poisson_arrivals(name: &str, table: &[Row], seed: u64) -> Workload {
    let mut jobs: Vec<JobPlan> = Vec::new();
    for (group, &(app, maps, reduces, count)) in table.iter().enumerate() {
        let app = App::by_name(app).expect("the application is in the table");
        for i in 1..=count {
            let mut job = app.job(format!("{}-{}-{i}", GROUPS[group], app.name), maps, BLOCK, reduces);
            job.group = group as u16;
            jobs.push(job);
        }
    }
    // The purposes do not contain the table, so both workloads have the same arrival times and the same order of groups.
    jobs.shuffle(&mut rng(seed, "fcs order"));
    for (job, at) in jobs.iter_mut().zip(poisson(MEAN_GAP_S, &mut rng(seed, "fcs arrivals"))) {
        job.submit = at;
    }
    Workload::numbered(name, Tenants::default(), &GROUPS, jobs)
}

/// Section 2.2: eight jobs, one per minute; the third is large and has as many reduces as there are reduce slots. The paper gives neither
/// applications nor sizes; these are sorts, and the third is still running when the last one arrives, as in the paper.
pub(super) fn figure_3() -> Workload {
    let app = App::by_name("terasort").expect("the application is in the table");
    let job = |number: u32| {
        let (maps, reduces) = if number == 3 { (1_400, 20) } else { (20, 4) };
        let mut job = app.job(format!("job {number}"), maps, BLOCK, reduces);
        job.submit = Time::from_secs_f64(60.0 * f64::from(number - 1));
        job.group = u16::from(number == 3);
        job
    };
    Workload::numbered("fcs-figure3", Tenants::default(), &["small", "large"], (1..=8).map(job).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_have_171_jobs_and_equally_many_maps() {
        for workload in [map_heavy(1), reduce_heavy(1)] {
            assert_eq!(workload.jobs.len(), 171);
            assert_eq!(workload.jobs.iter().map(|job| job.maps).sum::<u32>(), 137_800);
        }
    }

    #[test]
    fn the_seed_determines_order_and_arrivals() {
        assert_eq!(map_heavy(5), map_heavy(5));
        let order = |workload: Workload| workload.jobs.into_iter().map(|job| job.group).collect::<Vec<_>>();
        assert_ne!(order(map_heavy(5)), order(map_heavy(6)));
        assert_eq!(order(map_heavy(5)), order(reduce_heavy(5)));
    }

    #[test]
    fn arrivals_take_about_an_hour_and_a_half() {
        let ends: Vec<f64> = (0..20).map(|seed| map_heavy(seed).jobs[170].submit.as_secs_f64()).collect();
        let mean = ends.iter().sum::<f64>() / 20.0;
        assert!((mean - 171.0 * MEAN_GAP_S).abs() < 400.0, "{mean}");
    }
}
