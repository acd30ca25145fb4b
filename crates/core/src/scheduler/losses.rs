//! Attempts end without a result, twins end or take over, nodes are lost with all they had.

use super::Scheduler;
use super::news::Role;
use crate::action::{Action, Reason, Refusal};
use crate::ids::{AttemptId, Kind, NodeId, TaskId};
use crate::policy::Recovery;
use crate::state::{JobIx, TaskState, Twin};

/// A task whose work was lost with a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub jx: JobIx,
    pub kind: Kind,
    pub task: u32,
}

impl Scheduler {
    /// The attempt a task's state speaks of ended without a result. A twin takes over; otherwise the task waits again.
    pub(super) fn end_first(&mut self, jx: JobIx, attempt: AttemptId, lost_with: Option<NodeId>) {
        let (kind, index, now) = (attempt.task.kind, attempt.task.index, self.now);
        let node = self.state.job(jx).task(kind, index).node;
        self.state.leave_slot(node, kind, jx, index, attempt.number);
        let job = self.state.job_mut(jx);
        let twin = job.twins.iter().position(|twin| (twin.kind, twin.task) == (kind, index) && !twin.dying);
        match twin {
            Some(at) => {
                let twin = job.twins.remove(at);
                job.facts[kind.ix()].twins -= 1;
                let task = &mut job.tasks[kind.ix()][index as usize];
                if matches!(task.state, TaskState::Yielding(_)) {
                    job.facts[kind.ix()].yielding -= 1;
                }
                task.state = TaskState::Running;
                (task.number, task.node, task.launched, task.progress_ppm) = (twin.number, twin.node, twin.launched, 0);
                // The first may have fetched output that is gone since; its twin has yet to.
                self.redo_gone_maps(jx);
            }
            None => {
                job.stop(kind, index, now);
                job.wait_again(kind, index, lost_with);
            }
        }
        self.touch(jx, kind);
    }

    /// A second attempt ended without a result, or after the first.
    pub(super) fn end_twin(&mut self, jx: JobIx, attempt: AttemptId) {
        let (kind, index) = (attempt.task.kind, attempt.task.index);
        let job = self.state.job_mut(jx);
        let is_it = |twin: &Twin| (twin.kind, twin.task, twin.number) == (kind, index, attempt.number);
        let at = job.twins.iter().position(is_it).expect("the caller found it");
        let twin = job.twins.remove(at);
        job.facts[kind.ix()].twins -= 1;
        job.attained += self.now.since(twin.launched);
        self.state.leave_slot(twin.node, kind, jx, index, attempt.number);
        self.touch(jx, kind);
    }

    /// A second attempt came first: it becomes the one the task's state speaks of, and the other one the twin.
    pub(super) fn swap_twin(&mut self, jx: JobIx, attempt: AttemptId) {
        let (kind, index) = (attempt.task.kind, attempt.task.index);
        let job = self.state.job_mut(jx);
        let task = &mut job.tasks[kind.ix()][index as usize];
        if matches!(task.state, TaskState::Yielding(_)) {
            task.state = TaskState::Running;
            job.facts[kind.ix()].yielding -= 1;
        }
        let is_it = |twin: &&mut Twin| (twin.kind, twin.task, twin.number) == (kind, index, attempt.number);
        let twin = job.twins.iter_mut().find(is_it).expect("the caller found it");
        std::mem::swap(&mut task.number, &mut twin.number);
        std::mem::swap(&mut task.node, &mut twin.node);
        std::mem::swap(&mut task.launched, &mut twin.launched);
    }

    /// A task is done or its job is over: its second attempts are asked to die.
    pub(super) fn kill_twins(&mut self, jx: JobIx, kind: Kind, index: u32, out: &mut Vec<Action>) {
        let job = self.state.job_mut(jx);
        let id = job.id;
        for twin in job.twins.iter_mut().filter(|twin| (twin.kind, twin.task) == (kind, index) && !twin.dying) {
            twin.dying = true;
            let attempt = AttemptId { task: TaskId { job: id, kind, index }, number: twin.number };
            out.push(Action::Kill { attempt, node: twin.node, reason: Reason::OtherAttemptFinished });
        }
    }

    /// A node is lost: what ran, paused or was kept there must be done again.
    pub(super) fn node_lost(&mut self, node: NodeId, out: &mut Vec<Action>) -> Result<(), Refusal> {
        if self.state.up(node).is_none() {
            return Err(Refusal::UnknownNode(node));
        }
        let mut lost = Vec::new();
        self.lose_attempts(node, &mut lost);
        self.lose_paused(node, &mut lost);
        self.drop_claims(node);
        self.take_down(node);
        self.lose_outputs(node, &mut lost);
        let closed: Vec<JobIx> = self.state.live().filter(|(_, job)| job.closed).map(|(jx, _)| jx).collect();
        closed.into_iter().for_each(|jx| self.bury(jx));
        if self.policy.failure == Recovery::Chronos {
            self.recover(lost, out);
        }
        Ok(())
    }

