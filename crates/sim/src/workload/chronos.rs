//! Chronos's two workloads: a job over 17 GB and one over 56 GB, of word count (section V-A) or of sort (section V-B).
//!
//! The node failure belongs to the cluster of the same name: see `cluster::catalog`.

use super::apps::App;
use super::{JobPlan, Workload};
use crate::files::{GB, MB};
use giveway_core::{Span, Tenants, Time, WHOLE_PPM};

/// HDFS block size (section IV).
const BLOCK: u64 = 256 * MB;
/// Submission of the second job. The paper submits one job after the other; five seconds fix the order and still fill the cluster at once.
const SECOND_JOB_AT: Span = Span::from_secs(5);
/// "A light reduce phase": the paper says only that reduces are few.
const WORDCOUNT_REDUCES: u32 = 4;
/// Section V-B: 32 reduces for each job.
const SORT_REDUCES: u32 = 32;

/// Two word counts. Their reduces start after the last map: the paper fails the node "before the reduce phase starts in order to have only map
/// tasks as failed tasks", and with an earlier slow start there would be reduces on it.
pub(super) fn map() -> Workload {
    let mut workload = two_jobs("chronos-map", "wordcount", WORDCOUNT_REDUCES);
    for job in &mut workload.jobs {
        job.slowstart_ppm = WHOLE_PPM;
    }
    workload
}

/// Two sorts.
pub(super) fn reduce() -> Workload {
    two_jobs("chronos-reduce", "sort", SORT_REDUCES)
}

fn two_jobs(name: &str, app: &str, reduces: u32) -> Workload {
    let app = App::by_name(app).expect("the application is in the table");
    let job = |group: u16, name: &str, input: u64, submit: Time| JobPlan {
        submit,
        group,
        ..app.job(name.into(), (input / BLOCK) as u32, BLOCK, reduces)
    };
    let jobs = vec![job(0, "first", 17 * GB, Time::ZERO), job(1, "second", 56 * GB, Time::ZERO + SECOND_JOB_AT)];
    Workload::numbered(name, Tenants::default(), &["first", "second"], jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_job_has_slightly_more_maps_than_slots() {
        for workload in [map(), reduce()] {
            assert_eq!(workload.jobs.iter().map(|job| job.maps).collect::<Vec<_>>(), [68, 224]);
        }
    }
}
