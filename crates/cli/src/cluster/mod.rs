//! Commands for engine clusters on this machine: start and stop them, submit jobs, inspect jobs and nodes.

pub mod args;
mod explain;
mod history;
mod inspect;
mod submit;
mod up;

pub use explain::explain;
pub use history::history;
pub use inspect::{job, jobs, kill, nodes, yield_job};
pub use submit::{apps, run, submit};
pub use up::{down, up, worker};
