//! Real clusters on this machine: starting them, giving them jobs, and asking how they are.

pub mod args;
mod look;
mod submit;
mod up;

pub use look::{explain, give_way, job, jobs, kill, nodes};
pub use submit::{apps, run, submit};
pub use up::{down, up, worker};
