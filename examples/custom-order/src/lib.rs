//! An order of one's own: highest response ratio next.

use giveway_core::policy::orders::{CustomOrder, JobValue};
use giveway_core::policy::{Needs, View};
use giveway_core::state::Job;
use giveway_core::{Kind, Span};

/// Highest response ratio next (Brinch Hansen, 1971): short jobs first, but the longer a job waits, the sooner it is its turn.
struct HighestResponseRatio;

impl JobValue for HighestResponseRatio {
    fn value(&self, view: View<'_>, job: &Job, _: Kind, _: i32) -> f64 {
        let age = view.now.since(job.submitted());
        let left = job.estimate().remaining_time.max(Span::from_millis(1));
        // The lowest value comes first.
        -(age + left).as_secs_f64() / left.as_secs_f64()
    }

    fn needs(&self) -> Needs {
        Needs { remaining_time: true, ..Needs::NOTHING }
    }
}

/// The order as policies name it: `order = "highest-response-ratio"`.
pub fn highest_response_ratio() -> CustomOrder {
    CustomOrder::new("highest-response-ratio", "1", HighestResponseRatio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::Policy;
    use giveway_core::policy::{catalog, orders};
    use giveway_sim::cluster::Cluster;
    use giveway_sim::comparison::Comparison;
    use giveway_sim::workload::Workload;

    const CLUSTER: &str = "[[nodes]]\nname = \"node\"\ncount = 2\nmap_slots = 2\nreduce_slots = 1";

    /// One large job, and a small one every ten seconds.
    const JOBS: &str = r#"
        [[jobs]]
        name = "large"
        app = "sort"
        maps = 40

        [[jobs]]
        name = "small"
        app = "sort"
        maps = 4
        count = 60
        every = "10s"
    "#;

    #[test]
    fn a_large_job_ends_before_the_small_ones_do_unlike_under_shortest_remaining_time_first() {
        orders::register([highest_response_ratio()]).unwrap();
        let mine: Policy = toml::from_str(include_str!("../policy.toml")).unwrap();
        let mut shortest_first = catalog::by_name("fifo").unwrap();
        (shortest_first.map.order, shortest_first.reduce.order) =
            (orders::JobOrder::RemainingTime, orders::JobOrder::RemainingTime);

        let cluster = Cluster::from_toml(CLUSTER, "cluster").unwrap();
        let workload = Workload::from_toml(JOBS, "workload", &cluster, 1).unwrap();
        let comparison = Comparison::new(cluster, workload, 1);
        let large_s = |policy: &Policy| {
            let jobs = comparison.run(policy, &mut ()).unwrap().jobs;
            jobs.iter().map(|job| job.completion_s).fold(0.0, f64::max)
        };
        assert!(large_s(&mine) < large_s(&shortest_first));
    }
}
