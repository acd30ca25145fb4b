//! Policies: short compositions of parts.
//!
//! A [`Policy`] is plain data, the same as its TOML. Each of its fields selects a part. A part lives in a file of its own, with what it
//! computes, the reason it gives, what it needs and its tests. It is a pure function over a read-only [`View`]: it ranks, counts and chooses;
//! the scheduler asks it and emits the actions.
//!
//! | part | module | answers |
//! |---|---|---|
//! | [`JobOrder`] | `orders/` | the rank of a job for a slot, and why |
//! | [`GroupOrder`] | `groups/` | the rank of a pool, queue or user, and whether it may grow |
//! | [`MaxLag`] | `lag.rs` | which jobs are behind their fair share of slot time and rank first |
//! | [`Share`] | `shares/` | how many slots a job is entitled to |
//! | [`Preemption`] | `preemption/` | who may take slots now, from which attempt, and what protects it |
//! | [`Placement`] | `placement/` | which task of the job for this node, or to wait for a better offer |
//! | [`Recovery`] | `recovery.rs` | where lost work runs again |
//! | [`Failures`] | `failures.rs` | where and when a failed task is tried again, and which nodes are excluded |
//! | [`Matching`] | `matching/` | which classes of jobs suit which types of node |
//! | [`Speculation`] | `speculation.rs` | which running tasks are stragglers |
//! | remaining time, remaining work | `estimates.rs` | how long a job will still take |
//! | task times of new jobs | `task_times.rs` | what a task will take, from earlier jobs of its application |
//! | remaining area | `area.rs` | how much work a job has left, in time of the whole cluster |
//!
//! `ranking/` is the index that keeps jobs sorted by their ranks. `catalog.rs` has the policies that Giveway ships with.
//!
//! A part declares what it [`Needs`]; the scheduler keeps exactly that up to date. Outside its own file nothing tests for a part by name.

pub mod area;
pub mod catalog;
mod composition;
pub mod custom;
pub mod estimates;
pub mod failures;
pub mod groups;
pub mod lag;
pub mod matching;
mod memory;
mod node_classes;
pub mod orders;
pub mod placement;
pub mod preemption;
pub mod ranking;
pub mod recovery;
pub mod shares;
pub mod speculation;
pub mod task_times;
#[cfg(test)]
mod test_state;

pub use crate::action::PreemptAction;
pub use composition::{Policy, PolicyError, Prior, SlotPolicy};
pub use failures::Failures;
pub use groups::GroupOrder;
pub use lag::MaxLag;
pub use matching::{Fallback, Matching};
pub use memory::PolicyState;
pub use orders::JobOrder;
pub use placement::{Migration, Placement};
pub use preemption::{AttemptOrder, Guards, Preemption, Trigger, VictimOrder};
pub use recovery::Recovery;
pub use shares::Share;
pub use speculation::Speculation;
pub use task_times::TaskTimes;

use crate::state::State;
use crate::units::Time;
use std::ops::BitOr;

/// What every part may read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The time of the event that is being handled.
    pub now: Time,
    /// The cluster's state.
    pub state: &'a State,
}

/// What a part reads beyond the counts that are always kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The progress of every running attempt.
    pub attempt_progress: bool,
    /// `Estimate::remaining_time` and `Estimate::task_time`.
    pub remaining_time: bool,
    /// `Estimate::remaining_shuffle` and `Estimate::remaining_reduce_bytes`.
    pub remaining_work: bool,
    /// `Estimate::attained_service`.
    pub attained_service: bool,
    /// `Estimate::remaining_area` and `Estimate::task_work_s`.
    pub remaining_area: bool,
    /// `TaskCounts::finished_work_s` and what belongs to it.
    pub finished_work: bool,
    /// `TaskCounts::fair_share` in a rank: jobs are ranked again whenever shares are computed.
    pub fair_share: bool,
    /// The number of running maps in a rank for reduce slots: jobs are ranked for both kinds whenever it changes.
    pub running_maps: bool,
}

impl Needs {
    /// Nothing beyond the counts.
    pub const NOTHING: Needs = Needs {
        attempt_progress: false,
        remaining_time: false,
        remaining_work: false,
        attained_service: false,
        remaining_area: false,
        finished_work: false,
        fair_share: false,
        running_maps: false,
    };

    /// True if something must be computed periodically. Work is counted whenever a task finishes.
    pub fn anything(self) -> bool {
        Needs { finished_work: false, ..self } != Needs::NOTHING
    }

    /// True if backends must report progress of running attempts.
    pub fn progress(self) -> bool {
        self.attempt_progress || self.remaining_time
    }
}

impl BitOr for Needs {
    type Output = Needs;

    fn bitor(self, other: Needs) -> Needs {
        Needs {
            attempt_progress: self.attempt_progress | other.attempt_progress,
            remaining_time: self.remaining_time | other.remaining_time,
            remaining_work: self.remaining_work | other.remaining_work,
            attained_service: self.attained_service | other.attained_service,
            remaining_area: self.remaining_area | other.remaining_area,
            finished_work: self.finished_work | other.finished_work,
            fair_share: self.fair_share | other.fair_share,
            running_maps: self.running_maps | other.running_maps,
        }
    }
}
