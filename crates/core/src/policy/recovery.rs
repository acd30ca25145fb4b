//! Recovery: where work that was lost with a node runs again (Chronos, section III-B).

use super::preemption::{Guards, Victim, is_preemptable};
use super::ranking::Comparison;
use super::{Needs, PreemptAction};
use crate::ids::{Kind, NodeId, TaskKey};
use crate::state::JobKey;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// How work lost with a node is run again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// It is pending like other work.
    #[default]
    Requeue,
    /// It runs again at once, near its input, in the place of attempts of jobs that rank lower (Chronos).
    Chronos,
}

/// A task whose work was lost.
#[derive(Clone, Copy, Debug)]
pub struct LostTask {
    /// Its job.
    pub job: JobKey,
    /// The task, which is pending now.
    pub task: TaskKey,
}

/// A slot for a lost task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoverySlot {
    /// A free slot of a node.
    Free(NodeId),
    /// The slot of an attempt that is preempted.
    Preempt(Victim),
}

impl Recovery {
    pub(super) fn needs(self) -> Needs {
        Needs { attempt_progress: self.is_immediate(), ..Needs::NOTHING }
    }

    /// True if lost tasks get a slot at once.
    pub fn is_immediate(self) -> bool {
        self == Recovery::Chronos
    }

    pub(super) fn binds_tasks(self) -> bool {
        self.is_immediate()
    }

    /// How an attempt is preempted for a lost task: its work is kept.
    pub fn preempt_action(kind: Kind) -> PreemptAction {
        match kind {
            Kind::Map => PreemptAction::EndEarly,
            Kind::Reduce => PreemptAction::Pause,
        }
    }

    pub(super) fn preempts_by(self, action: PreemptAction) -> bool {
        self.is_immediate() && Kind::BOTH.into_iter().any(|kind| Recovery::preempt_action(kind) == action)
    }
}

/// Sorts lost tasks: those of the job that ranks first come first.
pub fn sort_lost(lost: &mut [LostTask], jobs: Comparison<'_>) {
    lost.sort_by_cached_key(|lost| (jobs.standing(lost.job, lost.task.kind), lost.task));
}

/// A slot for a lost task: a free one, or that of the lowest-ranking attempt, on the nodes that hold its input or, if there are none, on any
/// node. None if the task's job does not rank before that attempt's job.
pub fn find_slot(lost: LostTask, jobs: Comparison<'_>) -> Option<RecoverySlot> {
    let (state, kind) = (jobs.view.state, lost.task.kind);
    let job = state.job(lost.job);
    // A reduce before the slow start waits for maps, not for a slot.
    if !job.may_start(kind) {
        return None;
    }
    let near: Vec<NodeId> = match kind {
        Kind::Map => {
            let hosts = &job.splits()[job.task(lost.task).split() as usize].hosts;
            hosts.iter().copied().filter(|&host| state.nodes().up(host).is_some()).collect()
        }
        Kind::Reduce => Vec::new(),
    };
    let nodes: Vec<NodeId> = if near.is_empty() { state.nodes().ids_up().collect() } else { near };
    let has_unreserved = |&&node: &&NodeId| {
        let node = state.node(node);
        usize::from(node.free(kind)) > node.reservations(kind).len()
    };
    if let Some(&node) = nodes.iter().find(has_unreserved) {
        return Some(RecoverySlot::Free(node));
    }
    let victim = lowest_ranking(&nodes, kind, lost.job, jobs)?;
    jobs.may_take(lost.job, victim.job, kind).then_some(RecoverySlot::Preempt(victim))
}

/// The preemptable attempt on these nodes whose job ranks last, and of its attempts the one with the least progress.
fn lowest_ranking(nodes: &[NodeId], kind: Kind, beneficiary: JobKey, jobs: Comparison<'_>) -> Option<Victim> {
    let (state, now) = (jobs.view.state, jobs.view.now);
    let mut lowest = None;
    for &node in nodes {
        let Some(up) = state.nodes().up(node) else { continue };
        for attempt in up.running(kind) {
            let job = state.job(attempt.job);
            let task = TaskKey { kind, index: attempt.task };
            let is_primary = job.task(task).number() == attempt.number;
            if job.is_closed() || !is_primary || !is_preemptable(job, task, &Guards::default(), now) {
                continue;
            }
            let key = (jobs.standing(attempt.job, kind), Reverse(job.task(task).progress_ppm()));
            if lowest.as_ref().is_none_or(|(lowest, _)| key > *lowest) {
                lowest = Some((key, Victim { beneficiary, job: attempt.job, task, node }));
            }
        }
    }
    lowest.map(|(_, victim)| victim)
}
