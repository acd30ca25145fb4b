//! A snapshot: a cluster at one instant, as plain data.
//!
//! It has the state of the cluster, and what the policy has learned and computed ([`PolicyState`]). A scheduler that continues from it decides exactly as the
//! one that it was taken of.
//!
//! [`Cluster::snapshot`](crate::Cluster::snapshot) takes one, and [`Event::Restored`](crate::Event::Restored) continues from one. Snapshots are
//! stored in journals and event logs: the order of all fields is part of those formats.

use crate::ids::{PerKind, TaskId};
use crate::policy::PolicyState;
use crate::state::{JobKey, State};
use crate::timer::Timers;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// A cluster at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Nodes, live jobs and their tasks.
    pub state: State,
    /// What the policy has learned and computed.
    pub policy: PolicyState,
    /// The jobs that wait for a node with their input, or that ran maps of them, and until when other nodes do not ask them.
    pub delayed_until: PerKind<Vec<(JobKey, Time)>>,
    /// Work of the jobs that ranked before each job when that was last computed, in seconds.
    pub work_ahead_s: PerKind<Vec<(JobKey, f64)>>,
    /// The timers that are set. None if estimates and all that follows from them are to be computed anew.
    pub timers: Option<TimersSnapshot>,
}

/// The timers that are set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimersSnapshot {
    /// When each expires.
    pub expiries: Timers,
    /// When the retry timer has to fire, and the tasks that may run again then.
    pub retries: Vec<(Time, Option<TaskId>)>,
}

impl Snapshot {
    /// The facts and what was learned, without what the policy computed and reserved: for a scheduler of another setup, which computes that anew.
    pub fn for_other_setup(mut self) -> Snapshot {
        self.state.forget_decisions();
        self.policy.groups = PerKind::default();
        Snapshot { state: self.state, policy: self.policy, ..Snapshot::default() }
    }
}
