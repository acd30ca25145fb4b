//! Giveway's engine: MapReduce on one machine in several worker processes, scheduled by the core.
//!
//! A coordinator owns the core and its journal; workers own slots, disks and running tasks. Tasks are paused, resumed, ended early and
//! recovered for real. Nothing in this crate chooses a job, a task, a node or a victim: the core does.
//!
//! Log messages are `tracing` events. The program must install a subscriber before it starts a cluster or a worker; without one they are
//! discarded.

mod access;
mod address;
pub mod attempt_logs;
pub mod client;
pub mod cluster;
mod cluster_id;
pub mod coordinator;
pub mod fuzz;
pub mod planted;
pub mod program;
#[cfg(any(test, feature = "simulation"))]
#[path = "../tests/simulation/mod.rs"]
pub mod simulation;
pub mod task;
pub mod wire;
pub mod worker;

// What jobs compute, and with which records and files. In this crate, `crate::job` is `giveway_mapreduce::job`.
use giveway_mapreduce::{apps, data, hdfs, input, job, path_bytes, record, task_log, watchdog};

pub use access::{Access, current_user, is_root};
