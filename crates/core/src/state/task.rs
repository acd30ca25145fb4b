//! A task and its attempts.

use crate::action::PreemptAction;
use crate::ids::{NodeId, TaskKey};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// A task and its current attempt. It takes 32 bytes, half a cache line, because there are millions of tasks and most run once from
/// beginning to end. What is true of few tasks is in `TaskHistory`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub(super) launched: Time,
    pub(super) node: NodeId,
    pub(super) progress_ppm: u32,
    /// Position in the job's list of running tasks, while it runs.
    pub(super) running_position: u32,
    pub(super) split: u32,
    pub(super) number: u16,
    pub(super) attempts: u16,
    pub(super) state: TaskState,
    pub(super) preemptions: u8,
    pub(super) has_history: bool,
    pub(super) protected: bool,
}

/// What is known of a task that did not run once from beginning to end. The order of the fields is part of the format of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskHistory {
    /// First byte of its split, and how many bytes, if it is a part of a map that ended early.
    pub(super) start_bytes: u64,
    pub(super) bytes: Option<u64>,
    /// When its first attempt was launched.
    pub(super) first_launched: Option<Time>,
    /// Slot time of earlier attempts whose work was kept.
    pub(super) kept_service: Span,
    /// The part of `kept_service` in which it waited for its job's last map.
    pub(super) kept_wait: Span,
    /// The node its work was lost with, until it runs again.
    pub(super) lost_with: Option<NodeId>,
    /// Attempts that failed without being killed; those on excluded nodes do not count.
    pub(super) failures: u8,
    /// The nodes of its last failures, latest first.
    pub(super) failed_on: [Option<NodeId>; 3],
    /// Until when it prefers other nodes than those.
    pub(super) elsewhere_until: Time,
    /// While it is pending after a failure: when it may run again.
    pub(super) retry_at: Option<Time>,
}

impl TaskHistory {
    /// True if the task still prefers other nodes than this one, because it failed here.
    pub(super) fn prefers_elsewhere(&self, node: NodeId, now: Time) -> bool {
        now < self.elsewhere_until && self.failed_on.contains(&Some(node))
    }
}

/// The state of a task. The order of the variants is part of the format of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// Needs a slot.
    Pending,
    /// An attempt runs.
    Running,
    /// An attempt runs and was requested to stop.
    Stopping(PreemptAction),
    /// Paused; its node keeps its state.
    Paused,
    /// Finished, or no longer requested.
    Done,
}

impl TaskState {
    /// True while an attempt of the task holds a slot.
    pub fn holds_slot(self) -> bool {
        matches!(self, TaskState::Running | TaskState::Stopping(_))
    }
}

/// A second attempt of a running task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeculativeAttempt {
    pub(super) task: TaskKey,
    pub(super) number: u16,
    pub(super) node: NodeId,
    pub(super) launched: Time,
    /// It was requested to be killed, because another attempt finished or its job ended.
    pub(super) stopping: bool,
}

impl Task {
    pub(super) fn new(split: u32) -> Task {
        Task {
            launched: Time::ZERO,
            node: NodeId::default(),
            progress_ppm: 0,
            running_position: 0,
            split,
            number: 0,
            attempts: 0,
            state: TaskState::Pending,
            preemptions: 0,
            has_history: false,
            protected: false,
        }
    }

    /// Its state.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// The node where it runs, is paused, or left its output. Meaningless while it is pending.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Progress of its current attempt, in parts per million.
    pub fn progress_ppm(&self) -> u32 {
        self.progress_ppm
    }

    /// When its current attempt was launched.
    pub fn launched(&self) -> Time {
        self.launched
    }

    /// Number of its current or last attempt.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Index of its split, if it is a map.
    pub fn split(&self) -> u32 {
        self.split
    }

    /// True if its attempt must not be preempted.
    pub fn is_protected(&self) -> bool {
        self.protected
    }

    /// How often it was preempted.
    pub fn preemptions(&self) -> u8 {
        self.preemptions
    }

    /// True while it holds a slot.
    pub fn holds_slot(&self) -> bool {
        self.state.holds_slot()
    }

    /// True if its attempt was requested to stop.
    pub fn is_stopping(&self) -> bool {
        matches!(self.state, TaskState::Stopping(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tasks_fill_a_cache_line() {
        assert_eq!(size_of::<Task>(), 32);
    }
}
