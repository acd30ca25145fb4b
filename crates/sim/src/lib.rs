//! The simulator backend: a deterministic model of a MapReduce cluster, scheduled by the same core as a real one.
//!
//! [`Simulation`] runs a [`workload::Workload`] on a [`cluster::Cluster`] under a policy, in virtual time, until every job has ended. It sends
//! events to the core (slot offers, ends of tasks, failures) and performs the core's actions (launches, pauses, kills); every scheduling
//! decision is the core's. One seed gives one run, bit for bit, and every policy gets the same jobs, input placement, noise and failures.
//!
//! The model consists of independent modules: `tasks` (durations of maps and reduces), `shuffle` (a fluid model of fetching), `layout`
//! (placement of input replicas), `faults` (node failures), `random_streams` (random numbers). `run` combines them: it owns the event queue and
//! exchanges events and actions with the core. Nothing here reads a clock or depends on a policy's name.
//!
//! ```
//! use giveway_core::policy::catalog;
//! use giveway_sim::cluster::Cluster;
//! use giveway_sim::comparison::Comparison;
//! use giveway_sim::workload::Workload;
//!
//! let cluster = Cluster::from_toml("[[nodes]]\nname = \"node\"\ncount = 4\nmap_slots = 2\nreduce_slots = 1", "cluster")?;
//! let jobs = r#"
//!     [[jobs]]
//!     name = "large"
//!     app = "sort"
//!     maps = 80
//!     reduces = 4
//!     [[jobs]]
//!     name = "small"
//!     app = "sort"
//!     maps = 2
//!     reduces = 1
//!     submit = "1m"
//! "#;
//! let workload = Workload::from_toml(jobs, "workload", &cluster, 1)?;
//! let comparison = Comparison::new(cluster, workload, 1);
//! let mean_s = |policy: &str| {
//!     let result = comparison.run(&catalog::by_name(policy).unwrap(), &mut ()).unwrap();
//!     result.summary.key_metrics.mean_completion_s.unwrap()
//! };
//! assert!(mean_s("giveway") < mean_s("fifo"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod attempts;
mod circular_bit_set;
pub mod cluster;
pub mod comparison;
mod contention;
mod event_queue;
pub mod fairness;
mod faults;
pub mod files;
#[cfg(test)]
#[path = "../tests/fixture/mod.rs"]
mod fixture;
mod heartbeat_schedule;
mod layout;
pub mod lower_bound;
pub mod metrics;
mod nodes;
mod observe;
mod offers;
mod random_streams;
pub mod rows;
mod run;
mod shuffle;
pub mod statistics;
mod tasks;
pub mod workload;

pub use observe::{Observer, RunStats};
pub use run::{AttemptWork, ResumeError, ResumePoint, Simulation};
