//! What the parts of a policy have learned and cannot compute again from the state: one serializable value, part of every snapshot. Each part defines its own
//! memory, in its own file.

use super::TaskTimes;
use super::lag::Lags;
use serde::{Deserialize, Serialize};

/// The memory of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyState {
    /// What jobs have shown of task times.
    pub task_times: TaskTimes,
    /// How far groups are behind their fair shares.
    pub lags: Lags,
}
