//! What the parts of a policy have learned, computed and drawn: one serializable value, part of every snapshot. Each part defines its own memory, in its own
//! file.

use super::TaskTimes;
use super::lag::Lags;
use super::matching::MatcherMemory;
use super::preemption::Starvation;
use super::ranking::GroupsMemory;
use super::shares::WaterLevel;
use crate::ids::{JobId, PerKind, TaskId};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The memory of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyState {
    /// What jobs have shown of task times.
    pub task_times: TaskTimes,
    /// How far groups are behind their fair shares.
    pub lags: Lags,
    /// Since when pools have been starved.
    pub starvation: PerKind<Starvation>,
    /// The water levels of the last computation of shares.
    pub water_levels: PerKind<WaterLevel>,
    /// Stragglers that have no speculative attempt yet.
    pub stragglers: PerKind<VecDeque<TaskId>>,
    /// The rest is filled in by a snapshot. The groups of each routing stage.
    pub groups: PerKind<Vec<GroupsMemory>>,
    /// What was learned for matching jobs to nodes, by the numbers of users.
    pub matcher: Option<MatcherMemory>,
    /// All users, by number.
    pub users: Vec<String>,
    /// Where the sequence of random numbers is.
    pub rng: Option<Pcg64Mcg>,
}

impl PolicyState {
    /// Gives each job that is remembered by its id another one.
    pub(crate) fn renumber(&mut self, number: &mut impl FnMut(&mut JobId)) {
        self.stragglers.iter_mut().flatten().for_each(|task| number(&mut task.job));
        if let Some(matcher) = &mut self.matcher {
            matcher.renumber(number);
        }
    }
}
