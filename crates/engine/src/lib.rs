//! Giveway's engine: MapReduce on one machine in several worker processes, scheduled by the core.
//!
//! A coordinator owns the core and its journal; workers own slots, disks and running tasks. Tasks are paused, resumed, ended early and
//! recovered for real. Nothing in this crate chooses a job, a task, a node or a victim: the core does.
//!
//! Log messages are `tracing` events. The program must install a subscriber before it starts a cluster or a worker; without one they are
//! discarded.

mod access;
pub mod apps;
pub mod attempt_logs;
mod byte_masks;
pub mod client;
pub mod cluster;
mod cluster_id;
pub mod coordinator;
pub mod data;
pub mod fuzz;
pub mod hdfs;
pub mod input;
pub mod job;
mod path_bytes;
pub mod planted;
pub mod program;
pub mod record;
pub mod reference;
pub mod simulation;
pub mod task;
pub mod wire;
pub mod worker;

pub use access::{Access, current_user};