    fn take_down(&mut self, node: NodeId) {
        let place = self.state.node_mut(node);
        place.up = false;
        let (spec_slots, free, profile) = (Kind::BOTH.map(|kind| place.spec.slots(kind)), place.free, place.profile);
        self.state.nodes_up -= 1;
        for kind in Kind::BOTH {
            self.state.slots[kind.ix()] -= u32::from(spec_slots[kind.ix()]);
            self.state.free[kind.ix()] -= u32::from(free[kind.ix()]);
        }
        if let Some(matcher) = &mut self.matcher {
            matcher.node_down(profile);
        }
        self.match_again();
    }

    fn lose_attempts(&mut self, node: NodeId, lost: &mut Vec<Lost>) {
        for kind in Kind::BOTH {
            for (jx, task, number) in self.state.node(node).running[kind.ix()].clone() {
                let attempt = AttemptId { task: TaskId { job: self.state.job(jx).id, kind, index: task }, number };
                match self.role(attempt) {
                    Some((_, Role::First)) => {
                        self.end_first(jx, attempt, Some(node));
                        let job = self.state.job(jx);
                        if job.task(kind, task).state == TaskState::Waiting && !job.closed {
                            lost.push(Lost { jx, kind, task });
                        }
                    }
                    Some(_) => self.end_twin(jx, attempt),
                    None => unreachable!("{attempt} holds a slot of {node} and is not live"),
                }
            }
        }
    }

    fn lose_paused(&mut self, node: NodeId, lost: &mut Vec<Lost>) {
        for (jx, task) in std::mem::take(&mut self.state.node_mut(node).paused) {
            let job = self.state.job_mut(jx);
            job.unpause(task);
            job.facts[Kind::Reduce.ix()].paused -= 1;
            job.wait_again(Kind::Reduce, task, Some(node));
            lost.push(Lost { jx, kind: Kind::Reduce, task });
            self.touch(jx, Kind::Reduce);
        }
    }

    fn drop_claims(&mut self, node: NodeId) {
        for kind in Kind::BOTH {
            for claim in std::mem::take(&mut self.state.node_mut(node).claims[kind.ix()]) {
                self.state.claims[kind.ix()] -= 1;
                if self.state.find(claim.job) == Some(claim.jx) {
                    self.state.job_mut(claim.jx).facts[kind.ix()].claimed -= 1;
                    self.touch(claim.jx, kind);
                }
            }
        }
    }

    /// Finished maps whose output lay on the node run again where some reduce still needs it.
    fn lose_outputs(&mut self, node: NodeId, lost: &mut Vec<Lost>) {
        let jobs: Vec<JobIx> =
            self.state.live().filter(|(_, job)| !job.closed && job.mapped_on(node)).map(|(jx, _)| jx).collect();
        for jx in jobs {
            let job = self.state.job_mut(jx);
            let was_there =
                |(_, task): &(usize, &crate::state::Task)| task.state == TaskState::Done && task.node == node;
            let outputs: Vec<u32> =
                job.tasks[0].iter().enumerate().filter(was_there).map(|(index, _)| index as u32).collect();
            if outputs.is_empty() || job.total(Kind::Reduce) == 0 {
                continue;
            }
            let needed = job.needs_map_output();
            for task in outputs {
                if job.gone.iter().any(|&(gone, _)| gone == task) {
                    continue;
                }
                if needed {
                    job.undo_map(task, node);
                    lost.push(Lost { jx, kind: Kind::Map, task });
                } else {
                    job.gone.push((task, node));
                }
            }
            if needed {
                self.redo_gone_maps(jx);
            }
            Kind::BOTH.into_iter().for_each(|kind| self.touch(jx, kind));
        }
    }

    /// A finished map's output is damaged and a reduce wants it: the map runs again.
    pub(super) fn output_lost(&mut self, map: AttemptId, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let stale = Refusal::StaleAttempt(map);
        let jx = self.state.find(map.task.job).filter(|&jx| !self.state.job(jx).closed).ok_or(stale)?;
        let job = self.state.job_mut(jx);
        let task = job.tasks[Kind::Map.ix()].get(map.task.index as usize).ok_or(stale)?;
        if map.task.kind != Kind::Map || task.state != TaskState::Done || task.number != map.number {
            return Err(stale);
        }
        let (index, node) = (map.task.index, task.node);
        job.gone.retain(|&(gone, _)| gone != index);
        job.undo_map(index, node);
        Kind::BOTH.into_iter().for_each(|kind| self.touch(jx, kind));
        if self.policy.failure == Recovery::Chronos {
            self.recover(vec![Lost { jx, kind: Kind::Map, task: index }], out);
        }
        Ok(())
    }

    /// A reduce needs map output again that was lost while nobody needed it: those maps run again.
    pub(super) fn redo_gone_maps(&mut self, jx: JobIx) {
        let job = self.state.job_mut(jx);
        if job.gone.is_empty() {
            return;
        }
        for (task, node) in std::mem::take(&mut job.gone) {
            job.undo_map(task, node);
        }
        self.touch(jx, Kind::Map);
    }
}
