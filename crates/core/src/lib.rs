//! Giveway's scheduler core.
//!
//! One pure, deterministic scheduler: [`Scheduler::handle`] takes an event and returns actions. It owns no clock, thread, file, socket or
//! log; the same setup and the same events give the same actions, bit for bit. Backends (the simulator, the engine, a Hadoop YARN cluster)
//! report events and carry out actions; every choice is made here.
//!
//! ```
//! use giveway_core::policy::catalog;
//! use giveway_core::*;
//!
//! let mut scheduler = Scheduler::new(Setup::new(catalog::by_name("giveway").unwrap()))?;
//! let mut actions = Vec::new();
//! let node = NodeSpec {
//!     name: "node-1".into(),
//!     rack: RackId(0),
//!     map_slots: 2,
//!     reduce_slots: 1,
//!     speed_ppm: WHOLE_PPM,
//!     disk_bytes_per_s: 100 << 20,
//!     disk_bytes: 1 << 40,
//! };
//! scheduler.handle(Time::ZERO, &Event::NodeJoined { node: NodeId(0), spec: node }, &mut actions);
//! let job = JobSpec {
//!     id: JobId(1),
//!     name: "word count".into(),
//!     external_id: None,
//!     user: "ann".into(),
//!     pool: "ann".into(),
//!     priority: Priority::Normal,
//!     splits: vec![Split { bytes: 64 << 20, ..Split::default() }; 3].into(),
//!     reduces: 1,
//!     slowstart_ppm: 50_000,
//!     hint: None,
//!     estimate_bias_ppm: WHOLE_PPM,
//! };
//! scheduler.handle(Time::ZERO, &Event::JobSubmitted(Box::new(job)), &mut actions);
//! actions.clear();
//!
//! // The node offers its free slots: two of the three maps are launched there, each with the reason why.
//! scheduler.handle(Time(1), &Event::SlotsOffered { node: NodeId(0), progress: vec![] }, &mut actions);
//! let launches = actions.iter().filter(|action| matches!(action, Action::Launch { .. }));
//! assert_eq!(launches.count(), 2);
//! # Ok::<(), SetupError>(())
//! ```
//!
//! Where to read on: [`Event`] and [`Action`] are what a backend exchanges with the scheduler; [`policy`] has the parts that policies are made of;
//! [`Cluster`] is what the scheduler knows; [`event_log`] stores a run, so that it can be replayed.

#![warn(missing_docs)]

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
pub use units::{Span, Time, WHOLE_PPM, plural};
