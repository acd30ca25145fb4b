//! Parts of policies of one's own, under the names that policies give them.

mod highest_response_ratio;
mod small_jobs_rack;

use giveway_core::policy::custom::{RegisterError, register};
use giveway_core::policy::orders::CustomOrder;
use giveway_core::policy::placement::CustomNodeFilter;
use highest_response_ratio::HighestResponseRatio;
use small_jobs_rack::SmallJobsRack;

/// Makes the parts known, once for each kind.
pub fn register_parts() -> Result<(), RegisterError> {
    register([CustomOrder::new("highest-response-ratio", "1", HighestResponseRatio)])?;
    register([CustomNodeFilter::new("small-jobs-rack", "1", SmallJobsRack)])
}

#[cfg(test)]
mod tests {
    use giveway_core::Policy;
    use giveway_core::policy::catalog;
    use giveway_core::policy::orders::JobOrder;
    use giveway_sim::cluster::Cluster;
    use giveway_sim::comparison::Comparison;
    use giveway_sim::metrics::JobMetrics;
    use giveway_sim::rows::{RunRows, Table, Values};
    use giveway_sim::workload::Workload;

    const CLUSTER: &str = r#"
        [[nodes]]
        name = "first"
        rack = 0
        map_slots = 2
        reduce_slots = 1

        [[nodes]]
        name = "second"
        rack = 1
        map_slots = 2
        reduce_slots = 1
    "#;

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

    fn run(policy: &Policy) -> (Vec<JobMetrics>, Table) {
        let cluster = Cluster::from_toml(CLUSTER, "cluster").unwrap();
        let workload = Workload::from_toml(JOBS, "workload", &cluster, 1).unwrap();
        let mut rows = RunRows::new(&policy.name, 1, true, false);
        let result = Comparison::new(cluster, workload, 1).run(policy, &mut rows).unwrap();
        assert_eq!(result.stats.jobs_unfinished, 0);
        (result.jobs, rows.into_rows().0.unwrap().into())
    }

    /// One test, because a program registers once.
    #[test]
    fn policies_have_parts_of_ones_own() {
        super::register_parts().unwrap();
        let large_s = |policy: &Policy| run(policy).0.iter().map(|job| job.completion_s).fold(0.0, f64::max);
        let mine: Policy = toml::from_str(include_str!("../policy.toml")).unwrap();
        let mut shortest_first = catalog::by_name("fifo").unwrap();
        (shortest_first.map.order, shortest_first.reduce.order) = (JobOrder::RemainingTime, JobOrder::RemainingTime);
        assert!(large_s(&mine) < large_s(&shortest_first), "the large job does not wait for all small ones");

        // No map of the large job, which is the first, runs in the first rack; without the filter some do.
        let large_maps_on_first = |policy: &Policy| {
            let attempts = run(policy).1;
            let Some(Values::Integer(jobs)) = attempts.column("job") else { panic!("no jobs") };
            let Some(Values::Text(nodes)) = attempts.column("node") else { panic!("no nodes") };
            jobs.iter().zip(nodes).filter(|&(&job, node)| job == 0 && **node == *"first").count()
        };
        let text = include_str!("../policy.toml");
        let filtered: Policy =
            toml::from_str(&text.replace("[map]", "[map]\nplacement.node_filter = \"small-jobs-rack\"")).unwrap();
        assert_eq!(large_maps_on_first(&filtered), 0);
        assert!(large_maps_on_first(&mine) > 10);

        // Victims may be chosen by an order too, and what is written is read again.
        let mut victims = catalog::by_name("giveway").unwrap();
        victims.name = "victims".into();
        let text = toml::to_string(&victims).unwrap();
        let text = text.replace("victims = \"lowest-rank\"", "victims = { custom = \"highest-response-ratio\" }");
        let policy: Policy = toml::from_str(&text).unwrap();
        assert_ne!(policy, victims);
        assert_eq!(toml::from_str::<Policy>(&toml::to_string(&policy).unwrap()).unwrap(), policy);
        run(&policy);
    }
}
