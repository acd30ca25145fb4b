//! Events of nodes: joins, offers, losses of nodes and of map outputs.

use super::{Cluster, Decision, Decisions};
use crate::event::{NodeSpec, Progress};
use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, TaskKey};
use crate::policy::recovery::LostTask;
use crate::reason::Refusal;
use crate::state::{AttemptRole, JobKey, TaskState};

impl Cluster {
    pub(super) fn node_joined(&mut self, node: NodeId, spec: &NodeSpec) -> Result<(), Refusal> {
        if node.0 as usize > self.state.nodes().len() {
            return Err(Refusal::NodeIdGap(node));
        }
        if self.state.nodes().up(node).is_some() {
            return Err(Refusal::NodeAlreadyUp(node));
        }
        if (spec.map_slots, spec.reduce_slots) == (0, 0) || spec.speed_ppm == 0 || spec.disk_bytes_per_s == 0 {
            return Err(Refusal::InvalidNode(node));
        }
        self.matcher.node_joined(node, spec);
        self.state.add_node(node, spec);
        self.nodes_changed();
        Ok(())
    }

    pub(super) fn slots_offered(
        &mut self,
        node: NodeId,
        progress: &[Progress],
        due: &mut Decisions,
    ) -> Result<(), Refusal> {
        if self.state.nodes().up(node).is_none() {
            return Err(Refusal::UnknownNode(node));
        }
        self.set_progress(progress);
        due.push(Decision::FillSlots(node));
        Ok(())
    }

    pub(super) fn pause_limit_set(&mut self, node: NodeId, attempts: u32) -> Result<(), Refusal> {
        self.state.nodes().up(node).ok_or(Refusal::UnknownNode(node))?;
        self.state.set_pause_limit(node, attempts);
        Ok(())
    }

    pub(super) fn node_slots_set(
        &mut self,
        node: NodeId,
        slots: PerKind<u16>,
        due: &mut Decisions,
    ) -> Result<(), Refusal> {
        self.state.nodes().up(node).ok_or(Refusal::UnknownNode(node))?;
        let had = Kind::BOTH.map(|kind| self.state.node(node).spec().slots(kind));
        self.state.set_slots(node, slots);
        Kind::BOTH.into_iter().for_each(|kind| self.compute_shares(kind));
        // More slots are no reason to preempt.
        if self.drop_missing_reservations(node) || Kind::BOTH.iter().zip(had).any(|(&kind, had)| slots[kind] < had) {
            due.extend(Kind::BOTH.map(Decision::Preempt));
        }
        Ok(())
    }

    /// What was freed on a node for some jobs is too small for them: their reservations are dropped, so that they request other slots. Returns whether there are any.
    pub(super) fn drop_missing_reservations(&mut self, node: NodeId) -> bool {
        let mut dropped = false;
        for kind in Kind::BOTH {
            while self.state.reserves_missing_slots(node, kind) {
                dropped = true;
                if let Some(beneficiary) = self.state.drop_newest_reservation(node, kind) {
                    self.rerank(beneficiary, kind);
                }
            }
        }
        dropped
    }

    /// A node was lost: what ran, was paused or was stored there has to be done again.
    pub(super) fn node_lost(&mut self, node: NodeId, due: &mut Decisions) -> Result<(), Refusal> {
        if self.state.nodes().up(node).is_none() {
            return Err(Refusal::UnknownNode(node));
        }
        let mut lost = Vec::new();
        self.lose_attempts(node, &mut lost);
        for (job, reduce) in self.state.lose_paused(node) {
            lost.push(LostTask { job, task: TaskKey::reduce(reduce) });
            self.rerank(job, Kind::Reduce);
        }
        for kind in Kind::BOTH {
            while let Some(reservation) = self.state.take_reservation(node, kind) {
                self.rerank(reservation.job, kind);
            }
        }
        self.state.take_node_down(node);
        self.nodes_changed();
        self.lose_outputs(node, &mut lost);
        let jobs = self.state.jobs().keys();
        jobs.into_iter().for_each(|job| self.reap(job));
        due.push(Decision::Recover(lost));
        Ok(())
    }

    fn lose_attempts(&mut self, node: NodeId, lost: &mut Vec<LostTask>) {
        for kind in Kind::BOTH {
            for running in self.state.node(node).running(kind).to_vec() {
                let task = TaskKey { kind, index: running.task };
                let attempt = AttemptId { task: task.of(self.state.job(running.job).id()), number: running.number };
                let Some((job, role)) = self.state.role(attempt) else {
                    unreachable!("{attempt} holds a slot of {node}")
                };
                lost.extend(self.lose_attempt(job, role, attempt, node));
            }
        }
    }

