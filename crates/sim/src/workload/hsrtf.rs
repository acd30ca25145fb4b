//! hSRTF's workload: Table 2, in its order of submission, one job every ten seconds (sections 4 and 5).

use super::apps::App;
use super::{JobPlan, Workload};
use crate::files::MB;
use giveway_core::{Span, Tenants, Time};

/// HDFS block size (section 4).
const BLOCK: u64 = 128 * MB;
const ARRIVAL_INTERVAL: Span = Span::from_secs(10);

/// Group, application, maps, reduces, jobs.
const TABLE_2: [(u16, &str, u32, u32, u32); 4] =
    [(2, "sort", 256, 32, 3), (1, "sort", 64, 8, 8), (0, "sort", 1, 1, 10), (0, "wordcount", 1, 1, 10)];

const GROUPS: [&str; 3] = ["small", "medium", "large"];

/// Table 2. Nothing in it is random. All jobs share one pool, as in the paper's configuration of the fair scheduler.
pub(super) fn table2() -> Workload {
    let mut jobs: Vec<JobPlan> = Vec::new();
    for (group, app, maps, reduces, count) in TABLE_2 {
        let app = App::by_name(app).expect("the application is in the table");
        for i in 1..=count {
            let mut job = app.job(format!("{}-{}-{i}", GROUPS[usize::from(group)], app.name), maps, BLOCK, reduces);
            job.submit = Time::ZERO + ARRIVAL_INTERVAL.times(jobs.len() as u64);
            job.group = group;
            jobs.push(job);
        }
    }
    Workload::numbered("hsrtf-table2", Tenants::default(), &GROUPS, jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_arrive_in_the_order_of_table_2() {
        let workload = table2();
        assert_eq!(workload.jobs.len(), 31);
        assert_eq!(workload.jobs[0].name, "large-sort-1");
        assert_eq!(workload.jobs[30].name, "small-wordcount-10");
        assert_eq!(workload.jobs[30].submit, Time::from_secs_f64(300.0));
        assert_eq!(workload.jobs.iter().map(|job| job.maps).sum::<u32>(), 3 * 256 + 8 * 64 + 20);
    }
}
