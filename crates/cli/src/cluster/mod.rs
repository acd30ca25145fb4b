//! Commands for engine clusters on this machine: start and stop them, submit jobs, inspect jobs and nodes.

pub mod args;
mod inspect;
mod submit;
mod up;

pub use inspect::{explain, job, jobs, kill, nodes, yield_job};
pub use submit::{apps, run, submit};
pub use up::{down, up, worker};