    /// An attempt was lost. Returns its task if that has to run again.
    fn lose_attempt(&mut self, job: JobKey, role: AttemptRole, attempt: AttemptId, node: NodeId) -> Option<LostTask> {
        if role != AttemptRole::Primary {
            self.end_speculative(job, attempt);
            return None;
        }
        let task = attempt.task.key();
        self.fail_primary(job, attempt, Some(node));
        let owner = self.state.job(job);
        let is_needed = owner.task(task).state() == TaskState::Pending && !owner.is_closed();
        is_needed.then_some(LostTask { job, task })
    }

    /// An attempt was lost with its process, and its node was not.
    pub(super) fn attempt_lost(&mut self, attempt: AttemptId, due: &mut Decisions) -> Result<(), Refusal> {
        if self.end_paused(attempt, false) {
            return Ok(());
        }
        let (job, role) = self.state.role(attempt).ok_or(Refusal::StaleAttempt(attempt))?;
        let node = self.state.node_of(job, attempt);
        self.probe_ended(node, attempt, false);
        let lost = self.lose_attempt(job, role, attempt, node);
        self.reap(job);
        due.push(Decision::Recover(lost.into_iter().collect()));
        Ok(())
    }

    /// Finished maps whose output was on the node run again if some reduce still needs it.
    fn lose_outputs(&mut self, node: NodeId, lost: &mut Vec<LostTask>) {
        let has_outputs = |key: &JobKey| {
            let job = self.state.job(*key);
            !job.is_closed() && job.mapped_on(node) && job.total(Kind::Reduce) > 0
        };
        let jobs: Vec<JobKey> = self.state.jobs().keys().into_iter().filter(has_outputs).collect();
        for job in jobs {
            let outputs = self.state.outputs_on(job, node);
            if outputs.is_empty() {
                continue;
            }
            let needed = self.state.job(job).needs_map_output();
            for map in outputs {
                if self.state.job(job).has_lost_output(map) {
                    continue;
                }
                if needed {
                    self.state.undo_map(job, map, node);
                    lost.push(LostTask { job, task: TaskKey::map(map) });
                } else {
                    self.state.record_unneeded_loss(job, map, node);
                }
            }
            if needed {
                self.run_lost_maps_again(job);
            }
            self.rerank_both(job);
        }
    }

    /// A finished map's output cannot be read, and a reduce needs it: the map runs again.
    pub(super) fn map_output_lost(&mut self, map: AttemptId, due: &mut Decisions) -> Result<(), Refusal> {
        let stale = Refusal::StaleAttempt(map);
        let key = self.state.find(map.task.job).ok_or(stale)?;
        let job = self.state.job(key);
        let task = job.find_task(map.task.key()).ok_or(stale)?;
        let is_current = task.state() == TaskState::Done && task.number() == map.number;
        // An open job's application master requests new slots for lost outputs itself, and its entries may be of tasks that never finished.
        if job.is_closed() || job.is_open() || map.task.kind != Kind::Map || !is_current {
            return Err(stale);
        }
        let node = task.node();
        self.state.undo_map(key, map.task.index, node);
        self.rerank_both(key);
        due.push(Decision::Recover(vec![LostTask { job: key, task: map.task.key() }]));
        Ok(())
    }

    /// An open job requests slots for lost work. If the policy recovers at once, the job ranks first until it has them.
    pub(super) fn recovery_requested(&mut self, job: JobId, slots: u32, due: &mut Decisions) -> Result<(), Refusal> {
        let key = self.open_job(job)?;
        self.state.job_mut(key).set_recovering(slots);
        due.push(Decision::RecoverOpenJob(key));
        Ok(())
    }

    /// The backend lost contact with its cluster: all running attempts are pending until it reports them again.
    pub(super) fn resynced(&mut self) {
        let mut running = Vec::new();
        for (_, node) in self.state.nodes().iter() {
            for kind in Kind::BOTH {
                running.extend(node.running(kind).iter().map(|attempt| {
                    let job = self.state.job(attempt.job).id();
                    AttemptId::new(job, kind, attempt.task, attempt.number)
                }));
            }
        }
        for attempt in running {
            self.attempt_ended(attempt).expect("an attempt that holds a slot can end");
        }
        for key in self.state.jobs().keys() {
            let job = self.state.job(key);
            if !job.is_open() || job.is_closed() {
                continue;
            }
            let paused: Vec<u32> = job.paused().iter().map(|&(reduce, _)| reduce).collect();
            paused.into_iter().for_each(|reduce| self.state.end_paused(key, reduce, false));
            self.drop_reservations(key);
            self.rerank_both(key);
        }
    }
}
