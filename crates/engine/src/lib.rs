//! Giveway's engine: real MapReduce on one machine, in several worker processes, with the core deciding.
//!
//! A coordinator owns the core and its journal; workers own slots, disks and running tasks. Tasks really pause, resume, end early and are
//! recovered; nothing here chooses a job, a task, a node or a victim.

pub mod apps;
pub mod client;
pub mod cluster;
pub mod coordinator;
pub mod data;
pub mod hdfs;
pub mod input;
pub mod job;
pub mod record;
pub mod reference;
pub mod store;
pub mod task;
pub mod wire;
pub mod worker;

/// Says something to whoever runs this process, with the time of day in front.
pub(crate) fn say(what: &str) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (day, millis) = (now.as_secs() % 86_400, now.subsec_millis());
    eprintln!("{:02}:{:02}:{:02}.{millis:03} {what}", day / 3600, day / 60 % 60, day % 60);
}
