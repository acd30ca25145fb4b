//! Policies: short compositions of shared parts.
//!
//! A [`Policy`] is plain data, the same as its TOML. Each field names a part; each part is an enum whose variants are small pure
//! functions over the facts, one part to a file:
//!
//! | part | file | answers |
//! |---|---|---|
//! | [`GroupOrder`], [`JobOrder`] | `order.rs`, `line.rs` | which pool, then which job, comes first for a slot |
//! | [`Share`] | `share.rs` | how many slots a job is owed |
//! | [`Preemption`] | `preempt.rs` | who may demand slots now, which attempt gives way, and how |
//! | [`Placement`] | `placement.rs` | which task of the job for this node, or wait |
//! | [`Recovery`] | `failure.rs` | what lost work outranks |
//! | remaining time, remaining work | `estimate.rs` | how long a job will still take |
//! | [`Matching`] | `matching/` | which classes of jobs suit which types of node |
//!
//! Nothing here acts: parts rank, count and choose; the scheduler loop asks them and emits the actions.

pub mod catalog;
mod compose;
pub mod estimate;
pub mod failure;
pub mod line;
pub mod matching;
pub mod order;
pub mod placement;
pub mod preempt;
pub mod share;

pub use compose::*;
