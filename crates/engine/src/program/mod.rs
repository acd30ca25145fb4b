//! Programs: executables that contain applications of their users' own, and that submissions ship to a cluster.
//!
//! A cluster keeps each program once, under its SHA-256 (`store.rs`, `elf.rs`). To run the code of an application, a worker or the coordinator starts
//! the program as a *task runner* (`runner.rs`), which the engine's own code in it serves (`serve.rs`), with the messages of `protocol.rs`. A worker
//! keeps idle task runners (`pool.rs`); the coordinator has them plan jobs and rounds (`planner.rs`).
//!
//! Not here: which attempt runs when and where, and what a task does. ADR 14 has the reasons.

mod elf;
mod id;
mod planner;
mod pool;
mod protocol;
mod runner;
mod serve;
mod store;

pub use id::ProgramId;
pub(crate) use planner::Planner;
pub(crate) use pool::RunnerPool;
pub(crate) use protocol::{FromRunner, ToRunner};
pub(crate) use runner::{Received, Runner, RunnerError};
pub use serve::{is_task_runner, run_if_task_runner};
pub(crate) use store::{Offer, Pin, ProgramStore, Upload};

/// Maximum size of a program.
pub const PROGRAM_BYTES_MAX: u64 = 1 << 30;

/// Size of the pieces in which a program is sent.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
