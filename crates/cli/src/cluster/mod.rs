//! Commands for engine clusters on this machine: start and stop them, submit jobs, inspect jobs and nodes.

pub mod args;
mod explain;
mod history;
mod inspect;
mod logs;
mod submit;
mod token;
mod top;
mod up;

pub use explain::explain;
pub use history::history;
pub use inspect::{job, jobs, kill, nodes, yield_job};
pub use logs::logs;
pub use submit::{apps, run, submit};
pub use token::{Token, token};
pub use top::top;
pub use up::{down, reload, up, worker};
