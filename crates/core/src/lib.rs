//! Giveway's brain.
//!
//! One pure, deterministic scheduler: [`Scheduler::handle`] takes what happened and returns what to do. It owns no clock, thread,
//! file, socket or log; the same setup and the same events give the same actions, bit for bit. Bodies (a simulator, an engine, a
//! Hadoop cluster) feel and act; every choice is made here.

pub mod action;
pub mod event;
pub mod event_log;
pub mod ids;
pub mod policy;
pub mod scheduler;
pub mod setup;
pub mod state;
pub mod tenants;
pub mod timer;
pub mod units;

pub use action::{Action, Locality, Outcome, Reason, Refusal, Start, Work};
pub use event::{Event, Hint, Hosts, JobSpec, NodeSpec, Priority, Progress, Split};
pub use ids::{AttemptId, JobId, Kind, NodeId, RackId, TaskId};
pub use policy::Policy;
pub use scheduler::Scheduler;
pub use setup::{Capabilities, Setup, SetupError};
pub use tenants::{Pool, Tenants, TenantsError, User};
pub use timer::{Timer, Timers};
pub use units::{Span, Time, WHOLE_PPM};
