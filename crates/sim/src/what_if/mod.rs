//! What would have happened under another policy or on another cluster: the change of every job, who gains and loses, and why.
//!
//! `changes.rs` compares the times of the same jobs in two runs, `cluster_change.rs` makes a larger, smaller or faster cluster, `capacity.rs`
//! searches the smallest cluster that meets a target.

pub mod capacity;
mod changes;
mod cluster_change;

pub use changes::{
    GroupChange, JobChange, JobTime, JobTimes, Loss, SimulationError, Statistics, by_group, changes, error_of, losses,
};
pub use cluster_change::{AmountChange, ChangeError, ClusterChange};

/// Nearest-rank percentile of ascending values: the smallest one that is not exceeded by `percent` % of them. None without values.
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}
