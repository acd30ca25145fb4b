//! Giveway's scheduler core.
//!
//! One pure, deterministic scheduler: [`Scheduler::handle`] takes an event and returns actions. It owns no clock, thread, file, socket or
//! log; the same setup and the same events give the same actions, bit for bit. Backends (the simulator, the engine, a Hadoop YARN cluster)
//! report events and carry out actions; every choice is made here.

pub mod action;
pub mod cluster;
pub mod event;
pub mod event_log;
pub mod ids;
pub mod lifecycle;
pub mod policy;
pub mod reason;
pub mod scheduler;
pub mod setup;
pub mod snapshot;
pub mod state;
pub mod tenants;
pub mod timer;
pub mod units;

pub use action::{Action, Locality, Outcome, PreemptAction, Start, Work};
pub use cluster::Cluster;
pub use event::{Event, Hint, Hosts, JobSpec, NodeSpec, Priority, Progress, Split};
pub use ids::{AttemptId, JobId, Kind, NodeId, PerKind, RackId, TaskId, TaskKey};
pub use lifecycle::{Change, End, Lifecycle, RunningAttempt, StopRequest, refusal};
pub use policy::Policy;
pub use reason::{
    GroupReason, Measure, NodeMatch, PreemptReason, RankReason, Reason, Refusal, SlowNode, StragglerReason,
};
pub use scheduler::Scheduler;
pub use setup::{Capabilities, Setup, SetupError};
pub use snapshot::Snapshot;
pub use tenants::{Pool, Tenants, TenantsError, User};
pub use timer::{Timer, Timers};
pub use units::{Span, Time, WHOLE_PPM};
