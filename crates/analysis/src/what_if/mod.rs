//! What would have happened under another policy or on another cluster: the change of every job, who gains and loses, and why.
//!
//! `changes.rs` compares the times of the same jobs in two runs, `cluster_change.rs` makes a larger, smaller or faster cluster, `capacity.rs`
//! searches the smallest cluster that meets a target, `rerun.rs` simulates the jobs of a log under two policies.

pub mod capacity;
mod changes;
mod cluster_change;
mod rerun;

pub use changes::{
    GroupChange, JobChange, JobTime, JobTimes, Loss, SimulationError, Statistics, by_group, changes, error_of, losses,
};
pub use cluster_change::{AmountChange, ChangeError, ClusterChange};
pub use rerun::{RerunError, rerun};

/// Nearest-rank percentile of ascending values: the smallest one that is not exceeded by `percent` % of them. None without values.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod fixture {
    use giveway_sim::cluster::Cluster;
    use giveway_sim::workload::Workload;

    /// A cluster of equal nodes, with four map slots and two reduce slots each.
    pub(super) fn cluster(nodes: u32) -> Cluster {
        let file = format!("[[nodes]]\nname = \"n\"\ncount = {nodes}\nmap_slots = 4\nreduce_slots = 2");
        Cluster::from_toml(&file, "cluster").unwrap()
    }

    /// Jobs of five maps that are submitted one second after the other.
    pub(super) fn workload(jobs: u32) -> Workload {
        let job = |number| {
            format!(
                "[[jobs]]\nname = \"job {number}\"\napp = \"sort\"\nuser = \"user\"\nmaps = 5\nreduces = 0\nsubmit = \"{number}s\"\n"
            )
        };
        Workload::from_toml(&(0..jobs).map(job).collect::<String>(), "workload", &cluster(1), 1).unwrap()
    }
}
