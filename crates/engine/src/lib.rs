//! Giveway's engine: real MapReduce on one machine, in several worker processes, with the core deciding.
//!
//! A coordinator owns the core and its journal; workers own slots, disks and running tasks. Tasks really pause, resume, end early and are
//! recovered; nothing here chooses a job, a task, a node or a victim.

pub mod apps;
pub mod data;
pub mod input;
pub mod job;
pub mod record;
pub mod reference;
pub mod task;
pub mod wire;
