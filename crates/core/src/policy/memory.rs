//! What the parts of a policy have learned and cannot compute again from the state: one serializable value, part of every snapshot. Each part defines its own
//! memory, in its own file.

use super::TaskTimes;
use super::lag::Lags;
use super::matching::MatcherMemory;
use super::preemption::Starvation;
use crate::ids::PerKind;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// The memory of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyState {
    /// What jobs have shown of task times.
    pub task_times: TaskTimes,
    /// How far groups are behind their fair shares.
    pub lags: Lags,
    /// Since when pools have been starved.
    pub starvation: PerKind<StarvedGroups>,
    /// What was learned for matching jobs to nodes, by the numbers of users.
    pub matcher: Option<MatcherMemory>,
    /// All users, by number.
    pub users: Vec<String>,
    /// Where the sequence of random numbers is.
    pub rng: Option<Pcg64Mcg>,
}

/// Since when groups have been starved, and the names of these groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StarvedGroups {
    /// By number.
    pub names: Vec<String>,
    /// By number.
    pub since: Starvation,
}
