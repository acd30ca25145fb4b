//! Recovery: where work that was lost with a node runs again (Chronos, section III-B).

use super::preemption::{Guards, Victim, is_preemptable, may_pause_more};
use super::ranking::Comparison;
use super::{Needs, PreemptAction, View};
use crate::ids::{Kind, NodeId, TaskKey};
use crate::state::JobKey;
use rustc_hash::FxHashSet;
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
    /// The same, and a task that found no place is tried again with each update; anywhere, if there is no place near its input.
    ChronosRetry,
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
        matches!(self, Recovery::Chronos | Recovery::ChronosRetry)
    }

    /// True if lost tasks without a place are tried again.
    pub fn retries(self) -> bool {
        self == Recovery::ChronosRetry
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

/// The lost tasks that are pending and have no slot reserved.
pub fn lost_tasks(view: View<'_>) -> Vec<LostTask> {
    let state = view.state;
    let jobs = state.jobs().iter().filter(|(_, job)| !job.is_closed());
    let mut lost: Vec<LostTask> =
        jobs.flat_map(|(job, of)| of.lost_pending().into_iter().map(move |task| LostTask { job, task })).collect();
    if !lost.is_empty() {
        let mut reserved = FxHashSet::default();
        for (kind, (_, node)) in
            Kind::BOTH.into_iter().flat_map(|kind| state.nodes().iter().map(move |node| (kind, node)))
        {
            let tasks =
                node.reservations(kind).iter().filter_map(|reservation| Some((reservation.id, reservation.task?)));
            reserved.extend(tasks.map(|(job, index)| (job, TaskKey { kind, index })));
        }
        lost.retain(|lost| !reserved.contains(&(state.job(lost.job).id(), lost.task)));
    }
    lost
}

/// A slot for a lost task: a free one, or that of the lowest-ranking attempt, on the nodes that hold its input or, if there are none, on any
/// node; with retries, on any node also if there is no slot near its input. None if the task's job does not rank before that attempt's job.
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
            hosts.iter().copied().filter(|&host| state.nodes().is_usable(host)).collect()
        }
        Kind::Reduce => Vec::new(),
    };
    let anywhere = || state.nodes().ids_usable().collect();
    if near.is_empty() {
        return slot_on(anywhere(), lost, jobs);
    }
    let slot = slot_on(near, lost, jobs);
    if jobs.policy.recovery.retries() { slot.or_else(|| slot_on(anywhere(), lost, jobs)) } else { slot }
}

/// A slot for a lost task on one of these nodes, of those that its job does not refuse as slow.
fn slot_on(mut nodes: Vec<NodeId>, lost: LostTask, jobs: Comparison<'_>) -> Option<RecoverySlot> {
    let (state, kind) = (jobs.view.state, lost.task.kind);
    let placement = &jobs.policy.slots(kind).placement;
    let accepted = placement.accepted_nodes(state.job(lost.job), lost.job, kind, state.nodes());
    nodes.retain(|&node| accepted.contains(node, state.nodes()));
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

/// The attempt that is paused for lost work of an open job: the lowest-ranking one on a node that can pause. None if it does not rank lower.
pub fn find_victim(beneficiary: JobKey, kind: Kind, jobs: Comparison<'_>) -> Option<Victim> {
    let nodes: Vec<NodeId> = jobs.view.state.nodes().ids_up().filter(|&node| may_pause_more(jobs.view, node)).collect();
    lowest_ranking(&nodes, kind, beneficiary, jobs).filter(|victim| jobs.may_take(beneficiary, victim.job, kind))
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
            let is_of_use = jobs.can_use_slots_of(beneficiary, attempt.job);
            if job.is_closed() || !is_of_use || !is_primary || !is_preemptable(job, task, &Guards::default(), now) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::test_state::{at, cluster, job, submit};

    #[test]
    fn lost_tasks_are_those_that_wait_without_a_reservation() {
        let mut state = cluster(3, 1, 1);
        let key = submit(&mut state, &job(0, 3, 0));
        let attempts = [0, 1, 2].map(|map| state.launch(key, TaskKey::map(map), NodeId(map), at(0.0)));
        for attempt in &attempts[..2] {
            state.fail_primary(key, *attempt, Some(NodeId(attempt.task.index)), at(1.0));
        }
        state.fail_primary(key, attempts[2], None, at(1.0));
        let lost = |state: &crate::state::State| -> Vec<u32> {
            lost_tasks(View { now: at(1.0), state }).iter().map(|lost| lost.task.index).collect()
        };
        assert_eq!(lost(&state), [0, 1], "the third failed on its own");
        state.reserve(NodeId(2), Kind::Map, key, Some(0));
        assert_eq!(lost(&state), [1]);
        state.launch(key, TaskKey::map(1), NodeId(1), at(2.0));
        assert_eq!(lost(&state), [] as [u32; 0]);
    }
}
